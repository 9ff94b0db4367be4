"""Checkpoints of other programs: what they compute, what they read, and what is refused."""

from __future__ import annotations

import io
import json
import lzma
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import foreign
from helpers.case_tables import table
from helpers.compilers import needs_compiler
from helpers.foreign import CHEMFORMER, ONMT, TT
from helpers.paths import SHARED
from helpers.small import check_lossless
from torch import Tensor
from typer.testing import CliRunner

from chemspec.cli.__main__ import app
from chemspec.engine.engine import Engine
from chemspec.importers import model_formats, pickled
from chemspec.importers.base import LoadedModel, LoadOptions
from chemspec.model.checkpoint import CheckpointError
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import SPECIALS

CHECKPOINTS = SHARED / "checkpoints"
CPU = {"device": "cpu", "threads": 1}
NAMES = {"<blank>": 0, "<PAD>": 0, "<s>": 1, "<BOS>": 1, "^": 1, "</s>": 2, "<EOS>": 2, "&": 2, "<unk>": 3, "?": 3}
NAMED = {token: SPECIALS[number] for token, number in NAMES.items()}
PRE = {"norm_first": True, "scale_embedding": True, "tied_output": False}
POST = {"norm_first": False, "scale_embedding": False, "tied_output": False, "source_specials": True}


def log_probs(loaded: LoadedModel, tokens: Sequence[str], source: Tensor, target: Tensor) -> Tensor:
    """Log-probs of a loaded model for texts in the other program's ids, in its numbering."""
    backend: Any = loaded.backend(RuntimeConfig("cpu", "fp32", "torch", 1))[0]
    special = {SPECIALS[number]: number for number in range(4)}
    ours = {token: number for number, token in enumerate(loaded.tokenizer.tokens)} | special
    numbers = torch.tensor([NAMES[token] if token in NAMES else ours[token] for token in tokens])
    with torch.inference_mode():
        logits = backend.model(numbers[source], numbers[target])
    return torch.log_softmax(logits, dim=-1)[..., numbers]


# --- genuine checkpoints ---------------------------------------------------------------------------


def genuine(name: str, tmp_path: Path) -> tuple[LoadedModel, list[str], Any]:
    """A checkpoint that the other program wrote: as loaded, its tokens, and what it computed itself."""
    folder = CHECKPOINTS / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there (CHEMSPEC_SHARED names the folder with genuine checkpoints)")
    file, vocab = next((one for one in folder.iterdir() if one.suffix in (".pt", ".ckpt")), None), None
    if name == "mt041":
        file = tmp_path / "mt.pt"
        file.write_bytes(lzma.decompress((folder / "mt_model_step_20.pt.xz").read_bytes()))
    if name == "onmt22":
        file = folder / "model_step_20.pt"
    if name.startswith("onmt") or name == "mt041":
        tokens = json.loads((folder / "oracle_itos.json").read_text())
    elif name == "tt":
        tokens = list(json.loads((folder / "vocab.json").read_text()).values())
    else:  # without its vocabulary; the texts of other tokens than the special ones do not matter
        tokens = ["<PAD>", "?", "^", "&", "<MASK>", "<SEP>", *(f"[X{number}]" for number in range(517))]
        vocab = tmp_path / "bart_vocab.txt"
        vocab.write_text("\n".join(tokens) + "\n")
    assert file is not None
    return model_formats.load(file, LoadOptions("forward", vocab=vocab)), tokens, np.load(folder / "oracle.npz")


@pytest.mark.parametrize("name", ["mt041", "onmt22", "tt", "chemformer_v2"])
def test_log_probs_are_those_that_the_other_program_computed(name: str, tmp_path: Path) -> None:
    loaded, tokens, oracle = genuine(name, tmp_path)
    source, target = torch.tensor(oracle["src"]), torch.tensor(oracle["tgt"])
    found = log_probs(loaded, tokens, source, target)
    padding = next(number for number, token in enumerate(tokens) if NAMES.get(token) == 0)
    real = (target != padding)[..., None]
    assert float(((found - torch.tensor(oracle["logp"])) * real).abs().max()) < 1e-5


RELATIVE = Path(__file__).with_name("original") / "onmt_relative.pt.xz"  # with what it computed beside it
SYMBOLS = ("<unk>", "<blank>", "<s>", "</s>", *"Cc12()=ON", "Br", "Cl", ".", "[nH]", "#", "<RX_1>")


@pytest.mark.parametrize("runtime", ["torch", "numpy", pytest.param("native", marks=needs_compiler)])
def test_a_checkpoint_of_opennmt_3_with_relative_positions_gives_its_100_answers(runtime: str, tmp_path: Path) -> None:
    """Random weights in the network of OpenNMT-py 3.5.1 (max_relative_positions 4, no table of positions)."""
    file = tmp_path / "relative.pt"
    file.write_bytes(lzma.decompress(RELATIVE.read_bytes()))
    oracle = np.load(RELATIVE.with_name("onmt_relative.npz"))
    loaded = model_formats.load(file, LoadOptions("forward"))
    found = log_probs(loaded, SYMBOLS, torch.tensor(oracle["src"]), torch.tensor(oracle["tgt"]))
    assert float((found - torch.tensor(oracle["logp"])).abs().max()) < 2e-5
    engine = Engine.load(file, task="forward", runtime=runtime, **CPU)
    ours = [NAMES.get(one, -1) if one in NAMES else engine.tokenizer.tokens.index(one) for one in SYMBOLS]
    sources = [tuple(ours[token] for token in row) for row in oracle["many"]]
    answers = engine.generate_ids(sources, DecodeSettings(decoder="greedy", n=1, max_len=24, drafter="copy"))
    for (answer,), row in zip(answers, oracle["greedy"], strict=True):
        assert answer.tokens == tuple(ours[token] for token in row)[: len(answer.tokens)]
        assert answer.ended == "eos" or len(answer.tokens) == 24


def test_by_its_rules_beams_are_those_that_opennmt_0_4_1_wrote(tmp_path: Path) -> None:
    """Of a hardly trained model: all are cut at the length limit."""
    loaded, _, _ = genuine("mt041", tmp_path)
    engine, folder = Engine.load(loaded.folder, task="forward", **CPU), CHECKPOINTS / "mt041"
    how = DecodeSettings(n=5, max_len=60, rules="onmt")
    wanted = iter((folder / "pred.txt").read_text().splitlines())
    for line in (folder / "s3.txt").read_text().splitlines():
        answers = engine.generate_ids([engine.tokenizer.encode("".join(line.split()))], how)[0]
        written = [" ".join(engine.tokenizer.token_texts(one.tokens)) for one in answers]
        assert written == [next(wanted) for _ in answers]


def test_greedy_tokens_are_those_that_the_other_program_wrote(tmp_path: Path) -> None:
    loaded, _, oracle = genuine("tt", tmp_path)
    engine = Engine.load(loaded.folder, task="forward", **CPU)
    for source, written in zip(oracle["src"], oracle["greedy"], strict=True):
        ids = tuple(int(token) for token in source if token > 2)
        want = [int(token) for token in written[0] if token][1:]
        settings = DecodeSettings(decoder="greedy", n=1, max_len=len(want), drafter="copy")
        (answer,) = engine.generate_ids([ids], settings)[0]
        assert list(answer.tokens)[: len(want)] == want


# --- the same in small, written here ---------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """How to write a checkpoint, and the network that it should become."""

    write: Callable[[Path, Transformer], Path]
    tokens: Sequence[str]
    options: dict[str, Any]
    file: str = "model.pt"
    biases: bool = True

    def network(self) -> Transformer:
        """The network, in the other program's ids."""
        model = foreign.network(len(self.tokens), **self.options)
        for name, weight in model.named_parameters():
            if not self.biases and name.endswith("bias") and "layers" in name and "norm" not in name:
                weight.zero_()
        return model


def _onmt(**how: Any) -> Callable[[Path, Transformer], Path]:
    return lambda file, model: foreign.onmt(file, model, **how)


EPS = {"layer_norm_eps": 1e-6}
FAMILIES = {
    "onmt 0.4.1": Family(_onmt(version="0"), ONMT, {**PRE, "layer_norm_eps": 1e-12}),
    "onmt 0.4.1 as of torch 0.4": Family(_onmt(version="0", legacy=True), ONMT, {**PRE, "layer_norm_eps": 1e-12}),
    "onmt 2": Family(_onmt(), ONMT, {**PRE, **EPS, "shared_embedding": False}),
    "onmt 2 tied": Family(_onmt(), ONMT, {**PRE, **EPS, "tied_output": True}),
    "onmt 2 relative": Family(_onmt(), ONMT, {**PRE, **EPS, "relative_vectors": 4}),
    "onmt 3 gelu": Family(
        _onmt(version="3", pos_ffn_activation_fn="gelu", norm_eps=1e-5),
        ONMT,
        {**PRE, "activation": "gelu"},
        biases=False,
    ),
    "translation-transformer": Family(foreign.translation_transformer, TT, {**POST}, "last.ckpt"),
    "chemformer": Family(
        foreign.chemformer, CHEMFORMER, {**PRE, "activation": "gelu", "source_specials": True}, "last.ckpt"
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_checkpoint_computes_what_its_network_does(name: str, tmp_path: Path) -> None:
    family = FAMILIES[name]
    model = family.network()
    file = family.write(tmp_path / family.file, model)
    loaded = model_formats.load(file, LoadOptions("forward"))
    random = torch.Generator().manual_seed(5)
    source, target = (torch.randint(6, len(family.tokens), (3, 20), generator=random) for _ in range(2))
    found = log_probs(loaded, family.tokens, source, target)
    with torch.inference_mode():
        wanted = torch.log_softmax(model(source, target), dim=-1)
    assert float((found - wanted).abs().max()) < 1e-5


@needs_compiler
@pytest.mark.parametrize("dtype", ["fp32", "int8"])
@pytest.mark.parametrize("name", ["onmt 0.4.1", "onmt 2 relative", "translation-transformer", "chemformer"])
def test_drafts_and_batches_change_no_bit_of_its_answers_in_the_kernel(name: str, dtype: str, tmp_path: Path) -> None:
    family = FAMILIES[name]
    file = family.write(tmp_path / family.file, family.network())
    engine = Engine.load(file, task="retro", runtime="native", dtype=dtype, **CPU)
    assert (engine.runtime, engine.dtype) == ("native", dtype)
    check_lossless(engine, ["CC(=O)Nc1ccccc1", "CCO", "O=C(O)c1ccc(Br)cc1"], max_len=40)


@pytest.mark.parametrize("whose", ["its authors'", "transformers 5's"])
def test_reactiont5_reads_the_blank_that_its_authors_feed(whose: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder, authors = CHECKPOINTS / "rt5", CHECKPOINTS / "rt5_440"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there (CHEMSPEC_SHARED names the folder with genuine checkpoints)")
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    if whose == "its authors'":
        (tmp_path / "tokenizer.json").write_bytes((authors / "tokenizer.json").read_bytes())
    loaded = model_formats.load(tmp_path, LoadOptions("forward", "reactiont5-forward"))
    tokenizer: Any = loaded.tokenizer
    ids = [tokenizer.numbers.theirs[token] for token in tokenizer.encode("CCBr.Cl")]
    start, end, blank = [181, 3, 5, 5, 29, 28, 39, 151, 182], [1], [3]  # REACTANT: ▁ C C B r . Cl REAGENT:
    assert tokenizer.around == ([], end)
    if whose == "its authors'":
        assert ids == start + blank and not loaded.notes
    else:
        assert ids == start and "drops the blank" in loaded.notes[0]
    out = tmp_path / "out"
    assert loaded.save is not None
    loaded.save(out, "card")
    again = model_formats.load(out)
    assert (again.task, again.digest != "", again.tokenizer.encode("CCO")) == ("forward", True, tokenizer.encode("CCO"))


# --- what it reads ---------------------------------------------------------------------------------


def test_the_source_may_have_another_vocabulary_than_the_target(tmp_path: Path) -> None:
    model = foreign.network(len(ONMT), **PRE, **EPS, shared_embedding=False)
    source, target = [*ONMT[:-4], "[Pt]", "[Se]"], [*ONMT[:-3]]  # the target alone has ONMT[-4]
    file = foreign.onmt(tmp_path / "two.pt", model, source=source, target=target, sizes=(len(source), len(target)))
    loaded = model_formats.load(file, LoadOptions("retro"))
    tokens = loaded.tokenizer.tokens
    assert set(tokens[4:]) == {*source[4:], *target[4:]}
    places = [torch.tensor([tokens.index(NAMED.get(one, one)) for one in side]) for side in (source, target)]
    read, written = torch.randint(4, len(source), (2, 9)), torch.randint(4, len(target), (2, 9))
    backend: Any = loaded.backend(RuntimeConfig("cpu", "fp32", "torch", 1))[0]
    with torch.inference_mode():
        found = torch.log_softmax(backend.model(places[0][read], places[1][written]), dim=-1)
        wanted = torch.log_softmax(model(read, written)[..., : len(target)], dim=-1)
    assert float((found[..., places[1]] - wanted).abs().max()) < 1e-5
    assert float(found.exp().sum(-1).sub(found[..., places[1]].exp().sum(-1)).abs().max()) < 1e-6
    engine = Engine.load(file, task="retro", **CPU)
    assert engine.prepare("C[Se]C").ids == tuple(map(tokens.index, ("C", "[Se]", "C")))
    assert ONMT[-4] == "[Na+]" and "[Na+]" in engine.predict("[Na+].C", n=1).message


def test_marks_come_before_the_smiles_by_query_or_by_template(tmp_path: Path) -> None:
    file = foreign.onmt(tmp_path / "model.pt", foreign.network(len(ONMT), **PRE, **EPS))
    engine = Engine.load(file, task="retro", **CPU)
    marked, spaced = engine.prepare("<RX_2>CCO"), engine.prepare("<RX_2> C C O")
    assert marked.tokens == ("<RX_2>", "C", "C", "O") == spaced.tokens
    told = Engine.load(file, task="retro", template="<RX_2>{query}", **CPU)
    assert told.prepare("OCC").ids == marked.ids
    assert told.tokenizer.prompt_length == 1
    assert engine.prepare("<RX_9>CCO").refusal is not None
    with pytest.raises(CheckpointError, match="template"):
        Engine.load(file, task="retro", template="<RX_9>{query}", **CPU)
    wide = foreign.network(len(CHEMFORMER), **PRE, activation="gelu", source_specials=True)
    optimiser = Engine.load(foreign.chemformer(tmp_path / "last.ckpt", wide), task="retro", **CPU)
    assert optimiser.prepare("LogD_change_(-0.1, 0.1]CCO").tokens == ("LogD_change_(-0.1, 0.1]", "C", "C", "O")
    spellings = engine._reader.variants(marked, DecodeSettings(augment=3))
    assert len(spellings) > 1 and {row.tokens[0] for row in spellings} == {"<RX_2>"}


def test_unknown_tokens_are_refused_by_name_or_read_as_unk_as_told(tmp_path: Path) -> None:
    file = foreign.translation_transformer(tmp_path / "last.ckpt", foreign.network(len(TT), **POST))
    refused = Engine.load(file, task="retro", **CPU).predict("C[SiH3]", n=1)
    assert refused.status == "invalid" and "'[SiH3]'" in refused.message
    loaded = model_formats.load(file, LoadOptions("retro", unknown_as_unk=True))
    assert loaded.tokenizer.encode("C[SiH3]") == (4, 3)


# --- the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["onmt 0.4.1", "translation-transformer", "chemformer"])
def test_import_writes_a_folder_that_answers_alike(name: str, tmp_path: Path) -> None:
    family, out = FAMILIES[name], tmp_path / "out"
    file = family.write(tmp_path / family.file, family.network())
    done = CliRunner().invoke(app, ["import", str(file), "-o", str(out), "--task", "retro", "--license", "CC BY 4.0"])
    assert done.exit_code == 0, done.output
    for word in ("encoder_layers 2, decoder_layers 2", "vocabulary:", "norm_first", "stored_positions True"):
        assert word in done.stdout
    card = (out / "card.md").read_text()
    assert "CC BY 4.0" in card and str(file) in card
    assert {one.name for one in out.iterdir()} == {
        "config.json",
        "model.safetensors",
        "vocab.json",
        "card.md",
        "manifest.json",
    }
    direct, imported = (Engine.load(path, task="retro", **CPU) for path in (file, out))
    for query in ("CC(=O)Nc1ccccc1", "C C O"):
        one, other = (engine.predict(query, n=4, max_len=30, distinct=False) for engine in (direct, imported))
        assert one.hypotheses == other.hypotheses and one.hypotheses
    again = CliRunner().invoke(app, ["import", str(file), "-o", str(out)])
    assert again.exit_code == 2 and "holds a model" in again.output


# --- what is refused -------------------------------------------------------------------------------


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.file}",)


@pytest.mark.parametrize("legacy", [False, True])
def test_code_in_a_pickle_is_refused_and_not_run(legacy: bool, tmp_path: Path) -> None:
    file, mark = tmp_path / "model.pt", tmp_path / "ran"
    parts = {"model": {}, "generator": {}, "vocab": Bomb(mark), "opt": {}}
    torch.save(parts, file, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(CheckpointError, match=r"nothing in it was run: it names \w+\.system"):
        model_formats.load(file)
    assert not mark.exists()
    pickle.loads(pickle.dumps(Bomb(mark)))  # it would have
    assert mark.exists()


@pytest.mark.parametrize("call", table("importers/refused_names"))
def test_every_other_name_is_refused(call: tuple[str, str]) -> None:
    with pytest.raises(pickled.RefusedError, match="which no checkpoint needs"):
        pickled.Unpickler(io.BytesIO()).find_class(*call)


def test_a_pickle_cannot_change_what_stands_for_a_name() -> None:
    known = pickled.Unpickler(io.BytesIO())
    build = known.find_class("torch._utils", "_rebuild_tensor_v2")
    build.__defaults__ = build.__dict__["changed"] = (1,)
    again = known.find_class("torch._utils", "_rebuild_tensor_v2")
    assert again.__defaults__ is None and not again.__dict__
    inert = known.find_class("argparse", "Namespace")
    assert inert is not known.find_class("argparse", "Namespace") and issubclass(inert, pickled.Inert)
    assert inert("touch x", shell=True) == {}


@pytest.mark.parametrize("keep", [0.2, 0.6, 0.99])
def test_a_file_that_is_cut_off_is_refused(keep: float, tmp_path: Path) -> None:
    for legacy in (False, True):
        file = foreign.onmt(tmp_path / "model.pt", foreign.network(len(ONMT), **PRE, **EPS), legacy=legacy)
        whole = file.read_bytes()
        file.write_bytes(whole[: int(keep * len(whole))])
        with pytest.raises(CheckpointError, match="damaged or cut off"):
            model_formats.load(file)


def test_a_file_of_another_family_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    torch.save({"weights": {}, "step": 3}, tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match="not of a known format; its parts are weights, step"):
        model_formats.load(tmp_path / "x.pt")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CheckpointError, match="neither a model folder nor a torch checkpoint"):
        model_formats.load(tmp_path / "notes.txt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(CheckpointError, match="holds a list"):
        model_formats.load(tmp_path / "list.pt")
    with pytest.raises(CheckpointError, match=r"several checkpoints, list\.pt, x\.pt"):
        model_formats.load(tmp_path)
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "program.pt")
    with pytest.raises(CheckpointError, match="TorchScript"):
        model_formats.load(tmp_path / "program.pt")


def test_a_missing_vocabulary_is_named(tmp_path: Path) -> None:
    file = foreign.translation_transformer(tmp_path / "last.ckpt", foreign.network(len(TT), **POST))
    (tmp_path / "vocab.json").unlink()
    with pytest.raises(CheckpointError, match=r"does not hold its vocabulary.*--vocab FILE"):
        model_formats.load(file)
    model = foreign.network(len(CHEMFORMER), **PRE, activation="gelu", source_specials=True)
    other = foreign.chemformer(tmp_path / "chem.ckpt", model, with_tokens=False)
    with pytest.raises(CheckpointError, match=r"bart_vocab\.txt"):
        model_formats.load(other)
    lines = tmp_path / "bart_vocab.txt"
    lines.write_text("\n".join(CHEMFORMER) + "\n")
    new = tmp_path / "v2.json"
    new.write_text(json.dumps({"properties": {}, "vocabulary": list(CHEMFORMER)}))
    one, two = model_formats.load(other), model_formats.load(other, LoadOptions(vocab=new))
    assert one.tokenizer == two.tokenizer
    assert one.tokenizer.tokens[4:7] == ("<MASK>", "<SEP>", "LogD_change_(-0.1, 0.1]")


def test_another_vocabulary_size_is_refused_with_both_sizes(tmp_path: Path) -> None:
    model = foreign.network(len(ONMT), **PRE, **EPS)
    with pytest.raises(CheckpointError, match=rf"has {len(ONMT) - 1} tokens, its table of embeddings is {len(ONMT)} x"):
        model_formats.load(foreign.onmt(tmp_path / "model.pt", model, source=ONMT[:-1], target=ONMT[:-1]))
    file = foreign.translation_transformer(tmp_path / "last.ckpt", foreign.network(len(TT), **POST))
    (tmp_path / "vocab.json").write_text(json.dumps({str(i): token for i, token in enumerate(TT[:-1])}))
    with pytest.raises(CheckpointError, match="tokens, its table of embeddings"):
        model_formats.load(file)


@pytest.mark.parametrize("option", table("importers/refused_options"))
def test_an_unsupported_option_is_named(option: dict[str, Any], tmp_path: Path) -> None:
    file = foreign.onmt(tmp_path / "model.pt", foreign.network(len(ONMT), **PRE, **EPS), **option)
    ((name, value),) = option.items()
    with pytest.raises(CheckpointError, match=f"option {name} is {value!r}, which chemspec does not compute"):
        model_formats.load(file)


@pytest.mark.parametrize("token", ["CC", "▁C", "["])
def test_a_vocabulary_of_other_pieces_than_atoms_is_refused(token: str, tmp_path: Path) -> None:
    words = [*ONMT[:-1], token]
    file = foreign.onmt(tmp_path / "model.pt", foreign.network(len(ONMT), **PRE, **EPS), source=words, target=words)
    with pytest.raises(CheckpointError, match="does not split SMILES atom by atom"):
        model_formats.load(file)


@pytest.mark.parametrize(("number", "why"), [(float("nan"), "infinite or undefined"), (0, "do not depend on the text")])
def test_a_network_of_useless_numbers_is_refused(number: float, why: str, tmp_path: Path) -> None:
    model = foreign.network(len(TT), **POST)
    for weight in model.parameters() if number == 0 else [model.decoder.layers[0].linear1.weight[0, 0]]:
        weight.data.fill_(number)
    with pytest.raises(CheckpointError, match=why):
        model_formats.load(foreign.translation_transformer(tmp_path / "last.ckpt", model))


def test_a_checkpoint_without_a_task_says_what_it_is_taken_for(tmp_path: Path) -> None:
    (tmp_path / "USPTO_50K").mkdir()
    model = foreign.network(len(ONMT), **PRE, **EPS)
    for folder, task in ((tmp_path, "forward"), (tmp_path / "USPTO_50K", "retro")):
        loaded = model_formats.load(foreign.onmt(folder / "model.pt", model))
        assert loaded.task == task and f"assumed to be a {task} model" in loaded.notes[0]
        assert model_formats.load(folder / "model.pt", LoadOptions("retro")).notes == ()
