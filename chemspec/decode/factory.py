"""The decoder that settings name, ready to answer one query."""

from __future__ import annotations

from random import Random

from chemspec.decode.beam import beam_search
from chemspec.decode.greedy import greedy
from chemspec.decode.protocol import Decoder
from chemspec.decode.relaxed.acceptance import TopBeta
from chemspec.decode.relaxed.sbs import speculative_beam_search
from chemspec.decode.relaxed.spec_verification import relaxed_greedy
from chemspec.decode.sample import sample
from chemspec.decode.speculative_sampling import sampled_beam, speculative_sample
from chemspec.draft.base import BatchedDrafter
from chemspec.draft.learned.gamma import Fixed
from chemspec.draft.learned.sampled import Sampled, SampleRequest
from chemspec.draft.registry import Drafter
from chemspec.draft.rejection import Nucleus, Seeded
from chemspec.settings import SAMPLED_DECODERS, DecodeSettings
from chemspec.types import Prefix


def top_k(settings: DecodeSettings, vocab_size: int) -> int:
    """Candidates needed per prefix: with eos among them, a beam of n can use n + 1; a margin needs two."""
    wanted = {
        "greedy": max(2, settings.beta),
        "beam": max(2, settings.n + 1),
        "sbs": max(2, settings.n + 1),
    }  # a draw may be any token
    return min(wanted.get(settings.decoder, vocab_size), vocab_size)


def decoder(source: tuple[int, ...], settings: DecodeSettings, drafter: Drafter) -> Decoder:
    """What decodes one source; of the drafter only those ask that deal with drafts themselves."""

    def drafts(prefix: Prefix) -> list[tuple[int, ...]]:
        room = settings.max_len - len(prefix)
        if settings.decoder == "sbs" and isinstance(drafter, BatchedDrafter):
            drafter.prepare([(source, prefix, room)])  # nobody else tells it
        return [draft.tokens for draft in drafter.propose(source, prefix, room)]

    if settings.decoder == "greedy" and settings.beta > 1:
        rule = TopBeta(settings.beta, settings.tau)
        return relaxed_greedy(max_len=settings.max_len, rule=rule, drafts=drafts)
    if settings.decoder == "greedy":
        return greedy(max_len=settings.max_len)
    if settings.decoder == "beam":
        return beam_search(width=settings.n, max_len=settings.max_len, length_penalty=settings.length_penalty)
    if settings.decoder == "sbs":
        return speculative_beam_search(width=settings.n, max_len=settings.max_len, drafts=drafts)
    seed = f"{settings.seed}/{source}"  # per query: what else is in the batch changes nothing
    if settings.decoder in SAMPLED_DECODERS:
        return _drawn(source, settings, drafter, seed)
    return sample(
        count=settings.n,
        max_len=settings.max_len,
        rng=Random(seed),
        temperature=settings.temperature,
        top_p=settings.top_p,
    )


def _drawn(source: tuple[int, ...], settings: DecodeSettings, drafter: Drafter, seed: str) -> Decoder:
    drafts = Seeded(f"{seed}/drafts")  # drafts have draws of their own
    desk = (
        drafter.desk(source, drafts)
        if isinstance(drafter, Sampled)
        else SampleRequest(source, drafts, Fixed(1))  # nobody drafts
    )
    draw = speculative_sample if settings.decoder == "speculative-sample" else sampled_beam
    return draw(
        count=settings.n,
        max_len=settings.max_len,
        desk=desk,
        dice=Seeded(seed),
        nucleus=Nucleus(settings.temperature, settings.top_p),
    )
