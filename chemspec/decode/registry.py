"""Registry of the decoders. A new one needs an entry here, or an entry point `chemspec.decoders` in another package.

A decoder does not see drafts, which is why drafts cannot change its output. Those that use drafts themselves are marked
`DraftAwareDecoder`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

import chemspec.plugins as plugins
from chemspec.decode.beam import beam_search, greedy_search
from chemspec.decode.protocol import Decoder
from chemspec.decode.relaxed.sbs import speculative_beam_search
from chemspec.decode.relaxed.spec_verification import TopBeta, relaxed_greedy
from chemspec.draft.base import Drafter
from chemspec.plugins import Guarantee
from chemspec.settings import SearchSettings
from chemspec.types import Draft, Prefix, SourceIds

BuildDecoder = Callable[[SourceIds, SearchSettings], Decoder]
DraftUse = Literal["loop", "sampled", "own"]


@dataclass(frozen=True)
class DraftAwareDecoder:
    """A decoder that is given the drafter."""

    build: Callable[[SourceIds, SearchSettings, Drafter], Decoder]  # creates the decoder of one source
    # "loop" if the decoding loop drafts as for any other decoder; "sampled" if the loop's drafter samples its drafts
    # (`DrafterSpec.build_sampled`); "own" if only the decoder drafts.
    drafts: DraftUse = "loop"


@dataclass(frozen=True)
class DecoderSpec:
    """Description of a decoder.

    Attributes:
        name: value of `--decoder` and `DecodeSettings.decoder`.
        label: name in menus.
        about: short description.
        guarantee: "exact": drafts do not change the output; "exact in distribution": drafts do not change the
            probability of any output; "relaxed": drafts can change the output.
        build: creates the decoder of one source.
        top_k: number of candidates it needs per prefix, from the settings: at least two, so that a margin can be
            recorded; 0 for the whole vocabulary.
        random: whether its output depends on `DecodeSettings.seed`.
        default_drafter: the drafter that "auto" stands for.
        relaxed: used instead of `build` if `DecodeSettings.beta` is above 1; None if there is no such variant.
        hypotheses: number of hypotheses that each step extends, from the settings; 0 if it varies.
    """

    name: str
    label: str
    about: str
    guarantee: Guarantee
    build: BuildDecoder | DraftAwareDecoder
    top_k: Callable[[SearchSettings], int] = lambda _: 0
    random: bool = False
    default_drafter: str = "auto"
    relaxed: DraftAwareDecoder | None = None
    hypotheses: Callable[[SearchSettings], int] = lambda _: 0

    def __post_init__(self) -> None:
        if self.guarantee not in get_args(Guarantee):
            raise ValueError(f"guarantee {self.guarantee!r}; it must be one of {', '.join(get_args(Guarantee))}")
        if self.guarantee == "exact" and isinstance(self.build, DraftAwareDecoder):
            raise ValueError(f"the decoder {self.name!r} is given the drafter, so that it cannot be called exact")

    @property
    def sees_drafts(self) -> bool:
        """Whether the decoder is given the drafter."""
        return isinstance(self.build, DraftAwareDecoder)

    @property
    def drafts(self) -> DraftUse:
        """How drafts are used, see `DraftAwareDecoder`."""
        return self.build.drafts if isinstance(self.build, DraftAwareDecoder) else "loop"

    def builder(self, settings: SearchSettings) -> BuildDecoder | DraftAwareDecoder:
        """Return `relaxed` if the settings ask for it, else `build`."""
        return self.relaxed if settings.beta > 1 and self.relaxed is not None else self.build


DECODERS: plugins.Registry[DecoderSpec] = plugins.DECODERS


def build_decoder(source: SourceIds, settings: SearchSettings, drafter: Drafter) -> Decoder:
    """Return the decoder of one source; only a `DraftAwareDecoder` is given the drafter."""
    make = DECODERS.lookup(settings.decoder).builder(settings)
    if isinstance(make, DraftAwareDecoder):
        return make.build(source, settings, drafter)
    return make(source, settings)


def required_top_k(settings: SearchSettings, vocab_size: int) -> int:
    """Return the number of candidates per prefix that the decoder needs."""
    if settings.prefix:  # tokens of a prefix may be improbable
        return vocab_size
    return min(DECODERS.lookup(settings.decoder).top_k(settings) or vocab_size, vocab_size)


def _build_relaxed_greedy(source: SourceIds, settings: SearchSettings, drafter: Drafter) -> Decoder:
    def drafts(prefix: Prefix) -> list[tuple[int, ...]]:
        return [draft.tokens for draft in drafter.propose(source, prefix, settings.max_len - len(prefix))]

    return relaxed_greedy(max_len=settings.max_len, rule=TopBeta(settings.beta, settings.tau), drafts=drafts)


def _build_beam(source: SourceIds, settings: SearchSettings) -> Decoder:
    size = {"width": settings.n, "max_len": settings.max_len}
    if settings.rules != "chemspec":
        from chemspec.decode.peer_rules import peer_search

        options = {"rules": settings.rules, "length_penalty": settings.length_penalty, "source": len(source)}
        return peer_search(**options, **size)  # type: ignore[arg-type]
    return beam_search(length_penalty=settings.length_penalty, **size)


def _beam_top_k(settings: SearchSettings) -> int:
    return max(2, settings.n + 1)  # one of them may be eos, and a beam of n needs n others


def _build_sbs(source: SourceIds, settings: SearchSettings, drafter: Drafter) -> Decoder:
    def drafts(prefix: Prefix) -> Sequence[Draft]:
        room = settings.max_len - len(prefix)
        if drafter.has_hooks:  # this decoder drafts for itself, so it calls the loop's hooks
            drafter.plan_pass(1, 1, waiting=1)
            drafter.prepare([(source, prefix, room)])
        return drafter.propose(source, prefix, room)

    return speculative_beam_search(width=settings.n, max_len=settings.max_len, drafts=drafts)


def _query_seed(source: SourceIds, settings: SearchSettings) -> str:
    return f"{settings.seed}/{source}"  # per query, so that the samples do not depend on the batch


def _build_sampling(source: SourceIds, settings: SearchSettings) -> Decoder:
    from chemspec.decode.sample import sample_sequences  # imports numpy, which listing the names does not need

    size = {"count": settings.n, "max_len": settings.max_len}
    rng = Random(_query_seed(source, settings))
    return sample_sequences(**size, rng=rng, temperature=settings.temperature, top_p=settings.top_p)


def _build_speculative_sampling(source: SourceIds, settings: SearchSettings, drafter: Drafter) -> Decoder:
    from chemspec.decode.sample import block_sample, sampled_beam, speculative_sample
    from chemspec.draft.learned.gamma import FixedGamma
    from chemspec.draft.learned.sampled import Sampled, SampleRequest
    from chemspec.draft.rejection import Nucleus, Seeded

    seed = _query_seed(source, settings)
    drafts = Seeded(f"{seed}/drafts")  # drafts are sampled independently of their acceptance
    if isinstance(drafter, Sampled):
        request = drafter.open_request(source, drafts)
    else:  # decoding without drafts
        request = SampleRequest(source, drafts, FixedGamma(1))
    others = {"sampled-beam": sampled_beam, "block-sample": block_sample}
    draw = others.get(settings.decoder, speculative_sample)
    nucleus = Nucleus(settings.temperature, settings.top_p)
    return draw(count=settings.n, max_len=settings.max_len, request=request, rng=Seeded(seed), nucleus=nucleus)


for _spec in (  # order of menus, the default first
    DecoderSpec(
        "beam",
        "Beam search",
        "the most probable answers",
        "exact",
        _build_beam,
        _beam_top_k,
        hypotheses=lambda settings: settings.n,
    ),
    DecoderSpec(
        "greedy",
        "Greedy",
        "one answer, fastest",
        "exact",
        lambda _, settings: greedy_search(max_len=settings.max_len),
        lambda settings: max(2, settings.beta),
        relaxed=DraftAwareDecoder(_build_relaxed_greedy),
        hypotheses=lambda _: 1,
    ),
    DecoderSpec("sample", "Sampling", "random draws", "exact", _build_sampling, random=True),
    DecoderSpec(
        "speculative-sample",
        "Speculative sampling",
        "random draws with a small model's help",
        "exact in distribution",
        DraftAwareDecoder(_build_speculative_sampling, "sampled"),
        random=True,
        default_drafter="ar",
    ),
    DecoderSpec(
        "block-sample",
        "Speculative sampling by blocks",
        "the same, whole drafts verified at once",
        "exact in distribution",
        DraftAwareDecoder(_build_speculative_sampling, "sampled"),
        random=True,
        default_drafter="ar",
    ),
    DecoderSpec(
        "sbs",
        "SBS (relaxed)",
        "speculative beam search of Andronov et al.",
        "relaxed",
        DraftAwareDecoder(_build_sbs, "own"),
        _beam_top_k,
        default_drafter="windows",
    ),
    DecoderSpec(
        "sampled-beam",
        "Sampled beams (relaxed)",
        "speculative draws ranked, of Tulsian et al.",
        "relaxed",
        DraftAwareDecoder(_build_speculative_sampling, "sampled"),
        random=True,
        default_drafter="ar",
    ),
):
    DECODERS.register(_spec)
