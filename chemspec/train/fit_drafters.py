"""Calibrate a model's drafters: edit table from training outputs; acceptance rates from validation.

Calibration changes the number of forward passes, never a prediction. Test data must not be used here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from chemspec.data.arrays import Pairs
from chemspec.draft.calibration import DrafterCalibration, default_table
from chemspec.draft.copy import TokenClasses
from chemspec.draft.tree.copy_state import CopyTracker
from chemspec.draft.tree.edit_ngrams import COPY, EDGES, EditNgramTable, count_edits, probability_class
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings, check_range
from chemspec.tokenizer import BOS, EOS
from chemspec.types import Prefix

HOLDOUT = 1000  # pairs at the end of train.npz that training holds out if there is no val.npz
MIN_OUTPUTS = 8  # minimum number of outputs for calibration without labels
Answers = list[tuple[tuple[int, ...], tuple[int, ...]]]  # queries, and the model's outputs with eos


@dataclass(frozen=True)
class CalibrationReport:
    """Summary of a calibration."""

    nodes: int  # contexts in the edit table
    answers: int  # decoded validation queries
    by_chance: tuple[float, ...]  # `DrafterCalibration.accept_rates`; the name is a key of `--json`


def calibrate(
    engine: Engine,
    data: Path,
    *,
    pairs: int = 100_000,
    queries: int = 500,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[DrafterCalibration, CalibrationReport]:
    """Calibrate a model's drafters on its training data.

    Without `val.npz` in `data`, the last 1,000 training pairs, which training holds out, are used for validation.
    Raises ValueError for data of another vocabulary, or too little data. `pairs` training pairs are chosen at random
    for the edit table, and `queries` validation queries decoded; `tell` is called with a message at each stage.
    """
    check_range("pairs", pairs, 1)
    check_range("queries", queries, 1)
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
    texts = [engine.tokenizer.decode(validation.sources[i].tolist()) for i in query_indices]
    answers = _greedy_outputs(engine, texts)
    if not answers:
        raise ValueError(f"model {engine.name} finishes no output for the validation queries")
    return _calibrate_on_outputs(answers, edit_table, token_classes)


def calibrate_from_answers(
    engine: Engine, queries: Sequence[str], *, tell: Callable[[str], None] = lambda _: None
) -> tuple[DrafterCalibration, CalibrationReport]:
    """Calibrate on a model's outputs, without training data.

    Drafts are verified against the model's outputs, so these replace labels: three quarters of them for the edit table,
    the others for measurements. A table from few outputs may be worse than the task's default table; if that predicts
    the others better, it is used. Raises ValueError if too few outputs are finished.
    """
    token_classes = TokenClasses.from_tokens(engine.tokenizer.smiles_tokens, engine.tokenizer.prompt_length)
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
            calibration, report = _calibrate_on_outputs(answers[:held_out], default, token_classes)
            return replace(calibration, edit_table=None), replace(report, nodes=0)
    return _calibrate_on_outputs(answers[:held_out], edit_table, token_classes)


def _predicted_edits(
    answers: Answers, edit_table: EditNgramTable, token_classes: TokenClasses
) -> Iterator[list[tuple[bool, float]]]:
    """Yield for every token of the outputs the edits of a table, the likeliest first: correct, and probability."""
    for source, answer in answers:
        tracker = CopyTracker(source, token_classes)
        prefix: Prefix = (BOS,)
        state = tracker.state_after(prefix)
        for token in answer:
            copied = tracker.copied_token(state)
            edits = edit_table.next_edits(tracker.text, state, prefix)
            yield [((copied if edit == COPY else edit) == token, probability) for edit, probability in edits]
            prefix = (*prefix, token)
            if token != EOS:
                state = tracker.advance_state(state, prefix)


def _mean_run_length(answers: Answers, edit_table: EditNgramTable, token_classes: TokenClasses) -> float:
    """Return the mean number of consecutive tokens that a table's likeliest edits predict, over output positions."""
    runs = positions = 0
    for answer in answers:
        run = 0
        for edits in _predicted_edits([answer], edit_table, token_classes):
            run = run + 1 if edits and edits[0][0] else 0
            runs, positions = runs + run, positions + 1
    return runs / positions


def _calibrate_on_outputs(
    answers: Answers, edit_table: EditNgramTable, token_classes: TokenClasses
) -> tuple[DrafterCalibration, CalibrationReport]:
    counts = np.ones((2, len(EDGES) + 1))  # accepted, all; by the class of an edit's probability
    counts[1] = 2
    for edits in _predicted_edits(answers, edit_table, token_classes):
        for is_right, probability in edits:
            counts[:, probability_class(probability)] += (is_right, 1)
    accept_rates = tuple((counts[0] / counts[1]).tolist())
    calibration = DrafterCalibration(accept_rates, edit_table)
    return calibration, CalibrationReport(edit_table.node_count, len(answers), accept_rates)


def _greedy_outputs(engine: Engine, texts: Sequence[str]) -> Answers:
    """Return the token ids of queries with the engine's greedy outputs, except unfinished ones."""
    settings = DecodeSettings(decoder="greedy", n=1, drafter="copy", draft_length=16, draft_count=2)
    sources = [ready.ids for ready in map(engine.prepare, texts) if ready.refusal is None]
    written = (answers[0] for answers in engine.generate_ids(sources, settings))
    return [(source, output.tokens) for source, output in zip(sources, written, strict=True) if output.ended == "eos"]
