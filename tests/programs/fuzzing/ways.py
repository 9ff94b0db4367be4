"""The ways in: what a case is made of, what reads it, and which errors it may end with.

A case is bytes, so that one that fails can be kept in a file and tried again. Whatever `run` raises that is not among
`documented` is a defect, as is an answer that breaks a promise (an assertion).
"""

from __future__ import annotations

import gzip
import json
import math
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from random import Random

from helpers.small import JOB_ROW
from programs.fuzzing import graphs, http, kept, tables
from programs.fuzzing.mutate import altered, broken, mutated
from programs.fuzzing.tools import QUERIES, Tools, Way, small_model

from chemspec.tasks import TASKS
from chemspec.types import DecodeResult, to_json

# --- query text -----------------------------------------------------------------------------------


def _check(result: DecodeResult) -> None:
    """Hold a result to what every result promises."""
    assert result.status in ("ok", "invalid", "too_long", "failed"), result.status
    assert (result.status == "ok") != bool(result.message), "a message says what is wrong, and only then"
    for answer in result.hypotheses:
        assert all(map(math.isfinite, (answer.log_prob, answer.probability, *answer.token_log_probs)))
    json.loads(to_json(result), parse_constant=lambda text: (_ for _ in ()).throw(AssertionError(text)))


def _query_text(random: Random) -> bytes:
    text = mutated(random.choice(QUERIES), random)
    if random.random() < 0.2:  # a piece of it again and again: what can be parted in many ways takes long
        start = random.randrange(max(1, len(text)))
        piece = text[start : start + random.randint(1, 4)] or " "
        text = text[:start] + piece * random.choice((20, 60, 300, 2000)) + text[start:]
    return text.encode("utf-8", "surrogatepass")


def _query(case: bytes, tools: Tools) -> None:
    from chemspec import chem
    from chemspec.chem import formats

    text = case.decode("utf-8", "surrogatepass")
    for task in TASKS.values():
        for fault in (formats.read_input(text, task=task.name), chem.read_query(text)):
            if isinstance(fault, chem.Fault):
                chem.pointer(text, fault)
    _check(tools.engine.predict(text, n=2, decoder="beam", drafter="copy", max_len=6))


# --- files ----------------------------------------------------------------------------------------

CDXML = (
    '<?xml version="1.0" encoding="UTF-8" ?><!DOCTYPE CDXML SYSTEM "http://www.cambridgesoft.com/xml/cdxml.dtd" >'
    '<CDXML><page><fragment id="1"><n id="2" p="1 1"/><n id="3" p="2 2" Element="8"/><b id="4" B="2" E="3"/></fragment>'
    "</page></CDXML>"
)
TABLE = 'id,smiles,note\n1,CCO,a\n2,c1ccccc1,\n3,"C,C",b\n'


def _file_bytes(random: Random) -> bytes:
    ending, text = random.choice(
        (
            (".csv", TABLE),
            (".tsv", TABLE.replace(",", "\t")),
            (".smi", "CCO a\nCN b\n"),
            (".sdf", tables.SDF),
            (".rxn", tables.RXN),
            (".cdxml", CDXML),
        )
    )
    encoding = random.choice(("utf-8", "utf-8", "utf-8", "utf-16", "latin-1"))
    raw = mutated(text, random).encode(encoding, "replace") if random.random() < 0.8 else broken(text.encode(), random)
    if random.random() < 0.06:
        ending, raw = ".parquet", broken(tables.parquet()[0], random, 3)
    elif random.random() < 0.15:
        ending, raw = ending + ".gz", gzip.compress(raw, mtime=0)
        raw = broken(raw, random, 2) if random.random() < 0.5 else raw
    return ending.encode() + b"\n" + raw


def _file(case: bytes, tools: Tools) -> None:
    from chemspec.chem import formats
    from chemspec.io import readers
    from chemspec.jobs import uploads

    ending, _, raw = case.partition(b"\n")
    path = tools.work / f"file{ending.decode()}"
    path.write_bytes(raw)
    for column in ("", "smiles"):
        with suppress(readers.FileError):
            assert all(isinstance(text, str) for text in readers.read_queries(path, column))
    for task in TASKS.values():
        formats.read_input(raw, task=task.name)
    if b"parquet" not in ending:  # which takes a process of its own
        sheet = uploads.read_upload(raw, path.name)
        assert all(len(row) == len(sheet.columns) for row in sheet.rows)


# --- model folders --------------------------------------------------------------------------------

PARTS = (
    *("config.json",) * 4,
    *(
        "vocab.json",
        "confidence.json",
        "drafting.json",
        "drafting.safetensors",
        "model.safetensors",
        "model.safetensors",
    ),
    *(
        f"drafters/{kind}/{name}"
        for kind in ("medusa", "spec_drafter")
        for name in ("config.json", "model.safetensors")
    ),
)
_SAMPLES: dict[str, bytes] = {}


def _samples() -> dict[str, bytes]:
    if not _SAMPLES:
        import tempfile

        with tempfile.TemporaryDirectory() as home:
            folder = small_model(Path(home) / "model")
            _SAMPLES.update({name: (folder / name).read_bytes() for name in PARTS})
    return _SAMPLES


def _model_file(random: Random) -> bytes:
    name = random.choice(PARTS)
    raw = _samples()[name]
    if name.endswith(".json"):
        raw = altered(json.loads(raw), random).encode("utf-8", "surrogatepass")
    else:  # mostly the header, which is data of the stranger's; else numbers
        size = 8 + int.from_bytes(raw[:8], "little")
        if random.random() < 0.3:
            header = altered(json.loads(raw[8:size]), random).encode("utf-8", "surrogatepass")
            raw = len(header).to_bytes(8, "little") + header + raw[size:]
        elif random.random() < 0.4:
            at = random.randrange(size, len(raw) - 4) // 4 * 4
            huge = random.choice((b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f", b"\x99\x76\x96\x7e"))
            raw = raw[:at] + huge * random.choice((1, 40)) + raw[at + 4 :]
        else:
            raw = broken(raw[:size], random) + raw[size:]
    return name.encode() + b"\n" + raw


def _model(case: bytes, tools: Tools) -> None:
    from chemspec.engine.engine import Engine

    name, _, raw = case.partition(b"\n")
    folder = tools.work / "model"
    shutil.copytree(tools.model, folder, dirs_exist_ok=True)
    try:
        (folder / name.decode()).write_bytes(raw)
        engine = Engine.load(folder, device="cpu", threads=1)
        for drafter in ("mixed", "medusa", "spec_drafter"):
            try:
                _check(engine.predict("CCO", n=2, decoder="beam", drafter=drafter, max_len=6))
            except ValueError as error:  # a drafter that cannot be used, named
                if drafter not in str(error) and "drafting." not in str(error):
                    raise AssertionError(f"{drafter} is not named: {error}") from error
    finally:
        shutil.rmtree(folder)


# --- links, jobs --------------------------------------------------------------------------


def _link_text(random: Random) -> bytes:
    text = random.choice(("c29tZSBqb2Igb3Igb3RoZXI", "../../etc/passwd", "/etc", ".", "deleted-x", "retro", "A" * 22))
    return mutated(text, random).encode("utf-8", "surrogatepass")


def _link(case: bytes, _: Tools) -> None:
    from chemspec.jobs import job_queue, jobs
    from chemspec.jobs.store import ensure_home

    text = case.decode("utf-8", "surrogatepass")
    assert jobs.JOBS.folder(text).resolve().parent == ensure_home().resolve() / "jobs", "a link leads nowhere else"
    job_queue.view_job(text)


ID = "A" * 22


def _job_files(random: Random) -> bytes:
    from chemspec.settings import DecodeSettings

    job = {
        "id": ID,
        "file": "a.csv",
        "columns": ["smiles", "x"],
        "column": 0,
        "model": "retro",
        "digest": "d",
        "task": "retro",
        "settings": asdict(DecodeSettings()),
        "total": 2,
        "created": 1.0,
        "state": "done",
        "message": "",
    }
    parts = {
        "job.json": json.dumps(job),
        "input.jsonl": '["CCO", "=1+1"]\n["CN", "b"]\n',
        "rows.jsonl": (json.dumps(JOB_ROW) + "\n") * 2,
    }
    name = random.choice(tuple(parts))
    document = json.loads(parts[name].split("\n")[0])
    parts[name] = altered(document, random) + "\n" if random.random() < 0.7 else mutated(parts[name], random)
    return json.dumps(parts).encode()


def _job(case: bytes, _: Tools) -> None:
    from chemspec.jobs import job_queue, jobs, rows

    parts = json.loads(case)
    kept.put("jobs", ID, parts.pop("job.json"))
    place = jobs.JOBS.make_folder(ID)
    for name, text in parts.items():
        (place / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    job = job_queue.view_job(ID).job
    lines = rows.GrowingLines(jobs.answers_file(job)).refresh()
    rows.parse_rows(lines.read(lines.failed))
    csv = rows.answers_as_csv(job)
    assert b",=1+1" not in csv
    rows.answers_as_xlsx(job)
    rows.answers_as_sdf(job)


def ways() -> Sequence[Way]:
    """Return every way in."""
    from chemspec.io.readers import FileError
    from chemspec.jobs.store import StoreError
    from chemspec.model.checkpoint import CheckpointError

    return (
        Way("query", _query_text, _query, (), 6),
        Way("file", _file_bytes, _file, (FileError,), 5),
        Way("graph", graphs.case, graphs.read, (), 6, seconds=2.5, most_kb=500_000),
        Way("model", _model_file, _model, (CheckpointError,), 3),
        Way("link", _link_text, _link, (StoreError,), 1),
        Way("job", _job_files, _job, (StoreError,), 2),
        Way("http", http.request, http.answer, (), 5),
        Way("table", tables.table, tables.read_table, (FileError,), 4),
        Way("prices", tables.prices, tables.read_prices, (), 2),
        Way("collection", kept.collection, kept.read_collection, (StoreError,), 1),
        Way("page", kept.address, kept.open_page, (), 1),
    )
