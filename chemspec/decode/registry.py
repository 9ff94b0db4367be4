"""List the decoders: a new one needs its file and an entry here, or an entry point `chemspec.decoders` elsewhere.

A decoder asks and knows nothing of drafts, which is why drafts cannot change its answers. Those that deal with drafts
themselves are marked `DraftAwareDecoder`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

import chemspec.plugins as plugins
from chemspec.decode.beam import beam_search
from chemspec.decode.greedy import greedy
from chemspec.decode.protocol import Decoder
from chemspec.decode.relaxed.acceptance import TopBeta
from chemspec.decode.relaxed.sbs import speculative_beam_search
from chemspec.decode.relaxed.spec_verification import Drafts, relaxed_greedy
from chemspec.draft.base import AdaptiveDrafter, BatchedDrafter, Drafter
from chemspec.draft.none import NoDrafts
from chemspec.plugins import Guarantee
from chemspec.settings import DecodeSettings
from chemspec.types import Draft, Prefix

Source = tuple[int, ...]
BuildDecoder = Callable[[Source, DecodeSettings], Decoder]
DraftUse = Literal["loop", "sampled", "own"]


@dataclass(frozen=True)
class DraftAwareDecoder:
    """A decoder that is given the drafter.

    Attributes:
        build: makes the decoder of one source.
        drafts: who drafts beside this decoder: "loop", the loop too, as for any other; "sampled", the loop, with a
            drafter that samples (`DrafterSpec.build_sampled`); "own", nobody.
    """

    build: Callable[[Source, DecodeSettings, Drafter], Decoder]
    drafts: DraftUse = "loop"


@dataclass(frozen=True)
class DecoderSpec:
    """A decoder as the program knows it before it is made.

    Attributes:
        name: what `--decoder` and `DecodeSettings.decoder` call it.
        label: its name in menus.
        about: a few words on what it gives.
        guarantee: "exact": the answers are those of the standard algorithm, whatever is drafted; "exact in
            distribution": every answer is as probable as under standard sampling; "relaxed": drafts can change answers.
        build: makes the decoder of one source.
        top_k: next tokens that it needs of a prefix, by the settings, at least two for a margin to record; 0 for the
            whole vocabulary.
        random: whether its answers depend on `DecodeSettings.seed`.
        default_drafter: what the drafter "auto" stands for.
        relaxed: what takes its place if `DecodeSettings.beta` is above 1, where it can be relaxed so.
    """

    name: str
    label: str
    about: str
    guarantee: Guarantee
    build: BuildDecoder | DraftAwareDecoder
    top_k: Callable[[DecodeSettings], int] = lambda _: 0
    random: bool = False
    default_drafter: str = "auto"
    relaxed: DraftAwareDecoder | None = None

    @property
    def drafts(self) -> DraftUse:
        """Who uses the drafts, see `DraftAwareDecoder`."""
        return self.build.drafts if isinstance(self.build, DraftAwareDecoder) else "loop"


DECODERS: plugins.Registry[DecoderSpec] = plugins.DECODERS


def build(source: Source, settings: DecodeSettings, drafter: Drafter) -> Decoder:
    """Return what decodes one source; only a `DraftAwareDecoder` gets to see the drafter."""
    make = _maker(settings)
    if isinstance(make, DraftAwareDecoder):
        return make.build(source, settings, drafter)
    return make(source, settings)


def is_draft_aware(settings: DecodeSettings) -> bool:
    """Whether the decoder is given the drafter: then it decides about drafts itself, and nothing is planned."""
    return isinstance(_maker(settings), DraftAwareDecoder)


def _maker(settings: DecodeSettings) -> BuildDecoder | DraftAwareDecoder:
    spec = DECODERS.lookup(settings.decoder)
    return spec.relaxed if settings.beta > 1 and spec.relaxed is not None else spec.build


def top_k(settings: DecodeSettings, vocab_size: int) -> int:
    """Return how many next tokens the scores of a prefix must hold, of a vocabulary of so many."""
    return min(DECODERS.lookup(settings.decoder).top_k(settings) or vocab_size, vocab_size)


def loop_drafter(settings: DecodeSettings, drafter: Drafter) -> Drafter:
    """Return the drafter that the loop uses: none where the decoder drafts for itself."""
    return NoDrafts() if DECODERS.lookup(settings.decoder).drafts == "own" else drafter


def _greedy(_: Source, settings: DecodeSettings) -> Decoder:
    return greedy(max_len=settings.max_len)


def _relaxed_greedy(source: Source, settings: DecodeSettings, drafter: Drafter) -> Decoder:
    rule = TopBeta(settings.beta, settings.tau)
    return relaxed_greedy(max_len=settings.max_len, rule=rule, drafts=_drafts(source, settings, drafter))


def _beam(_: Source, settings: DecodeSettings) -> Decoder:
    size = {"width": settings.n, "max_len": settings.max_len}
    if settings.rules != "chemspec":
        from chemspec.decode.peer_rules import peer_search

        return peer_search(rules=settings.rules, length_penalty=settings.length_penalty, **size)
    return beam_search(length_penalty=settings.length_penalty, **size)


def _beam_top_k(settings: DecodeSettings) -> int:
    return max(2, settings.n + 1)  # with eos among them, a beam of n can use n + 1


def _sbs(source: Source, settings: DecodeSettings, drafter: Drafter) -> Decoder:
    def drafts(prefix: Prefix) -> Sequence[Draft]:
        room = settings.max_len - len(prefix)
        if isinstance(drafter, BatchedDrafter):  # the loop, which knows of no drafts, does neither
            if isinstance(drafter, AdaptiveDrafter):
                drafter.plan_pass(1, 1, waiting=1)
            drafter.prepare([(source, prefix, room)])
        return drafter.propose(source, prefix, room)

    return speculative_beam_search(width=settings.n, max_len=settings.max_len, drafts=drafts)


def _drafts(source: Source, settings: DecodeSettings, drafter: Drafter) -> Drafts:
    return lambda prefix: [draft.tokens for draft in drafter.propose(source, prefix, settings.max_len - len(prefix))]


def _seed(source: Source, settings: DecodeSettings) -> str:
    return f"{settings.seed}/{source}"  # per query: what else is in the batch changes nothing


def _sample(source: Source, settings: DecodeSettings) -> Decoder:
    from chemspec.decode.sample import sample  # needs numpy; a list of names should not

    return sample(
        count=settings.n,
        max_len=settings.max_len,
        rng=Random(_seed(source, settings)),
        temperature=settings.temperature,
        top_p=settings.top_p,
    )


def _sampled(source: Source, settings: DecodeSettings, drafter: Drafter) -> Decoder:
    from chemspec.decode import speculative_sampling as algorithms
    from chemspec.draft.learned.gamma import FixedGamma
    from chemspec.draft.learned.sampled import Sampled, SampleRequest
    from chemspec.draft.rejection import Nucleus, Seeded

    seed = _seed(source, settings)
    drafts = Seeded(f"{seed}/drafts")  # drafts are sampled independently of their acceptance
    request = (
        drafter.request(source, drafts)
        if isinstance(drafter, Sampled)
        else SampleRequest(source, drafts, FixedGamma(1))  # nobody drafts
    )
    relaxed = settings.decoder == "sampled-beam"
    draw = algorithms.sampled_beam if relaxed else algorithms.speculative_sample
    return draw(
        count=settings.n,
        max_len=settings.max_len,
        request=request,
        rng=Seeded(seed),
        nucleus=Nucleus(settings.temperature, settings.top_p),
    )


register = DECODERS.register

for _spec in (  # in the order of menus, the default first
    DecoderSpec("beam", "Beam search", "the most probable answers", "exact", _beam, _beam_top_k),
    DecoderSpec(
        "greedy",
        "Greedy",
        "one answer, fastest",
        "exact",
        _greedy,
        lambda settings: max(2, settings.beta),
        relaxed=DraftAwareDecoder(_relaxed_greedy),
    ),
    DecoderSpec("sample", "Sampling", "random draws", "exact", _sample, random=True),
    DecoderSpec(
        "speculative-sample",
        "Speculative sampling",
        "random draws with a small model's help",
        "exact in distribution",
        DraftAwareDecoder(_sampled, "sampled"),
        random=True,
        default_drafter="ar",
    ),
    DecoderSpec(
        "sbs",
        "SBS (relaxed)",
        "speculative beam search of Andronov et al.",
        "relaxed",
        DraftAwareDecoder(_sbs, "own"),
        _beam_top_k,
        default_drafter="windows",
    ),
    DecoderSpec(
        "sampled-beam",
        "Sampled beams (relaxed)",
        "speculative draws ranked, of Tulsian et al.",
        "relaxed",
        DraftAwareDecoder(_sampled, "sampled"),
        random=True,
        default_drafter="ar",
    ),
):
    register(_spec)


__all__ = ["DECODERS", "DecoderSpec", "DraftAwareDecoder", "build", "loop_drafter", "register", "top_k"]
