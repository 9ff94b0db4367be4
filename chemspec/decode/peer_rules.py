"""Beam search by the bookkeeping of other programs: what lives on, when the search stops, how its answers are ranked.

The log-probs and so the best extensions of a hypothesis are the same everywhere; programs differ in what they do with
hypotheses that end. Each rule is a pure step (`advance`) like that of `decode.beam`, whose rules are the default.

- onmt (OpenNMT-py 1.x to 3.x; 0.4.1 differs in cut answers only): what ends takes one of the `width` places of its
  step. The search stops once an ended hypothesis has led a step and `width` have ended. Cut ones are ranked with them.
- chemformer: an ended hypothesis keeps its place until better ones push it out. The search stops when all places are
  ended.
- translation-transformer: nothing ends. Hypotheses are written on after eos, and ranked with what follows, until all
  hold an eos; then each is cut there, so that an answer may stand in the list twice.
- transformers (`generate` with early_stopping=False): as ours, but the search stops when the best live hypothesis, were
  it to end now, is no better than the last finished one; with a length penalty that is sooner. Cut ones are ranked with
  those that ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from chemspec.decode.beam import Beam, Hyp, Rules, Step, look_ahead, ranked
from chemspec.decode.protocol import START, Decoder, ScoreRequest, finished
from chemspec.tokenizer import EOS
from chemspec.types import Scores


def peer_search(*, rules: str, width: int, max_len: int, length_penalty: float = 0.0) -> Decoder:
    """Return a beam search.

    Args:
        rules: a name of `ADVANCE`.
        width: places of the beam, and answers wanted.
        max_len: most tokens of an answer, eos included.
        length_penalty: answers are ranked by total / length ** length_penalty.
    """
    return _search(ADVANCE[rules], Rules(width, max_len, float(length_penalty)))


def _search(advance: Step, rules: Rules) -> Decoder:
    beam = Beam((Hyp(START, (), 0.0),))
    while beam.live and len(beam.live[0].log_probs) < rules.max_len:
        lookahead = partial(look_ahead, beam, rules, step=advance)
        scores = yield ScoreRequest.of([hyp.tokens for hyp in beam.live], lookahead)
        beam = advance(beam, scores, rules)
    best = _best([*beam.finished, *beam.live], rules)[: rules.width]
    ends = [hyp.tokens.index(EOS) if EOS in hyp.tokens else len(hyp.tokens) for hyp in best]
    return [finished(hyp.tokens[: end + 1], hyp.log_probs[:end]) for hyp, end in zip(best, ends, strict=True)]


def _best(hyps: Sequence[Hyp], rules: Rules) -> list[Hyp]:
    return sorted(hyps, key=lambda hyp: (-rules.score(hyp), hyp.tokens))


def _extended(beam: Beam, scores: Sequence[Scores], count: int) -> list[Hyp]:
    """Return the `count` best extensions of the live hypotheses, best first."""
    return [
        Hyp((*parent.tokens, found.ids[place]), (*parent.log_probs, found.log_probs[place]), -cost)
        for cost, index, place in ranked(beam.live, scores, count)
        for parent, found in ((beam.live[index], scores[index]),)
    ]


def _ended(hyp: Hyp) -> bool:
    return hyp.tokens[-1] == EOS


class Led(Beam):
    """A beam of which an ended hypothesis has led a step."""


def onmt(beam: Beam, scores: Sequence[Scores], rules: Rules) -> Beam:
    """Step as OpenNMT-py does."""
    grown = _extended(beam, scores, rules.width)
    done = (*beam.finished, *filter(_ended, grown))
    led = isinstance(beam, Led) or bool(grown and _ended(grown[0]))
    live = tuple(hyp for hyp in grown if not _ended(hyp))
    cut = bool(grown) and len(grown[0].log_probs) == rules.max_len  # then what is live is ranked, too
    if led and len(done) >= rules.width and not cut:
        live = ()
    return (Led if led else Beam)(live, done)


def chemformer(beam: Beam, scores: Sequence[Scores], rules: Rules) -> Beam:
    """Step as Chemformer does."""
    kept = _best([*beam.finished, *_extended(beam, scores, rules.width)], rules)[: rules.width]
    return Beam(tuple(hyp for hyp in kept if not _ended(hyp)), tuple(filter(_ended, kept)))


def translation_transformer(beam: Beam, scores: Sequence[Scores], rules: Rules) -> Beam:
    """Step as translation-transformer does."""
    kept = tuple(_extended(beam, scores, rules.width))
    return Beam((), kept) if kept and all(EOS in hyp.tokens for hyp in kept) else Beam(kept)


def transformers(beam: Beam, scores: Sequence[Scores], rules: Rules) -> Beam:
    """Step as `generate` of transformers does."""
    grown = _extended(beam, scores, 2 * rules.width)
    first, length = grown[: rules.width], len(beam.live[0].log_probs) + 1
    over = length == rules.max_len  # what is cut is an answer like any other
    done = _best([*beam.finished, *(hyp for hyp in first if over or _ended(hyp))], rules)[: rules.width]
    live = [hyp for hyp in grown if not _ended(hyp)][: rules.width]
    if over or (len(done) == rules.width and live and rules.score(live[0]) <= rules.score(done[-1])):
        live = []
    return Beam(tuple(live), tuple(done))


ADVANCE: dict[str, Step] = {
    "onmt": onmt,
    "translation-transformer": translation_transformer,
    "chemformer": chemformer,
    "transformers": transformers,
}
