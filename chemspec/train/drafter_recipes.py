"""The trainings of learned drafters by name; see `recipes` for those of the targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chemspec.settings import NetworkKind, Task, TrainSettings


@dataclass(frozen=True, kw_only=True)
class DrafterRecipe:
    """One way to train a drafter for a target, on what `chemspec distil` wrote.

    Attributes:
        length: most tokens drafted at once: masks of a block (k), or heads.
        shape: of a Spec-Drafter `encoder` and `decoder` layers and `width` (see `spec_drafter.drafter_config`); of
            heads
            fields of `HeadsConfig`.
        blocks: prefixes of each target in a step, each with its own masks.
        glance: share of the wrong guesses that are shown in training, at the start and at the end of the run (Qian et
            al.
            2021 go from 0.5 to 0.3).
        frozen: the encoder layers copied from the target stay as they are, which saves their backward pass.
        tried: whether anybody has run it to its end.
    """

    name: str
    task: Task
    kind: NetworkKind
    length: int
    shape: dict[str, Any] = field(default_factory=dict)
    blocks: int = 4
    glance: tuple[float, float] = (0.5, 0.3)
    frozen: bool = False
    average_last: int = 1
    train: TrainSettings
    tried: bool
    expectation: str


def _cpu(**changes: Any) -> TrainSettings:
    values = {
        "tokens": 5000,
        "optimizer": "muon",
        "lr": 1.2e-3,
        "warmup": 40,
        "steps": 100_000,
        "minutes": 35,
        "weight_decay": 0.0,
        "threads": 1,
        "holdout": 500,
        "validate_every": 200,
    }
    return TrainSettings(**{**values, **changes})


def _gpu(steps: int) -> TrainSettings:
    return TrainSettings(
        tokens=40_000,
        optimizer="muon",
        lr=1.2e-3,
        warmup=2000,
        steps=steps,
        dropout=0.0,
        keep=10,
        weight_decay=0.01,
        holdout=1000,
        validate_every=1000,
    )


def _spec(task: Task, name: str, shape: dict[str, int], told: str) -> DrafterRecipe:
    return DrafterRecipe(
        name=f"{task}-{name}",
        task=task,
        kind="spec_drafter",
        length=20,
        shape=shape,
        glance=(0.0, 0.0),
        frozen=True,
        train=_cpu(),
        tried=False,
        expectation=told,
    )


def _of(task: Task) -> tuple[DrafterRecipe, ...]:
    distil = f"After `chemspec distil --task {task}`: "
    return (
        _spec(
            task,
            "spec-drafter",
            {"encoder": 4, "decoder": 2},
            (
                f"{distil}the Spec-Drafter of Xia et al. in 4 + 2 layers of the target's width, for one CPU core and 35 minutes. "
                "The encoder begins as the target's and its copied layers stay so; there is no glancing, which costs a second pass "
                "and pays in long runs. Far from trained out: -gpu is the run to want."
            ),
        ),
        _spec(
            task,
            "spec-drafter-4-1",
            {"encoder": 4, "decoder": 1},
            (
                f"{distil}the same with one decoder layer: cheaper to run, and weaker, because one layer cannot first find "
                "out where in the query the prefix has got to and then read on from there."
            ),
        ),
        _spec(
            task,
            "spec-drafter-small",
            {"encoder": 4, "decoder": 2, "width": 128},
            (
                f"{distil}Xia et al.'s ablation of the Capability Principle: half the width, nothing copied from the target."
            ),
        ),
        _spec(
            task,
            "spec-drafter-balanced",
            {"encoder": 3, "decoder": 3},
            (f"{distil}Xia et al.'s ablation of the Latency Principle: as many decoder layers as encoder layers."),
        ),
        DrafterRecipe(
            name=f"{task}-spec-drafter-gpu",
            task=task,
            kind="spec_drafter",
            length=25,
            shape={"encoder": 12, "decoder": 2},
            blocks=4,
            average_last=10,
            train=_gpu(60_000),
            tried=False,
            expectation=(
                f"{distil}Not yet run. The paper's 12 + 2 layers and k = 25, glancing from 0.5 to 0.3, the whole training set "
                "distilled (`--pairs 0`), batches of 40,000 tokens: some hours on one large GPU. Weights of some 13 M parameters."
            ),
        ),
        DrafterRecipe(
            name=f"{task}-blockwise",
            task=task,
            kind="blockwise",
            length=9,
            shape={"heads": 9, "feedforward": 256},
            train=_cpu(minutes=20, optimizer="adamw", lr=2e-3),
            tried=False,
            expectation=(
                f"{distil}the nine heads that make blocks of k = 10 with the target's own (Stern et al. 2018), the target frozen; "
                "20 minutes on one CPU core."
            ),
        ),
        DrafterRecipe(
            name=f"{task}-medusa",
            task=task,
            kind="medusa",
            length=8,
            shape={"heads": 8},
            train=_cpu(minutes=20, optimizer="adamw", lr=2e-3),
            tried=False,
            expectation=(
                f"{distil}eight Medusa heads, verified as a tree, the target frozen; 20 minutes on one CPU core."
            ),
        ),
    )


DRAFTER_RECIPES: dict[str, DrafterRecipe] = {item.name: item for item in (*_of("retro"), *_of("forward"))}
