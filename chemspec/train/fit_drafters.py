"""Teach a model's drafters: phrases from training answers; chances and attention heads from validation queries.

What they learn changes the number of passes, never an answer. Test data has no place here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from chemspec.data.arrays import Pairs
from chemspec.draft.calibration import REACH, AttentionWeights, DrafterCalibration, Head, default_table
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.draft.registry import DrafterInputs
from chemspec.draft.tree.copy_state import CopyTracker
from chemspec.draft.tree.edit_ngrams import COPY, EDGES, EditNgramTable, chance_class, count_edits
from chemspec.engine.engine import Engine
from chemspec.model import checkpoint
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.session import Session
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import BOS, EOS, Tokenizer
from chemspec.types import Prefix

HOLDOUT = 1000  # pairs at the end of train.npz that training kept for validation where there is no val.npz
FEWEST = 8  # answers that calibration without labels makes do with
FURTHEST = 16  # tokens that a fitted place is asked to foretell
FLOOR = 1e-3  # as in draft/attention.py
Answers = list[tuple[tuple[int, ...], tuple[int, ...]]]  # queries, and what the model writes, with eos


@dataclass(frozen=True)
class CalibrationReport:
    """What was learned.

    Attributes:
        nodes: contexts in the table of phrases.
        answers: validation queries that the model answered.
        by_match, by_chance: as in `DrafterCalibration`.
        heads: (layer, head) chosen, the most telling first.
        first_right: share of the steps at which the best place is ranked first: by text alone, with one head, two, and
            so on.
    """

    nodes: int
    answers: int
    by_match: tuple[float, ...]
    by_chance: tuple[float, ...]
    heads: tuple[tuple[int, int], ...]
    first_right: tuple[float, ...]


def calibrate(
    engine: Engine,
    data: Path,
    *,
    pairs: int = 100_000,
    queries: int = 500,
    heads: int = 3,
    seed: int = 0,
    made: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[DrafterCalibration, CalibrationReport]:
    """Learn everything that a model's drafters can.

    Args:
        engine: the model.
        data: folder made by `chemspec data`: `train.npz`, and `val.npz` if there is one; else the last 1,000 training
            pairs, which training kept aside, serve for validation.
        pairs: training pairs read for the phrases.
        queries: validation queries answered.
        heads: most attention heads to follow.
        seed: of the random choice.
        made: the command, to be written down with what was learned.
        tell: called with a line at each stage.

    Raises:
        ValueError: for data of another vocabulary, or none.
    """
    train = Pairs.load(data / "train.npz")
    file = data / "val.npz"
    validation = Pairs.load(file) if file.is_file() else train
    usable = len(train) - (0 if file.is_file() else HOLDOUT)
    if usable < 1:
        raise ValueError(f"{data}: too few pairs to learn from")
    size = len(engine.tokenizer)
    if max(int(train.sources.flat.max()), int(train.targets.flat.max())) >= size:
        raise ValueError(f"{data} has more kinds of tokens than model {engine.name}")
    token_classes = TokenClasses.from_tokens(engine.tokenizer.tokens)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(usable)[:pairs]
    tell(f"phrases from {len(chosen)} answers")
    edit_table = count_edits(((train.sources[i].tolist(), train.targets[i].tolist()) for i in chosen), token_classes)
    first = 0 if file.is_file() else usable
    asked = first + rng.permutation(len(validation) - first)[:queries]
    tell(f"{len(asked)} validation queries")
    answers = _answers(engine, [engine.tokenizer.decode(validation.sources[i].tolist()) for i in asked])
    if not answers:
        raise ValueError(f"model {engine.name} answers none of the validation queries")
    return _learned(engine, answers, edit_table, token_classes, heads, made, tell)


def calibrate_from_answers(
    engine: Engine,
    queries: Sequence[str],
    *,
    heads: int = 3,
    made: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[DrafterCalibration, CalibrationReport]:
    """Learn from a model's own answers, where its training data is not at hand.

    Drafts are judged by what the model writes, so its answers serve as well as true ones: three quarters of them for
    the phrases, the others to measure on. Few answers teach less than the default table of the task knows; where that
    foretells the others better, it stays.

    Args:
        engine: the model.
        queries: of the kind that it will be asked, the more the better.
        heads: most attention heads to follow; none of a Hugging Face model.
        made: the command, to be written down with what was learned.
        tell: called with a line at each stage.

    Raises:
        ValueError: if too few of the queries are answered.
    """
    inputs = DrafterInputs(engine.cost, engine.tokenizer.alphabet, prompt_length=engine.tokenizer.prompt_length)
    token_classes = inputs.token_classes
    tell(f"answers to {len(queries)} queries")
    answers = _answers(engine, queries)
    if len(answers) < FEWEST:
        raise ValueError(
            f"model {engine.name} answers {len(answers)} of {len(queries)} queries; give {FEWEST} that it can"
        )
    kept = max(1, len(answers) // 4)
    tell(f"phrases from {len(answers) - kept} answers")
    edit_table = count_edits(((source, answer[:-1]) for source, answer in answers[kept:]), token_classes)
    default = default_table(engine.task, engine.tokenizer.alphabet)
    if default is not None:
        gains = [_gain(answers[:kept], table, token_classes) for table in (edit_table, default)]
        tell(f"tokens foretold in a row: {gains[0]:.2f} with these phrases, {gains[1]:.2f} with the default ones")
        if gains[0] < gains[1]:
            tell("the default phrases stay; more queries would teach better ones")
            calibration, report = _learned(engine, answers[:kept], default, token_classes, heads, made, tell)
            return replace(calibration, edit_table=None), replace(report, nodes=0)
    return _learned(engine, answers[:kept], edit_table, token_classes, heads, made, tell)


def _gain(answers: Answers, edit_table: EditNgramTable, token_classes: TokenClasses) -> float:
    """Return how many tokens in a row a table's likeliest step foretells, on average from every place of an answer."""
    runs = places = 0
    for source, answer in answers:
        tracker = CopyTracker(source, token_classes)
        prefix: Prefix = (BOS,)
        state, run = tracker.state_of(prefix), 0
        for token in answer:
            steps = edit_table.next_edits(tracker.text, state, prefix)
            copied = tracker.copied_token(state)
            is_right = bool(steps) and (copied if steps[0][0] == COPY else steps[0][0]) == token
            run = run + 1 if is_right else 0
            runs, places = runs + run, places + 1
            prefix = (*prefix, token)
            if token != EOS:
                state = tracker.advance(state, prefix)
    return runs / places


def _learned(
    engine: Engine,
    answers: Answers,
    edit_table: EditNgramTable,
    token_classes: TokenClasses,
    heads: int,
    made: str,
    tell: Callable[[str], None],
) -> tuple[DrafterCalibration, CalibrationReport]:
    by_match, by_chance = _chances(answers, edit_table, token_classes)
    attention_weights: AttentionWeights | None = None
    order: tuple[tuple[int, int], ...] = ()
    right: tuple[float, ...] = ()
    if heads and isinstance(engine.tokenizer, Tokenizer):
        tell("attention heads")
        attention_weights, order, right = fit_reading(engine, answers, token_classes, heads)
    calibration = DrafterCalibration(by_match, by_chance, edit_table, attention_weights, made)
    report = CalibrationReport(edit_table.nodes, len(answers), by_match, by_chance, order, right)
    return calibration, report


def _answers(engine: Engine, texts: Sequence[str]) -> Answers:
    """Return queries as the engine reads them, and its greedy answers where they end."""
    how = DecodeSettings(decoder="greedy", n=1, drafter="copy", draft_length=16, draft_count=2)
    sources = [ready.ids for ready in map(engine.prepare, texts) if ready.refusal is None]
    written = (answers[0] for answers in engine.write(sources, how))
    return [(source, one.tokens) for source, one in zip(sources, written, strict=True) if one.ended == "eos"]


def _chances(
    answers: Answers, edit_table: EditNgramTable, token_classes: TokenClasses
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return how often copying was right after a match of 0, 1, ... tokens, and steps of the table by their chances."""
    matches, kinds = np.ones((2, REACH + 1)), np.ones((2, len(EDGES) + 1))  # right, all
    matches[1], kinds[1] = 2, 2
    for source, answer in answers:
        tracker = CopyTracker(source, token_classes)
        prefix: Prefix = (BOS,)
        state = tracker.state_of(prefix)
        for token in answer:
            copied = tracker.copied_token(state)
            matches[:, min(state.match, REACH)] += (copied == token, 1)
            for step, chance in edit_table.next_edits(tracker.text, state, prefix):
                right = (copied if step == COPY else step) == token
                kinds[:, chance_class(chance)] += (right, 1)
            prefix = (*prefix, token)
            if token != EOS:
                state = tracker.advance(state, prefix)
    return tuple((matches[0] / matches[1]).tolist()), tuple((kinds[0] / kinds[1]).tolist())


# --- attention ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _FailedDrafts:
    """The steps at which a draft by copying had failed; every place of the query is a row.

    Attributes:
        text: (rows, features) match classes and nearness.
        last, here: (rows, heads) log-attention to the token before the place, and at it.
        step: (rows,) to which step a row belongs.
        good: (rows,) 1 for the places that copy furthest.
        weight: (steps,) how much there is to gain.
    """

    text: Tensor
    last: Tensor
    here: Tensor
    step: Tensor
    good: Tensor
    weight: Tensor


def fit_reading(
    engine: Engine, answers: Answers, token_classes: TokenClasses, most: int
) -> tuple[AttentionWeights | None, tuple[tuple[int, int], ...], tuple[float, ...]]:
    """Choose heads one by one, each time the one that helps most, and fit the weights.

    Returns:
        The reading, the heads in the order chosen, and the share of steps with the best place first after 0, 1, ...
        heads.
    """
    config = engine.config
    all_heads = [(i, j) for i in range(config.decoder_layers) for j in range(config.heads)]
    steps = _steps(engine, answers, token_classes, all_heads)
    if steps is None:
        return None, (), ()
    chosen: list[int] = []
    _, weights, right = _fit(steps, chosen)
    shares = [right]
    while len(chosen) < min(most, len(all_heads)):
        trials = [(*_fit(steps, [*chosen, head]), head) for head in range(len(all_heads)) if head not in chosen]
        _, weights, right, head = min(trials, key=lambda trial: trial[0])
        chosen.append(head)
        shares.append(right)
    count = REACH + 1
    last, here = weights[count + 1 : count + 1 + len(chosen)], weights[count + 1 + len(chosen) :]
    followed = sorted(
        (Head(*all_heads[head], last[i], here[i]) for i, head in enumerate(chosen)),
        key=lambda entry: (entry.layer, entry.head),
    )
    attention_weights = AttentionWeights(tuple(followed), tuple(weights[:count]), weights[count])
    return attention_weights, tuple(all_heads[head] for head in chosen), tuple(shares)


def _steps(
    engine: Engine, answers: Answers, token_classes: TokenClasses, heads: Sequence[tuple[int, int]]
) -> _FailedDrafts | None:
    backend = TorchBackend(checkpoint.load(engine.folder).model)
    copy = Copy(length=FURTHEST, token_classes=token_classes)
    parts: list[list[Tensor]] = []
    number = 0
    weight: list[float] = []
    for source, answer in answers:
        session = Session(backend, [source], top_k=2, heads=heads)
        session.score([[(BOS, *answer[:-1])]])
        tracker, place = CopyTracker(source, token_classes), 0
        while place < len(answer):
            prefix: Prefix = (BOS, *answer[:place])
            furthest = [
                _common(copy.draft(source, prefix, end, 0, FURTHEST).tokens, answer[place:])
                for end in range(len(source) + 1)
            ]
            state = tracker.state_of(prefix)
            seen = session.attention(source, prefix[:-1]) if place else None
            if seen is not None and max(furthest):
                logs = torch.tensor(seen).clamp_min(FLOOR).log().T  # (S, heads)
                edge = torch.full((1, len(heads)), FLOOR).log()
                matches = state.matches
                match = [min(matches.get(end, 0), REACH) for end in range(len(furthest))]
                away = torch.arange(len(furthest)).sub(state.pointer).abs().float().log1p()
                text = torch.cat((torch.eye(REACH + 1)[match], away[:, None]), dim=1)
                reached = torch.tensor(furthest)
                parts.append(
                    [
                        text,
                        torch.cat((edge, logs)),
                        torch.cat((logs, edge)),
                        torch.full((len(furthest),), number),
                        (reached == reached.max()).float(),
                    ]
                )
                weight.append(float(max(furthest)))
                number += 1
            place += furthest[copy.ranked(source, prefix)[0][0]] + 1
    if not parts:
        return None
    text, last, here, step, good = (torch.cat(column) for column in zip(*parts, strict=True))
    gain = torch.tensor(weight)
    return _FailedDrafts(text, last, here, step, good, gain / gain.mean())


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _fit(steps: _FailedDrafts, heads: Sequence[int]) -> tuple[float, list[float], float]:
    """Fit the likelihood of the places that copy furthest; returns loss, weights and the share ranked first."""
    rows = torch.cat((steps.text, steps.last[:, heads], steps.here[:, heads]), dim=1)
    weights = torch.zeros(rows.shape[1], requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=30, line_search_fn="strong_wolfe")
    count, empty = len(steps.weight), torch.zeros(len(steps.weight))

    def loss() -> Tensor:
        scores = rows @ weights
        shares = (scores - scores.detach().max()).exp()
        everything = empty.scatter_add(0, steps.step, shares)
        good = empty.scatter_add(0, steps.step, shares * steps.good)
        likely = torch.log((good + 1e-30) / (everything + 1e-30))
        return -(steps.weight * likely).mean() + 1e-3 * weights.square().sum()

    def closure() -> float:
        optimizer.zero_grad()
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach())

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        value = float(loss())
        scores = rows @ weights
        best = torch.full((count,), -torch.inf).scatter_reduce(0, steps.step, scores, "amax")
        first = (scores == best[steps.step]) & (steps.good > 0)
        right = empty.scatter_reduce(0, steps.step, first.float(), "amax").mean()
    return value, weights.detach().tolist(), float(right)
