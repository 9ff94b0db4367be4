"""A small Hugging Face model drafts for a large one, on any text: the experiment of Tulsian's report, greedily.

`python -m chemspec.bench.text_models --help` tells how to run it; assets/docs/huggingface.md, where the weights come
from.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from chemspec.decode.greedy import greedy
from chemspec.decode.loop import Decoding
from chemspec.draft.base import Drafter
from chemspec.draft.none import NoDrafts
from chemspec.engine.registry import model_folder
from chemspec.importers import hf
from chemspec.model.runners.hf_runner import HfBackend
from chemspec.model.session import Session
from chemspec.tokenizer import EOS
from chemspec.types import Draft, FinishedSequence, Pass, Prefix


class SmallModel:
    """What a smaller model would write next, `length` tokens; it keeps its cache for one source."""

    def __init__(self, backend: HfBackend, length: int) -> None:
        if length < 1:
            raise ValueError(f"draft length {length}; it must be at least 1")
        self.backend, self.length = backend, length
        self._source: tuple[int, ...] | None = None
        self._next: dict[Prefix, int] = {}

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return the small model's greedy continuation, at most `max_new_tokens` tokens."""
        if tuple(source) != self._source:
            self._source, self._next = tuple(source), {}
            self._session = Session(self.backend, [source], top_k=1)
        text = prefix
        while len(text) - len(prefix) < min(self.length, max_new_tokens) and text[-1] != EOS:
            if text not in self._next:
                (scored,) = self._session.score([[text]])
                self._next |= {one: int(found.ids[0]) for one, found in scored.items()}
            text = (*text, self._next[text])
        return [Draft(text[len(prefix) :], "ar")]


@dataclass(frozen=True)
class Row:
    """One setting over all lines; `hits` is the share of drafted tokens computed by the large model that were right."""

    gamma: int
    passes: int
    tokens: int
    tokens_per_pass: float
    hits: float
    seconds: float
    equal: bool


def compare(
    large: hf.HfCheckpoint, small: hf.HfCheckpoint, lines: Sequence[str], gammas: Sequence[int], *, max_len: int = 128
) -> list[Row]:
    """Decode every line without drafts (gamma 0) and with drafts of each length.

    Raises:
        ValueError: for models of different vocabularies, or no lines.
    """
    if large.tokenizer.tokens != small.tokenizer.tokens:
        raise ValueError(
            f"{small.name} and {large.name} have different vocabularies; a drafter needs the one of its target"
        )
    if not lines:
        raise ValueError("there is no line to decode")
    target, drafting = HfBackend(large.model), HfBackend(small.model)
    sources = [large.tokenizer.encode(line) for line in lines]
    rows: list[Row] = []
    wanted: list[FinishedSequence] = []
    for gamma in (0, *gammas):
        drafter: Drafter = SmallModel(drafting, gamma) if gamma else NoDrafts()
        began = time.perf_counter()
        found, passes = [], []
        for source in sources:
            answer, made = _decode(target, source, drafter, gamma, max_len)
            found.append(answer)
            passes += made
        seconds = time.perf_counter() - began
        wanted = wanted or found
        tokens, drafted = (sum(len(answer.tokens) for answer in found), sum(one.drafted for one in passes))
        rows.append(
            Row(
                gamma=gamma,
                passes=len(passes),
                tokens=tokens,
                tokens_per_pass=round(tokens / len(passes), 3),
                hits=round(sum(one.accepted for one in passes) / max(1, drafted), 3),
                seconds=round(seconds, 3),
                equal=all(here.tokens == there.tokens for here, there in zip(found, wanted, strict=True)),
            )
        )
    return rows


def _decode(
    backend: HfBackend, source: Sequence[int], drafter: Drafter, budget: int, max_len: int
) -> tuple[FinishedSequence, list[Pass]]:
    run = Decoding(
        [source],
        [greedy(max_len=max_len)],
        Session(backend, [source], top_k=2),
        drafter,
        max_len=max_len,
        budget=budget,
        clock=time.perf_counter,
    )
    ((answer,),) = run.run_to_end()
    return answer, run.passes[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, compare, print one JSON line a setting; 1 if any text differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("file", type=Path, help="one text a line")
    parser.add_argument("--model", required=True, help="folder or id of the large model")
    parser.add_argument("--drafter", required=True, help="folder or id of the small model")
    parser.add_argument("--gamma", type=int, nargs="+", default=[3, 7], help="draft lengths")
    parser.add_argument("--prefix", default="", help="what goes before every line")
    parser.add_argument("--max-len", type=int, default=128)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args(arguments)
    lines = [line.strip() for line in given.file.read_text(encoding="utf-8").splitlines()]
    try:
        # The task is a label here; nothing depends on it.
        large, small = (
            hf.load(model_folder(name), task="forward", template=given.prefix + hf.HOLE, name=name)
            for name in (given.model, given.drafter)
        )
        for one in (large, small):
            one.model.to(given.device, torch.float32)
        rows = compare(large, small, [line for line in lines if line], given.gamma, max_len=given.max_len)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    for row in rows:
        sys.stdout.write(json.dumps(asdict(row)) + "\n")
    return 0 if all(row.equal for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
