"""The ways in: what a case is made of, what reads it, and which errors it may end with.

A case is bytes, so that one that fails can be kept in a file and tried again. Whatever `run` raises that is not among
`documented` is a defect, as is an answer that breaks a promise (an assertion).
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from chemspec.types import DecodeResult, result_from_json, to_json

QUERIES = (
    "CCO",
    "CC(=O)Nc1ccccc1",
    "O=C(O)c1ccc(Br)cc1",
    "c1ccc2[nH]ccc2c1",
    "C[C@@H](N)C(=O)O",
    "CCO.CN>>CCN",
    "[Na+].[OH-]",
)
PIECES = (
    *(
        "(",
        ")",
        "[",
        "]",
        "1",
        "%10",
        "%(100)",
        "=",
        "#",
        "$",
        ".",
        ">",
        ">>",
        "@",
        "@@",
        "\\",
        "/",
        "*",
        "[13C@H-]",
        "[Uus]",
        "c",
        "n1",
    ),
    *(
        "\0",
        "\n",
        "\r\n",
        "\t",
        ",",
        ";",
        '"',
        "'",
        "\ufeff",
        "\u200b",
        "\u2212",
        "\ud800",
        "\U0001f4a9",
        "=1+1",
        "InChI=1S/",
        "{",
        "}",
    ),
    *(
        "C" * 300,
        "(" * 200,
        "[" * 200,
        "1" * 400,
        "c1" * 60,
        "M  END",
        "$$$$",
        "$RXN",
        "  0999 V2000",
        "&lol;",
        "<!ENTITY a '&a;&a;'>",
    ),
)
RAW = ("NaN", "Infinity", "-1e400", "1" * 400, "[" * 5000 + "]" * 5000, "1e308", "-0.0")
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    1.5,
    "",
    "x" * 5000,
    "\ud800",
    [],
    {},
    [[]],
    {"a": {}},
    *RAW,
)


@dataclass(frozen=True)
class Way:
    """A way in.

    Attributes:
        make: a case, drawn from a generator of random numbers.
        run: reads a case; `Tools` are what stays between cases.
        documented: the errors that it may end with.
        share: of a campaign's cases, beside the others' shares.
    """

    name: str
    make: Callable[[Random], bytes]
    run: Callable[[bytes, Tools], None]
    documented: tuple[type[Exception], ...] = ()
    share: int = 1


class Tools:
    """What cases are run with: a small model, a folder, and small files of every kind that are as they should be."""

    def __init__(self, home: Path) -> None:
        """Make everything in an empty folder, which is the app's folder for jobs too."""
        from chemspec.engine.engine import Engine

        os.environ["CHEMSPEC_HOME"] = str(home / "home")
        self.home = home
        self.model = _folder(home / "model")
        self.engine = Engine.load(self.model, device="cpu", threads=1)
        self.work = home / "work"
        self.work.mkdir()


def _folder(folder: Path) -> Path:
    """Write a small model with a drafter of each kind that has weights."""
    from chemspec.model import checkpoint, drafter_checkpoints
    from chemspec.model.heads import Heads, HeadsConfig
    from chemspec.model.transformer import Transformer
    from chemspec.settings import ModelConfig
    from chemspec.testing import tiny_model
    from chemspec.tokenizer import Tokenizer

    tokenizer = Tokenizer.build([*QUERIES[:-2], "C.N", QUERIES[-1]])
    sizes = {
        "d_model": 16,
        "heads": 2,
        "feedforward": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "max_positions": 64,
    }
    checkpoint.save(folder, tiny_model(0, len(tokenizer), **sizes).float(), tokenizer, task="retro", half=False)
    heads = Heads(HeadsConfig(vocab_size=len(tokenizer), d_model=16, style="medusa", heads=2))
    drafter_checkpoints.save(folder / "drafters/medusa", heads, tokenizer, kind="medusa", length=3)
    filler = Transformer(ModelConfig(vocab_size=len(tokenizer) + 1, **sizes))  # type: ignore[arg-type]
    drafter_checkpoints.save(folder / "drafters/spec_drafter", filler, tokenizer, kind="spec_drafter", length=4)
    digest = checkpoint.digest_of(folder)
    known = {"digest": digest, "slope": 1.0, "offset": 0.0, "made": "", "measured": {}}
    (folder / "confidence.json").write_text(json.dumps(known), encoding="utf-8")
    (folder / "drafting.json").write_text('{"made": "", "reading": null, "phrases": null}', encoding="utf-8")
    return folder


# --- changing what is right -----------------------------------------------------------------------


def mutated(text: str, random: Random, most: int = 4) -> str:
    """Return a text with up to so many edits."""
    for _ in range(random.randint(0, most)):
        at = random.randint(0, len(text))
        piece = (
            random.choice(PIECES)
            if random.random() < 0.7
            else chr(random.choice((random.randrange(256), random.randrange(0x3000))))
        )
        cut = random.choice((0, 0, 1, 5, 50))
        text = text[:at] + piece * random.choice((1, 1, 1, 7)) + text[at + cut :]
    return text[:20_000]


def broken(raw: bytes, random: Random, most: int = 6) -> bytes:
    """Return bytes with some of them changed, removed, doubled, or cut off."""
    content = bytearray(raw)
    for _ in range(random.randint(1, most)):
        at = random.randint(0, max(0, len(content) - 1))
        kind = random.randrange(5)
        if kind == 0 and content:
            content[at] = random.randrange(256)
        elif kind == 1 and content:
            content[at] ^= 1 << random.randrange(8)
        elif kind == 2:
            del content[at : at + random.choice((1, 8, 200))]
        elif kind == 3:
            content[at:at] = content[at : at + random.choice((1, 8, 200))]
        elif random.random() < 0.2:
            del content[at:]
        else:
            content[at:at] = random.randbytes(random.choice((1, 4, 16)))
    return bytes(content)


def altered(document: Any, random: Random) -> str:
    """Return a JSON document with some values replaced by others, of any kind, and keys lost or added."""
    marks: dict[str, str] = {}

    def other() -> Any:
        value = random.choice(VALUES)
        if value in RAW and isinstance(value, str):
            mark = f"\x01{len(marks)}\x01"
            marks[json.dumps(mark)] = value
            return mark
        return value

    def walk(value: Any, depth: int) -> Any:
        if random.random() < (0.02 if depth else 0.01):
            return other()
        if isinstance(value, dict):
            found = {key: walk(part, depth + 1) for key, part in value.items() if random.random() > 0.01}
            return {**found, random.choice(("x", *value)): other()} if random.random() < 0.15 else found
        if isinstance(value, list):
            several = [walk(part, depth + 1) for part in value]
            return several * random.choice((2, 300)) if random.random() < 0.01 else several
        return value

    text = json.dumps(walk(document, 0))
    for mark, raw in marks.items():
        text = text.replace(mark, raw)
    return mutated(text, random, 2) if random.random() < 0.15 else text


# --- query text -----------------------------------------------------------------------------------


def _check(result: DecodeResult) -> None:
    """Hold a result to what every result promises."""
    assert result.status in ("ok", "invalid", "too_long", "failed"), result.status
    assert (result.status == "ok") != bool(result.message), "a message says what is wrong, and only then"
    for answer in result.hypotheses:
        assert all(map(math.isfinite, (answer.log_prob, answer.probability, *answer.token_log_probs)))
    json.loads(to_json(result), parse_constant=lambda text: (_ for _ in ()).throw(AssertionError(text)))


def _query_text(random: Random) -> bytes:
    return mutated(random.choice(QUERIES), random).encode("utf-8", "surrogatepass")


def _query(case: bytes, tools: Tools) -> None:
    from chemspec import chem
    from chemspec.chem.formats import read

    text = case.decode("utf-8", "surrogatepass")
    for task in ("forward", "retro"):
        read.read_any(text, task=task)  # type: ignore[arg-type]
        fault = chem.read_query(text, task)  # type: ignore[arg-type]
        if isinstance(fault, chem.Fault):
            chem.pointer(text, fault)
    _check(tools.engine.predict(text, n=2, decoder="beam", drafter="copy", max_len=6))


# --- files ----------------------------------------------------------------------------------------

MOL = "\n  x\n\n  2  1  0  0  0  0  0  0  0  0999 V2000\n{0}C  {1}\n{0}O  {1}\n  1  2  1  0\nM  END\n".format(
    "    0.0000    0.0000    0.0000 ", " 0  0  0  0  0  0  0  0  0  0  0  0"
)
RXN = "$RXN\n\n\n\n  1  1\n$MOL\n" + MOL + "$MOL\n" + MOL
SDF = MOL + "> <name>\nx\n\n$$$$\n" + MOL + "$$$$\n"
CDXML = (
    '<?xml version="1.0" encoding="UTF-8" ?><!DOCTYPE CDXML SYSTEM "http://www.cambridgesoft.com/xml/cdxml.dtd" >'
    '<CDXML><page><fragment id="1"><n id="2" p="1 1"/><n id="3" p="2 2" Element="8"/><b id="4" B="2" E="3"/></fragment>'
    "</page></CDXML>"
)
TABLE = 'id,smiles,note\n1,CCO,a\n2,c1ccccc1,\n3,"C,C",b\n'


def _parquet() -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    into = io.BytesIO()
    parquet.write_table(pa.table({"smiles": ["CCO", "CN", None], "n": [1, 2, 3]}), into)
    return into.getvalue()


def _file_bytes(random: Random) -> bytes:
    ending, text = random.choice(
        (
            (".csv", TABLE),
            (".tsv", TABLE.replace(",", "\t")),
            (".smi", "CCO a\nCN b\n"),
            (".sdf", SDF),
            (".rxn", RXN),
            (".cdxml", CDXML),
        )
    )
    encoding = random.choice(("utf-8", "utf-8", "utf-8", "utf-16", "latin-1"))
    raw = mutated(text, random).encode(encoding, "replace") if random.random() < 0.8 else broken(text.encode(), random)
    if random.random() < 0.06:
        ending, raw = ".parquet", broken(_parquet(), random, 3)
    elif random.random() < 0.15:
        ending, raw = ending + ".gz", gzip.compress(raw)
        raw = broken(raw, random, 2) if random.random() < 0.5 else raw
    return ending.encode() + b"\n" + raw


def _file(case: bytes, tools: Tools) -> None:
    from chemspec.chem.formats import read
    from chemspec.io import readers
    from chemspec.ui.common import uploads

    ending, _, raw = case.partition(b"\n")
    path = tools.work / f"file{ending.decode()}"
    path.write_bytes(raw)
    for column in ("", "smiles"):
        with suppress(readers.FileError):
            assert all(isinstance(text, str) for text in readers.read_queries(path, column))
    read.read_any(raw, task="retro")
    read.read_any(raw, task="forward")
    if b"parquet" not in ending:  # which takes a process of its own
        sheet = uploads.read(raw, path.name)
        assert all(len(row) == len(sheet.columns) for row in sheet.rows)


# --- model folders --------------------------------------------------------------------------------

PARTS = (
    *("config.json",) * 4,
    *("vocab.json", "confidence.json", "drafting.json", "model.safetensors", "model.safetensors"),
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
            folder = _folder(Path(home) / "model")
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
                if drafter not in str(error) and "drafting.json" not in str(error):
                    raise AssertionError(f"{drafter} is not named: {error}") from error
    finally:
        shutil.rmtree(folder)


# --- traces, links, jobs --------------------------------------------------------------------------


def _trace_file(random: Random) -> bytes:
    from chemspec.asset_files import assets

    folder = assets() / "examples" / "learn"
    raw = random.choice(sorted(folder.glob("*.json"))).read_bytes()
    if random.random() < 0.2:
        return broken(raw, random)
    return altered(json.loads(raw), random).encode("utf-8", "surrogatepass")


def _trace(case: bytes, _: Tools) -> None:
    from chemspec.ui.common import saved

    result = saved.read(case)
    assert result_from_json(to_json(result)) == result


def _link_text(random: Random) -> bytes:
    text = random.choice(("c29tZSBqb2Igb3Igb3RoZXI", "../../etc/passwd", "/etc", ".", "deleted-x", "retro", "A" * 22))
    return mutated(text, random).encode("utf-8", "surrogatepass")


def _link(case: bytes, _: Tools) -> None:
    from chemspec.ui.batch import job_queue, jobs

    text = case.decode("utf-8", "surrogatepass")
    assert jobs.folder(text).resolve().parent == jobs.root().resolve(), "a link leads nowhere else"
    job_queue.view(text)


ID = "A" * 22
ROW = {
    "query": "CCO",
    "status": "ok",
    "message": "",
    "passes": 3,
    "tokens": 4,
    "seconds": 0.1,
    "hypotheses": [{"smiles": "CC", "canonical": "CC", "probability": 0.5, "log_prob": -0.7}],
}


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
        "rows.jsonl": (json.dumps(ROW) + "\n") * 2,
    }
    name = random.choice(tuple(parts))
    document = json.loads(parts[name].split("\n")[0])
    parts[name] = altered(document, random) + "\n" if random.random() < 0.7 else mutated(parts[name], random)
    return json.dumps(parts).encode()


def _job(case: bytes, _: Tools) -> None:
    from chemspec.ui.batch import job_queue, jobs, rows

    place = jobs.folder(ID)
    place.mkdir(parents=True, exist_ok=True)
    for name, text in json.loads(case).items():
        (place / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    job = job_queue.view(ID).job
    index = rows.JsonLines(jobs.answers(job)).update()
    index.read(index.errors())
    csv = rows.as_csv(job)
    assert b",=1+1" not in csv
    rows.as_xlsx(job)
    rows.as_sdf(job)
    rows.as_jsonl(job)


def _history_file(random: Random) -> bytes:
    entry = {"at": 1.0, "model": "retro", "smiles": "CCO", "status": "ok"}
    return (altered(entry, random) + "\n" + mutated(json.dumps(entry), random) + "\n").encode("utf-8", "surrogatepass")


def _history(case: bytes, tools: Tools) -> None:
    from chemspec.ui.common import history

    path = tools.work / "history.jsonl"
    path.write_bytes(case)
    history.read(path)


def ways() -> Sequence[Way]:
    """Return every way in."""
    from chemspec.engine.confidence import ConfidenceError
    from chemspec.io.readers import FileError
    from chemspec.model.checkpoint import CheckpointError
    from chemspec.ui.batch.jobs import JobError
    from chemspec.ui.common.saved import SavedError

    return (
        Way("query", _query_text, _query, (), 6),
        Way("file", _file_bytes, _file, (FileError,), 5),
        Way("model", _model_file, _model, (CheckpointError, ConfidenceError), 3),
        Way("trace", _trace_file, _trace, (SavedError,), 2),
        Way("link", _link_text, _link, (JobError,), 1),
        Way("job", _job_files, _job, (JobError,), 2),
        Way("history", _history_file, _history, (ValueError,), 1),
    )
