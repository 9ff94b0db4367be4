"""Calibrate a model's drafters: edit table from training outputs; acceptance rates from validation.

Calibration changes the number of forward passes, never a prediction. Test data must not be used here.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from chemspec.data.arrays import check_vocabulary, split_validation
from chemspec.draft.calibration import DrafterCalibration
from chemspec.draft.copy import CopyTracker, TokenClasses
from chemspec.draft.tree.edit_ngrams import COPY, EDGES, EditNgramTable, count_edits, probability_class
from chemspec.engine.engine import Engine
from chemspec.evaluation.measurements import require_folder
from chemspec.model.manifest import refresh_manifest
from chemspec.settings import DecodeSettings, TrainSettings
from chemspec.tokenizer import BOS, EOS
from chemspec.train.settings import DrafterFitSettings
from chemspec.types import Prefix, Tell, ignore

Answers = list[tuple[tuple[int, ...], tuple[int, ...]]]  # queries, and the model's outputs with eos


def fit_drafters(engine: Engine, settings: DrafterFitSettings, *, tell: Tell = ignore) -> dict[str, Any]:
    """Calibrate a model's drafters and write the files to its folder; see `calibrate`.

    Returns the number of contexts in the edit table, that of decoded `answers`, and the acceptance rates `by_chance`.
    """
    require_folder(engine.folder)
    calibration, count = calibrate(engine, settings, tell=tell)
    data = f"--task {engine.task} --pairs {settings.pairs} --queries {settings.queries} --seed {settings.seed}"
    replace(calibration, made=f"chemspec train calibrate {data}").save(engine.folder)
    refresh_manifest(engine.folder)
    nodes = calibration.edit_table.node_count if calibration.edit_table else 0
    return {"nodes": nodes, "answers": count, "by_chance": calibration.accept_rates}


def calibrate(engine: Engine, settings: DrafterFitSettings, *, tell: Tell = ignore) -> tuple[DrafterCalibration, int]:
    """Calibrate a model's drafters on its training data; also returns the number of decoded validation queries.

    Without `val.npz`, the last 1,000 training pairs, which training holds out, are used for validation. Raises
    ValueError for data of another vocabulary, or too little data. `tell` is called with a message at each stage.
    """
    data = settings.data_dir or Path("data") / engine.task
    check_vocabulary(data, engine.name, engine.tokenizer.tokens, engine.tokenizer.merges)
    train, validation = split_validation(data, TrainSettings.holdout)
    token_classes = TokenClasses.from_tokens(engine.tokenizer.tokens, merges=engine.tokenizer.merges)
    rng = np.random.default_rng(settings.seed)
    chosen = rng.permutation(len(train))[: settings.pairs]
    tell(f"edit table from {len(chosen)} outputs")
    edit_table = count_edits(((train.sources[i].tolist(), train.targets[i].tolist()) for i in chosen), token_classes)
    query_indices = rng.permutation(len(validation))[: settings.queries]
    tell(f"{len(query_indices)} validation queries")
    texts = [engine.tokenizer.decode(validation.sources[i].tolist()) for i in query_indices]
    answers = _greedy_outputs(engine, texts)
    if not answers:
        raise ValueError(f"model {engine.name} finishes no output for the validation queries")
    return DrafterCalibration(_accept_rates(answers, edit_table, token_classes), edit_table), len(answers)


def _accept_rates(answers: Answers, edit_table: EditNgramTable, token_classes: TokenClasses) -> tuple[float, ...]:
    """Return the share of a table's edits that are the next token of the outputs, by the class of their probability."""
    counts = np.ones((2, len(EDGES) + 1))  # accepted, all
    counts[1] = 2
    for source, answer in answers:
        tracker = CopyTracker(source, token_classes)
        prefix: Prefix = (BOS,)
        state = tracker.state_after(prefix)
        for token in answer:
            copied = tracker.copied_token(state)
            for edit, probability in edit_table.next_edits(tracker, state, prefix):
                counts[:, probability_class(probability)] += ((copied if edit == COPY else edit) == token, 1)
            prefix = (*prefix, token)
            if token != EOS:
                state = tracker.advance_state(state, prefix)
    return tuple((counts[0] / counts[1]).tolist())


def _greedy_outputs(engine: Engine, texts: Sequence[str]) -> Answers:
    """Return the token ids of queries with the engine's greedy outputs, except unfinished ones."""
    settings = DecodeSettings(decoder="greedy", n=1, drafter="copy", draft_length=16, draft_count=2)
    sources = [ready.ids for ready in map(engine.prepare, texts) if ready.refusal is None]
    written = (answers[0] for answers in engine.generate_ids(sources, settings))
    return [(source, output.tokens) for source, output in zip(sources, written, strict=True) if output.ended == "eos"]
