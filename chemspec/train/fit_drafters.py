"""Calibrate a model's drafters: edit table from training outputs; acceptance rates and attention heads from validation.

Calibration changes the number of forward passes, never a prediction. Test data must not be used here.
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
from chemspec.draft.calibration import AttentionWeights, DrafterCalibration, Head, default_table
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

LONGEST_MATCH = 8  # matches of this length or longer are one class
HOLDOUT = 1000  # pairs at the end of train.npz that training holds out if there is no val.npz
MIN_OUTPUTS = 8  # minimum number of outputs for calibration without labels
MAX_COPY_LENGTH = 16  # tokens that a copy position is judged by
FLOOR = 1e-3  # as in draft/attention.py
Answers = list[tuple[tuple[int, ...], tuple[int, ...]]]  # queries, and the model's outputs with eos


@dataclass(frozen=True)
class CalibrationReport:
    """Summary of a calibration.

    Attributes:
        nodes: contexts in the edit table.
        answers: number of decoded validation queries.
        by_chance: as in `DrafterCalibration`.
        heads: chosen (layer, head) pairs, the most informative first.
        first_right: share of the steps at which the best copy position is ranked first: by text only, with one head,
            two, and so on.
    """

    nodes: int
    answers: int
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
    command: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[DrafterCalibration, CalibrationReport]:
    """Calibrate a model's drafters on its training data.

    Args:
        engine: the model.
        data: folder written by `chemspec data`: `train.npz`, and `val.npz` if there is one; else the last 1,000
            training pairs, which training holds out, are used for validation.
        pairs: number of training pairs for the edit table.
        queries: number of validation queries to decode.
        heads: maximum number of attention heads.
        seed: random seed for choosing pairs and queries.
        command: command line, stored with the calibration.
        tell: called with a progress message at each stage.

    Raises:
        ValueError: for data of another vocabulary, or too little data.
    """
    train = Pairs.load(data / "train.npz")
    file = data / "val.npz"
    validation = Pairs.load(file) if file.is_file() else train
    usable = len(train) - (0 if file.is_file() else HOLDOUT)
    if usable < 1:
        raise ValueError(f"{data}: too few pairs to calibrate on")
    size = len(engine.tokenizer)
    if max(int(train.sources.flat.max()), int(train.targets.flat.max())) >= size:
        raise ValueError(f"{data} has a larger vocabulary than model {engine.name}")
    token_classes = TokenClasses.from_tokens(engine.tokenizer.tokens)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(usable)[:pairs]
    tell(f"edit table from {len(chosen)} outputs")
    edit_table = count_edits(((train.sources[i].tolist(), train.targets[i].tolist()) for i in chosen), token_classes)
    first = 0 if file.is_file() else usable
    query_indices = first + rng.permutation(len(validation) - first)[:queries]
    tell(f"{len(query_indices)} validation queries")
    answers = _greedy_outputs(engine, [engine.tokenizer.decode(validation.sources[i].tolist()) for i in query_indices])
    if not answers:
        raise ValueError(f"model {engine.name} finishes no output for the validation queries")
    return _calibrate_on_outputs(engine, answers, edit_table, token_classes, heads, command, tell)


def calibrate_from_answers(
    engine: Engine,
    queries: Sequence[str],
    *,
    heads: int = 3,
    command: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[DrafterCalibration, CalibrationReport]:
    """Calibrate on a model's outputs, without training data.

    Drafts are verified against the model's outputs, so these replace labels: three quarters of them for the edit table,
    the others for measurements. A table from few outputs may be worse than the task's default table; if that predicts
    the others better, it is used.

    Args:
        engine: the model.
        queries: representative queries, the more the better.
        heads: maximum number of attention heads; not supported for Hugging Face models.
        command: command line, stored with the calibration.
        tell: called with a progress message at each stage.

    Raises:
        ValueError: if too few outputs are finished.
    """
    inputs = DrafterInputs(engine.cost, engine.tokenizer.smiles_tokens, prompt_length=engine.tokenizer.prompt_length)
    token_classes = inputs.token_classes
    tell(f"outputs for {len(queries)} queries")
    answers = _greedy_outputs(engine, queries)
    if len(answers) < MIN_OUTPUTS:
        raise ValueError(
            f"model {engine.name} finishes {len(answers)} of {len(queries)} outputs; at least {MIN_OUTPUTS} are needed"
        )
    held_out = max(1, len(answers) // 4)
    tell(f"edit table from {len(answers) - held_out} outputs")
    edit_table = count_edits(((source, answer[:-1]) for source, answer in answers[held_out:]), token_classes)
    default = default_table(engine.task, engine.tokenizer.smiles_tokens)
    if default is not None:
        gains = [_mean_run_length(answers[:held_out], table, token_classes) for table in (edit_table, default)]
        tell(f"tokens predicted in a row: {gains[0]:.2f} with this edit table, {gains[1]:.2f} with the default one")
        if gains[0] < gains[1]:
            tell("the default edit table is better and is used; try more queries")
            calibration, report = _calibrate_on_outputs(
                engine, answers[:held_out], default, token_classes, heads, command, tell
            )
            return replace(calibration, edit_table=None), replace(report, nodes=0)
    return _calibrate_on_outputs(engine, answers[:held_out], edit_table, token_classes, heads, command, tell)


def _mean_run_length(answers: Answers, edit_table: EditNgramTable, token_classes: TokenClasses) -> float:
    """Return the mean number of consecutive tokens that a table's likeliest edits predict, over output positions."""
    runs = positions = 0
    for source, answer in answers:
        tracker = CopyTracker(source, token_classes)
        prefix: Prefix = (BOS,)
        state, run = tracker.state_after(prefix), 0
        for token in answer:
            steps = edit_table.next_edits(tracker.text, state, prefix)
            copied = tracker.copied_token(state)
            is_right = bool(steps) and (copied if steps[0][0] == COPY else steps[0][0]) == token
            run = run + 1 if is_right else 0
            runs, positions = runs + run, positions + 1
            prefix = (*prefix, token)
            if token != EOS:
                state = tracker.advance_state(state, prefix)
    return runs / positions


def _calibrate_on_outputs(
    engine: Engine,
    answers: Answers,
    edit_table: EditNgramTable,
    token_classes: TokenClasses,
    heads: int,
    command: str,
    tell: Callable[[str], None],
) -> tuple[DrafterCalibration, CalibrationReport]:
    by_chance = _acceptance_rates(answers, edit_table, token_classes)
    attention_weights: AttentionWeights | None = None
    order: tuple[tuple[int, int], ...] = ()
    right: tuple[float, ...] = ()
    if heads and isinstance(engine.tokenizer, Tokenizer):
        tell("attention heads")
        attention_weights, order, right = fit_attention_weights(engine, answers, token_classes, heads)
    calibration = DrafterCalibration(by_chance, edit_table, attention_weights, command)
    report = CalibrationReport(edit_table.node_count, len(answers), by_chance, order, right)
    return calibration, report


def _greedy_outputs(engine: Engine, texts: Sequence[str]) -> Answers:
    """Return the token ids of queries with the engine's greedy outputs, except unfinished ones."""
    settings = DecodeSettings(decoder="greedy", n=1, drafter="copy", draft_length=16, draft_count=2)
    sources = [ready.ids for ready in map(engine.prepare, texts) if ready.refusal is None]
    written = (answers[0] for answers in engine.generate_ids(sources, settings))
    return [(source, output.tokens) for source, output in zip(sources, written, strict=True) if output.ended == "eos"]


def _acceptance_rates(answers: Answers, edit_table: EditNgramTable, token_classes: TokenClasses) -> tuple[float, ...]:
    """Return acceptance rates of edits by the class of their probability."""
    counts = np.ones((2, len(EDGES) + 1))  # accepted, all
    counts[1] = 2
    for source, answer in answers:
        tracker = CopyTracker(source, token_classes)
        prefix: Prefix = (BOS,)
        state = tracker.state_after(prefix)
        for token in answer:
            copied = tracker.copied_token(state)
            for step, probability in edit_table.next_edits(tracker.text, state, prefix):
                right = (copied if step == COPY else step) == token
                counts[:, chance_class(probability)] += (right, 1)
            prefix = (*prefix, token)
            if token != EOS:
                state = tracker.advance_state(state, prefix)
    return tuple((counts[0] / counts[1]).tolist())


# --- attention ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _FailedDrafts:
    """Steps at which a copied draft was rejected; every position of the query is a row.

    Attributes:
        text: match classes and distance (rows, features).
        last, here: log-attention to the token before the position, and at it (rows, heads).
        step: step of each row (rows,).
        good: 1 for the positions from which copying is accepted furthest (rows,).
        weight: possible gain of each step (steps,).
    """

    text: Tensor
    last: Tensor
    here: Tensor
    step: Tensor
    good: Tensor
    weight: Tensor


def fit_attention_weights(
    engine: Engine, answers: Answers, token_classes: TokenClasses, max_heads: int
) -> tuple[AttentionWeights | None, tuple[tuple[int, int], ...], tuple[float, ...]]:
    """Choose attention heads greedily and fit their weights.

    Returns:
        The weights, the heads in the order chosen, and the share of steps with the best position first after 0, 1, ...
        heads.
    """
    config = engine.config
    all_heads = [(i, j) for i in range(config.decoder_layers) for j in range(config.heads)]
    steps = _collect_failed_drafts(engine, answers, token_classes, all_heads)
    if steps is None:
        return None, (), ()
    chosen: list[int] = []
    _, weights, right = _fit_weights(steps, chosen)
    shares = [right]
    while len(chosen) < min(max_heads, len(all_heads)):
        trials = [(*_fit_weights(steps, [*chosen, head]), head) for head in range(len(all_heads)) if head not in chosen]
        _, weights, right, head = min(trials, key=lambda trial: trial[0])
        chosen.append(head)
        shares.append(right)
    count = LONGEST_MATCH + 1
    last, here = weights[count + 1 : count + 1 + len(chosen)], weights[count + 1 + len(chosen) :]
    followed = sorted(
        (Head(*all_heads[head], last[i], here[i]) for i, head in enumerate(chosen)),
        key=lambda entry: (entry.layer, entry.head),
    )
    attention_weights = AttentionWeights(tuple(followed), tuple(weights[:count]), weights[count])
    return attention_weights, tuple(all_heads[head] for head in chosen), tuple(shares)


def _collect_failed_drafts(
    engine: Engine, answers: Answers, token_classes: TokenClasses, heads: Sequence[tuple[int, int]]
) -> _FailedDrafts | None:
    backend = TorchBackend(checkpoint.load(engine.folder).model)
    copy = Copy(length=MAX_COPY_LENGTH, token_classes=token_classes)
    parts: list[list[Tensor]] = []
    number = 0
    weight: list[float] = []
    for source, answer in answers:
        session = Session(backend, [source], top_k=2, heads=heads)
        session.score([[(BOS, *answer[:-1])]])
        tracker, position = CopyTracker(source, token_classes), 0
        while position < len(answer):
            prefix: Prefix = (BOS, *answer[:position])
            furthest = [
                _common_prefix_length(
                    copy.draft_at_position(source, prefix, end, 0, MAX_COPY_LENGTH).tokens, answer[position:]
                )
                for end in range(len(source) + 1)
            ]
            state = tracker.state_after(prefix)
            seen = session.attention(source, prefix[:-1]) if position else None
            if seen is not None and max(furthest):
                logs = torch.tensor(seen).clamp_min(FLOOR).log().T  # (S, heads)
                edge = torch.full((1, len(heads)), FLOOR).log()
                matches = state.match_lengths
                match = [min(matches.get(end, 0), LONGEST_MATCH) for end in range(len(furthest))]
                away = torch.arange(len(furthest)).sub(state.pointer).abs().float().log1p()
                text = torch.cat((torch.eye(LONGEST_MATCH + 1)[match], away[:, None]), dim=1)
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
            position += furthest[copy.rank_positions(source, prefix)[0][0]] + 1
    if not parts:
        return None
    text, last, here, step, good = (torch.cat(column) for column in zip(*parts, strict=True))
    gain = torch.tensor(weight)
    return _FailedDrafts(text, last, here, step, good, gain / gain.mean())


def _common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common prefix of two sequences."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _fit_weights(steps: _FailedDrafts, heads: Sequence[int]) -> tuple[float, list[float], float]:
    """Maximise the likelihood of the best copy positions; returns loss, weights and the share ranked first."""
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
