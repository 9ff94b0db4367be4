"""Drive kernel, loop and atom maps through everything they have, for sanitizers; `.ci/sanitize` runs this as a program.

Small models with random weights, every drafter that compiled code knows, greedy decoding and beams, batches, threads,
fp32 and int8, records and compaction.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from helpers.case_tables import table
from helpers.small import QUERIES, tiny_folder

from chemspec.chem.reactions import atom_maps, compiled_maps
from chemspec.decode.compiled import build as loop
from chemspec.decode.generate import BatchDecoder
from chemspec.engine.engine import Engine, PreparedQuery
from chemspec.model import checkpoint
from chemspec.model.runners.cuda_graphs import GraphBackend
from chemspec.model.runners.native import build as kernel
from chemspec.settings import DecodeSettings

DRAFTERS = ("none", "windows", "copy", "mixed", "auto")


def answers(engine: Engine, how: DecodeSettings, decoder: BatchDecoder | None = None) -> list[list[tuple[int, ...]]]:
    """Decode ids, for RDKit's exceptions are none of ours; read the passes too, for they lie in compiled code.

    Four queries are under way, and the others join as these finish.
    """
    rows = [[PreparedQuery("", engine.tokenizer.encode(query))] for query in QUERIES]
    found: list[Any] = (decoder or engine._batch_decoder).generate(rows, (how,), size=4)
    assert all(sum(step.emitted for step in decoded.passes) > 0 for (decoded,) in found)
    return [[answer.tokens for answer in decoded.answers] for (decoded,) in found]


def on_pages(engine: Engine, folder: Path) -> int:
    """Decode with the inputs of CUDA graphs, which compiled code writes; torch computes, and nothing is recorded."""
    graphs = GraphBackend(checkpoint.load(folder).model, record=lambda function, _: function)
    for n in (1, 3):
        expected = None
        for drafter in ("none", "copy"):
            how = DecodeSettings(n=n, drafter=drafter, max_len=24, drafting="fixed")
            found = answers(engine, how, replace(engine._batch_decoder, backend=graphs))
            assert expected in (None, found), f"pages, {n}, {drafter}: answers differ"
            expected = found
    return 4


def on_atom_maps() -> int:
    """Map reactions of which parts move, with molecules that give nothing, and make poor maps better."""
    reactions = [(f"{left}.CO.CC(=O)O.c1ccncc1", right) for left, right, *_ in table("chem/textbook_maps")]
    assert compiled_maps.library() is not None, "the compiled code must be there"
    for left, right in reactions:
        match = atom_maps.map_atoms(left, right)
        assert match is not None
        match.fill(match.origin[:1] + [-1] * (len(match.origin) - 1))
        atom_maps.improve_map(match)
    return 1


def main() -> None:
    torch.set_num_threads(1)
    kernel.load_kernel()
    assert loop.loop_library() is not None, "the compiled code must be there"
    runs = on_atom_maps()
    with tempfile.TemporaryDirectory() as home:
        shapes = [{}, {"heads": 2, "d_model": 48, "feedforward": 40, "tied_output": True}]
        for number, shape in enumerate(shapes):
            folder = tiny_folder(Path(home) / str(number), seed=number, **shape)
            for dtype in ("fp32", "int8"):
                engine = Engine.load(folder, device="cpu", dtype=dtype, threads=2, runtime="native")
                for decoder, n in (("greedy", 1), ("beam", 4)):
                    expected = None
                    for drafter in DRAFTERS:
                        how = DecodeSettings(
                            decoder=decoder,
                            n=n,
                            drafter=drafter,
                            max_len=24,
                            record=drafter == "copy",
                            drafting="fixed",
                        )
                        found = answers(engine, how)
                        assert expected in (None, found), f"{dtype} {decoder} {drafter}: answers differ"
                        expected, runs = found, runs + 1
                # A wide beam shares its bookkeeping between threads; several Python threads share one engine.
                answers(engine, DecodeSettings(n=12, drafter="copy", max_len=16))
                several = [
                    threading.Thread(target=answers, args=(engine, DecodeSettings(n=3, drafter="mixed", max_len=12)))
                    for _ in range(2)
                ]
                for one in several:
                    one.start()
                for one in several:
                    one.join()
                runs += 3
            runs += on_pages(engine, folder)
    sys.stdout.write(f"{runs} runs of {len(QUERIES)} queries\n")


if __name__ == "__main__":
    main()
