"""Write answers to files: one line a query, in order, resumable after any interruption."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chemspec.io import crashes
from chemspec.io.readers import FileError
from chemspec.metrics import savings
from chemspec.settings import DecodeSettings
from chemspec.system import extras
from chemspec.types import DecodeResult, to_json

if TYPE_CHECKING:  # seconds that readers and writers need not cost
    from chemspec.engine.engine import Engine

WRITERS = (".csv", ".jsonl", ".parquet")
BATCHES = 8  # answered between two writes, sorted by length among themselves


def predict_file(
    engine: Engine,
    queries: Sequence[str],
    out: Path,
    settings: DecodeSettings,
    *,
    trace: Path | None = None,
    every: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
    written: Callable[[Sequence[DecodeResult]], None] = lambda _: None,
) -> dict[str, int]:
    """Answer queries and write one row each, in order.

    Rows already in `out` are kept, a half-written last one is redone. Every few batches are on disk
    before the next begin, so that an interruption loses no more than those. A query that breaks the model gets the
    status "failed" and disturbs no other; so does one of which the process has died twice (see `crashes`).

    Args:
        engine: that answers.
        queries: SMILES.
        out: `.csv`, `.jsonl` or `.parquet` (which is put together from a `.jsonl` beside it at the end).
        settings: how to decode.
        trace: also write the full results here, one JSON a line.
        every: how many queries to answer before the next write; 0: a few batches.
        progress: is told how many queries of how many are done.
        written: is given the results of every write.

    Returns:
        How many queries ended with which status, over the whole file.

    Raises:
        FileError: if `out` belongs to other queries or settings, has an unknown ending, or cannot be written.
    """
    suffix = out.suffix.lower()
    if suffix not in WRITERS:
        raise FileError(f"{out}: the ending must be one of {', '.join(WRITERS)}")
    journal = out.with_suffix(".partial.jsonl") if suffix == ".parquet" else out
    if suffix == ".parquet" and out.exists():
        raise FileError(f"{out} is there already and complete; choose another name")
    if suffix == ".parquet":
        extras.require("pyarrow", what=f"{out} would be a parquet file")
    stamp = made_with(engine.digest, engine.dtype, settings)
    total = len(queries)
    try:
        counts = _resume(journal, queries, stamp)
        done = counts.total()
        if trace is not None:
            _cut(trace, done)
        with (
            journal.open("ab") as rows,
            trace.open("ab") if trace else nullcontext() as full,
            crashes.watched(journal, done) as log,
        ):
            progress(done, total)
            most = every or settings.batch_size * BATCHES
            while done < total:
                size = log.size(done, most)
                part = queries[done : done + size]

                def report(some: int, before: int = done) -> None:
                    progress(before + some, total)

                if log.fails(done):
                    results = [DecodeResult(part[0], "failed", crashes.FAILED)]
                else:
                    log.begin(done, len(part))
                    engine.expect(queries[done : done + 2 * size])  # the next ones are read meanwhile
                    results = answer_each(engine, part, settings, report)
                if full:  # first, so that it never holds less than the other
                    _append(full, (to_json(result) + "\n" for result in results))
                _append(rows, (_line(result, settings, suffix) for result in results))
                counts.update(result.status for result in results)
                written(results)
                done += len(part)
        if suffix == ".parquet":
            _parquet(journal, out)
    except OSError as error:
        reason = error.strerror or error
        message = f"{out} cannot be written: {reason}"
        raise FileError(f"{message}; what is in it stays valid, so the command can go on later") from error
    return dict(counts)


def write_traces(results: Iterable[DecodeResult], path: Path) -> None:
    """Write full results, one JSON a line."""
    with path.open("wb") as file:
        _append(file, (to_json(result) + "\n" for result in results))


def _append(file: Any, lines: Iterable[str]) -> None:
    """Write and see to it that it is on the disk."""
    file.write("".join(lines).encode("utf-8", errors="backslashreplace"))
    file.flush()
    os.fsync(file.fileno())


def made_with(digest: str, dtype: str, settings: DecodeSettings) -> dict[str, Any]:
    """What has a say in the answers: who goes on with a file must have the same."""
    stamp = {"model": digest, "dtype": dtype, **asdict(settings)}
    for name in ("batch_size", "record"):
        del stamp[name]  # have no say in the answers; one may have to lower the first to go on
    if settings.augment == 1:
        del stamp["augment"]  # files of versions that did not know it can go on
    if not settings.distinct:
        del stamp["distinct"]
    if settings.rules == DecodeSettings.rules:
        del stamp["rules"]
    if not settings.guide:
        del stamp["guide"]
    return stamp


def answer_each(
    engine: Engine, queries: Sequence[str], settings: DecodeSettings, report: Callable[[int], None] = lambda _: None
) -> list[DecodeResult]:
    """Answer queries; where that fails, answer them one by one to find those to blame."""
    try:
        return engine.predict(queries, settings, progress=report)
    except (ValueError, OSError):
        raise  # of the settings or the machine, not of a query
    except Exception as error:
        logging.getLogger(__name__).exception("the model failed on %d queries", len(queries))
        if len(queries) == 1:
            return [DecodeResult(queries[0], "failed", f"the model failed on this row ({type(error).__name__})")]
        return [result for query in queries for result in answer_each(engine, [query], settings)]


def columns(n: int, *, votes: bool = False) -> list[str]:
    """The header of a CSV with `n` answers a query, and with the votes of each where spellings are merged."""
    names = ("smiles", "log_prob", "votes") if votes else ("smiles", "log_prob")
    answers = [f"{name}_{i}" for i in range(1, n + 1) for name in names]
    return ["query", "status", "message", *answers, "passes", "tokens", "seconds"]


def brief(result: DecodeResult) -> dict[str, Any]:
    """A result as the contract for scripts has it: no trace, only its totals; notes are in the message.

    `votes`, `best_rank` and `score` of an answer, and `merged`, are null unless spellings were merged (see
    `types.Vote`, `types.Merged`); passes are then model calls, and tokens those of all spellings. Both are of all
    searches of a list of different answers, as the seconds are. `confidence` is null where it is unknown. `exactness`
    says how far drafts and batches have left the answers as they are.
    """
    counts = savings(result)
    return {
        "query": result.query,
        "status": result.status,
        "message": _message(result),
        "hypotheses": [
            {
                "smiles": item.smiles,
                "canonical": item.canonical,
                "valid": item.valid,
                "log_prob": item.log_prob,
                "probability": item.probability,
                "confidence": item.confidence,
                "votes": item.vote.spellings if item.vote else None,
                "best_rank": item.vote.best_rank if item.vote else None,
                "score": item.vote.score if item.vote else None,
            }
            for item in result.hypotheses
        ],
        "merged": asdict(result.merged) if result.merged else None,
        "exactness": result.trace.settings.get("exactness"),
        "passes": counts.passes,
        "tokens": counts.tokens,
        "seconds": result.trace.seconds,
    }


def _message(result: DecodeResult) -> str:
    cut = sum(item.ended == "length" for item in result.hypotheses)
    length = [f"{cut} of {len(result.hypotheses)} answers cut at the length limit"] if cut else []
    return "; ".join(filter(None, [result.message, *result.notes, *length]))


def _line(result: DecodeResult, settings: DecodeSettings, suffix: str) -> str:
    if suffix != ".csv":
        return json.dumps(brief(result)) + "\n"  # ASCII: no odd line ends, no encoding to get wrong
    cells: list[Any] = [flat(result.query), result.status, flat(_message(result))]
    for place in range(settings.n):
        answer = result.hypotheses[place] if place < len(result.hypotheses) else None
        cells += [answer.canonical or answer.smiles, f"{answer.log_prob:.6f}"] if answer else ["", ""]
        if settings.augment > 1:
            cells.append(answer.vote.spellings if answer and answer.vote else "")
    counts = savings(result)
    cells += [counts.passes, counts.tokens, f"{result.trace.seconds:.4f}"]
    return csv_row(cells)


def flat(text: str) -> str:
    """The text on one line, in characters that UTF-8 can hold."""
    # A line break in a cell would make "one line a query" untrue, and so the way back after an interruption.
    clean = " ".join(text.splitlines()).replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean.encode("utf-8", errors="backslashreplace").decode("utf-8")


def csv_row(values: Iterable[Any]) -> str:
    """One line of a CSV, its end included."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(values)
    return buffer.getvalue()


def _resume(journal: Path, queries: Sequence[str], stamp: dict[str, Any]) -> Counter[str]:
    """The statuses of the rows that the file holds; begins the file if there is none."""
    side = journal.with_name(journal.name + ".settings.json")
    votes = "augment" in stamp
    header = csv_row(columns(stamp["n"], votes=votes)) if journal.suffix.lower() == ".csv" else ""
    if not journal.exists() or journal.stat().st_size == 0:
        side.write_text(json.dumps(stamp, sort_keys=True), encoding="utf-8")
        journal.write_bytes(header.encode())
        return Counter()
    _check_stamp(side, stamp, journal)
    raw = journal.read_bytes()
    whole = raw[: raw.rfind(b"\n") + 1]
    if len(whole) < len(raw):  # the last line was cut off while it was written
        os.truncate(journal, len(whole))
    if not whole:
        journal.write_bytes(header.encode())
        return Counter()
    rows = _rows(whole, journal)
    if len(rows) > len(queries):
        message = f"{journal} holds {len(rows)} rows, the input only {len(queries)}"
        raise FileError(f"{message}; it belongs to another input")
    for number, ((query, _), expected) in enumerate(zip(rows, queries, strict=False), 1):
        if query not in (expected, flat(expected)):
            message = f"{journal}: row {number} is {query!r}, the input has {expected!r}"
            raise FileError(f"{message}; it belongs to another input")
    return Counter(status for _, status in rows)


def _check_stamp(side: Path, stamp: dict[str, Any], journal: Path) -> None:
    """Refuse to go on with a file that was made in another way, and say in which."""
    try:
        stored = json.loads(side.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{journal} is there, but nothing tells how it was made ({side.name} is missing)"
        raise FileError(f"{message}; choose another name or remove it") from error
    refuse_others(stored, stamp, journal)


def refuse_others(stored: dict[str, Any], wanted: dict[str, Any], where: Path) -> None:
    """Raise FileError unless what is stored with an output is what is wanted; it says what differs."""
    wanted = json.loads(json.dumps(wanted))
    if stored != wanted:
        names = sorted(name for name in {*stored, *wanted} if stored.get(name) != wanted.get(name))
        told = ", ".join(f"{n} {stored.get(n)!r} instead of {wanted.get(n)!r}" for n in names)
        raise FileError(f"{where} was made with {told}; choose another name or remove it")


def _rows(raw: bytes, journal: Path) -> list[tuple[str, str]]:
    """(query, status) of every row."""
    try:
        text = raw.decode("utf-8")
        if journal.suffix.lower() == ".csv":
            return [(row["query"], row["status"]) for row in csv.DictReader(io.StringIO(text, newline=""))]
        return [(item["query"], item["status"]) for item in map(json.loads, text.split("\n")[:-1])]
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise FileError(f"{journal} is damaged ({error}); remove it to start anew") from error


def _cut(trace: Path, lines: int) -> None:
    """Keep so many lines of the traces; those beyond belong to rows that were never written."""
    kept = 0
    with trace.open("a+b") as file:
        file.seek(0)
        for number in range(lines):
            line = file.readline()
            if not line.endswith(b"\n"):
                message = f"{trace} holds {number} traces, but {lines} rows were written before"
                raise FileError(f"{message}; leave --trace out, or start anew under another name")
            kept += len(line)
        file.truncate(kept)


def parquet_fields() -> dict[str, Any]:
    """The columns of a Parquet file of answers: those of `brief`, less its exactness, and their types."""
    import pyarrow

    text, number, whole = pyarrow.string(), pyarrow.float64(), pyarrow.int64()
    answer = dict.fromkeys(("smiles", "canonical"), text) | {"valid": pyarrow.bool_()}
    answer |= dict.fromkeys(("log_prob", "probability", "confidence"), number)
    answer |= {"votes": whole, "best_rank": whole, "score": number}
    merged = dict.fromkeys(("asked", "spellings", "answers", "invalid"), whole)
    return {
        **dict.fromkeys(("query", "status", "message"), text),
        "hypotheses": pyarrow.list_(pyarrow.struct(answer)),
        "merged": pyarrow.struct(merged),
        "passes": whole,
        "tokens": whole,
        "seconds": number,
    }


def _parquet(journal: Path, out: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema(parquet_fields())
    with journal.open(encoding="utf-8") as lines:
        table = pyarrow.Table.from_pylist([json.loads(line) for line in lines], schema=schema)
    partial = out.with_suffix(".partial.parquet")
    parquet.write_table(table, partial)
    partial.replace(out)
    journal.unlink()
    journal.with_name(journal.name + ".settings.json").unlink(missing_ok=True)
