"""Time models that drafts cannot help: `python tests/programs/rejected_drafts.py`.

`auto` has to notice by itself that nothing is accepted. Each model answers the queries in order, without drafts and
with `auto` by turns; every repeat begins without experience, and the first query is left out (it may pay for it).
Decoding without drafts takes part twice: what these two differ by is the error of the measurement.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec import asset_files
from chemspec.bench import speed
from chemspec.cli import options as opt
from chemspec.decode.draft_history import DraftHistories
from chemspec.engine.engine import Engine
from chemspec.engine.registry import model_folder
from chemspec.model import checkpoint
from chemspec.settings import DecodeSettings
from chemspec.terminal import console

NAMED = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
SPECIALS = ["<pad>", "</s>", "<unk>"]
ORDERS = ((0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0), (0, 2, 1), (1, 0, 2))
SENTENCE = "What is the main product of these reactants, reagents and solvents?"


def write_t5(folder: Path, words: Sequence[str], width: int, layers: int, *, text: bool) -> Path:
    """Write a T5 v1.1 with random weights: a tokenizer of SMILES tokens, or byte-pair encoding of text and SMILES."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    if text:
        inner = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
        inner.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(split=True)
        inner.decoder = tokenizers.decoders.Metaspace()
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIALS, show_progress=False)
        inner.train_from_iterator([*words, *[SENTENCE] * 20, *asset_files.bench_queries("forward")], trainer)
    else:
        named = {word: number for number, word in enumerate(dict.fromkeys([*SPECIALS, *words]))}
        inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(named, "<unk>"))
        pattern = tokenizers.Regex(r"\[[^\]]+\]|Br|Cl|.")
        inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(pattern, "isolated")
        inner.decoder = tokenizers.decoders.Fuse()
    inner.post_processor = tokenizers.processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    PreTrainedTokenizerFast(tokenizer_object=inner, **NAMED).save_pretrained(folder)
    shape = {"d_model": width, "d_kv": 32, "d_ff": 2 * width, "num_layers": layers, "num_heads": width // 32}
    kind = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "decoder_start_token_id": 0}
    torch.manual_seed(0)
    network = T5ForConditionalGeneration(T5Config(vocab_size=inner.get_vocab_size(), **shape, **kind))
    network.lm_head.weight = torch.nn.Parameter(0.1 * torch.randn_like(network.lm_head.weight))  # peaked
    network.save_pretrained(folder)
    return folder


def write_random_decoder(folder: Path, _: Sequence[str]) -> Path:
    """Write `retro` with random weights in the decoder."""
    loaded = checkpoint.load(model_folder("retro"))
    torch.manual_seed(0)
    for name, weight in loaded.model.named_parameters():
        if name.startswith("decoder") and weight.ndim == 2:
            torch.nn.init.xavier_uniform_(weight)
    checkpoint.save(folder, loaded.model, loaded.tokenizer, task="retro", half=False)
    return folder


MODELS: Mapping[str, tuple[str, Callable[[Path, Sequence[str]], Path], dict[str, Any]]] = {
    "t5": ("forward", lambda *given: write_t5(*given, 256, 4, text=False), {"task": "forward"}),
    "t5-small": ("forward", lambda *given: write_t5(*given, 128, 2, text=False), {"task": "forward"}),
    "text": (
        "forward",
        lambda *given: write_t5(*given, 256, 4, text=True),
        {"task": "forward", "template": f"{SENTENCE} {{query}}"},
    ),
    "random-decoder": ("retro", write_random_decoder, {}),
}


def compare(engine: Engine, queries: Sequence[str], settings: DecodeSettings, repeats: int) -> dict[str, Any]:
    """Return the processor time without drafts over that with `auto`, from the second query on and of the first."""
    runs = [replace(settings, drafter=drafter) for drafter in ("none", "auto", "none")]
    best, counts = [[float("inf")] * len(queries) for _ in runs], [[0, 0] for _ in runs]
    same = True
    for turn in range(repeats):
        engine.resources.histories = DraftHistories()
        fresh = replace(engine)
        for number, query in enumerate(queries):
            lists = []
            for which in ORDERS[(turn + number) % len(ORDERS)]:
                began = time.process_time()
                result = fresh.predict(query, runs[which])
                best[which][number] = min(best[which][number], time.process_time() - began)
                if number:
                    counts[which][0] += len(result.trace.passes)
                    counts[which][1] += sum(step.computed for step in result.trace.passes)
                lists.append([(item.tokens, item.token_log_probs) for item in result.hypotheses])
            same &= lists[0] == lists[1] == lists[2]
    none, auto, again = (sum(times[1:]) for times in best)
    drafted = {
        f"{what} with `auto` over without": round(counts[1][index] / counts[0][index], 3)
        for index, what in enumerate(("passes", "nodes"))
    }
    return {
        "ms without drafts": round(1e3 * none / (len(queries) - 1), 2),
        "times as fast": round(0.5 * (none + again) / auto, 3),
        "none over none": round(none / again, 3),
        "slowest query": round(min(none / auto for none, auto in zip(best[0][1:], best[1][1:], strict=True)), 3),
        "first query": round(best[0][0] / best[1][0], 3),
        "same lists": same,
        **drafted,
    }


def main(
    models: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(MODELS)}; default: all.")] = None,
    limit: Annotated[int, option("Queries.")] = 8,
    repeats: Annotated[int, option("Of every query; the fastest counts.")] = 5,
    length: Annotated[int, option("Tokens of an answer at most.")] = 60,
) -> None:
    """Time models that drafts cannot help, with and without `auto`: greedy and a beam of 5, fp32 and int8."""
    words = Engine.load("forward", threads=1).tokenizer.smiles_tokens
    for name in models or list(MODELS):
        task, write, options = MODELS[name]
        with tempfile.TemporaryDirectory() as scratch:
            folder = write(Path(scratch), words)
            for dtype in ("fp32", "int8"):
                engine = Engine.load(folder, dtype=dtype, threads=1, device="cpu", **options)
                usable = [query for query in asset_files.bench_queries(task) if not engine.prepare(query).refusal]
                for n in (1, 5):
                    settings = DecodeSettings(decoder="beam" if n > 1 else "greedy", n=n, batch_size=1, max_len=length)
                    measured = compare(engine, usable[:limit], settings, repeats)
                    console.print_json({"model": name, "dtype": dtype, "n": n, **measured})
    console.print_json({"command": opt.command_line(), "machine": speed.describe_machine(1)})


app = script(main)
if __name__ == "__main__":
    app()
