"""Write predictions to files: one line per query, in order, resumable after any interruption."""

from __future__ import annotations

import csv
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from chemspec.io import crashes
from chemspec.io.readers import FileError, QueryList
from chemspec.io.receipts import add_receipt
from chemspec.io.repeats import RepeatedRows, Row
from chemspec.io.spreadsheets import csv_row, escape_formula, single_line
from chemspec.metrics import count_savings
from chemspec.settings import DecodeSettings
from chemspec.system import extras
from chemspec.system.locks import LockedError, lock_file
from chemspec.types import DecodeResult, to_json

if TYPE_CHECKING:  # slow imports
    from chemspec.engine.engine import Engine

OUTPUT_ENDINGS = (".csv", ".jsonl", ".parquet")
OPTIONAL = ("augment", "distinct", "rules", "guide", "prefix")  # settings that are newer than the first files
ANSWER_FIELDS = ("smiles", "canonical", "valid", "log_prob", "probability", "calibrated", "model_probability")
NESTED = ("hypotheses", "merged")  # columns of a Parquet file that a CSV has not
ROW_GROUP = 2_000  # rows that are in memory at once when a Parquet file is written
BATCHES = 8  # batches between two writes, within which queries are sorted by length


@dataclass(frozen=True)
class RowReview:
    """Adds reviews to the rows of a file."""

    columns: tuple[str, ...]  # columns of each prediction in a `.csv`
    # returns for each result its document, the key `review` of a `.jsonl`, and the cells of each prediction
    make: Callable[[Sequence[DecodeResult]], Sequence[tuple[dict[str, Any], list[list[str]]]]]


def check_output(out: Path, *, receipts: bool, review: bool) -> None:
    """Raise FileError if a file with this ending cannot be written, or not with these rows."""
    suffix = out.suffix.lower()
    if suffix not in OUTPUT_ENDINGS:
        raise FileError(f"{out}: the ending must be one of {', '.join(OUTPUT_ENDINGS)}")
    if receipts and suffix != ".jsonl":
        raise FileError(f"{out}: only .jsonl files have receipts")
    if review and (receipts or suffix == ".parquet"):
        raise FileError(f"{out}: only .csv files, and .jsonl files without receipts, have reviews")
    if suffix == ".parquet":
        if out.exists():
            raise FileError(f"{out} already exists and is complete; choose another name")
        extras.require_packages("pyarrow", what=f"{out} would be a parquet file")


def predict_file(
    engine: Engine,
    queries: Sequence[str],
    out: Path,
    settings: DecodeSettings,
    *,
    receipts: bool = False,
    review: RowReview | None = None,
    every: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
    written: Callable[[Sequence[DecodeResult]], None] = lambda _: None,
) -> dict[str, int]:
    """Predict queries and write one row each, in order; returns the number of queries by status, over the whole file.

    The file is `.csv`, `.jsonl` or `.parquet` (converted from a temporary `.jsonl` at the end). Rows already in `out`
    are kept; an incomplete last row is redone. A query that the file repeats is predicted once. Rows are flushed to
    disk every few batches, which is the most that an interruption loses. A query on which the model fails, or the
    process has crashed twice (see `crashes`), gets the status "failed" without affecting others. A `.csv` begins with
    the other columns of a `QueryList`, a `.parquet` too, and rows of a `.jsonl` have them as `columns`.

    Every row of a `.jsonl` may have a receipt, and rows of a `.csv` or of a `.jsonl` without receipts a review.
    `every`: number of queries between two writes; 0: a few batches. `progress` is called with the number of queries
    done and in total, `written` with the new results of every write. FileError if `out` belongs to other queries or
    settings, has an unknown ending, cannot be written, or is written by another process.
    """
    check_output(out, receipts=receipts, review=review is not None)
    journal = out.with_suffix(".partial.jsonl") if out.suffix.lower() == ".parquet" else out
    table = queries if isinstance(queries, QueryList) else QueryList(queries)
    stamp = _file_stamp(settings_stamp(engine.full_digest, engine.dtype, settings), table, review, receipts=receipts)
    try:
        with ExitStack() as stack:
            file = stack.enter_context(lock_file(journal, out))
            check_output(out, receipts=receipts, review=review is not None)  # another process may have completed it
            counts = _resume_file(journal, queries, stamp)
            done, _ = counts.total(), file.seek(0, os.SEEK_END)
            log = stack.enter_context(crashes.log_crashes(journal, done))
            progress(done, len(queries))
            repeats = RepeatedRows()
            while done < len(queries):
                part = repeats.next_part(queries, done, log.size(done, every or settings.batch_size * BATCHES))
                report = partial(_report_more, progress, done, len(queries))
                fresh, results = _predict_unknown(engine, part, settings, log, repeats, done, report)
                formatted = _format_rows(results, engine, settings, journal, review, receipts=receipts)
                rows = dict(zip(fresh, formatted, strict=True))
                written_rows = [rows.get(query) or repeats[query] for query in part]
                cells = _other_cells(table, stamp, done, len(part))
                _check_unchanged(file, journal)
                append_lines(file, map(_join_row, written_rows, cells))
                counts.update(row.status for row in written_rows)
                repeats.add_all(rows)
                written(results)
                done += len(part)
        if journal != out:
            _write_parquet(journal, out, stamp.get("columns", ()))
    except LockedError as error:
        raise FileError(str(error)) from error
    except OSError as error:
        message = f"{out} cannot be written: {error.strerror or error}"
        raise FileError(f"{message}; completed rows are valid, so the command can be resumed") from error
    return dict(counts)


def _file_stamp(stamp: dict[str, Any], table: QueryList, review: RowReview | None, *, receipts: bool) -> dict[str, Any]:
    """Return everything that the rows of a file depend on."""
    if review:
        stamp["review"] = list(review.columns)
    if receipts:
        stamp["receipts"] = True
    if table.columns:
        stamp["columns"] = _unique_names(table.columns, [*csv_header(stamp), *NESTED])
    return stamp


def _predict_unknown(
    engine: Engine,
    part: Sequence[str],
    settings: DecodeSettings,
    log: crashes.CrashLog,
    repeats: RepeatedRows,
    done: int,
    report: Callable[[int], None],
) -> tuple[Sequence[str], list[DecodeResult]]:
    """Predict the queries of a part that no row is known of, after `done` rows; returns these and their results."""
    if log.fails(done):
        return part, [DecodeResult(part[0], "failed", crashes.FAILED)]
    log.record(done, len(part))
    unknown = [query for query in dict.fromkeys(part) if query not in repeats]
    return unknown, predict_isolating_failures(engine, unknown, settings, report) if unknown else []


def _other_cells(table: QueryList, stamp: Mapping[str, Any], first: int, count: int) -> list[dict[str, str]]:
    rows = table.cells[first : first + count] or [()] * count
    return [dict(zip(stamp.get("columns", ()), row, strict=False)) for row in rows]


def _report_more(progress: Callable[[int, int], None], done: int, total: int, finished: int) -> None:
    progress(done + finished, total)


def write_traces(results: Iterable[DecodeResult], path: Path) -> None:
    """Write full results, one JSON document per line."""
    with path.open("wb") as file:
        append_lines(file, (to_json(result) + "\n" for result in results))


def _check_unchanged(file: IO[bytes], path: Path) -> None:
    """Raise FileError if a file is not as this process left it: another program has written, moved or replaced it."""
    state = path.stat()
    if state.st_size != file.tell() or not os.path.samestat(state, os.fstat(file.fileno())):
        message = f"{path} was changed by another program while rows were written"
        raise FileError(f"{message}; restore it and run the command again, or choose another name")


def append_lines(file: IO[bytes], lines: Iterable[str]) -> None:
    """Write lines, and wait until they are on the disk."""
    file.write("".join(lines).encode("utf-8", errors="backslashreplace"))
    file.flush()
    os.fsync(file.fileno())


def settings_stamp(digest: str, dtype: str, settings: DecodeSettings) -> dict[str, Any]:
    """Return everything that predictions depend on, which must agree to resume a file."""
    ignored = {"batch_size", "record"}  # no effect on predictions; batch_size may have to be lowered to resume
    # Left out as long as they have their defaults, so that files of earlier versions can be resumed.
    ignored |= {name for name in OPTIONAL if getattr(settings, name) == getattr(DecodeSettings, name)}
    stamp = {name: value for name, value in asdict(settings).items() if name not in ignored}
    return {"model": digest, "dtype": dtype, **stamp}


def predict_isolating_failures(
    engine: Engine, queries: Sequence[str], settings: DecodeSettings, report: Callable[[int], None] = lambda _: None
) -> list[DecodeResult]:
    """Predict queries; if that fails, predict them one by one to find the cause."""
    try:
        return engine.predict(queries, settings, progress=report)
    except (ValueError, OSError):
        raise  # caused by the settings or the machine, not by a query
    except Exception as error:
        logging.getLogger(__name__).exception("the model failed on %d queries", len(queries))
        if len(queries) == 1:
            return [DecodeResult(queries[0], "failed", f"the model failed on this row ({type(error).__name__})")]
        return [result for query in queries for result in predict_isolating_failures(engine, [query], settings)]


def csv_header(stamp: Mapping[str, Any]) -> list[str]:
    """Return the header of a CSV: columns of the input, `n` predictions, votes with `augment`, columns of a review."""
    names = ("smiles", "log_prob", *(("votes",) if "augment" in stamp else ()), *stamp.get("review", ()))
    answers = [f"{name}_{i}" for i in range(1, stamp["n"] + 1) for name in names]
    return [*stamp.get("columns", ()), "query", "status", "message", *answers, "passes", "tokens", "seconds"]


def _unique_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return names of input columns: of those that are taken, here or before, with a prefix."""
    unique: list[str] = []
    for position, name in enumerate(names, 1):
        name = escape_formula(single_line(name)) or f"column {position}"
        while name in taken or name in unique:
            name = f"input_{name}"
        unique.append(name)
    return unique


def result_document(result: DecodeResult) -> dict[str, Any]:
    """Return a result in the JSON format for scripts: totals instead of the trace; notes are part of the message.

    `votes`, `best_rank` and `score` of a prediction, and `merged`, are null without augmentation (see `types.Vote`,
    `types.Merged`); with it passes are model calls, and tokens those of all SMILES variants. Both include all searches
    of a list of distinct predictions, as the seconds do. `probability` is the model's unless `calibrated`. `exactness`
    states how precisely predictions are independent of drafts and batches. `within` is there only after a deadline.
    """
    counts = count_savings(result)
    return {
        "query": result.query,
        "status": result.status,
        "message": _full_message(result),
        "hypotheses": [
            {name: getattr(item, name) for name in ANSWER_FIELDS}
            | {
                "votes": item.vote.variants if item.vote else None,
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
        **({"within": asdict(result.within)} if result.within else {}),
    }


def _full_message(result: DecodeResult) -> str:
    cut = sum(item.ended == "length" for item in result.hypotheses)
    length = [f"{cut} of {len(result.hypotheses)} answers cut at the length limit"] if cut else []
    return "; ".join(filter(None, [result.message, *result.notes, *length]))


def _format_rows(
    results: Sequence[DecodeResult],
    engine: Engine,
    settings: DecodeSettings,
    journal: Path,
    review: RowReview | None,
    *,
    receipts: bool,
) -> Iterator[Row]:
    stamp = settings_stamp(engine.full_digest, engine.dtype, settings)
    reviews = review.make(results) if review and results else [({}, [])] * len(results)
    for result, (document, answer_cells) in zip(results, reviews, strict=True):
        if journal.suffix.lower() == ".csv":
            cells = _csv_cells(result, settings, answer_cells, len(review.columns) if review else 0)
            yield Row(result.status, tuple(map(str, cells)))
            continue
        row = result_document(result)
        names = len(row)
        row |= {"review": document} if review else {}
        row = add_receipt(row, result, engine, stamp) if receipts else row
        pairs = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in row.items()]
        yield Row(result.status, (", ".join(pairs[:names]), "".join(f", {pair}" for pair in pairs[names:])))


def _join_row(row: Row, given: Mapping[str, str]) -> str:
    """Return the line of a row with the other columns of its input."""
    if len(row.parts) > 2:
        return csv_row([*map(text_cell, given.values()), *row.parts])
    before, after = row.parts
    columns = f', "columns": {json.dumps(given)}' if given else ""
    return f"{{{before}{columns}{after}}}\n"  # ASCII avoids problems with line ends and encodings


def text_cell(text: str) -> str:
    """Return a text as a cell of a CSV: in one line, and no formula."""
    return escape_formula(single_line(text))


def _csv_cells(
    result: DecodeResult, settings: DecodeSettings, answer_cells: Sequence[Sequence[str]], columns: int
) -> list[Any]:
    cells: list[Any] = [text_cell(result.query), result.status, text_cell(_full_message(result))]
    for rank in range(settings.n):
        answer = result.hypotheses[rank] if rank < len(result.hypotheses) else None
        cells += [text_cell(answer.canonical or answer.smiles), f"{answer.log_prob:.6f}"] if answer else ["", ""]
        if settings.augment > 1:
            cells.append(answer.vote.variants if answer and answer.vote else "")
        cells += map(text_cell, answer_cells[rank]) if answer and answer_cells else [""] * columns
    counts = count_savings(result)
    return [*cells, counts.passes, counts.tokens, f"{result.trace.seconds:.4f}"]


def _resume_file(journal: Path, queries: Sequence[str], stamp: dict[str, Any]) -> Counter[str]:
    """Return the number of rows by status in an existing file; creates the file if there is none."""
    side = journal.with_name(journal.name + ".settings.json")
    if not journal.exists() or journal.stat().st_size == 0:
        side.write_text(json.dumps(stamp, sort_keys=True), encoding="utf-8")
        _write_header(journal, stamp)
        return Counter()
    try:
        stored = json.loads(side.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{journal} exists, but its settings are unknown ({side.name} is missing)"
        raise FileError(f"{message}; choose another name or remove it") from error
    if "columns" not in stored:
        stamp.pop("columns", None)  # a file of an earlier version goes on without them
    check_same_settings(stored, stamp, journal)
    if not _drop_incomplete_line(journal):
        _write_header(journal, stamp)
        return Counter()
    counts: Counter[str] = Counter()
    for number, (query, status) in enumerate(_read_rows(journal)):
        expected = queries[number] if number < len(queries) else query
        if query not in (expected, single_line(expected), text_cell(expected)):
            message = f"{journal}: row {number + 1} is {query!r}, the input has {expected!r}"
            raise FileError(f"{message}; it belongs to another input")
        counts[status] += 1
    if counts.total() > len(queries):
        message = f"{journal} has {counts.total()} rows, the input only {len(queries)}"
        raise FileError(f"{message}; it belongs to another input")
    return counts


def _drop_incomplete_line(path: Path) -> int:
    """Remove what follows the last line end of a file; returns the number of bytes that are left."""
    size = path.stat().st_size
    with path.open("rb") as file:
        end = size
        while end > 0:
            first = max(0, end - 2**16)
            file.seek(first)
            line_end = file.read(end - first).rfind(b"\n")
            if line_end >= 0:
                end = first + line_end + 1
                break
            end = first
    if end < size:
        os.truncate(path, end)
    return end


def _write_header(journal: Path, stamp: Mapping[str, Any]) -> None:
    journal.write_bytes(csv_row(csv_header(stamp)).encode() if journal.suffix.lower() == ".csv" else b"")


def check_same_settings(stored: dict[str, Any], requested: dict[str, Any], where: Path) -> None:
    """Raise FileError if the settings stored with an output differ from the requested ones."""
    from chemspec.model.manifest import is_digest_of  # slow import

    requested = json.loads(json.dumps(requested))
    if is_digest_of(str(stored.get("model")), requested.get("model", "")):
        stored = {**stored, "model": requested["model"]}
    if stored != requested:
        names = sorted(name for name in {*stored, *requested} if stored.get(name) != requested.get(name))
        pairs = ((name, stored.get(name, "unset"), requested.get(name, "unset")) for name in names)
        differences = ", ".join(f"{name} {old} instead of {new}" for name, old, new in pairs)
        raise FileError(f"{where} was written with {differences}; choose another name or remove it")


_BEGINNING = re.compile(r'\{"query": ("(?:[^"\\]|\\.)*"), "status": "(\w+)", .*\}\n')  # beginning of a `.jsonl` row


def _read_rows(journal: Path) -> Iterator[tuple[str, str]]:
    """Yield the query and the status of each row, without holding the file in memory."""
    try:
        with journal.open(encoding="utf-8", newline="" if journal.suffix.lower() == ".csv" else "\n") as lines:
            if journal.suffix.lower() == ".csv":
                yield from ((row["query"], row["status"]) for row in csv.DictReader(lines))
                return
            for line in lines:
                if match := _BEGINNING.fullmatch(line):  # several times as fast as to read the whole row
                    yield json.loads(match[1]), match[2]
                else:
                    row = json.loads(line)
                    yield row["query"], row["status"]
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise FileError(f"{journal} is damaged ({error}); remove it to start again") from error


def parquet_fields() -> dict[str, Any]:
    """Return names and types of the columns of a Parquet file: those of `result_document` without exactness."""
    import pyarrow

    text, number, whole = pyarrow.string(), pyarrow.float64(), pyarrow.int64()
    answer = dict.fromkeys(("smiles", "canonical"), text) | {"valid": pyarrow.bool_()}
    answer |= dict.fromkeys(("log_prob", "probability"), number)
    answer |= {"calibrated": pyarrow.bool_(), "model_probability": number}
    answer |= {"votes": whole, "best_rank": whole, "score": number}
    merged = dict.fromkeys(("requested", "variants", "answers", "invalid"), whole)
    return {
        **dict.fromkeys(("query", "status", "message"), text),
        "hypotheses": pyarrow.list_(pyarrow.struct(answer)),
        "merged": pyarrow.struct(merged),
        "passes": whole,
        "tokens": whole,
        "seconds": number,
    }


def _write_parquet(journal: Path, out: Path, columns: Sequence[str]) -> None:
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema({**dict.fromkeys(columns, pyarrow.string()), **parquet_fields()})
    partial = out.with_suffix(".partial.parquet")
    with journal.open(encoding="utf-8") as lines, parquet.ParquetWriter(partial, schema) as writer:
        while group := list(islice(lines, ROW_GROUP)):
            rows = [row | row.pop("columns", {}) for row in map(json.loads, group)]
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    partial.replace(out)
    journal.unlink()
    journal.with_name(journal.name + ".settings.json").unlink(missing_ok=True)
