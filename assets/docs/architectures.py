"""Load and decode a random checkpoint of a published architecture, in the format of the program that wrote it.

    python assets/docs/architectures.py molecular-transformer

prints a row of the table of foreign-models.md: seconds to load the file, memory that the process then holds, and passes
and milliseconds a query of greedy decoding, without drafts and with drafts that are told four tokens of the answer at a
time. That makes five tokens a pass, as many as `copy` gets from trained models; random weights do not copy.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import foreign  # noqa: E402

from chemspec.bench.baselines import OracleDrafter  # noqa: E402
from chemspec.engine.engine import Engine  # noqa: E402
from chemspec.evaluation import reference  # noqa: E402
from chemspec.model.transformer import Transformer  # noqa: E402
from chemspec.settings import DecodeSettings, ModelConfig  # noqa: E402

LENGTH, TOLD, QUERIES = 46, 4, 12  # tokens of an answer, tokens of a draft
SMILES = json.loads((ROOT / "assets" / "models" / "forward" / "vocab.json").read_text(encoding="utf-8"))[4:]
ONMT = ("<unk>", "<blank>", "<s>", "</s>", *SMILES)
BART = ("<PAD>", "?", "^", "&", "<MASK>", "<SEP>", *(f"<UNUSED_{i}>" for i in range(242)), *SMILES)


def network(tokens: int, width: int, layers: int, heads: int, feedforward: int, **options: Any) -> Transformer:
    """Return a random network."""
    depth = {"encoder_layers": layers, "decoder_layers": layers}
    shape = {"d_model": width, "heads": heads, "feedforward": feedforward, "tied_output": False}
    torch.manual_seed(0)
    return Transformer(ModelConfig(vocab_size=tokens, **shape, **depth, **options)).eval().requires_grad_(False)


def reaction_t5(folder: Path) -> Path:
    """Write a random T5 v1.1 base with a tokenizer of single characters."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    words = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", *SMILES])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "<unk>"))
    pattern = tokenizers.Regex(r"\[[^\]]+\]|Br|Cl|.")
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(pattern, "isolated")
    inner.post_processor = tokenizers.processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    named = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=inner, **named).save_pretrained(folder)
    config = T5Config(
        vocab_size=len(words),
        d_model=768,
        d_kv=64,
        d_ff=2048,
        num_layers=12,
        num_heads=12,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        decoder_start_token_id=0,
    )
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def write(name: str, folder: Path) -> Path:
    """Write the checkpoint of an architecture."""
    if name == "molecular-transformer":
        model = network(len(ONMT), 256, 4, 8, 2048)
        return foreign.onmt(folder / "model.pt", model, version="0", source=ONMT, target=ONMT, places=5000)
    if name == "r-smiles":
        model = network(len(ONMT), 512, 6, 8, 2048, shared_embedding=False)
        return foreign.onmt(folder / "model.pt", model, source=ONMT, target=ONMT)
    if name in ("chemformer", "chemformer-large"):
        size = (1024, 8, 16, 4096) if name.endswith("large") else (512, 6, 8, 2048)
        model = network(len(BART), *size, activation="gelu", source_specials=True)
        return foreign.chemformer(folder / "model.ckpt", model, tokens=BART)
    if name == "reactiont5":
        return reaction_t5(folder / "t5")
    raise SystemExit(f"no architecture {name!r}")


def held_mb() -> float:
    """Return the memory that this process holds now, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(engine: Engine) -> tuple[float, float, float]:
    """Return passes, milliseconds (median) and processor milliseconds (mean) a query."""
    settings = DecodeSettings(decoder="greedy", n=1, max_len=LENGTH, drafter="copy", batch_size=1)
    queries = [query for query in reference.bench_queries("forward") if not engine.prepare(query).refusal][:QUERIES]
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    plain = replace(settings, drafter="none")
    for query in queries:
        ids = engine.prepare(query).ids
        known[ids] = engine.write([ids], plain)[0][0].tokens
    told = OracleDrafter(known)

    class Few:
        """Drafts so many tokens of the answer."""

        def propose(self, source: Any, prefix: Any, most: int) -> Any:
            return told.propose(source, prefix, min(TOLD, most))

    rows = []
    for program, how in ((engine, plain), (replace(engine, build_drafter=lambda *_: Few()), settings)):
        taken = []
        for query in queries:
            wall, busy = time.perf_counter(), time.process_time()
            result = program.predict(query, how)
            taken.append((time.perf_counter() - wall, time.process_time() - busy, len(result.trace.passes)))
        rows.append([fmean(row[2] for row in taken), 1000 * median(row[0] for row in taken), taken])
        rows[-1][2] = 1000 * fmean(row[1] for row in taken)
    return tuple(f"{passes:.1f} | {ms:.0f} ({busy:.0f})" for passes, ms, busy in rows)  # type: ignore[return-value]


def main() -> None:
    """Print a row."""
    name = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        if len(sys.argv) == 2:  # write in a process of its own, whose memory is not counted
            os.system(f"{sys.executable} {__file__} {name} {scratch}")
            path = next(Path(scratch).iterdir())
            size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir())) / 1e6
            before, began, busy = held_mb(), time.perf_counter(), time.process_time()
            engine = Engine.load(path, task="forward", device="cpu", threads=1)
            took = f"{time.perf_counter() - began:.1f} ({time.process_time() - busy:.1f})"
            held = held_mb() - before
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            standard, drafted = measure(engine)  # type: ignore[misc]
            print(
                f"| {name} | {size:.0f} | {engine.runtime} | {took} | {held:.0f}, {peak:.0f} | {standard} | {drafted} |"
            )
        else:
            write(name, Path(sys.argv[2]))


main()
