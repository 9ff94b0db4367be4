"""Time models of published sizes that answer as the shipped ones: `python tests/programs/grown.py --size chemformer`.

A trained model is widened and deepened so that it computes the same function (`grow`): real answers and real
acceptance of drafts at the cost of a large model, without training one. `--out FOLDER` only writes the model, for
`chemspec bench --model FOLDER`. Programs take turns, query by query or batch by batch; times are processor time of one
thread.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script
from programs import other_programs
from programs.other_programs import Answers, Program

from chemspec.bench import speed
from chemspec.cli import options as opt
from chemspec.engine.engine import Engine
from chemspec.engine.registry import model_folder
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings, ModelConfig
from chemspec.system.threads import set_torch_threads
from chemspec.terminal import console
from chemspec.tokenizer import BOS, EOS, PAD, UNK


@dataclass(frozen=True)
class Size:
    """Layers of encoder and decoder, width, heads and width of the feed-forward sub-layers, and where it is from."""

    encoder_layers: int
    decoder_layers: int
    d_model: int
    heads: int
    feedforward: int
    title: str


SIZES = {
    "shipped": Size(5, 3, 256, 8, 1024, "as shipped"),
    "chemformer": Size(6, 6, 512, 8, 2048, "Chemformer, R-SMILES: 6 + 6, 512, 2048"),
    "chemformer-large": Size(8, 8, 1024, 16, 4096, "Chemformer large: 8 + 8, 1024, 4096"),
    "t5-base": Size(12, 12, 768, 12, 3072, "T5 base: 12 + 12, 768, 3072"),
    "bart-large": Size(12, 12, 1024, 16, 4096, "BART large: 12 + 12, 1024, 4096"),
}


# --- growth ----------------------------------------------------------------------------------------


def grow(model: Transformer, size: Size) -> Transformer:
    """Return a larger pre-norm model with the same outputs, up to rounding.

    The residual stream is copied side by side, which leaves means and variances of the norms as they are; weights that
    read it are divided among the copies. Heads are copied, in number and in width, and hidden units of feed-forward
    layers too; what reads them is divided likewise. New layers add zero.

    Raises:
        ValueError: for a post-norm, gated or otherwise different model, or a size that is no multiple of its own.
    """
    old = model.config
    plain = old.norm_first and old.final_norms and old.tied_output and not (old.gated or old.rms_norm)
    copies, rest = divmod(size.d_model, old.d_model)
    head, wider = old.d_model // old.heads, size.d_model // size.heads
    stacks = size.encoder_layers >= old.encoder_layers and size.decoder_layers >= old.decoder_layers
    if not plain or rest or wider % head or size.heads < old.heads or size.feedforward < old.feedforward or not stacks:
        raise ValueError(f"a model of {old} cannot grow to {size}")
    shape = {name: value for name, value in vars(size).items() if name != "title"}
    grown = Transformer(replace(old, **shape, stored_positions=True)).eval().requires_grad_(False)
    columns = torch.arange(size.d_model) % old.d_model
    grown.embedding.weight.copy_(model.embedding.weight[:, columns] / copies**0.5)  # undone by `scale_embedding`
    grown.positions.copy_(model.positions[:, columns])
    grown.output.bias.copy_(model.output.bias)
    for old_stack, stack in ((model.encoder, grown.encoder), (model.decoder, grown.decoder)):
        depth, layers = len(old_stack.layers), len(stack.layers)
        places = [number * layers // depth for number in range(depth)]  # of the old layers
        for number, layer in enumerate(stack.layers):
            source = old_stack.layers[max(old for old, place in enumerate(places) if place <= number)]
            _grow_layer(source, layer, old, size, columns, is_new=number not in places)
        _grow_norm(old_stack.norm, stack.norm, columns)
    for part in (grown.decoder.norm.weight, grown.decoder.norm.bias):
        part.div_(copies**0.5)  # the output layer is the embedding, and adds all copies
    return grown


def _grow_norm(old: Any, new: Any, columns: Tensor) -> None:
    new.weight.copy_(old.weight[columns])
    new.bias.copy_(old.bias[columns])


def _grow_layer(old: Any, new: Any, config: ModelConfig, size: Size, columns: Tensor, *, is_new: bool) -> None:
    copies = size.d_model // config.d_model
    for name in ("norm1", "norm2", "norm3"):
        if hasattr(old, name):
            _grow_norm(getattr(old, name), getattr(new, name), columns)
    for name in ("self_attn", "multihead_attn"):
        if hasattr(old, name):
            _grow_attention(getattr(old, name), getattr(new, name), config, size, columns, is_new=is_new)
    units = torch.arange(size.feedforward) % config.feedforward
    shared = torch.bincount(units)[units]
    new.linear1.weight.copy_(old.linear1.weight[units][:, columns] / copies)
    new.linear1.bias.copy_(old.linear1.bias[units])
    new.linear2.weight.copy_(0 if is_new else old.linear2.weight[:, units][columns] / shared)
    new.linear2.bias.copy_(0 if is_new else old.linear2.bias[columns])


def _grow_attention(old: Any, new: Any, config: ModelConfig, size: Size, columns: Tensor, *, is_new: bool) -> None:
    copies, head, wider = size.d_model // config.d_model, config.d_model // config.heads, size.d_model // size.heads
    heads = torch.arange(size.heads) % config.heads
    rows = (heads[:, None] * head + torch.arange(wider) % head).flatten()
    shared = (torch.bincount(heads)[heads][:, None] * torch.full((1, wider), wider // head)).flatten()
    inner = config.d_model
    for part in range(3):
        scale = (head / wider) ** 0.5 if part == 0 else 1.0  # products of queries and keys are sums over copies
        weight, bias = old.in_proj_weight[part * inner :][:inner], old.in_proj_bias[part * inner :][:inner]
        place = slice(part * size.d_model, (part + 1) * size.d_model)
        new.in_proj_weight[place] = scale * weight[rows][:, columns] / copies
        new.in_proj_bias[place] = scale * bias[rows]
    new.out_proj.weight.copy_(0 if is_new else old.out_proj.weight[:, rows][columns] / shared)
    new.out_proj.bias.copy_(0 if is_new else old.out_proj.bias[columns])


def write_grown(name: str, size: Size, folder: Path) -> Path:
    """Write a grown copy of an installed model, with its drafting tables; returns the folder."""
    original = model_folder(name)
    loaded = checkpoint.load(original)
    checkpoint.save(folder, grow(loaded.model, size), loaded.tokenizer, task=loaded.task, half=False)
    for file in original.glob("drafting.*"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


# --- Hugging Face ----------------------------------------------------------------------------------


def pegasus(model: Transformer) -> Any:
    """Return a network of transformers with these weights: Pegasus is a pre-norm model with a table of positions."""
    from transformers import PegasusConfig, PegasusForConditionalGeneration

    config = model.config
    stacks = {}
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        stacks |= {f"{side}_layers": layers, f"{side}_attention_heads": config.heads}
        stacks |= {f"{side}_ffn_dim": config.feedforward}
    marks = {"pad_token_id": PAD, "eos_token_id": EOS, "bos_token_id": BOS, "decoder_start_token_id": BOS}
    theirs = PegasusForConditionalGeneration(
        PegasusConfig(
            vocab_size=config.vocab_size,
            d_model=config.d_model,
            max_position_embeddings=config.max_positions,
            activation_function=config.activation,
            scale_embedding=config.scale_embedding,
            forced_eos_token_id=None,
            **stacks,
            **marks,
        )
    ).eval()
    theirs.requires_grad_(False)
    theirs.model.shared.weight.copy_(model.embedding.weight)
    theirs.final_logits_bias.copy_(model.output.bias)
    for ours, stack in ((model.encoder, theirs.model.encoder), (model.decoder, theirs.model.decoder)):
        stack.embed_positions.weight.copy_(model.positions[: config.max_positions])
        stack.layer_norm.load_state_dict(ours.norm.state_dict())
        for layer, other in zip(ours.layers, stack.layers, strict=True):
            _fill_pegasus_layer(layer, other)
    return theirs


def _fill_pegasus_layer(layer: Any, other: Any) -> None:
    pairs = [(layer.self_attn, other.self_attn)]
    norms = [(layer.norm1, other.self_attn_layer_norm)]
    if hasattr(layer, "multihead_attn"):
        pairs.append((layer.multihead_attn, other.encoder_attn))
        norms += [(layer.norm2, other.encoder_attn_layer_norm), (layer.norm3, other.final_layer_norm)]
    else:
        norms.append((layer.norm2, other.final_layer_norm))
    for ours, theirs in norms:
        theirs.load_state_dict(ours.state_dict())
    for ours, theirs in pairs:
        parts = zip(ours.in_proj_weight.chunk(3), ours.in_proj_bias.chunk(3), strict=True)
        for name, (weight, bias) in zip(("q_proj", "k_proj", "v_proj"), parts, strict=True):
            getattr(theirs, name).load_state_dict({"weight": weight, "bias": bias})
        theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
    other.fc1.load_state_dict(layer.linear1.state_dict())
    other.fc2.load_state_dict(layer.linear2.state_dict())


def hugging_face(engine: Engine, model: Transformer) -> list[Program]:
    """Return `generate` of transformers: beam search, and greedily also with prompt lookup."""
    import transformers

    theirs = pegasus(model)

    def answer(queries: Sequence[str], settings: DecodeSettings, **options: Any) -> Answers:
        sources = [engine.prepare(text).ids for text in queries]
        longest = max(map(len, sources)) + 1
        ids = torch.tensor([[*source, EOS, *[PAD] * (longest - 1 - len(source))] for source in sources])
        width = settings.n if settings.decoder == "beam" else 1
        size: dict[str, Any] = {"num_beams": width, "num_return_sequences": width, "max_new_tokens": settings.max_len}
        with set_torch_threads(1):
            found = theirs.generate(ids, attention_mask=(ids != PAD).long(), do_sample=False, **size, **options)
        rows = [tuple(token for token in row if token >= UNK) for row in found.tolist()]
        return [rows[start : start + width] for start in range(0, len(rows), width)]

    runs = f"torch {torch.__version__}", "fp32", "cpu"
    version = transformers.__version__
    found = [Program("transformers", version, *runs, partial(answer, length_penalty=0.0))]
    return [*found, Program("transformers", version, *runs, partial(answer, prompt_lookup_num_tokens=8), "lookup")]


# --- the race --------------------------------------------------------------------------------------


def race(
    able: Sequence[Program], queries: Sequence[str], settings: DecodeSettings, repeats: int
) -> list[dict[str, Any]]:
    """Return a row for each program: milliseconds of processor time a query, passes, and how many first answers agree.

    The minimum of the repeats counts, of every query or batch; the programs take turns.
    """
    size = settings.batch_size
    parts = [list(queries[start : start + size]) for start in range(0, len(queries), size)]
    best = [[float("inf")] * len(parts) for _ in able]
    answers: list[Answers] = [[] for _ in able]
    for number, part in enumerate(parts):
        for turn in range(repeats):
            for which, program in enumerate(able):
                began = time.process_time()
                found = program.answer(part, settings)
                best[which][number] = min(best[which][number], time.process_time() - began)
                answers[which] += found if not turn else []
    rows = []
    for which, program in enumerate(able):
        passes = [len(trace.passes) for trace in program.traces]
        same = sum(mine[0] == other[0] for mine, other in zip(answers[which], answers[0], strict=True))
        whole = sum(mine == other for mine, other in zip(answers[which], answers[0], strict=True))
        rows.append(
            {
                "program": f"{program.name} {program.version}",
                "drafter": program.drafter,
                "dtype": other_programs.PRECISIONS.get(program.dtype, program.dtype),
                "n": settings.n,
                "batch": size,
                "ms": round(1e3 * sum(best[which]) / len(queries), 1),
                "passes": round(sum(passes) / len(passes), 1) if passes else None,
                "same first": f"{same} of {len(queries)}",
                "same list": f"{whole} of {len(queries)}",
            }
        )
        program.traces.clear()
    return rows


def measure(
    folder: Path,
    queries: Sequence[str],
    widths: Sequence[int],
    batches: Sequence[int],
    dtypes: Sequence[str],
    *,
    repeats: int,
    peers: bool,
    show: Callable[[dict[str, Any]], None],
) -> None:
    """Measure every setting of a model with chemspec, and in batches of one with the other programs too."""
    engines = [Engine.load(folder, dtype=dtype, threads=1, device="cpu") for dtype in dtypes]
    ours = [program for engine in engines for program in other_programs.chemspec_programs(engine, ("auto",))]
    for engine in engines:
        engine.cost()  # measured now
    others: list[Program] = []
    if peers:
        found = other_programs.ctranslate2(engines[0], 1)
        others = [each for each in found if other_programs.PRECISIONS[each.dtype] in dtypes]
        others += hugging_face(engines[0], checkpoint.load(folder).model) if "fp32" in dtypes else []
    for batch in batches:
        for n in widths:
            settings = DecodeSettings(decoder="beam" if n > 1 else "greedy", n=n, batch_size=batch)
            looks_up = n == batch == 1  # all that `generate` can draft for
            able = [*ours, *(each for each in others if looks_up or each.drafter == "none")]
            for row in race(able, queries, settings, repeats):
                show(row)


def main(
    size: Annotated[str, option(f"One of {', '.join(SIZES)}.")] = "chemformer",
    task: Annotated[str, option("The installed model that grows.", "--task", "-t")] = "retro",
    limit: Annotated[int, option("Built-in queries.")] = 8,
    widths: Annotated[tuple[int, ...], option("Beam widths; 1 is greedy.")] = (1, 5, 10),
    batches: Annotated[tuple[int, ...], option("Batch sizes.")] = (1, 8),
    dtype: Annotated[tuple[str, ...], option("Precisions, with commas.")] = ("fp32", "int8"),
    repeats: Annotated[int, option("Of every query; the fastest counts.")] = 1,
    peers: Annotated[bool, option("Also time CTranslate2 and `generate` of transformers.")] = True,
    out: Annotated[Path | None, typer.Option(help="Only write the model into this folder.")] = None,
) -> None:
    """Time a model of a published size that answers as a shipped one, with and without drafts, and other programs."""
    if size not in SIZES:
        raise ValueError(f"no size {size!r}; there are {', '.join(SIZES)}")
    if out is not None:
        write_grown(task, SIZES[size], out)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = write_grown(task, SIZES[size], Path(scratch) / "model")
        engine = Engine.load(folder, threads=1, device="cpu")
        queries = [question.query for question in speed.read_queries(engine, None, limit)]
        named = {"model": f"{task}, {SIZES[size].title}"}

        def show(row: dict[str, Any]) -> None:
            console.print_json({**named, **row})

        measure(folder, queries, widths, batches, dtype, repeats=repeats, peers=peers, show=show)
    console.print_json({"command": opt.command_line(), "machine": speed.describe_machine(1)})


app = script(main)
if __name__ == "__main__":
    app()
