"""Queries come out of every kind of file; answers go into files that survive any interruption."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow
import pytest
from helpers.case_tables import Case, read_cases, table
from helpers.small import QUERIES
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pyarrow import parquet
from typer.testing import CliRunner

from chemspec.chem import formats
from chemspec.cli.__main__ import app
from chemspec.io import readers, repeats, spreadsheets, writers
from chemspec.io.readers import FileError, decode_text, read_queries, read_stdin_lines
from chemspec.io.writers import predict_file
from chemspec.settings import DecodeSettings, Task
from chemspec.system.stand_ins import describe_stand_in
from chemspec.tasks import TASKS, check_task
from chemspec.types import DecodeResult, Hypothesis, Pass, Trace

HOW = DecodeSettings(n=2, batch_size=1, drafter="none")


class Fake:
    """An engine that answers C for everything but x, and can be interrupted."""

    dtype = "fp32"

    def __init__(self, digest: str = "d1", calls: float = float("inf")) -> None:
        self.full_digest, self.calls = digest, calls
        self.asked: list[str] = []

    def predict(
        self, queries: Sequence[str], settings: DecodeSettings, *, progress: Callable[[int], None] = lambda _: None
    ) -> list[DecodeResult]:
        if self.calls <= 0:
            raise KeyboardInterrupt
        self.calls -= 1
        self.asked += queries
        progress(len(queries))
        return [self.answer(query) for query in queries]

    def answer(self, query: str) -> DecodeResult:
        if query == "x":
            return DecodeResult(query, "invalid", 'x is no atom,\nbut a "letter"')
        made = Trace(("C",), {}, (Pass(1, 1, 0, 2, 0, 1.0, 1, 0.0, 0.1),), 0.5)
        found = Hypothesis("C", "C", True, ("C",), (-0.5, -0.25), -0.75, 0.47, 0.47)
        return DecodeResult(query, "ok", "", (found,), made, ("a note",))


def run(
    queries: Sequence[str], out: Path, engine: Any = None, how: DecodeSettings = HOW, **more: Any
) -> dict[str, int]:
    return predict_file(engine or Fake(), queries, out, how, **more)


@pytest.mark.parametrize(("name", "text", "encoding", "column", "queries"), table("io/queries_of_files"))
def test_the_queries_of_a_file(
    tmp_path: Path, name: str, text: str, encoding: str, column: str, queries: tuple[str, ...]
) -> None:
    raw = text.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(raw, mtime=0) if name.endswith(".gz") else raw)
    assert tuple(read_queries(tmp_path / name, column)) == queries


def test_bytes_that_are_not_all_of_one_encoding_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("C\u2212C\n".encode() + b"CC \xe9\x85\n")
    assert read_queries(tmp_path / "a.txt") == ["C\u2212C", "CC é\x85"]


@pytest.mark.parametrize(
    ("name", "content", "column", "part"),
    [
        *table("io/refused_files"),
        ("a.csv.gz", gzip.compress(b"smiles\nCCO\nCC\n", mtime=0)[:-9], "", "cannot be read"),
        ("a.csv.gz", gzip.compress(b"x" * 99, mtime=0)[:12] + b"\xff" * 30, "", "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, name: str, content: str | bytes, column: str, part: str
) -> None:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(FileError, match=part) as caught:
        read_queries(tmp_path / name, column)
    assert name in str(caught.value)


def test_a_closed_standard_input_is_named() -> None:
    with pytest.raises(FileError, match="standard input is closed"):
        read_stdin_lines(None)


CASES = read_cases(Path(__file__).parent / "cases" / "tables.txt")  # as programs and people write them


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_the_queries_of_a_file_of_the_table(tmp_path: Path, case: Case) -> None:
    path = tmp_path / case.expected["file"][0]
    path.write_text(case.text)
    tasks = [name for name in case.expected if name in TASKS]
    assert tasks and set(case.expected) == {"file", *tasks}
    for task in tasks:
        (expected,) = case.expected[task]
        if expected.startswith("refused:"):
            with pytest.raises(FileError) as caught:
                read_queries(path, task=check_task(task))
            assert expected.removeprefix("refused:").strip() in str(caught.value)
        else:
            assert read_queries(path, task=check_task(task)) == expected.split(" | ")


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize(("task", "row", "query", "told"), table("io/columns_of_tasks"))
def test_the_task_says_which_column_is_read(
    tmp_path: Path, ending: str, task: Task, row: dict[str, str], query: str, told: str
) -> None:
    path, notes = tmp_path / f"a{ending}", list[str]()
    if ending == ".csv":
        path.write_text(",".join(row) + "\n" + (",".join(row.values())) + "\n")
    else:
        parquet.write_table(pyarrow.table({name: [cell] for name, cell in row.items()}), path)
    assert read_queries(path, task=task, note=notes.append) == [query]
    assert len(notes) == bool(told) and told in "".join(notes)


def test_two_columns_may_be_named_as_the_sides_of_a_reaction(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("to,from\nCN,C.N\n")
    assert read_queries(tmp_path / "a.csv", "from>>to") == ["C.N>>CN"]
    with pytest.raises(FileError, match="no column 'from>>other'"):
        read_queries(tmp_path / "a.csv", "from>>other")
    with pytest.raises(FileError, match="no column with a usual name for reagents; it has to, from"):
        read_queries(tmp_path / "a.csv", task="reagents")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no file .*a\.csv"):
        read_queries(tmp_path / "a.csv")


def test_large_cells_and_many_columns_cost_what_they_weigh(tmp_path: Path) -> None:
    path, note = tmp_path / "a.csv", "x" * 1_000_000
    path.write_text(f"smiles,note\nCCO,{note}\nCCN,\n")
    table = read_queries(path)
    assert list(table) == ["CCO", "CCN"] and table.cells[0] == [note] and table.cells[0:2] == [[note], [""]]
    wide = [f"{column}.{row}" for row in range(200) for column in range(500)]
    rows = [",".join(["CCO", *wide[500 * row : 500 * (row + 1)]]) for row in range(200)]
    path.write_text("\n".join([",".join(["smiles", *(f"c{column}" for column in range(500))]), *rows]))
    tracemalloc.start()
    try:
        table = read_queries(path)
        assert tracemalloc.get_traced_memory()[1] < 5 * path.stat().st_size  # 14 times with a text for each cell
    finally:
        tracemalloc.stop()
    assert [table.cells[row] for row in range(200)] == [wide[500 * row : 500 * (row + 1)] for row in range(200)]


def test_parquet_with_gaps(tmp_path: Path) -> None:
    table = pyarrow.table({"id": [1, 2, 3], "smiles": ["CCO", None, "CC"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert read_queries(tmp_path / "a.parquet") == ["CCO", "", "CC"]
    assert read_queries(tmp_path / "a.parquet", "id") == ["1", "2", "3"]
    table = table.append_column("lists", [[[1], [2], [3]]])
    parquet.write_table(table, tmp_path / "wide.parquet")
    wide = read_queries(tmp_path / "wide.parquet")  # with the other columns, but for nested ones
    assert (wide.columns, list(wide.cells)) == (["id"], [["1"], ["2"], ["3"]])
    with pytest.raises(FileError, match="it has id, smiles"):
        read_queries(tmp_path / "a.parquet", "name")


@given(st.binary(max_size=60))
@example(b"version https://git-lfs.github.com/spec/v1")
def test_no_bytes_make_decoding_fail(raw: bytes) -> None:
    if raw.startswith(b"PK\x03") or describe_stand_in(raw):
        with pytest.raises(FileError, match=r"another zip archive|not the file itself"):
            decode_text(raw)
    else:
        assert isinstance(decode_text(raw), str)


@given(st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: text[:1] != "\ufeff"))
def test_utf_8_is_read_as_such(text: str) -> None:
    assume(not describe_stand_in(text.encode()))
    assert decode_text(text.encode()) == decode_text(text.encode("utf-8-sig")) == text


@pytest.mark.parametrize("text", ["CCO", "C", "O=C(O)c1ccccc1", "C/C=C/C", "C" * 5000, "", "\0"])
def test_a_smiles_is_no_file_even_if_a_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("CCO").touch()
    assert not readers.looks_like_file(text)


@pytest.mark.parametrize("text", ["a.csv", "b/a.smi", "a.csv.gz", "a.parquet", "names"])
def test_a_file_is_known_by_its_ending_or_by_being_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("names").touch()
    assert readers.looks_like_file(text)


ODD = [*QUERIES, "x", "", 'a,"b"', "a\u2028b\x85c\x0bd", "=1+1", "\N{GREEK SMALL LETTER ALPHA}", "CCO"]


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("suffix", writers.OUTPUT_ENDINGS)
def test_one_row_a_query_in_their_order(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    assert run(ODD, out) == {"ok": len(ODD) - 1, "invalid": 1}
    rows = rows_of(out)
    assert [row["query"] for row in rows] == (list(map(writers.text_cell, ODD)) if suffix == ".csv" else ODD)
    assert [row["status"] for row in rows] == ["invalid" if query == "x" else "ok" for query in ODD]
    assert rows[0]["message"] == "a note"


FORMULAS = ["=cmd|' /C calc'!A0", "@SUM(1)", "+1+1", "-2+3|x", "\t=1", " =1", "＝1", "CCO", "=C", "|x", "%x"]


def test_no_cell_of_a_csv_is_a_formula_and_its_rows_are_resumed(tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    run(FORMULAS[:7], out)
    assert run(FORMULAS, out) == {"ok": len(FORMULAS)}
    cells = [cell for row in rows_of(out) for cell in row.values()]
    assert not [cell for cell in cells if cell != spreadsheets.escape_formula(cell)]
    assert [row["query"].removeprefix("'").strip() for row in rows_of(out)] == list(map(str.strip, FORMULAS))


def test_a_csv_has_a_column_for_every_answer_asked_for(tmp_path: Path) -> None:
    run(["CCO", "x"], tmp_path / "o.csv")
    first, second = rows_of(tmp_path / "o.csv")
    assert list(first) == writers.csv_header({"n": 2})
    assert (first["smiles_1"], first["log_prob_1"], first["smiles_2"]) == ("C", "-0.750000", "")
    assert (second["smiles_1"], second["message"]) == ("", 'x is no atom, but a "letter"')


def test_other_columns_of_a_table_stand_beside_the_answers(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,smiles,status,\n7,CCO,=1+1,a\n8,x,,\n")
    queries, names = read_queries(tmp_path / "in.csv"), ["id", "input_status", "column 3"]
    for suffix in (".csv", ".jsonl", ".parquet"):
        run(queries, tmp_path / f"out{suffix}")
    with pytest.raises(KeyboardInterrupt):
        run(queries, tmp_path / "twice.csv", Fake(calls=1))
    run(queries, tmp_path / "twice.csv")
    assert (tmp_path / "twice.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()
    first, second = rows_of(tmp_path / "out.csv")
    assert list(first) == [*names, *writers.csv_header({"n": 2})]
    assert [first[name] for name in names] == ["7", "'=1+1", "a"] and (first["query"], second["id"]) == ("CCO", "8")
    assert rows_of(tmp_path / "out.jsonl")[0]["columns"] == dict(zip(names, ["7", "=1+1", "a"], strict=True))
    rows = rows_of(tmp_path / "out.parquet")
    assert [rows[0][name] for name in names] == ["7", "=1+1", "a"]
    assert (rows[1]["query"], rows[1]["id"], rows[1]["hypotheses"]) == ("x", "8", [])


def test_lines_of_json_are_read_ours_with_the_columns_of_their_input(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,smiles,note\n7,CCO,a\n8,CCN,\n")
    given = read_queries(tmp_path / "in.csv")
    run(given, tmp_path / "out.jsonl")
    (tmp_path / "out.jsonl.gz").write_bytes(gzip.compress((tmp_path / "out.jsonl").read_bytes()))
    for name in ("out.jsonl", "out.jsonl.gz"):
        read = read_queries(tmp_path / name)
        assert (list(read), read.columns, list(read.cells)) == (list(given), given.columns, list(given.cells))
    lines = ['{"smiles": "CC", "id": 3, "good": true, "more": [1]}', "", '{"id": null, "smiles": "CN"}']
    (tmp_path / "theirs.jsonl").write_text("\n".join(lines))
    read = read_queries(tmp_path / "theirs.jsonl")
    assert (list(read), read.columns, list(read.cells)) == (["CC", "CN"], ["id", "good"], [["3", "true"], ["", ""]])
    for text, words in (("3", "line 1 is no JSON object"), ('{"smiles": "C"}\n{', "line 2"), ("", "no lines")):
        (tmp_path / "bad.jsonl").write_text(text)
        with pytest.raises(FileError, match=words):
            read_queries(tmp_path / "bad.jsonl")


def test_a_file_that_was_begun_without_other_columns_goes_on_without_them(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,smiles\n7,CCO\n8,CCN\n")
    out = tmp_path / "out.csv"
    run(["CCO"], out)
    run(read_queries(tmp_path / "in.csv"), out)
    assert [row["query"] for row in rows_of(out)] == ["CCO", "CCN"] and "id" not in out.read_text().splitlines()[0]


@pytest.mark.parametrize("suffix", writers.OUTPUT_ENDINGS)
@pytest.mark.parametrize("queries", [[], ["x", "x"]])
def test_a_file_without_an_answer_is_valid_too(tmp_path: Path, suffix: str, queries: list[str]) -> None:
    out = tmp_path / f"out{suffix}"
    run(queries, out)
    assert [row["query"] for row in rows_of(out)] == queries


@pytest.fixture(autouse=True)
def _one_query_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "BATCHES", 1)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_header_or_a_last_line_cut_anywhere_is_redone_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    run(ODD, out)
    whole = out.read_bytes()
    header = range(whole.index(b"\n") + 1 if suffix == ".csv" else 0)
    last_line = range(whole.rindex(b"\n", 0, -1) + 1, len(whole))
    for end in (*header, *last_line):
        out.write_bytes(whole[:end])
        engine = Fake()
        run(ODD, out, engine)
        assert out.read_bytes() == whole
        assert engine.asked == ([*dict.fromkeys(ODD)] if end in header else ODD[-1:])


@pytest.mark.parametrize("suffix", writers.OUTPUT_ENDINGS)
@pytest.mark.parametrize("calls", [0, 1, 4, len({*ODD}) - 1])
def test_an_interrupted_run_goes_on_to_the_same_file(tmp_path: Path, suffix: str, calls: int) -> None:
    once, twice = tmp_path / f"once{suffix}", tmp_path / f"twice{suffix}"
    run(ODD, once)
    with pytest.raises(KeyboardInterrupt):
        run(ODD, twice, Fake(calls=calls))
    engine = Fake()
    run(ODD, twice, engine)
    assert engine.asked == [*dict.fromkeys(ODD[calls:])]
    assert rows_of(twice) == rows_of(once)
    assert suffix == ".parquet" or twice.read_bytes() == once.read_bytes()


def test_a_file_of_an_earlier_version_has_no_vocabulary_in_its_digest(tmp_path: Path) -> None:
    digest, out = "0123456789abcdef", tmp_path / "a.csv"
    predict_file(Fake(digest), ODD[:2], out, HOW)  # type: ignore[arg-type]
    predict_file(Fake(f"{digest}-01234567"), ODD, out, HOW)  # type: ignore[arg-type]
    for begun, other in (
        (digest, "fedcba9876543210-01234567"), (f"{digest}-01234567", f"{digest}-76543210"), ("forward", "forward-mit")
    ):  # fmt: skip
        (out := tmp_path / f"{begun}.csv").unlink(missing_ok=True)
        predict_file(Fake(begun), ODD[:1], out, HOW)  # type: ignore[arg-type]
        with pytest.raises(FileError, match=f"model {begun} instead of {other}"):
            predict_file(Fake(other), ODD, out, HOW)  # type: ignore[arg-type]


def test_a_finished_file_is_only_counted(tmp_path: Path) -> None:
    counts = run(ODD, tmp_path / "o.csv")
    engine = Fake()
    assert run(ODD, tmp_path / "o.csv", engine) == counts
    assert engine.asked == []


@pytest.mark.parametrize("changes", [{}, {"batch_size": 2}, {"record": True}], ids=str)
def test_more_queries_at_the_end_are_added_in_batches_of_any_size(tmp_path: Path, changes: dict[str, Any]) -> None:
    run(ODD[:3], tmp_path / "o.csv")
    engine = Fake()
    run(ODD, tmp_path / "o.csv", engine, replace(HOW, **changes))
    assert engine.asked == ODD[3:] and len(rows_of(tmp_path / "o.csv")) == len(ODD)


@pytest.mark.parametrize(
    ("queries", "engine", "how", "part"),
    [
        (ODD, Fake("d2"), HOW, "model d1 instead of d2"),
        (ODD, Fake(), DecodeSettings(n=3, batch_size=1, drafter="none"), "n 2 instead of 3"),
        (ODD, Fake(), DecodeSettings(n=2, max_len=9, drafter="none"), "max_len 200 instead of 9"),
        (ODD[:4], Fake(), HOW, "the input only 4"),
        (["N", *ODD[1:]], Fake(), HOW, "row 1 is 'CCO', the input has 'N'"),
    ],
)
def test_a_file_made_in_another_way_is_refused_and_kept(
    tmp_path: Path, queries: list[str], engine: Any, how: DecodeSettings, part: str
) -> None:
    out = tmp_path / "o.csv"
    run(ODD, out)
    before = out.read_bytes()
    with pytest.raises(FileError, match=part):
        run(queries, out, engine, how)
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("suffix", "queries", "added", "part"),
    [
        (".csv", None, b"precious\n", "its settings are unknown"),
        (".jsonl", None, b"precious\n", "its settings are unknown"),
        (".csv", ODD, b"\xff\xfe\n", "damaged"),
        (".jsonl", ODD, b"{}\n", "damaged"),
        (".jsonl", ODD, b"3\n", "damaged"),
    ],
)
def test_somebody_elses_or_a_damaged_file_is_refused_and_kept(
    tmp_path: Path, suffix: str, queries: list[str] | None, added: bytes, part: str
) -> None:
    out = tmp_path / f"o{suffix}"
    if queries:
        run(queries, out)
    with out.open("ab") as file:
        file.write(added)
    before = out.read_bytes()
    with pytest.raises(FileError, match=part):
        run(ODD, out)
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "part"), [("o.xlsx", r"\.csv, \.jsonl, \.parquet"), ("none/o.csv", "cannot be written")]
)
def test_a_file_that_cannot_be_is_refused_before_any_work(tmp_path: Path, name: str, part: str) -> None:
    engine = Fake()
    with pytest.raises(FileError, match=part):
        run(ODD, tmp_path / name, engine)
    assert engine.asked == []


def test_a_complete_parquet_file_is_not_overwritten(tmp_path: Path) -> None:
    run(ODD, tmp_path / "o.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["o.parquet"]
    with pytest.raises(FileError, match="complete"):
        run(ODD, tmp_path / "o.parquet")


def test_a_full_disk_is_told_and_what_is_there_stays_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes half a row and no more; after somebody made room the run goes on."""
    out, left = tmp_path / "o.csv", [3]

    def append(file: io.BufferedWriter, lines: Any) -> None:
        text = "".join(lines).encode()
        left[0] -= 1
        file.write(text if left[0] > 0 else text[: len(text) // 2])
        file.flush()
        if left[0] <= 0:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(writers, "append_lines", append)
        with pytest.raises(FileError, match="No space left on device"):
            run(ODD, out)
    engine = Fake()
    run(ODD, out, engine)
    assert engine.asked == ODD[2:]
    assert [row["query"] for row in rows_of(out)] == list(map(writers.text_cell, ODD))


def test_progress_counts_what_was_there_before(tmp_path: Path) -> None:
    run(ODD[:3], tmp_path / "o.csv")
    seen: list[tuple[int, int]] = []
    run(ODD, tmp_path / "o.csv", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, len(ODD)) for done in range(3, len(ODD) + 1)]


def test_the_size_of_the_parts_can_be_chosen(tmp_path: Path) -> None:
    parts: list[int] = []
    engine = Fake()
    predict = engine.predict
    engine.predict = lambda queries, *a, **k: parts.append(len(queries)) or predict(queries, *a, **k)  # type: ignore[method-assign, func-returns-value]
    run(ODD, tmp_path / "o.jsonl", engine, every=3)
    different = [*dict.fromkeys(ODD)]
    assert parts == [3] * (len(different) // 3) + [len(different) % 3] * bool(len(different) % 3)
    assert engine.asked == different


@pytest.mark.parametrize("suffix", writers.OUTPUT_ENDINGS)
def test_a_query_that_a_file_repeats_is_predicted_once(tmp_path: Path, suffix: str) -> None:
    queries = [("C" * (1 + number % 7)) for number in range(200)]
    engine, each = Fake(), Fake()
    counts = run(queries, tmp_path / f"all{suffix}", engine)
    assert engine.asked == queries[:7] and sum(counts.values()) == len(queries)
    rows = rows_of(tmp_path / f"all{suffix}")
    run(queries[:7], tmp_path / f"different{suffix}", each)
    assert rows == [rows_of(tmp_path / f"different{suffix}")[number % 7] for number in range(200)]


def test_rows_in_memory_are_limited() -> None:
    known = repeats.RepeatedRows(most_bytes=2000)
    for number in range(100):
        known.add(str(number), repeats.Row("ok", ("x" * 100,)))
    assert "99" in known and "0" not in known
    assert 1 <= sum(str(number) in known for number in range(100)) <= 10
    known.add("failed", repeats.Row("failed", ("",)))
    assert "failed" not in known, "another time it may go well"


def test_other_endings_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["predict", str(tmp_path / "none.csv"), "--task", "retro", "-o", str(tmp_path / "out.xlsx")]
    )
    assert done.exit_code == 2 and "the ending must be one of" in done.output


def test_a_query_that_breaks_the_model_disturbs_no_other(tmp_path: Path) -> None:
    class Breaking(Fake):
        def answer(self, query: str) -> DecodeResult:
            if query == "!":
                raise RuntimeError("broken")
            return super().answer(query)

    queries = ["C", "N", "!", "O"]
    assert run(queries, tmp_path / "o.jsonl", Breaking()) == {"ok": 3, "failed": 1}
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["query"] for row in rows] == queries
    assert rows[2]["message"] == "the model failed on this row (RuntimeError)"


def test_answers_cut_at_the_limit_are_told() -> None:
    cut = Hypothesis("CC", "", False, ("C", "C"), (-1.0, -1.0), -2.0, 0.1, 0.1, "length")
    result = DecodeResult("C", "ok", "", (cut, cut))
    assert writers.result_document(result)["message"] == "2 of 2 answers cut at the length limit"


def test_workbooks_and_structure_files_are_read_like_tables(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for line in (["id", "smiles"], [1, "CCO"], [2, "aniline"]):
        book.active.append(line)
    book.save(tmp_path / "a.xlsx")
    assert read_queries(tmp_path / "a.xlsx") == ["CCO", "aniline"]
    assert read_queries(tmp_path / "a.xlsx", "id") == ["1", "2"]
    (tmp_path / "a.sdf").write_text(formats.to_sdf([{"smiles": "CCO", "cas": "64-17-5"}, {"smiles": "C.[Na+].[Cl-]"}]))
    assert read_queries(tmp_path / "a.sdf") == ["CCO", "C.[Cl-].[Na+]"]
    assert read_queries(tmp_path / "a.sdf", "cas") == ["64-17-5", ""]
    with pytest.raises(FileError, match="no column"):
        read_queries(tmp_path / "a.sdf", "price")
    (tmp_path / "a.mol").write_text(formats.to_sdf([{"smiles": "CCO"}]).split("$$$$")[0])
    assert read_queries(tmp_path / "a.mol") == ["CCO"]
    rxn = formats.to_rxn("CCO", "CC=O").splitlines()
    rxn[4:5] = ["  1  1  1"]
    agent = formats.to_rxn("O", "C").split("$MOL")[1]
    (tmp_path / "a.rxn").write_text("\n".join([*rxn, f"$MOL{agent}"]))
    assert read_queries(tmp_path / "a.rxn") == ["CCO>O>CC=O"]


def test_answers_are_written_every_few_batches_unless_a_number_is_asked_for(tmp_path: Path) -> None:
    how, few = replace(HOW, batch_size=2), 2 * writers.BATCHES
    queries = [f"{'C' * number}O" for number in range(1, 2 * few + 1)]
    for every, sizes in ((0, [few] * 2), (None, [few] * 2), (1, [1] * 2 * few)):
        seen: list[int] = []
        more = {} if every is None else {"every": every}
        note = lambda results, seen=seen: seen.append(len(results))  # noqa: E731
        run(queries, tmp_path / f"{every}.csv", how=how, written=note, **more)
        assert seen == sizes
