"""Beam search with other programs' treatment of finished hypotheses: which stay live, when to stop, how to rank.

Each variant is a pure step like `decode.beam.advance_beam`, the default.

- onmt (OpenNMT-py 1.x and 2.x; 0.4.1 differs in truncated outputs only): a hypothesis that ends uses one of the `width`
  slots of its step. The search stops once a finished hypothesis has been the best of a step and `width` are finished.
  Truncated hypotheses are ranked with them. A length penalty divides by a power of the length with bos.
- onmt-3 (OpenNMT-py 3.x): the same, but the search stops when a finished hypothesis is the best of the very step after
  which `width` are finished.
- onmt-3-defaults: the same with the program's own defaults, the length penalty `avg` (1) and at most 1.25 times the
  tokens of the source and 5 (`max_length_ratio`), for one query at a time.
- chemformer: a finished hypothesis stays in the beam until better ones displace it. The search stops when the whole
  beam is finished.
- translation-transformer: hypotheses are extended past eos, and ranked with the tokens that follow, until all contain
  eos; then each is cut there, so the list may contain duplicates.
- transformers (`generate` with early_stopping=False): as ours, but the search stops when the best live hypothesis, if
  it ended now, would be no better than the last finished one; with a length penalty that is earlier. Truncated
  hypotheses are ranked with finished ones.
"""

from collections.abc import Sequence
from functools import partial

from chemspec.decode.beam import Beam, BeamConfig, Hyp, Step, look_ahead, rank_extensions
from chemspec.decode.protocol import START, Decoder, ScoreRequest, finish_sequence
from chemspec.tokenizer import EOS
from chemspec.types import Scores

MAX_LENGTH_RATIO, MORE_TOKENS = 1.25, 5  # limits of OpenNMT-py 3.x


class OnmtConfig(BeamConfig):
    """Parameters of a beam search whose length penalty counts bos."""

    def ranking_score(self, hyp: Hyp) -> float:
        """Return the score by which finished hypotheses are ranked."""
        return hyp.total / (len(hyp.log_probs) + 1) ** self.length_penalty if self.length_penalty else hyp.total


def peer_search(*, rules: str, width: int, max_len: int, length_penalty: float = 0.0, source: int = 0) -> Decoder:
    """Return a beam search with another program's bookkeeping, a key of `ADVANCE`; for the rest see `BeamConfig`.

    `source`: number of tokens of the source, by which some rules limit the output.
    """
    if rules == "onmt-3-defaults":
        max_len, length_penalty = min(max_len, int(MAX_LENGTH_RATIO * source + MORE_TOKENS)), 1.0
    kind = OnmtConfig if rules.startswith("onmt") else BeamConfig
    advance, config = ADVANCE[rules], kind(width, max_len, float(length_penalty))
    beam = Beam((Hyp(START, (), 0.0),))
    while beam.live and len(beam.live[0].log_probs) < config.max_len:
        lookahead = partial(look_ahead, beam, config, step=advance)
        scores = yield ScoreRequest.of([hyp.tokens for hyp in beam.live], lookahead)
        beam = advance(beam, scores, config)
    best = _sort_hypotheses([*beam.finished, *beam.live], config)[: config.width]
    ends = [hyp.tokens.index(EOS) if EOS in hyp.tokens else len(hyp.tokens) for hyp in best]
    return [finish_sequence(hyp.tokens[: end + 1], hyp.log_probs[:end]) for hyp, end in zip(best, ends, strict=True)]


def _sort_hypotheses(hyps: Sequence[Hyp], config: BeamConfig) -> list[Hyp]:
    return sorted(hyps, key=lambda hyp: (-config.ranking_score(hyp), hyp.tokens))


def _best_extensions(beam: Beam, scores: Sequence[Scores], count: int) -> list[Hyp]:
    """Return the `count` best extensions of the live hypotheses, best first."""
    extensions = []
    for cost, index, rank in rank_extensions(beam.live, scores, count):
        parent, (ids, log_probs) = beam.live[index], scores[index]
        extensions.append(Hyp((*parent.tokens, ids[rank]), (*parent.log_probs, log_probs[rank]), -cost))
    return extensions


def _ends_with_eos(hyp: Hyp) -> bool:
    return hyp.tokens[-1] == EOS


class LeadEndedBeam(Beam):
    """A beam in which a finished hypothesis has been the best of a step."""


def advance_onmt(beam: Beam, scores: Sequence[Scores], config: BeamConfig) -> Beam:
    """Step as OpenNMT-py does."""
    grown = _best_extensions(beam, scores, config.width)
    done = (*beam.finished, *filter(_ends_with_eos, grown))
    led = isinstance(beam, LeadEndedBeam) or bool(grown and _ends_with_eos(grown[0]))
    live = tuple(hyp for hyp in grown if not _ends_with_eos(hyp))
    cut = bool(grown) and len(grown[0].log_probs) == config.max_len  # then live hypotheses are ranked, too
    if led and len(done) >= config.width and not cut:
        live = ()
    return (LeadEndedBeam if led else Beam)(live, done)


def advance_onmt_3(beam: Beam, scores: Sequence[Scores], config: BeamConfig) -> Beam:
    """Step as OpenNMT-py 3.x does."""
    grown = _best_extensions(beam, scores, config.width)
    done = (*beam.finished, *filter(_ends_with_eos, grown))
    live = tuple(hyp for hyp in grown if not _ends_with_eos(hyp))
    cut = bool(grown) and len(grown[0].log_probs) == config.max_len
    if grown and _ends_with_eos(grown[0]) and len(done) >= config.width and not cut:
        live = ()
    return Beam(live, done)


def advance_chemformer(beam: Beam, scores: Sequence[Scores], config: BeamConfig) -> Beam:
    """Step as Chemformer does."""
    best = _sort_hypotheses([*beam.finished, *_best_extensions(beam, scores, config.width)], config)[: config.width]
    return Beam(tuple(hyp for hyp in best if not _ends_with_eos(hyp)), tuple(filter(_ends_with_eos, best)))


def advance_translation_transformer(beam: Beam, scores: Sequence[Scores], config: BeamConfig) -> Beam:
    """Step as translation-transformer does."""
    best = tuple(_best_extensions(beam, scores, config.width))
    return Beam((), best) if best and all(EOS in hyp.tokens for hyp in best) else Beam(best)


def advance_transformers(beam: Beam, scores: Sequence[Scores], config: BeamConfig) -> Beam:
    """Step as `generate` of transformers does."""
    grown = _best_extensions(beam, scores, 2 * config.width)
    first, length = grown[: config.width], len(beam.live[0].log_probs) + 1
    over = length == config.max_len  # a truncated hypothesis counts as finished
    done = _sort_hypotheses([*beam.finished, *(hyp for hyp in first if over or _ends_with_eos(hyp))], config)[
        : config.width
    ]
    live = [hyp for hyp in grown if not _ends_with_eos(hyp)][: config.width]
    if over or (len(done) == config.width and live and config.ranking_score(live[0]) <= config.ranking_score(done[-1])):
        live = []
    return Beam(tuple(live), tuple(done))


ADVANCE: dict[str, Step] = {
    "onmt": advance_onmt,
    "onmt-3": advance_onmt_3,
    "onmt-3-defaults": advance_onmt_3,
    "translation-transformer": advance_translation_transformer,
    "chemformer": advance_chemformer,
    "transformers": advance_transformers,
}
