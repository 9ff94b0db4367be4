"""Another program's own decoder and ours, on the weights of one checkpoint: `python tests/programs/peers.py --help`.

They take turns query by query. The other program must be installed; it is called as its own command calls it. OpenNMT-
py reads its checkpoint by itself and so runs what is pickled in it; the others get weights that were read safely here.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any

import torch
import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.bench import speed
from chemspec.cli import options as opt
from chemspec.engine.engine import Engine, PreparedQuery
from chemspec.importers import pickled
from chemspec.importers.chemformer import read_tokens
from chemspec.importers.hf import HfTokenizer, load_network
from chemspec.settings import DecodeSettings
from chemspec.system.threads import set_torch_threads
from chemspec.tasks import check_task
from chemspec.terminal import console
from chemspec.tokenizer import BOS, EOS, PAD

Answers = list[str]  # SMILES, best first


@dataclass
class Peer:
    """Another program.

    Attributes:
        name, version: of it.
        answer: the best answers to one query, given its ids in our numbering and the width of the beam.
        calls: how often its decoder ran so far.
    """

    name: str
    version: str
    answer: Callable[[tuple[int, ...], int], Answers]
    calls: Callable[[], int]


def _needed(module: str, what: str) -> Any:
    """Import a module of another program.

    Raises:
        ModuleNotFoundError: with what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ModuleNotFoundError(f"{module} cannot be imported ({error}); {what}") from error


def _counted(module: torch.nn.Module) -> Callable[[], int]:
    """Count the runs of a network from now on."""
    calls = [0]

    def count(*_: Any) -> None:
        calls[0] += 1

    module.register_forward_pre_hook(count)
    return lambda: calls[0]


def _version(*packages: str) -> str:
    for package in packages:
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "from source"


def onmt(engine: Engine, file: Path, _vocab: Path | None, max_len: int) -> Peer:
    """Return OpenNMT-py, which needs no vocabulary beside its checkpoint."""
    install = "pip install OpenNMT-py==2.2.0 (Python 3.11 or 3.12)"
    if (installed := _version("OpenNMT-py")).startswith("3."):  # which is driven otherwise, and stops by other rules
        raise ValueError(f"OpenNMT-py {installed} is installed; this compares with 2.2.0: {install}")
    translator = _needed("onmt.translate.translator", install)
    opts, parse = _needed("onmt.opts", install), _needed("onmt.utils.parse", install)
    if "a_2" in " ".join(map(str, pickled.read_checkpoint(file)["model"])):
        raise ValueError(
            f"{file} is of OpenNMT-py 0.4.1, whose norm later releases load as another one; they would answer wrongly"
        )
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # or it cannot read its own file
    parser = parse.ArgumentParser()
    opts.config_opts(parser)
    opts.translate_opts(parser)
    words = ["-model", str(file), "-src", os.devnull, "-output", os.devnull, "-max_length", str(max_len)]
    program, widths = None, {}

    def made(width: int) -> Any:
        nonlocal program
        opt = parser.parse_args([*words, "-beam_size", str(width), "-n_best", str(width)])
        parse.ArgumentParser.validate_translate_opts(opt)
        built = translator.build_translator(opt, report_score=False)
        if program is not None:  # one network for all widths, so that its runs are counted
            built.model = program.model
        program = program or built
        return built

    widths[1] = made(1)
    tokens = engine.tokenizer.tokens

    def answer(ids: tuple[int, ...], width: int) -> Answers:
        if width not in widths:
            widths[width] = made(width)
        text = " ".join("<unk>" if token == 3 else tokens[token] for token in ids)
        _, found = widths[width].translate(src=[text], batch_size=1, batch_type="sents")
        return ["".join(word for word in one.split() if word not in ("<s>", "<blank>")) for one in found[0]]

    return Peer("OpenNMT-py", _version("OpenNMT-py"), answer, _counted(widths[1].model.decoder))


def translation_transformer(engine: Engine, file: Path, _vocab: Path | None, max_len: int) -> Peer:
    """Return translation-transformer; its ids are ours."""
    install = "git clone https://github.com/Academich/translation-transformer and put its folder src on PYTHONPATH"
    modules, decoding = _needed("model.modules", install), _needed("decoding.standard_decoding", install)
    values = pickled.read_checkpoint(file)
    told = pickled.named_values(values["hyper_parameters"])
    size = len(engine.tokenizer)
    names = ("num_encoder_layers", "num_decoder_layers", "embedding_dim", "num_heads", "feedforward_dim", "activation")
    shared = {"share_embeddings": told.get("share_embeddings", False)}
    network = modules.VanillaTransformer(size, size, **{name: told[name] for name in names}, **shared)
    network.load_state_dict({name.removeprefix("model."): part for name, part in values["state_dict"].items()})
    network.eval()
    special = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS}

    @torch.inference_mode()
    def answer(ids: tuple[int, ...], width: int) -> Answers:
        source = torch.tensor([[BOS, *ids, EOS]])
        if width == 1:
            written = decoding.TranslationInferenceGreedy(network, max_len + 1, **special).generate(source)
        else:
            search = decoding.TranslationInferenceBeamSearch(network, width, max_len + 1, **special)
            written = search.generate(source)
        return [engine.tokenizer.decode(row) for row in written[0].tolist()]

    return Peer("translation-transformer", "from source", answer, _counted(network.transformer.decoder))


def chemformer(engine: Engine, file: Path, vocab: Path | None, max_len: int) -> Peer:
    """Return Chemformer 1.x, whose network is that of 2.x too."""
    install = "pip install syntheseus-chemformer==0.3.0 and put its folder chemformer on PYTHONPATH"
    networks = _needed("molbart.models.pre_train", install)
    decoder = _needed("molbart.decoder", install)
    values = pickled.read_checkpoint(file)
    told = pickled.named_values(values["hyper_parameters"])
    ours = engine.tokenizer.tokens
    theirs = {"<PAD>": 0, "^": 1, "&": 2, "?": 3}
    words = read_tokens(file, vocab)
    numbers = [theirs[word] if word in theirs else ours.index(word) for word in words]
    back = {number: place for place, number in enumerate(numbers)}
    held = Namespace(
        vocab={word: place for place, word in enumerate(words)}, begin_token="^", pad_token="<PAD>", end_token="&"
    )
    held.convert_ids_to_tokens = lambda rows: [[numbers[token] for token in row] for row in rows]
    held.detokenise = lambda rows: [engine.tokenizer.decode(row) for row in rows]
    sampler = decoder.DecodeSampler(held, max_len + 2)
    size = {"vocab_size": len(words), "d_feedforward": told.get("d_feedforward", 2048)}
    names = ("d_model", "num_layers", "num_heads", "activation", "max_seq_len")
    rest = {"lr": 0.0, "weight_decay": 0.0, "num_steps": 1, "pad_token_idx": 0}
    network = networks.BARTModel(sampler, **rest, **size, **{name: told[name] for name in names})
    network.load_state_dict(values["state_dict"])
    network.eval()

    @torch.inference_mode()
    def answer(ids: tuple[int, ...], width: int) -> Answers:
        source = torch.tensor([[back[token] for token in (BOS, *ids, EOS)]]).T
        network.num_beams = width
        given = {"encoder_input": source, "encoder_pad_mask": torch.zeros_like(source, dtype=torch.bool)}
        texts, _ = network.sample_molecules(given, sampling_alg="beam" if width > 1 else "greedy")
        return list(texts[0]) if width > 1 else [texts[0]]

    return Peer("Chemformer", _version("syntheseus-chemformer"), answer, _counted(network.decoder))


def transformers(engine: Engine, folder: Path, _vocab: Path | None, max_len: int) -> Peer:
    """Return `generate` of transformers, told to rank as chemspec does."""
    if not isinstance(engine.tokenizer, HfTokenizer):
        raise ValueError(f"{folder} is no Hugging Face model")
    library, tokenizer = _needed("transformers", "pip install 'chemspec-smiles[hf]'"), engine.tokenizer
    causal = tokenizer.causal
    network = load_network(library, folder, tokenizer.template)[0].model
    before, after = tokenizer.around
    ours = tokenizer.numbers.ours

    @torch.inference_mode()
    def answer(ids: tuple[int, ...], width: int) -> Answers:
        last = (tokenizer.numbers.theirs[BOS],) if causal else after
        source = torch.tensor([[*before, *(tokenizer.numbers.theirs[token] for token in ids), *last]])
        how = {"num_beams": width, "num_return_sequences": width, "do_sample": False, "max_new_tokens": max_len}
        rules = {"length_penalty": 0.0, "early_stopping": False} if width > 1 else {}
        found = network.generate(input_ids=source, **how, **rules)
        start = source.shape[1] if causal else 1
        return [tokenizer.decode([ours.get(token, EOS) for token in row[start:]]) for row in found.tolist()]

    return Peer(
        "transformers", library.__version__, answer, _counted(network.base_model if causal else network.get_decoder())
    )


PEERS: dict[str, Callable[[Engine, Path, Path | None, int], Peer]] = {
    "onmt": onmt,
    "translation-transformer": translation_transformer,
    "chemformer": chemformer,
    "transformers": transformers,
}


def compare(
    engine: Engine,
    against: str,
    queries: Sequence[str],
    *,
    widths: Sequence[int] = (1, 5),
    drafter: str = "copy",
    rules: str = "chemspec",
    max_len: int = 200,
    threads: int = 1,
    vocab: Path | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[dict[str, Any]]:
    """Answer queries with both programs, each query by all of them before the next.

    Args:
        engine: ours, with the checkpoint loaded from where it lies.
        against: a name of `PEERS`.
        queries: SMILES.
        widths: of the beam; 1 is greedy.
        drafter: of our second row.
        rules: of our beams, see `DecodeSettings`.
        max_len: most tokens of an answer.
        threads: of the other program.
        vocab: the file of its vocabulary, if that lies apart.
        progress: called with the queries done and their number.

    Returns:
        A row for each program and width: passes and milliseconds a query (median, and processor time in the mean), and
        how many queries have the same best answer, and the same list, as our standard decoder gives.

    Raises:
        ModuleNotFoundError: with what to install.
        ValueError: for a program that cannot read this checkpoint, or queries that the model cannot read.
    """
    if against not in PEERS:
        raise ValueError(f"no program {against!r} to compare with; there are {', '.join(PEERS)}")
    ready = [one for one in map(engine.prepare, queries) if one.refusal is None]
    if not ready:
        raise ValueError("the model can read none of the queries")
    peer = PEERS[against](engine, pickled.find_checkpoint(engine.folder) or engine.folder, vocab, max_len)
    rows = []
    for width in widths:
        programs: list[tuple[str, Callable[[PreparedQuery], tuple[Answers, int]]]] = [
            (f"chemspec, {name}", _ours(engine, name, width, max_len, rules)) for name in ("none", drafter)
        ]
        programs.append((f"{peer.name} {peer.version}", _theirs(peer, width)))
        taken: dict[str, list[tuple[float, float, int, Answers]]] = {name: [] for name, _ in programs}
        for place, query in enumerate((ready[0], *ready)):  # the first one warms up
            for name, answer in programs:
                with set_torch_threads(threads):
                    wall, busy = time.perf_counter(), time.process_time()
                    answers, calls = answer(query)
                    spent = time.perf_counter() - wall, time.process_time() - busy
                if place:
                    taken[name].append((*spent, calls, answers))
            progress(place, len(ready))
        standard = [answers for *_, answers in taken[programs[0][0]]]
        for name, runs in taken.items():
            lists = [answers for *_, answers in runs]
            rows.append(
                {
                    "program": name,
                    "width": width,
                    "passes": fmean(calls for _, _, calls, _ in runs),
                    "ms": 1000 * median(wall for wall, *_ in runs),
                    "processor_ms": 1000 * fmean(busy for _, busy, *_ in runs),
                    "same_best": sum(one[:1] == other[:1] for one, other in zip(lists, standard, strict=True)),
                    "same_list": sum(one == other for one, other in zip(lists, standard, strict=True)),
                    "queries": len(runs),
                }
            )
    return rows


def _ours(
    engine: Engine, drafter: str, width: int, max_len: int, rules: str
) -> Callable[[PreparedQuery], tuple[Answers, int]]:
    decoder = "greedy" if width == 1 else "beam"
    settings = DecodeSettings(decoder=decoder, n=width, drafter=drafter, max_len=max_len, batch_size=1, rules=rules)

    def answer(query: PreparedQuery) -> tuple[Answers, int]:
        result = engine.predict(query.text, settings)
        return [one.smiles for one in result.hypotheses], len(result.trace.passes)

    return answer


def _theirs(peer: Peer, width: int) -> Callable[[PreparedQuery], tuple[Answers, int]]:
    def answer(query: PreparedQuery) -> tuple[Answers, int]:
        before = peer.calls()
        found = peer.answer(query.ids, width)
        return found, peer.calls() - before

    return answer


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table in Markdown."""
    head = "| program | width | passes a query | ms a query | processor ms | same best answer | same list |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for row in rows:
        alike = f"{row['same_best']} of {row['queries']} | {row['same_list']} of {row['queries']}"
        times = f"{row['passes']:.1f} | {row['ms']:.1f} | {row['processor_ms']:.1f}"
        lines.append(f"| {row['program']} | {row['width']} | {times} | {alike} |")
    return "\n".join(lines)


def main(
    checkpoint: Annotated[str, typer.Argument(help="Checkpoint of the other program, or an installed model.")],
    against: Annotated[str, typer.Argument(help=f"Program to compare with: {', '.join(PEERS)}.")],
    task: str = "",
    source: opt.Source = None,
    limit: Annotated[int, option("Queries per row.")] = 30,
    widths: Annotated[tuple[int, ...], option("Beam widths; 1 is greedy.")] = (1, 5),
    drafter: str = "copy",
    vocab: Annotated[Path | None, option("File of the checkpoint's vocabulary, where that lies apart.")] = None,
    rules: Annotated[bool, option("Search our beams by the rules of that program.", "--rules")] = False,
    template: str = "",
    max_len: int = opt.DEFAULT.max_len,
    threads: int = 1,
    device: str = "auto",
    dtype: str = "auto",
    runtime: str = "auto",
    as_json: bool = False,
) -> None:
    """Answer the same queries with another program's decoder and with ours, on the same weights."""
    how: dict[str, Any] = {"task": check_task(task) if task else None, "template": template, "vocab": vocab or ""}
    engine = Engine.load(checkpoint, threads=threads, device=device, dtype=dtype, runtime=runtime, **how)
    queries = [one.query for one in speed.read_queries(engine, source, limit)]
    with console.progress_bar("racing") as report:
        rows = compare(
            engine,
            against,
            queries,
            widths=widths,
            drafter=drafter,
            rules=against if rules else opt.DEFAULT.rules,
            max_len=max_len,
            threads=threads,
            vocab=vocab,
            progress=report,
        )
    if as_json:
        console.print_json({"command": opt.command_line(), "machine": speed.describe_machine(threads), "rows": rows})
    else:
        console.print_line(table(rows))


app = script(main)
if __name__ == "__main__":
    app()
