"""Greedy decoding: always the most probable next token."""

from chemspec.decode.beam import BeamConfig
from chemspec.decode.protocol import START, ConfiguredDecoder, Decoder, finish_sequence
from chemspec.tokenizer import EOS


def greedy_search(*, max_len: int) -> Decoder:
    """Decode one sequence of at most `max_len` tokens, eos included."""
    return ConfiguredDecoder(_decode_greedily(max_len), BeamConfig(0, max_len))


def _decode_greedily(max_len: int) -> Decoder:
    prefix = START
    log_probs: list[float] = []
    while len(log_probs) < max_len and prefix[-1] != EOS:
        (scores,) = yield (prefix,)
        prefix = (*prefix, int(scores.ids[0]))
        log_probs.append(float(scores.log_probs[0]))
    return [finish_sequence(prefix, log_probs)]
