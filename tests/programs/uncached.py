"""Beam search and SBS without drafts (DL=0), both without a key-value cache, by turns (A, table 3).

    python tests/programs/uncached.py --queries 15 -n 5

A reports SBS with DL=0 to be 1.3 to 1.6 times as fast as beam search. Here both compute every prefix from its first
token, as A's programs do, with the same torch model; printed are passes, computed prefixes and tokens of both, and the
ratio of their processor times.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import torch

from chemspec.asset_files import bench_queries
from chemspec.decode.beam import beam_search
from chemspec.decode.protocol import Decoder
from chemspec.decode.relaxed.sbs import speculative_beam_search
from chemspec.engine.registry import model_folder
from chemspec.model import checkpoint
from chemspec.testing import naive_reader
from chemspec.types import Scores


def decode(model: torch.nn.Module, source: Sequence[int], decoder: Decoder, top: int) -> tuple[int, int, int, float]:
    """Return passes, computed prefixes and tokens of a search without a cache, and its processor seconds."""
    began, passes, prefixes, tokens = time.process_time(), 0, 0, 0
    read = naive_reader(model, source)  # type: ignore[arg-type]
    answer = None
    try:
        while True:
            request = decoder.send(answer)  # type: ignore[arg-type]
            best = read(list(request)).topk(top, dim=-1)  # live hypotheses are of one length
            pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            answer = [Scores(ids, log_probs) for ids, log_probs in pairs]
            passes, prefixes = passes + 1, prefixes + len(request)
            tokens += sum(map(len, request))
    except StopIteration:
        return passes, prefixes, tokens, time.process_time() - began


def main() -> None:
    """Compare the two searches on built-in queries of `retro`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=15)
    parser.add_argument("-n", type=int, default=5, help="beam width")
    options = parser.parse_args()
    torch.set_num_threads(1)
    loaded = checkpoint.load(model_folder("retro"))
    width, sums = options.n, [[0.0] * 4, [0.0] * 4]
    for number, text in enumerate(bench_queries("retro")[: options.queries + 1]):
        source = loaded.tokenizer.encode(text)
        for which in (0, 1) if number % 2 else (1, 0):
            size = {"width": width, "max_len": 200}
            decoder = speculative_beam_search(**size, drafts=lambda _: ()) if which else beam_search(**size)
            counted = decode(loaded.model, source, decoder, width + 1)
            if number:  # the first one warms up
                sums[which] = [one + more for one, more in zip(sums[which], counted, strict=True)]
    for name, row in zip(("beam search", "SBS, DL=0"), sums, strict=True):
        passes, prefixes, tokens, seconds = (value / options.queries for value in row)
        print(f"{name} | {passes:.1f} | {prefixes:.1f} | {tokens:.0f} | {1e3 * seconds:.0f} ms")
    print(f"SBS with DL=0 is {sums[0][3] / sums[1][3]:.2f} times as fast")


if __name__ == "__main__":
    main()
