"""The drafters by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from chemspec.draft.attention import Attention
from chemspec.draft.auto import Auto
from chemspec.draft.base import AdaptiveDrafter, Drafter
from chemspec.draft.calibration import DrafterCalibration
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.draft.learned.ar import Autoregressive, GreedyDraftGenerator, ratio
from chemspec.draft.learned.gamma import Adapting, Fixed
from chemspec.draft.learned.heads import Blockwise, HeadDrafts, Medusa
from chemspec.draft.learned.sampled import Sampled, SamplingDraftGenerator
from chemspec.draft.learned.small import Small
from chemspec.draft.learned.spec_drafter import SpecDrafter
from chemspec.draft.mixed import Mixed
from chemspec.draft.none import NoDrafts
from chemspec.draft.rejection import Nucleus
from chemspec.draft.smart import Smart
from chemspec.draft.tree.edit_ngrams import COPY_ONLY
from chemspec.draft.windows import Windows
from chemspec.settings import SAMPLED_DECODERS, DecodeSettings

Cost = Callable[[float], float]  # seconds of a pass by its nodes


def _no_companion(kind: str) -> Any:
    raise ValueError(f"there is no model for the drafter {kind} here")


@dataclass(frozen=True)
class DrafterInputs:
    """What a drafter may ask for; worked out only if it does.

    Attributes:
        cost: gives the cost curve of the machine.
        tokens: the vocabulary; drafters that know SMILES find their marks in it.
        knowledge: gives what the model's drafters have learned.
        companion: gives the learned drafter of a kind; raises ValueError where the model has none.
        head: tokens of a query that come before its SMILES.
    """

    cost: Callable[[], Cost]
    tokens: Sequence[str] = ()
    knowledge: Callable[[], DrafterCalibration] = DrafterCalibration
    companion: Callable[[str], Any] = _no_companion
    head: int = 0

    @property
    def marks(self) -> TokenClasses:
        return _marks(tuple(self.tokens), self.head)


@lru_cache(maxsize=8)
def _marks(tokens: tuple[str, ...], head: int) -> TokenClasses:
    """Looked up once a vocabulary, not once a run."""
    return replace(TokenClasses.of(tokens), head=head)


def _chosen(**options: int) -> dict[str, Any]:
    """The options that were set; 0 leaves a drafter its own default."""
    return {name: value for name, value in options.items() if value}


def _sizes(settings: DecodeSettings) -> dict[str, Any]:
    return _chosen(length=settings.draft_length, count=settings.draft_count)


def _mixed(settings: DecodeSettings, means: DrafterInputs) -> Drafter:
    phrases = means.knowledge().phrases or COPY_ONLY
    return Mixed(phrases, marks=means.marks, **_sizes(settings))


def _attention(settings: DecodeSettings, means: DrafterInputs) -> Drafter:
    return Attention(means.knowledge().reading, marks=means.marks, **_sizes(settings))


def _auto(settings: DecodeSettings, means: DrafterInputs) -> Drafter:
    options = _chosen(length=settings.draft_length, places=settings.draft_count)
    return Auto(means.cost(), marks=means.marks, knowledge=means.knowledge(), **options)


def _spec_drafter(settings: DecodeSettings, means: DrafterInputs) -> Drafter:
    own = means.companion("spec_drafter")
    return SpecDrafter(own.open(), masks=own.length, length=settings.draft_length)


def _blockwise(settings: DecodeSettings, means: DrafterInputs) -> Drafter:
    own = means.companion("blockwise")
    return Blockwise(own.open(), heads=own.length, length=settings.draft_length)


def _medusa(settings: DecodeSettings, means: DrafterInputs) -> Drafter:
    own, sizes = means.companion("medusa"), _chosen(count=settings.draft_count)
    return Medusa(own.open(), heads=own.length, length=settings.draft_length, **sizes)


# The learned models in a model's folder `drafters` that a drafter needs.
COMPANIONS: dict[str, tuple[str, ...]] = {
    "ar": ("ar",),
    "hierarchy": ("ar", "medium"),
    "spec_drafter": ("spec_drafter",),
    "blockwise": ("blockwise",),
    "medusa": ("medusa",),
}

FLOOR = 0.2  # the chance of a draft, in a small model's eyes, at which it ends


def _writer(settings: DecodeSettings, means: DrafterInputs) -> GreedyDraftGenerator:
    small = GreedyDraftGenerator(Small(means.companion("ar"), top_k=1), floor=FLOOR)
    if settings.drafts_by == "ar":
        return small
    return GreedyDraftGenerator(Small(means.companion("medium"), top_k=1), helper=small, floor=FLOOR)


def _autoregressive(settings: DecodeSettings, means: DrafterInputs) -> Drafter:
    length, writer = settings.draft_length, _writer(settings, means)
    if length:
        return Autoregressive(writer, Fixed(length), name=settings.drafts_by, cost=lambda _: 1.0)
    gamma = Adapting(1.0, rate=writer.model.companion.alpha)  # told its cost ratio at every pass
    return Autoregressive(writer, gamma, name=settings.drafts_by, cost=means.cost())


def _drawer(settings: DecodeSettings, means: DrafterInputs) -> Sampled:
    nucleus = Nucleus(settings.temperature, settings.top_p)
    last = means.companion("ar")  # the model whose draws the target judges
    drawer = SamplingDraftGenerator(Small(last, top_k=last.vocab_size), nucleus)
    if settings.drafts_by == "hierarchy":
        last = means.companion("medium")
        drawer = SamplingDraftGenerator(Small(last, top_k=last.vocab_size), nucleus, helper=drawer)
    if settings.draft_length:
        fixed = Fixed(settings.draft_length)
        return Sampled(drawer, lambda: fixed, name=settings.drafts_by)
    # Without the small model's help a medium one costs this much at most.
    c = ratio(last.cost()(settings.n), means.cost(), settings.n)
    # Each query has its own gamma: what else is in a batch must not change its draws.
    return Sampled(drawer, lambda: Adapting(c, rate=last.alpha), name=settings.drafts_by)


DRAFTERS: dict[str, Callable[[DecodeSettings, DrafterInputs], Drafter]] = {
    "none": lambda *_: NoDrafts(),
    "windows": lambda settings, _: Windows(dilation=settings.dilation, **_sizes(settings)),
    "smart": lambda settings, _: Smart(**_sizes(settings)),
    "copy": lambda settings, means: Copy(marks=means.marks, **_sizes(settings)),
    "attention": _attention,
    "mixed": _mixed,
    "auto": _auto,
    "ar": _autoregressive,
    "hierarchy": _autoregressive,
    "spec_drafter": _spec_drafter,
    "blockwise": _blockwise,
    "medusa": _medusa,
}


def build(settings: DecodeSettings, means: DrafterInputs) -> Drafter:
    """The drafter that the settings ask for, for one run of the loop.

    Raises:
        ValueError: for an option out of range, or a model without what the drafter needs.
    """
    if settings.decoder in SAMPLED_DECODERS and settings.drafts_by != "none":
        return _drawer(settings, means)
    return DRAFTERS[settings.drafts_by](settings, means)


__all__ = [
    "COMPANIONS",
    "DRAFTERS",
    "AdaptiveDrafter",
    "Attention",
    "Auto",
    "Autoregressive",
    "Blockwise",
    "Copy",
    "Drafter",
    "DrafterCalibration",
    "DrafterInputs",
    "HeadDrafts",
    "Medusa",
    "Mixed",
    "NoDrafts",
    "Sampled",
    "Smart",
    "SpecDrafter",
    "Windows",
    "build",
]
