"""A small model folder with random weights, for tests of what stands around the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chemspec.decode.query_state import QueryState
from chemspec.engine.engine import Engine, installed_models
from chemspec.model import checkpoint
from chemspec.settings import DecodeSettings, Task
from chemspec.tokenizer import SPECIALS, Tokenizer, learn_merges
from chemspec.types import Scores
from helpers.tiny import tiny_model

TOKENS = (*"CNOSF", "Cl", "Br", *"cno()=#-+.123", "[nH]", "[C@@H]", "[C@H]", "/", "\\", "I", "[Na+]", "[OH-]")
TOKENIZER = Tokenizer((*SPECIALS, *TOKENS))
# With a bad one in the middle of good ones of different lengths.
QUERIES = ["CCO", "CC(=O)Nc1ccccc1", "C", "O=C(O)c1ccc(Br)cc1", "CN(C)C=O", "CC(C)(C)OC(=O)NC", "c1ccc2[nH]ccc2c1"]
# What a job stores of a row.
JOB_ROW = {
    "query": "CCO",
    "status": "ok",
    "message": "",
    "passes": 3,
    "tokens": 4,
    "seconds": 0.1,
    "hypotheses": [{"smiles": "CC", "canonical": "CC", "probability": 0.5, "log_prob": -0.7}],
}
BAD = {
    "": "invalid",
    " \t ": "invalid",
    "CC(": "invalid",
    "c1ccccc": "invalid",
    "C(C)(C)(C)(C)C": "invalid",
    "C" * 2000: "too_long",
    "[Uus]": "invalid",
    "CC>>": "invalid",
    "Xx": "invalid",
    "\N{PILE OF POO}": "invalid",
}


# The same with merged tokens, such as `c1cc` and `C(=O)`.
MERGED = TOKENIZER.with_merges(learn_merges(QUERIES, 16))


def tiny_folder(
    folder: Path, *, task: Task = "retro", seed: int = 0, tokenizer: Tokenizer = TOKENIZER, **options: Any
) -> Path:
    """Write a random model and return its folder."""
    shape = {"d_model": 32, "heads": 4, "feedforward": 32, "max_positions": 1024}
    model = tiny_model(seed, len(tokenizer), **{**shape, **options}).float()
    checkpoint.save(folder, model, tokenizer, task=task, half=False)
    return folder


def two_tiny_folders(home: Path) -> Path:
    """Write a random model for each of the two main tasks into a folder of models and return that."""
    tiny_folder(home / "retro")
    tiny_folder(home / "forward", task="forward")
    return home


def shipped(name: str, **options: Any) -> Engine:
    """A shipped model on one thread; a test that has none is skipped."""
    if name not in {folder.name for folder in installed_models()}:
        pytest.skip(f"assets/models/{name} is not there: train it or copy it")
    return Engine.load(name, threads=1, **options)


def check_lossless(engine: Engine, queries: Sequence[str], **options: Any) -> None:
    """Drafts and batches change no bit of what greedy and beam search answer, and there are drafts."""
    for decoder, n in (("greedy", 1), ("beam", 4)):
        how = DecodeSettings(decoder=decoder, n=n, drafter="none", drafting="fixed", batch_size=1, **options)
        plain = [result.hypotheses for result in engine.predict(queries, how)]
        for drafter in ("copy", "windows"):
            drafted = engine.predict(queries, replace(how, drafter=drafter, batch_size=3))
            assert [result.hypotheses for result in drafted] == plain, (decoder, drafter)
            assert sum(step.drafted for result in drafted for step in result.trace.passes)


def accept_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that accepts a drafted token whenever it is among the model's best few."""
    honest = QueryState.resume_decoder
    swapped: dict[int, Scores] = {}  # by their ids; kept, so that no other object gets one of these

    def resume(self: QueryState, *observers: Any) -> tuple[int, float]:
        for prefix, scores in self.scores.items():
            drafted = [token for token in scores.ids if (*prefix, token) in self.draft_of][:1]
            if drafted and id(scores) not in swapped:
                rest = [token for token in scores.ids if token not in drafted]
                changed = self.scores[prefix] = Scores([*drafted, *rest], scores.log_probs)
                swapped[id(changed)] = changed
        return honest(self, *observers)

    monkeypatch.setattr(QueryState, "resume_decoder", resume)
    monkeypatch.setattr("chemspec.decode.compiled.loop.loop_library", lambda: None)
