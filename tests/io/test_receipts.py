"""Receipts: rows of a file can be decoded again, and what was changed, by whomever, is listed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.small import QUERIES, tiny_folder
from typer.testing import CliRunner

from chemspec.cli.__main__ import app
from chemspec.engine.engine import Engine
from chemspec.io import receipts, writers
from chemspec.io.readers import FileError
from chemspec.settings import DecodeSettings

BEAM = DecodeSettings(n=3, drafter="windows", max_len=20, batch_size=4)
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def engine(tiny_retro: Path) -> Engine:
    return Engine.load(tiny_retro, threads=1)


def write(engine: Engine, path: Path, settings: DecodeSettings = BEAM) -> Rows:
    writers.predict_file(engine, [*QUERIES, "not a molecule"], path, settings, receipts=True)
    return [json.loads(line) for line in path.read_text().splitlines()]


def save(rows: Rows, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def verify(path: Path, engine: Engine) -> dict[int, str]:
    rows = receipts.read_receipts(path)
    differences = receipts.verify_receipts(rows, str(engine.folder), threads=1)
    return {row.number: reason for row, reason in differences}


def signed(row: dict[str, Any]) -> dict[str, Any]:
    """A forged row whose hash fits."""
    receipt = {name: value for name, value in row["receipt"].items() if name != "sha256"}
    return {**row, "receipt": {**receipt, "sha256": receipts.hash_row(row, receipt)}}


@pytest.mark.parametrize(
    "settings",
    [
        BEAM,
        replace(BEAM, distinct=True),
        replace(BEAM, n=2, augment=3),
        replace(BEAM, n=1, decoder="greedy", drafter="copy"),
        replace(BEAM, decoder="sample", seed=5),
    ],
    ids=["beam", "distinct", "augment", "greedy", "sample"],
)
def test_what_was_written_is_decoded_again(settings: DecodeSettings, engine: Engine, tmp_path: Path) -> None:
    rows = write(engine, tmp_path / "a.jsonl", settings)
    assert verify(tmp_path / "a.jsonl", engine) == {}
    assert len(rows) == len(QUERIES) + 1 and rows[-1]["status"] == "invalid"
    assert all(row["receipt"]["digest"] == engine.full_digest for row in rows)
    assert all(row["receipt"]["passes"] > 0 and row["receipt"]["margin"] >= 0 for row in rows[:-1])
    assert rows[-1]["receipt"]["margin"] is None
    rows[0]["receipt"]["settings"]["drafter"] = "of a file"  # exact decoders are verified without drafts
    save([signed(rows[0])], tmp_path / "a.jsonl")
    assert verify(tmp_path / "a.jsonl", engine) == {}


def _with_hypothesis(row: dict[str, Any], **values: Any) -> dict[str, Any]:
    first, *rest = row["hypotheses"]
    return {**row, "hypotheses": [{**first, **values}, *rest]}


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "text": (lambda row: _with_hypothesis(row, smiles="CCO"), "prediction 1 is"),
    "score": (lambda row: _with_hypothesis(row, log_prob=row["hypotheses"][0]["log_prob"] + 1e-6), "has log-prob"),
    "order": (lambda row: {**row, "hypotheses": row["hypotheses"][::-1]}, "prediction 1 is"),
    "length": (lambda row: {**row, "hypotheses": row["hypotheses"][:-1]}, "3 predictions, not 2"),
    "status": (lambda row: {**row, "status": "failed"}, "status ok, not failed"),
    "settings": (
        lambda row: {**row, "receipt": {**row["receipt"], "settings": {**row["receipt"]["settings"], "n": 2}}},
        "2 predictions, not 3",
    ),
    "weights": (lambda row: {**row, "receipt": {**row["receipt"], "digest": "0"}}, "has other weights"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_changed_row_is_listed(name: str, engine: Engine, tmp_path: Path) -> None:
    forge, reason = FORGERIES[name]
    path = tmp_path / "a.jsonl"
    rows = write(engine, path)
    changed = forge(rows[1])
    save([rows[0], changed, *rows[2:]], path)
    assert verify(path, engine) == {2: "the row was changed after it was written"}
    save([rows[0], signed(changed), *rows[2:]], path)
    found = verify(path, engine)
    assert list(found) == [2] and reason in found[2]


def test_another_vocabulary_is_named_and_receipts_without_one_are_read(tmp_path: Path) -> None:
    folder, path = tiny_folder(tmp_path / "retro"), tmp_path / "a.jsonl"
    engine = Engine.load(folder, threads=1)
    rows = write(engine, path)
    old = [{**row, "receipt": {**row["receipt"], "digest": engine.digest}} for row in rows]
    save([signed(row) for row in old], tmp_path / "old.jsonl")
    assert verify(tmp_path / "old.jsonl", engine) == {}, "written before the vocabulary was in the digest"
    text = (folder / "vocab.json").read_text()
    flipped = text.replace('"Cl"', '"X"').replace('"Br"', '"Cl"').replace('"X"', '"Br"')
    assert flipped != text and not (folder / "manifest.json").exists()
    (folder / "vocab.json").write_text(flipped)
    other = Engine.load(folder, threads=1)
    assert other.digest == engine.digest, "of the weights"
    assert set(verify(path, other).values()) == {
        f"the installed model retro has another vocabulary ({other.full_digest}, not {engine.full_digest})"
    }
    with pytest.raises(FileError, match=f"model {engine.full_digest} instead of {other.full_digest}"):
        write(other, path)


def test_a_sample_is_that_of_its_seed(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(engine, path)
    first, again, other = (receipts.read_receipts(path, 3, seed) for seed in (0, 0, 2))
    assert first == again and first != other
    assert [row.number for row in first] == sorted(row.number for row in first) and len(first) == 3
    assert len(receipts.read_receipts(path, 1000)) == len(QUERIES) + 1


@pytest.mark.parametrize("line", ["{", "[]", "null", '{"query": "C"}', '{"query": "C", "receipt": 3}', "[" * 10_000])
def test_a_row_without_a_receipt_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f"{line}\n")
    with pytest.raises(FileError, match=r"row 1 has no receipt; write the file with `chemspec predict --receipts`"):
        receipts.read_receipts(tmp_path / "a.jsonl")


def test_settings_of_another_version_are_named(engine: Engine, tmp_path: Path) -> None:
    row = write(engine, tmp_path / "a.jsonl")[0]
    row["receipt"]["settings"]["dreams"] = 1
    save([signed(row)], tmp_path / "a.jsonl")
    assert "unknown settings dreams" in verify(tmp_path / "a.jsonl", engine)[1]


def test_a_file_is_not_resumed_without_its_receipts(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(engine, path)
    with pytest.raises(FileError, match="receipts True instead of unset"):
        writers.predict_file(engine, QUERIES, path, BEAM)
    with pytest.raises(FileError, match=r"only \.jsonl files have receipts"):
        writers.predict_file(engine, QUERIES, tmp_path / "a.csv", BEAM, receipts=True)


def test_the_commands(tiny_retro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tiny_retro.parent))
    queries, path = tmp_path / "q.smi", tmp_path / "a.jsonl"
    queries.write_text("\n".join(QUERIES))
    run = CliRunner().invoke
    options = ["-t", "retro", "-n", "2", "--max-len", "20", "--no-distinct"]
    assert run(app, ["predict", str(queries), *options, "-o", str(path), "--receipts"]).exit_code == 0
    done = run(app, ["verify", str(path), "--sample", "2"])
    assert (done.exit_code, "0 of 2 differ" in done.output) == (0, True)
    path.write_text(path.read_text().replace('"receipt"', '"note": 1, "receipt"').replace('"n": 2', '"n": 3', 1))
    done = run(app, ["verify", str(path), "--json"])
    assert (done.exit_code, [item["row"] for item in json.loads(done.stdout)["differences"]]) == (1, [1])
    rows = [row.row for row in receipts.read_receipts(path)]
    with_plug_in = {**rows[0]["receipt"], "settings": {"decoder": "ours"}}
    save([signed({**rows[0], "receipt": with_plug_in})], path)
    assert "1 of 1 differ or cannot be decoded again" in run(app, ["verify", str(path)]).output
    save([signed({**row, "receipt": {**row["receipt"], "model": "/tmp"}}) for row in rows], path)
    assert "model '/tmp', which wrote these rows, is not installed" in run(app, ["verify", str(path)]).output
    assert run(app, ["predict", "C", "-t", "retro", "--receipts"]).exit_code != 0
