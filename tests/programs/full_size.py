"""Load and decode random checkpoints of published architectures: `python tests/programs/full_size.py chemformer`.

Greedy decoding of answers of a fixed length, without drafts and with drafts that are told four tokens of the answer at
a time. That makes five tokens a pass, as many as `copy` gets from trained models; random weights do not copy.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any

import torch
import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers import formats
from helpers.scripts import option, script
from programs import peers
from programs.other_programs import OracleDrafter
from programs.peers import Peer

from chemspec import asset_files
from chemspec.bench import speed
from chemspec.cli import options as opt
from chemspec.engine.engine import Engine
from chemspec.importers.foreign import rounded_sinusoids
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings, ModelConfig
from chemspec.system.threads import set_torch_threads
from chemspec.terminal import console
from chemspec.tokenizer import SPECIALS
from chemspec.types import Draft, Prefix

TOLD = 4  # tokens of a draft


@dataclass(frozen=True)
class Architecture:
    """A published one.

    Attributes:
        title: for the table.
        write: makes the checkpoint in a folder, from the tokens of SMILES; returns its path.
        against: the program of `peers` that it comes from.
        again: writes the same network for that program, where it cannot read what `write` writes.
    """

    title: str
    write: Callable[[Path, Sequence[str]], Path]
    against: str
    again: Callable[[Path, Sequence[str]], Path] | None = None


def _network(tokens: int, width: int, layers: int, heads: int, feedforward: int, **options: Any) -> Transformer:
    shape: dict[str, Any] = {"d_model": width, "heads": heads, "feedforward": feedforward, "tied_output": False}
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=tokens, encoder_layers=layers, decoder_layers=layers, **shape, **options)
    return Transformer(config).eval().requires_grad_(False)


OPENNMT = ("<unk>", "<blank>", "<s>", "</s>")


def _genuine_onmt(file: Path, model: Transformer, words: Sequence[str]) -> Path:
    """Write a checkpoint that OpenNMT-py 1.x and 2.x reads: with its classes and all its options in it.

    Args:
        file: to write.
        model: its weights; ids are theirs.
        words: the vocabulary of both sides.

    Raises:
        ModuleNotFoundError: without OpenNMT-py.
    """
    inputter, opts = import_module("onmt.inputters.inputter"), import_module("onmt.opts")
    weights, generator, told = formats.onmt_parts(model, "2", None, 0)
    fields = inputter.get_fields("text", None, None)
    for side in ("src", "tgt"):
        field = fields[side].base_field
        field.vocab = import_module("torchtext.vocab").Vocab(Counter(), specials=[])
        field.vocab.itos, field.vocab.stoi = list(words), {word: i for i, word in enumerate(words)}
    parser = import_module("onmt.utils.parse").ArgumentParser()
    opts.train_opts(parser)
    options = argparse.Namespace(**{action.dest: action.default for action in parser._actions})  # some are required
    width = model.config.d_model
    vars(options).update(told, src_word_vec_size=width, tgt_word_vec_size=width, layers=told["enc_layers"])
    table = rounded_sinusoids(width, 5000)[:, None]  # as many places as it makes itself
    weights |= {name: table for name in weights if name.endswith("pe.pe")}
    torch.save({"model": weights, "generator": generator, "vocab": fields, "opt": options, "optim": None}, file)
    return file


def _molecular_transformer(folder: Path, smiles: Sequence[str], *, genuine: bool = False) -> Path:
    words = (*OPENNMT, *smiles)
    model = _network(len(words), 256, 4, 8, 2048)
    if genuine:
        return _genuine_onmt(folder / "genuine.pt", model, words)
    return formats.onmt(folder / "model.pt", model, version="0", source=words, target=words, places=5000)


def _r_smiles(folder: Path, smiles: Sequence[str], *, genuine: bool = False) -> Path:
    words = (*OPENNMT, *smiles)
    model = _network(len(words), 512, 6, 8, 2048, shared_embedding=False)
    if genuine:
        return _genuine_onmt(folder / "genuine.pt", model, words)
    return formats.onmt(folder / "model.pt", model, source=words, target=words)


def _chemformer(folder: Path, smiles: Sequence[str], *size: int) -> Path:
    words = ("<PAD>", "?", "^", "&", "<MASK>", "<SEP>", *(f"<UNUSED_{i}>" for i in range(242)), *smiles)
    model = _network(len(words), *size, activation="gelu", source_specials=True)
    return formats.chemformer(folder / "model.ckpt", model, tokens=words)


def _reaction_t5(folder: Path, smiles: Sequence[str]) -> Path:
    """T5 v1.1 base with a tokenizer of atoms."""
    from transformers import T5Config, T5ForConditionalGeneration

    words = _write_tokenizer(folder, smiles, "$A </s>")
    shape = {"d_model": 768, "d_kv": 64, "d_ff": 2048, "num_layers": 12, "num_heads": 12}
    kind = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "decoder_start_token_id": 0}
    torch.manual_seed(0)
    T5ForConditionalGeneration(T5Config(vocab_size=words, **shape, **kind)).save_pretrained(folder)
    return folder


def _write_tokenizer(folder: Path, smiles: Sequence[str], reads: str) -> int:
    """Write a tokenizer of atoms, which adds to a text what `reads` says; returns the number of tokens."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", ">>", *smiles])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "<unk>"))
    pattern = tokenizers.Regex(r"\[[^\]]+\]|Br|Cl|>>|.")
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(pattern, "isolated")
    inner.decoder = tokenizers.decoders.Fuse()
    inner.post_processor = tokenizers.processors.TemplateProcessing(reads, special_tokens=[("</s>", 1)])
    named = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=inner, **named).save_pretrained(folder)
    return len(words)


def _causal(folder: Path, smiles: Sequence[str], *, llama: bool) -> Path:
    """GPT-2 small, or a LLaMA of that size, told where answers begin by `chemspec.json`."""
    import transformers

    ids = {
        "vocab_size": _write_tokenizer(folder, smiles, "$A"),
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 1,
    }
    torch.manual_seed(0)
    if llama:
        shape = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12}
        model: Any = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape, **ids))
    else:
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**ids))
    model.save_pretrained(folder)
    (folder / "chemspec.json").write_text('{"task": "forward", "template": "{query}>>"}', encoding="utf-8")
    return folder


def _chemformer_base(folder: Path, smiles: Sequence[str]) -> Path:
    return _chemformer(folder, smiles, 512, 6, 8, 2048)


def _chemformer_large(folder: Path, smiles: Sequence[str]) -> Path:
    return _chemformer(folder, smiles, 1024, 8, 16, 4096)


ARCHITECTURES: Mapping[str, Architecture] = {
    "molecular-transformer": Architecture(
        "Molecular Transformer: 4 + 4, 256, 2048",
        _molecular_transformer,
        "onmt",
        partial(_molecular_transformer, genuine=True),
    ),
    "r-smiles": Architecture("R-SMILES: 6 + 6, 512, 2048", _r_smiles, "onmt", partial(_r_smiles, genuine=True)),
    "chemformer": Architecture("Chemformer: 6 + 6, 512, 2048", _chemformer_base, "chemformer"),
    "chemformer-large": Architecture("Chemformer large: 8 + 8, 1024, 4096", _chemformer_large, "chemformer"),
    "gpt2": Architecture("GPT-2 small: 12, 768, 3072", partial(_causal, llama=False), "transformers"),
    "llama": Architecture("LLaMA: 12, 768, 2048", partial(_causal, llama=True), "transformers"),
    "reactiont5": Architecture("ReactionT5 base: T5 v1.1, 12 + 12, 768, 2048", _reaction_t5, "transformers"),
}


def run(name: str, smiles: Sequence[str], *, queries: int = 12, length: int = 46, threads: int = 1) -> dict[str, Any]:
    """Measure an architecture, in processes of its own, so that its memory is its own too.

    Args:
        name: of `ARCHITECTURES`.
        smiles: the tokens of its vocabulary.
        queries: how many are asked, of the built-in ones.
        length: tokens of an answer.
        threads: of all programs.

    Returns:
        Megabytes of the file and of memory (held by the model; at most while it loads), seconds to load it, and for
        each program passes and milliseconds a query; of the peer, why it is not there.

    Raises:
        ValueError: for an unknown name.
    """
    if name not in ARCHITECTURES:
        raise ValueError(f"no architecture {name!r}; there are {', '.join(ARCHITECTURES)}")
    with tempfile.TemporaryDirectory() as scratch:
        alone = {"max_workers": 1, "mp_context": get_context("spawn"), "max_tasks_per_child": 1}
        with ProcessPoolExecutor(**alone) as pool:  # type: ignore[call-overload]
            path = pool.submit(_write, name, Path(scratch), tuple(smiles)).result()
            found: dict[str, Any] = pool.submit(_measure, name, path, tuple(smiles), queries, length, threads).result()
            return found


def _write(name: str, folder: Path, smiles: Sequence[str]) -> Path:
    return ARCHITECTURES[name].write(folder, smiles)


def _memory(field: str) -> float:
    """Return megabytes of this process: VmRSS (now) or VmHWM (at most)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) * 1024 / 1e6


def _measure(name: str, path: Path, smiles: Sequence[str], count: int, length: int, threads: int) -> dict[str, Any]:
    files = [path] if path.is_file() else list(path.iterdir())
    before, wall, busy = _memory("VmRSS"), time.perf_counter(), time.process_time()
    engine = Engine.load(path, task="forward", device="cpu", threads=threads)
    found: dict[str, Any] = {
        "name": name,
        "file_mb": sum(file.stat().st_size for file in files) / 1e6,
        "runtime": engine.runtime,
        "load_s": time.perf_counter() - wall,
        "load_processor_s": time.process_time() - busy,
        "held_mb": _memory("VmRSS") - before,
        "most_mb": _memory("VmHWM"),
    }
    usable = [query for query in asset_files.bench_queries("forward") if engine.prepare(query).refusal is None]
    found["programs"] = _race(
        engine, ARCHITECTURES[name].against, *_peer(engine, name, path, smiles, length), usable[:count], length, threads
    )
    return found


class _Few:
    """Drafts a few tokens of the answer, which it was told."""

    def __init__(self, answers: Mapping[tuple[int, ...], tuple[int, ...]]) -> None:
        self._told = OracleDrafter(answers)

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return what follows the prefix."""
        return self._told.propose(source, prefix, min(TOLD, max_new_tokens))


def _race(
    engine: Engine, against: str, peer: Peer | None, missing: str, queries: Sequence[str], length: int, threads: int
) -> list[dict[str, Any]]:
    """Every query by all programs before the next."""
    plain = DecodeSettings(decoder="greedy", n=1, max_len=length, drafter="none", batch_size=1, drafting="fixed")
    sources = [engine.prepare(query).ids for query in queries]
    known = {ids: engine.generate_ids([ids], plain)[0][0].tokens for ids in sources}
    drafting = replace(engine, build_drafter=lambda *_: _Few(known))

    def ours(program: Engine, settings: DecodeSettings) -> Callable[[int], tuple[int, str]]:
        def answer(place: int) -> tuple[int, str]:
            result = program.predict(queries[place], settings)
            return len(result.trace.passes), result.hypotheses[0].smiles

        return answer

    programs = {"standard": ours(engine, plain), "speculative": ours(drafting, replace(plain, drafter="copy"))}
    if peer is not None:

        def theirs(place: int) -> tuple[int, str]:
            calls = peer.calls()
            answers = peer.answer(sources[place], 1)
            return peer.calls() - calls, answers[0]

        programs[f"{peer.name} {peer.version}"] = theirs
    taken: dict[str, list[tuple[float, float, int, str]]] = {program: [] for program in programs}
    for place in range(len(queries)):
        for program, answer in programs.items():
            with set_torch_threads(threads):
                wall, busy = time.perf_counter(), time.process_time()
                passes, text = answer(place)
                taken[program].append((time.perf_counter() - wall, time.process_time() - busy, passes, text))
    standard = [text for *_, text in taken["standard"]]
    rows: list[dict[str, Any]] = [
        {
            "program": program,
            "passes": fmean(passes for _, _, passes, _ in runs),
            "ms": 1000 * median(wall for wall, *_ in runs),
            "processor_ms": 1000 * fmean(busy for _, busy, *_ in runs),
            "same": sum(text == other for (*_, text), other in zip(runs, standard, strict=True)),
            "queries": len(runs),
        }
        for program, runs in taken.items()
    ]
    return [*rows, {"program": against, "missing": missing}] if missing else rows


def _peer(engine: Engine, name: str, path: Path, smiles: Sequence[str], length: int) -> tuple[Peer | None, str]:
    """The other program, or why it is not there."""
    architecture = ARCHITECTURES[name]
    try:
        file = architecture.again(path.parent, smiles) if architecture.again else path
        return peers.PEERS[architecture.against](engine, file, None, length), ""
    except ModuleNotFoundError as error:
        return None, str(error)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table in Markdown, processor time in brackets."""
    lines = [
        "| architecture | file, MB | runtime | load, s | memory held, at most, MB | program | passes | ms a query | same answers |",  # noqa: E501
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        load = f"{row['load_s']:.1f} ({row['load_processor_s']:.1f})"
        memory = f"{row['held_mb']:.0f}, {row['most_mb']:.0f}"
        head = f"{ARCHITECTURES[row['name']].title} | {row['file_mb']:.0f} | {row['runtime']} | {load} | {memory}"
        for one in row["programs"]:
            if "missing" in one:
                rest = f"{one['program']} | not installed | |"
            else:
                times = f"{one['passes']:.0f} | {one['ms']:.0f} ({one['processor_ms']:.0f})"
                rest = f"{one['program']} | {times} | {one['same']} of {one['queries']}"
            lines.append(f"| {head} | {rest} |")
            head = " | | | | "
    return "\n".join(lines)


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Architectures; default: all.")] = None,
    limit: Annotated[int, option("Queries of each.")] = 12,
    length: Annotated[int, option("Tokens of an answer.")] = 46,
    threads: int = 1,
    as_json: bool = False,
) -> None:
    """Load and decode random checkpoints of published architectures, beside their programs: memory, times, passes."""
    chosen = names or list(ARCHITECTURES)
    if unknown := [name for name in chosen if name not in ARCHITECTURES]:
        raise ValueError(f"no architecture {unknown[0]!r}; there are {', '.join(ARCHITECTURES)}")
    smiles = Engine.load("forward", threads=threads).tokenizer.tokens[len(SPECIALS) :]
    rows = []
    with console.progress_bar("architectures") as report:
        for number, name in enumerate(chosen):
            rows.append(run(name, smiles, queries=limit, length=length, threads=threads))
            report(number + 1, len(chosen))
    if not as_json:
        console.print_line(table(rows))
    console.print_json({"command": opt.command_line(), "machine": speed.describe_machine(threads), "rows": rows})


app = script(main)
if __name__ == "__main__":
    app()
