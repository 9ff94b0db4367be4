"""Decode with random models, with and without drafts: `python tests/programs/random_models.py --count 100000`.

Case number k is the same on every machine: a network with random weights of one of ten architectures, in fp32 or
int8, or a table of random log-probs, with many ties; one to three random sources in one batch; greedy decoding or a
beam, which may park hypotheses; a drafter, honest, adversarial or told the answer with errors; a cost curve,
or none; the loop in Python or the compiled one. Answers must be those of each source alone, without drafts, parking and
planner, to the last bit. A table's must be those of the naive decoders too, and a network's scores in fp32 those of a
full forward pass in torch to 1e-3.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from random import Random
from typing import Annotated, Any

import torch

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "decode"), str(TESTS / "model")]

from helpers.adversaries import EmptyDrafts, EosInside, RandomDrafts, TooLong
from helpers.scripts import option, script
from helpers.table import Table, assert_same
from helpers.tiny import tiny_model
from test_session import VARIANTS

from chemspec.decode.beam import beam_search, greedy_search
from chemspec.decode.draft_planner import DraftPlanner
from chemspec.decode.generate import open_decoding
from chemspec.decode.protocol import LoopOptions
from chemspec.draft.base import Drafter, NoDrafts
from chemspec.draft.copy import Copy
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.edit_ngrams import COPY_ONLY
from chemspec.draft.windows import Smart, Windows
from chemspec.model.cost import CostCurve
from chemspec.model.runner import Backend
from chemspec.model.runners.native import runner as native
from chemspec.model.transformer import Transformer
from chemspec.system.threads import set_torch_threads
from chemspec.terminal import console
from chemspec.testing import naive_beam, naive_greedy, naive_log_probs
from chemspec.tokenizer import BOS
from chemspec.types import Draft, FinishedSequence, Prefix

VOCAB = 12
TABLES = 0.5  # share of the cases
CHECKED = 0.1  # share of the fp32 networks whose scores are compared with torch's
DRAFTERS = ("copy", "windows", "smart", "mixed", "random", "bushy", "empty", "eos inside", "too long", "told", "told")


@dataclass(frozen=True)
class Told:
    """Drafts the rest of known answers, with errors."""

    answers: Sequence[Prefix]  # with bos
    seed: int
    wrong: float  # share of the tokens

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts; see `Drafter`."""
        random, rests = Random(f"{self.seed} {prefix}"), []
        for answer in self.answers:
            rest = answer[len(prefix) :][:max_new_tokens]
            if rest and answer[: len(prefix)] == prefix:
                rests.append(tuple(random.randrange(2, VOCAB) if random.random() < self.wrong else it for it in rest))
        return [Draft(rest, "told") for rest in dict.fromkeys(rests)]


@dataclass(frozen=True)
class Case:
    """A model, sources and a search."""

    target: Table | Transformer
    int8: bool
    sources: Sequence[Sequence[int]]
    width: int  # 0: greedy decoding
    max_len: int
    length_penalty: float
    gap: float  # of parking

    def backend(self) -> Backend:
        """Return a backend of the model."""
        if isinstance(self.target, Table):
            return self.target
        return native.NativeBackend(self.target, threads=1, int8=self.int8)

    def search(self, gap: float) -> Any:
        """Return the decoder of one source."""
        if not self.width:
            return greedy_search(max_len=self.max_len)
        penalty = self.length_penalty
        return beam_search(width=self.width, max_len=self.max_len, length_penalty=penalty, park_gap=gap)

    def answers(
        self, backend: Backend, sources: Sequence[Sequence[int]], drafter: Drafter, gap: float, **options: Any
    ) -> list[list[FinishedSequence]]:
        """Return the answers of a run."""
        decoders = [self.search(gap) for _ in sources]
        run_options = LoopOptions(max_len=self.max_len, **options)
        run = open_decoding(backend, sources, decoders, run_options, drafter, top_k=max(2, self.width + 1))
        return run.run_to_end()


def draw_case(random: Random, seed: int) -> Case:
    """Draw a case."""
    sharpness, penalty = random.choice((0.5, 1.5, 3.0, 6.0)), random.choice((0.0, 0.0, 0.0, 0.6, 1.3))
    target: Table | Transformer
    if random.random() < TABLES:
        levels = random.choice((0, 0, 1, 2, 3))
        copying = random.choice((0.0, 3.0, 8.0))
        target = Table(seed, vocab_size=VOCAB, sharpness=sharpness, copying=copying, levels=levels)
    else:
        exact = random.choice((torch.float32, torch.bfloat16, torch.bfloat16))
        variant = VARIANTS[random.choice(sorted(VARIANTS))]
        target = tiny_model(seed, VOCAB, sharpness=sharpness, **variant).to(exact).float()
    return Case(
        target=target,
        int8=random.random() < 0.5,
        sources=[
            [random.randrange(3, VOCAB) for _ in range(random.randint(1, 14))] for _ in range(random.randint(1, 3))
        ],
        width=random.choice((0, 0, 1, 2, 3, 5, 9)),
        max_len=random.randint(1, 20),
        length_penalty=penalty,
        gap=inf if penalty else random.choice((inf, 0.0, 0.5, 2.0, 6.0)),
    )


def draw_drafter(random: Random, seed: int, answers: Sequence[Sequence[FinishedSequence]]) -> Drafter:
    """Draw a drafter."""
    kind, length, count = random.choice(DRAFTERS), random.randint(1, 9), random.randint(1, 4)
    known = [(BOS, *answer.tokens) for some in answers for answer in some]
    made: dict[str, Any] = {
        "copy": lambda: Copy(length=length, count=count),
        "windows": lambda: Windows(length=length, count=count),
        "smart": lambda: Smart(length=length, count=count),
        "mixed": lambda: Mixed(COPY_ONLY, nodes=random.randint(1, 30), length=length, count=count),
        "random": lambda: RandomDrafts(seed, VOCAB),
        "bushy": lambda: RandomDrafts(seed, VOCAB, count=12, length=9),
        "empty": EmptyDrafts,
        "eos inside": lambda: EosInside(VOCAB),
        "too long": TooLong,
        "told": lambda: Told(known, seed, random.choice((0.0, 0.1, 0.4))),
    }
    return made[kind]()


def draw_planner(random: Random, drafter: Drafter) -> DraftPlanner | None:
    """Draw a planner by a cost curve, or none: then as much is drafted as the budget allows."""
    if random.random() < 0.4:
        return None
    slope, step = random.choice((1e-9, 1e-3, 1e-2, 0.1, 1.0)), random.choice((1, 1, 4, 16))
    nodes = tuple(range(1, 66))
    return DraftPlanner.for_drafter(drafter, CostCurve(nodes, tuple(1 + slope * step * -(-n // step) for n in nodes)))


def bits(found: Sequence[Sequence[FinishedSequence]]) -> list[Any]:
    return [[(one.tokens, [value.hex() for value in one.log_probs], one.ended) for one in some] for some in found]


def check_scores(case: Case, seed: int, random: Random, expected: Sequence[Sequence[FinishedSequence]]) -> None:
    """Compare with the naive decoders (a table), or the scores of one answer with torch's (a network in fp32)."""
    if isinstance(case.target, Table):
        for source, answers in zip(case.sources, expected, strict=True):
            given = case.target, source
            naive = naive_beam(*given, case.width, case.max_len, case.length_penalty) if case.width else None
            assert_same([list(answers)], [naive or [naive_greedy(*given, case.max_len)]])
    elif not case.int8 and random.random() < CHECKED:
        answer = random.choice(expected[0])
        for length, (token, log_prob) in enumerate(zip(answer.tokens, answer.log_probs, strict=True)):
            every = naive_log_probs(case.target, case.sources[0], (BOS, *answer.tokens[:length]))
            assert abs(float(every[token]) - log_prob) < 1e-3, f"case {seed}: the scores of {answer.tokens}"


def check(seed: int) -> int:
    """Check a case and return the number of its answers."""
    random = Random(seed)
    case = draw_case(random, seed)
    backend = case.backend()
    compiled = None if random.random() < 0.8 else False
    expected = [case.answers(backend, [source], NoDrafts(), inf, compiled=False)[0] for source in case.sources]
    check_scores(case, seed, random, expected)
    for _ in range(2):
        drafter = draw_drafter(random, seed, expected)
        options = {"planner": draw_planner(random, drafter), "budget": random.choice((1, 3, 12, 64))}
        found = case.answers(backend, case.sources, drafter, case.gap, compiled=compiled, **options)
        assert bits(found) == bits(expected), f"case {seed}: {drafter}"
    return sum(len(some) for some in expected)


def main(
    count: Annotated[int, option("Cases.")] = 1000,
    skip: Annotated[int, option("Number of the first case.")] = 0,
    minutes: Annotated[float, option("Minutes after which no case is begun; 0: no limit.")] = 0.0,
    out: Annotated[Path | None, option("File with the number of the next case; run again to go on.")] = None,
) -> None:
    """Compare decoding with and without drafts on random models; ends at the first difference."""
    first = int(out.read_text()) if out is not None and out.exists() else skip
    native.load_kernel = cache(native.load_kernel)  # which compares the compiled code with its sources
    answers, case, ends = 0, first, time.monotonic() + 60 * (minutes or inf)
    with set_torch_threads(1):
        while case < skip + count and time.monotonic() < ends:
            answers += check(case)
            case += 1
            if out is not None and case % 100 == 0:
                out.write_text(f"{case}\n")
    if out is not None:
        out.write_text(f"{case}\n")
    console.print_json({"first": first, "next": case, "answers": answers, "differ": 0})


app = script(main)
if __name__ == "__main__":
    app()
