"""Folders of learned drafters: what is written is read again, and what does not fit is refused with a remedy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result
from helpers.case_tables import table
from helpers.small import QUERIES, TOKENIZER, tiny_folder
from helpers.thinned import pairwise
from typer.testing import CliRunner

from chemspec.cli.__main__ import app
from chemspec.engine.engine import Engine
from chemspec.model import checkpoint
from chemspec.model.checkpoint import CheckpointError
from chemspec.model.heads import Heads, HeadsConfig
from chemspec.model.spec_drafter import copy_target_layers, drafter_config
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import Tokenizer

KINDS = ("spec_drafter", "blockwise", "medusa")


def furnish(folder: Path, *, bound: bool = True) -> Path:
    """Give a tiny model folder drafters with weights that know next to nothing."""
    loaded = checkpoint.load(folder)
    config, vocab = loaded.model.config, loaded.tokenizer
    torch.manual_seed(0)
    filled = Transformer(drafter_config(config, encoder=3, decoder=1))
    copy_target_layers(filled, loaded.model)
    checkpoint.save_drafter(
        checkpoint.drafter_folder(folder, "spec_drafter"), filled, vocab, kind="spec_drafter", length=6
    )
    for kind in ("blockwise", "medusa"):
        heads = Heads(
            HeadsConfig(vocab_size=len(vocab), d_model=config.d_model, style=kind, heads=4, feedforward=8)  # type: ignore[arg-type]
        )
        heads.copy_output_layer(loaded.model.output)
        target = loaded.digest if bound else ""
        checkpoint.save_drafter(
            checkpoint.drafter_folder(folder, kind),
            heads,
            vocab,
            kind=kind,
            length=4,
            target=target,  # type: ignore[arg-type]
        )
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return furnish(tiny_folder(tmp_path_factory.mktemp("m") / "tiny", sharpness=6.0))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_is_loaded(folder: Path, kind: str) -> None:
    loaded = checkpoint.load(folder)
    own = checkpoint.drafter_folder(folder, kind)
    found = checkpoint.load_drafter(own, tokenizer=loaded.tokenizer, target=loaded.digest)
    assert found.kind == kind
    assert found.length == (6 if kind == "spec_drafter" else 4)
    bound = json.loads((own / "config.json").read_text())["target"]
    assert bound == ("" if kind == "spec_drafter" else loaded.digest)
    count = sum(weight.numel() for weight in found.model.parameters())
    assert count * 2 <= (own / "model.safetensors").stat().st_size < count * 2 + 20_000
    assert not any(weight.requires_grad for weight in found.model.parameters())
    again = checkpoint.load_drafter(own, tokenizer=loaded.tokenizer)
    for one, other in zip(found.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("kind", "runtime", "search"), pairwise([*KINDS], ["auto", "torch"], [("greedy", 1), ("beam", 3)])
)
def test_the_engine_drafts_with_them_and_answers_as_without(
    folder: Path, kind: str, runtime: str, search: tuple[str, int]
) -> None:
    decoder, n = search
    engine = Engine.load(folder, threads=1, runtime=runtime, device="cpu")
    how = {"decoder": decoder, "n": n, "max_len": 30, "batch_size": 4}
    plain = engine.predict(QUERIES, DecodeSettings(drafter="none", **how))  # type: ignore[arg-type]
    drafted = engine.predict(QUERIES, DecodeSettings(drafter=kind, drafting="fixed", **how))  # type: ignore[arg-type]
    for one, other in zip(plain, drafted, strict=True):
        assert [item.tokens for item in one.hypotheses] == [item.tokens for item in other.hypotheses]
    assert sum(item.drafted for result in drafted for item in result.trace.passes)
    assert sum(item.draft_calls for result in drafted for item in result.trace.passes)
    assert drafted[0].trace.settings["exact"]


def test_a_missing_drafter_names_the_command_that_trains_it(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "bare", task="forward")
    engine = Engine.load(folder, threads=1, device="cpu")
    with pytest.raises(ValueError, match=r"no drafter 'blockwise'.*chemspec train --recipe.*--model .*/bare`, or"):
        engine.predict(["CCO"], DecodeSettings(drafter="blockwise"))
    done = CliRunner().invoke(
        app, ["predict", "CCO", "--model", str(folder), "--drafter", "blockwise", "--device", "cpu"]
    )
    assert done.exit_code == 2
    assert "chemspec train --recipe" in done.output


def install(*arguments: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["train", "install-drafter", *map(str, arguments)], input=answer)


def test_a_drafter_is_installed_and_replaced_only_when_agreed(folder: Path, tmp_path: Path) -> None:
    run, model = tmp_path / "run", tmp_path / "model"
    shutil.copytree(folder / "drafters/blockwise", run / "blockwise")
    shutil.copytree(folder, model, ignore=shutil.ignore_patterns("drafters"))
    there = model / "drafters/blockwise"
    assert install(run, "--model", model).exit_code == 0
    assert (there / "model.safetensors").read_bytes() == (run / "blockwise/model.safetensors").read_bytes()
    (there / "card.md").write_text("of the old weights")
    for arguments, answer in (((run,), "n\n"), ((run,), None)):
        refused = install(*arguments, "--model", model, answer=answer)
        assert refused.exit_code == 1 and "Replace it?" in refused.output
        assert (there / "card.md").is_file()
    assert install(run / "blockwise", "--model", model, answer="y\n").exit_code == 0
    assert not (there / "card.md").exists()
    assert install(run, "--model", model, "--yes").exit_code == 0
    assert [entry.name for entry in (model / "drafters").iterdir()] == ["blockwise"]
    shutil.copytree(folder, tmp_path / "small" / "model", ignore=shutil.ignore_patterns("drafters"))
    assert install(tmp_path / "small", "--model", model, "--kind", "medium").exit_code == 0
    assert (model / "drafters/medium/model.safetensors").is_file()


def test_what_cannot_draft_for_a_model_is_not_installed(folder: Path, tmp_path: Path) -> None:
    other = tiny_folder(tmp_path / "other", seed=5)
    for arguments, fault in (
        ((folder / "drafters/medusa", "--model", other), "other weights than the target's"),
        ((tmp_path, "--model", other), "holds no trained drafter"),
        ((folder, "--model", other), "say with --kind"),
        ((folder / "drafters/medusa", "--model", folder, "--kind", "ar"), "of kind 'medusa', not 'ar'"),
    ):
        done = install(*arguments)
        assert done.exit_code == 2 and fault in " ".join(done.output.split())
    assert not (other / "drafters").exists()
    assert install(folder, "--model", other, "--kind", "ar").exit_code == 0
    assert Engine.load(other, threads=1, device="cpu").resources.learned_drafter("ar")


def test_a_drafter_of_another_vocabulary_is_refused(folder: Path) -> None:
    tokens = list(TOKENIZER.tokens)
    tokens[-1], tokens[-2] = tokens[-2], tokens[-1]
    with pytest.raises(CheckpointError, match=r"another vocabulary.*chemspec train --recipe"):
        checkpoint.load_drafter(checkpoint.drafter_folder(folder, "blockwise"), tokenizer=Tokenizer(tuple(tokens)))


def test_heads_of_other_weights_are_refused(folder: Path) -> None:
    for kind in ("blockwise", "medusa"):
        with pytest.raises(CheckpointError, match="other weights"):
            checkpoint.load_drafter(checkpoint.drafter_folder(folder, kind), tokenizer=TOKENIZER, target="0" * 16)
    checkpoint.load_drafter(checkpoint.drafter_folder(folder, "spec_drafter"), tokenizer=TOKENIZER, target="0" * 16)


@pytest.mark.parametrize(("change", "message"), table("model/damaged_drafter_configs"))
def test_a_damaged_config_is_told(folder: Path, tmp_path: Path, change: dict[str, Any] | None, message: str) -> None:
    own = checkpoint.drafter_folder(folder, "blockwise")
    copy = tmp_path / "m" / "drafters" / "blockwise"
    copy.mkdir(parents=True)
    (copy / "model.safetensors").write_bytes((own / "model.safetensors").read_bytes())
    config = json.loads((own / "config.json").read_text())
    (copy / "config.json").write_text("{" if change is None else json.dumps({**config, **change}))
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load_drafter(copy, tokenizer=TOKENIZER)


def test_more_tokens_than_were_trained_are_refused(folder: Path) -> None:
    engine = Engine.load(folder, threads=1, device="cpu")
    for kind in KINDS:
        with pytest.raises(ValueError, match=r"draft length 7; this drafter"):
            engine.predict(["CCO"], DecodeSettings(drafter=kind, draft_length=7))
