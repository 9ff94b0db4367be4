"""Races against the programs that wrote a checkpoint: who is counted, and who cannot be had."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import foreign
from helpers.foreign import ONMT, TT
from helpers.paths import SHARED
from helpers.recompute import recompute
from helpers.small import QUERIES
from programs import peers
from programs.peers import app
from typer.testing import CliRunner

from chemspec.engine.engine import Engine
from chemspec.importers import model_formats
from chemspec.model.runtime import RuntimeConfig
from chemspec.settings import DecodeSettings

POST = {"norm_first": False, "scale_embedding": False, "tied_output": False, "source_specials": True}
NEEDED = {
    "onmt": ("onmt.translate.translator", "pip install OpenNMT-py"),
    "translation-transformer": ("model.modules", "git clone"),
    "chemformer": ("molbart.models.pre_train", "syntheseus-chemformer"),
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return foreign.translation_transformer(tmp_path / "last.ckpt", foreign.network(len(TT), **POST))


@pytest.mark.parametrize("name", NEEDED)
def test_a_program_that_is_not_installed_is_named_with_what_to_do(
    name: str, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, remedy = NEEDED[name]
    for part in (module, module.split(".")[0]):
        monkeypatch.setitem(sys.modules, part, None)
    words = [str(checkpoint), name, "--task", "retro", "--limit", "2"]
    done = CliRunner().invoke(app, [*words, "--device", "cpu"])
    text = " ".join(done.output.split())
    assert done.exit_code == 2 and module in text and remedy in text


def test_the_rows_count_passes_and_answers_alike(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.load(checkpoint, task="retro", device="cpu", threads=1)
    calls = [0]

    def answer(ids: tuple[int, ...], width: int) -> list[str]:
        """The decoder without a cache, which forgets the last answer of a list."""
        calls[0] += 7
        how = DecodeSettings(decoder="beam" if width > 1 else "greedy", n=width, max_len=20)
        found = recompute(model, ids, how)
        texts = [engine.tokenizer.decode(one.tokens) for one in found]
        return texts if width == 1 else texts[:-1]

    torched: Any = model_formats.load(checkpoint).backend(RuntimeConfig("cpu", "fp32", "torch", 1))[0]
    model = torched.model
    monkeypatch.setitem(peers.PEERS, "slow", lambda *_: peers.Peer("slow", "1", answer, lambda: calls[0]))
    rows = peers.compare(engine, "slow", [*QUERIES[:3], "CC("], widths=(1, 3), max_len=20)
    assert [(row["program"], row["width"]) for row in rows] == [
        (name, width) for width in (1, 3) for name in ("chemspec, none", "chemspec, copy", "slow 1")
    ]
    for row in rows:
        assert row["queries"] == 3 and row["same_best"] == 3
        assert row["same_list"] == (0 if row["program"] == "slow 1" and row["width"] == 3 else 3)
        assert row["ms"] > 0 and row["passes"] > 0
    assert [row["passes"] for row in rows if row["program"] == "slow 1"] == [7.0, 7.0]
    assert "| slow 1 | 3 | 7.0 |" in peers.table(rows)


def test_a_checkpoint_of_0_4_1_is_not_given_to_later_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = foreign.network(len(ONMT), tied_output=False)
    file = foreign.onmt(tmp_path / "model.pt", model, version="0")
    engine = Engine.load(file, task="retro", device="cpu", threads=1)
    monkeypatch.setattr(peers, "_needed", lambda *_: None)
    with pytest.raises(ValueError, match="later releases load as another one"):
        peers.compare(engine, "onmt", QUERIES)


def test_what_cannot_be_raced_is_refused(checkpoint: Path) -> None:
    engine = Engine.load(checkpoint, task="retro", device="cpu", threads=1)
    with pytest.raises(ValueError, match="no Hugging Face model"):
        peers.compare(engine, "transformers", QUERIES)
    with pytest.raises(ValueError, match="can read none"):
        peers.compare(engine, "onmt", ["CC("])
    with pytest.raises(ValueError, match="there are onmt"):
        peers.compare(engine, "steam", QUERIES)


def test_generate_of_transformers_gives_the_same_answers(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = SHARED / "checkpoints" / "rt5"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there (CHEMSPEC_SHARED names the folder with genuine checkpoints)")
    words = [str(folder), "transformers", "--task", "forward", "--limit", "3"]
    words += ["--widths", "1,3", "--max-len", "12", "--drafter", "copy", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout.strip().splitlines()[-1])["rows"]
    assert {row["same_list"] for row in rows} == {3} and len(rows) == 6
