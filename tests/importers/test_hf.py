"""Hugging Face models: our trees give the logits of transformers, our decoders its answers."""

from __future__ import annotations

import atexit
import json
import random
import shutil
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from helpers.case_tables import table
from helpers.compilers import needs_compiler, skip_without_compiler
from helpers.small import check_lossless
from typer.testing import CliRunner

from chemspec.cli import __main__ as cli
from chemspec.decode.beam import greedy_search
from chemspec.decode.decoding import Decoding
from chemspec.decode.peer_rules import peer_search
from chemspec.decode.protocol import LoopOptions
from chemspec.draft.base import NoDrafts
from chemspec.engine.engine import Engine
from chemspec.importers import hf, hf_weights
from chemspec.importers.base import LoadOptions
from chemspec.importers.hf_weights import HfNetwork
from chemspec.model.checkpoint import CheckpointError
from chemspec.model.cost import CostCurve
from chemspec.model.runner import Backend, CompactionThreshold
from chemspec.model.runners.torch_runner import best_tokens
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Session
from chemspec.model.weights import Weights
from chemspec.settings import DecodeSettings, ModelConfig
from chemspec.tokenizer import BOS, EOS, TokenError
from chemspec.types import FinishedSequence, Prefix

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

KINDS = ("t5 v1.0", "t5 v1.1", "bart", "mbart", "marian", "pegasus")
NETWORKS = {kind: (name, options) for kind, name, options in table("importers/small_networks")}
QUERIES = ["CC(=O)Oc1ccccc1", "CCO", "BrCCN", "C", "CC(=O)NCC(=O)O", "ClC1CCC1"]
MAX_LEN = 24


# --- small models, made on the spot ----------------------------------------------------------------


def write_tokenizer(folder: Path, kind: str, *, blanks: bool = False) -> int:
    """A tokenizer with tokens of several letters; returns the size of its vocabulary."""
    specials = ["<pad>", "</s>", "<unk>"] if "t5" in kind else ["<s>", "<pad>", "</s>", "<unk>"]
    words = ["C(=O)", "c1ccccc1", "CC", "Br", "Cl", "▁", *"CNOSFcnos()=#-+.123[]H@REAGT:"]
    vocab = {word: place for place, word in enumerate(dict.fromkeys([*specials, *words]))}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="<unk>"))
    pattern = tokenizers.Regex(r"c1ccccc1|C\(=O\)|CC|Br|Cl|.")
    splitting = tokenizers.pre_tokenizers.Split(pattern, "isolated")
    if blanks:  # as sentencepiece does: a blank before every text, written as a token
        blank = tokenizers.pre_tokenizers.Metaspace(split=False)
        splitting = tokenizers.pre_tokenizers.Sequence([blank, splitting])
    inner.pre_tokenizer = splitting
    inner.decoder = tokenizers.decoders.Metaspace() if blanks else tokenizers.decoders.Fuse()
    around = "$A </s>" if "t5" in kind else "<s> $A </s>"
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single=around, special_tokens=[(one, vocab[one]) for one in ("<s>", "</s>") if one in vocab]
    )
    named = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    if "t5" not in kind:
        named["bos_token"] = "<s>"
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **named).save_pretrained(folder)
    return len(vocab)


def network(kind: str, size: int) -> Any:
    torch.manual_seed(0)
    name, options = NETWORKS[kind]
    config = getattr(transformers, f"{name}Config")(vocab_size=size + 3, **options)
    model = getattr(transformers, "MarianMTModel" if name == "Marian" else f"{name}ForConditionalGeneration")(config)
    if kind == "t5 v1.1":
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    if name != "T5":
        model.generation_config.forced_eos_token_id = None  # see the test of answers that are cut
        model.final_logits_bias = 0.5 * torch.randn(1, size + 3)
    return model


@cache
def folder_of(kind: str) -> Path:
    """A model that has learned to copy a few texts: random ones ignore what they read and never end."""
    folder = Path(mkdtemp(prefix="chemspec-hf-"))
    atexit.register(shutil.rmtree, folder, True)
    size = write_tokenizer(folder, kind)
    model = network(kind, size)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "relative_attention_bias" in name or (tensor.ndim == 1 and "norm" in name):
                tensor.add_(0.3 * torch.randn_like(tensor))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    read = tokenizer(QUERIES, padding=True, return_tensors="pt")
    labels = read["input_ids"].masked_fill(read["attention_mask"] == 0, -100)
    if "t5" not in kind:
        labels = labels[:, 1:].contiguous()  # no <s>
    for _ in range(60 if "t5" in kind else 150):
        loss = model(input_ids=read["input_ids"], attention_mask=read["attention_mask"], labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    return folder


@dataclass(frozen=True)
class Theirs:
    """A model of transformers, and what reads and writes its text."""

    model: HfNetwork
    tokenizer: hf.HfTokenizer


def theirs_of(folder: Path) -> Theirs:
    return Theirs(*hf.load_network(transformers, folder))


@cache
def loaded(kind: str) -> Theirs:
    """In double precision, that rounding may not hide or make a difference."""
    found = theirs_of(folder_of(kind))
    found.model.model.to(dtype=torch.float64)
    for part in found.model.model.modules():
        if type(part).__name__ == "T5LayerNorm":  # computes in single precision even then
            part.forward = partial(wide_norm, part)
    return found


def wide_norm(norm: Any, x: torch.Tensor) -> torch.Tensor:
    scaled: torch.Tensor = norm.weight * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + norm.variance_epsilon)
    return scaled


@cache
def own(kind: str, runtime: str) -> Backend:
    """A network of ours: in torch in double precision, in the kernel in fp32."""
    dtype = "fp64" if runtime == "torch" else "fp32"
    found = hf.load(folder_of(kind), LoadOptions(task="retro"))
    assert isinstance(found.config, ModelConfig)
    backend, ran = found.backend(RuntimeConfig("cpu", dtype, runtime, 2))
    assert ran == runtime
    return backend


@pytest.fixture(params=["torch", "native"])
def way(request: pytest.FixtureRequest) -> str:
    """The runtime of a network of ours."""
    if request.param == "native":
        skip_without_compiler()
    return str(request.param)


@cache
def engine(kind: str) -> Engine:
    found = Engine.load(folder_of(kind), task="retro", device="cpu", dtype="fp64", threads=1)
    found.resources.measured_curve = CostCurve((1, 128), (1.0, 1.3))  # guesses are cheap: `auto` must not measure here
    return found


def copy_of(kind: str, folder: Path, file: str = "", **changes: Any) -> Path:
    """A copy of a model's folder, of which one file of JSON has other values."""
    shutil.copytree(folder_of(kind), folder)
    if file:
        values = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**values, **changes}))
    return folder


# --- against transformers --------------------------------------------------------------------------


def their_log_probs(found: Theirs, source: Sequence[int], text: Prefix) -> dict[Prefix, dict[int, float]]:
    """Log-probs after every beginning of a text, by transformers itself, without cache or tree."""
    numbers = found.model.numbers
    before, after = found.model.around
    output = found.model.model(
        input_ids=torch.tensor([[*before, *(numbers.theirs[token] for token in source), *after]]),
        decoder_input_ids=torch.tensor([[numbers.theirs[token] for token in text]]),
    )
    rows = torch.log_softmax(output.logits[0], dim=-1).tolist()
    return {
        text[: place + 1]: {numbers.ours[token]: value for token, value in enumerate(row)}
        for place, row in enumerate(rows)
    }


@cache
def rounding(kind: str) -> float:
    """How far log-probs of transformers in single precision are from those in double precision."""
    single, worst = theirs_of(folder_of(kind)), 0.0
    source, rng = single.tokenizer.encode(QUERIES[0]), random.Random(0)
    for _ in range(20):
        text = (BOS, *(rng.choice(single.model.numbers.written) for _ in range(20)))
        for prefix, row in their_log_probs(loaded(kind), source, text).items():
            there = their_log_probs(single, source, text)[prefix]
            worst = max(worst, *(abs(there[token] - value) for token, value in row.items()))
    return worst


def worst_difference(found: Theirs, backend: Backend) -> float:
    """Score random trees of two queries in several passes, with pruning and a query that leaves; compare everything."""
    rng, top_k, worst = random.Random(1), 99, 0.0
    sources = [found.tokenizer.encode(text) for text in (QUERIES[0], QUERIES[1], QUERIES[4])]
    session = Session(backend, sources, top_k=top_k)
    session.compaction_threshold = CompactionThreshold(1.5, 0, 0)  # compact at once
    texts: dict[int, list[Prefix]] = {query: [(BOS,)] for query in range(3)}
    written = found.model.numbers.written
    for turn in range(6):
        asked = []
        for query in session.queries:
            stems = rng.sample(texts[query], min(3, len(texts[query])))
            new = [(*stem, *(rng.choice(written) for _ in range(rng.randint(1, 5)))) for stem in stems]
            asked.append([prefix for prefix in new if len(prefix) < 30])
        for query, scores in zip(session.queries, session.score(asked), strict=True):
            known: dict[Prefix, dict[int, float]] = {}
            for prefix, score in reversed(scores.items()):
                if prefix not in known:
                    known |= their_log_probs(found, sources[query], prefix)
                wanted, told = known[prefix], dict(zip(score.ids, score.log_probs, strict=True))
                assert set(wanted) <= set(told)
                assert all(told[token] < -1000 for token in set(told) - set(wanted))  # which the model cannot write
                worst = max(worst, *(abs(told[token] - value) for token, value in wanted.items()))
            texts[query] = list(scores) or texts[query]
        if turn == 2:
            session.release([1])
        session.compact({query: texts[query][-1:] for query in session.queries})
        for query in session.queries:
            texts[query] = [one for one in texts[query] if one in session.trees[query].slots]
    return worst


@pytest.mark.parametrize("kind", KINDS)
def test_trees_have_the_logits_of_transformers(kind: str, way: str) -> None:
    worst = worst_difference(loaded(kind), own(kind, way))
    if way == "native":  # not much farther off than transformers itself is in single precision
        assert worst < max(1e-5, 4 * rounding(kind))
    else:  # the gain of v1.0 is rounded when it goes into a norm
        assert worst < (2e-5 if kind == "t5 v1.0" and way == "torch" else 1e-9)


def generate(found: Theirs, text: str, **options: Any) -> list[tuple[list[int], float]]:
    """What `generate` writes after its first token, cut at eos, with the sum of the log-probs."""
    read = found.tokenizer.inner(text, return_tensors="pt")
    out = found.model.model.generate(
        input_ids=read["input_ids"],
        attention_mask=read["attention_mask"],
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **{"max_new_tokens": MAX_LEN, **options},
    )
    eos = found.model.numbers.theirs[EOS]
    texts = []
    for row in out.sequences.tolist():
        tokens = row[1:]
        texts.append(tokens[: tokens.index(eos) + 1] if eos in tokens else tokens)
    scores = getattr(out, "sequences_scores", None)
    return list(zip(texts, [0.0] * len(texts) if scores is None else scores.tolist(), strict=True))


def ours(found: Theirs, text: str, decoder: Any, top_k: int, backend: Backend) -> list[FinishedSequence]:
    source = found.tokenizer.encode(text)
    session = Session(backend, [source], top_k=top_k)
    run = Decoding([source], [decoder], session, NoDrafts(), LoopOptions(max_len=MAX_LEN))
    return run.run_to_end()[0]


def in_theirs(found: Theirs, answer: FinishedSequence) -> list[int]:
    return [found.model.numbers.theirs[token] for token in answer.tokens]


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_is_that_of_generate(kind: str, way: str) -> None:
    found, lengths = loaded(kind), set()
    for text in QUERIES:
        (answer,) = ours(found, text, greedy_search(max_len=MAX_LEN), 2, own(kind, way))
        assert [in_theirs(found, answer)] == [tokens for tokens, _ in generate(found, text)]
        lengths.add(len(answer.tokens))
    assert len(lengths) > 2  # the models do look at what they read


@pytest.mark.parametrize("kind", ["t5 v1.1", "bart", "marian", "pegasus"])
@pytest.mark.parametrize(("penalty", "most"), [(0.0, 6), (1.0, 6), (1.0, MAX_LEN)])
def test_by_its_rules_beams_are_those_of_generate_to_the_last_place(kind: str, penalty: float, most: int) -> None:
    """Cut answers among them, and with the penalty that it applies by default."""
    found, cut = loaded(kind), 0
    for text in QUERIES:
        search = peer_search(rules="transformers", width=3, max_len=most, length_penalty=penalty)
        answers = ours(found, text, search, 4, own(kind, "torch"))
        how = {"num_beams": 3, "num_return_sequences": 3, "length_penalty": penalty, "max_new_tokens": most}
        theirs = generate(found, text, **how)
        assert [in_theirs(found, answer) for answer in answers] == [tokens for tokens, _ in theirs]
        for answer, (_, score) in zip(answers, theirs, strict=True):
            assert answer.log_prob / len(answer.tokens) ** penalty == pytest.approx(score, abs=1e-4)
        cut += sum(answer.ended == "length" for answer in answers)
    assert (cut > 0) == (most == 6)


def test_a_forced_first_token_comes_first(tmp_path: Path) -> None:
    folder = copy_of("bart", tmp_path / "forced", "generation_config.json", forced_bos_token_id=9)
    found = theirs_of(folder)
    for runtime in ("auto", "torch"):
        backend, _ = hf.load(folder, LoadOptions(task="retro")).backend(RuntimeConfig("cpu", "fp32", runtime, 1))
        for text in QUERIES[:3]:
            (answer,) = ours(found, text, greedy_search(max_len=MAX_LEN), 2, backend)
            tokens = in_theirs(found, answer)
            assert tokens[0] == 9 and answer.log_probs[0] == 0.0
            assert [tokens] == [one for one, _ in generate(found, text)]


@needs_compiler
@pytest.mark.parametrize("kind", ["t5 v1.1", "bart"])
@pytest.mark.parametrize("dtype", ["fp32", "int8"])
def test_drafts_and_batches_change_no_bit_in_the_kernel(kind: str, dtype: str) -> None:
    found = Engine.load(folder_of(kind), task="retro", device="cpu", dtype=dtype, runtime="native", threads=2)
    check_lossless(found, QUERIES, max_len=MAX_LEN)


# --- ids and texts ---------------------------------------------------------------------------------


def test_a_tokenizer_keeps_text_and_fills_the_template() -> None:
    found = loaded("t5 v1.0")
    plain = hf.HfTokenizer(found.tokenizer.inner, found.model.numbers)
    for text in QUERIES:
        ids = plain.encode(text)
        assert plain.decode((*ids, EOS, 7)) == text == "".join(plain.token_texts(ids))
    assert plain.token_texts(plain.encode("CC(=O)O")) == ["CC", "(", "=", "O", ")", "O"]
    filled = hf.HfTokenizer(found.tokenizer.inner, found.model.numbers, "REACTANT:{query}REAGENT:")
    assert filled.decode(filled.encode("CCO")) == "REACTANT:CCOREAGENT:"
    assert filled.token_texts(filled.encode("CCO")[filled.prompt_length :])[:2] == ["CC", "O"]
    with pytest.raises(ValueError, match=r"must hold \{query\} once"):
        hf.HfTokenizer(found.tokenizer.inner, found.model.numbers, "REACTANT:")


def test_blanks_of_sentencepiece_are_no_text(tmp_path: Path) -> None:
    folder = copy_of("t5 v1.0", tmp_path / "blanks")
    write_tokenizer(folder, "t5 v1.0", blanks=True)
    tokenizer = hf.load(folder, LoadOptions(task="retro")).tokenizer
    ids = tokenizer.encode("CC(=O)O")
    assert tokenizer.token_texts(ids)[0] == "" and "".join(tokenizer.token_texts(ids)) == "CC(=O)O"
    assert tokenizer.decode((*ids, tokenizer.tokens.index("."), EOS)) == "CC(=O)O"


def test_a_query_that_the_tokenizer_cannot_restore_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match=r"never seen 'I' \(position 3\)"):
        loaded("bart").tokenizer.encode("CCI")
    (result,) = engine("bart").predict(["CCI"])
    assert result.status == "invalid" and "never seen 'I'" in result.message
    by_atoms = {"type": "Split", "pattern": {"Regex": r"\[[^]]+\]|."}, "behavior": "Isolated", "invert": False}
    folder = copy_of("bart", tmp_path / "atoms", "tokenizer.json", pre_tokenizer=by_atoms)
    with pytest.raises(TokenError, match=r"never seen '\[nH\]' \(position 2\)$"):
        hf.load(folder, LoadOptions(task="retro")).tokenizer.encode("C[nH]")
    folder = copy_of("bart", tmp_path / "lower", "tokenizer.json", normalizer={"type": "Lowercase"})
    with pytest.raises(TokenError, match="reads 'CCO' as 'cco'"):
        hf.load(folder, LoadOptions(task="retro")).tokenizer.encode("CCO")


@pytest.mark.parametrize("levels", [2, 10**9])
def test_the_best_few_are_those_of_a_stable_sort(levels: int) -> None:
    """Of many tokens only the best are sorted: equal ones still come in order of their ids."""
    torch.manual_seed(0)
    logits = torch.randint(0, levels, (2, 3, 1000)).double() / levels * 5
    logits[..., 500:] = logits[..., :500]  # every value twice
    ids, log_probs = best_tokens(logits, 3)
    ordered, wanted = torch.sort(torch.log_softmax(logits, -1), dim=-1, descending=True, stable=True)
    assert (ids == wanted[..., :3].numpy()).all() and (log_probs == ordered[..., :3].numpy()).all()
    assert (best_tokens(logits, 4)[0] == wanted[..., :4].numpy()).all()


# --- loading ---------------------------------------------------------------------------------------


def test_a_model_is_read_without_the_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("somebody opens a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert hf.load(folder_of("t5 v1.1"), LoadOptions(task="forward")).task == "forward"


def test_the_folder_may_say_what_the_model_is_for(tmp_path: Path) -> None:
    folder = copy_of("bart", tmp_path / "own")
    with pytest.raises(CheckpointError, match="add --task forward or --task retro"):
        hf.load(folder)
    (folder / "chemspec.json").write_text('{"task": "forward", "template": "R:{query}"}')
    found = hf.load(folder)
    assert found.task == "forward" and found.tokenizer.template == "R:{query}"
    assert hf.load(folder, LoadOptions(task="retro", template="{query}")).digest != found.digest
    (folder / "chemspec.json").write_text('{"task": "both"}')
    with pytest.raises(CheckpointError, match="'both' is not forward, retro or reagents"):
        hf.load(folder)
    (folder / "chemspec.json").write_text('{"prompt": ""}')
    with pytest.raises(CheckpointError, match="'prompt' is not task or template"):
        hf.load(folder)


def test_options_for_other_vocabularies_are_refused_and_the_card_has_the_digest(tmp_path: Path) -> None:
    folder, out = folder_of("t5 v1.0"), tmp_path / "out"
    for option in (["--unknown", "unk"], ["--vocab", str(folder / "tokenizer.json")]):
        done = CliRunner().invoke(cli.app, ["import", str(folder), "-o", str(out), "--task", "retro", *option])
        assert done.exit_code == 2 and option[0] in done.stderr and not out.exists()
    done = CliRunner().invoke(cli.app, ["import", str(folder), "-o", str(out), "--task", "retro"])
    assert done.exit_code == 0 and hf.load(folder, LoadOptions(task="retro")).digest in (out / "card.md").read_text()


@pytest.mark.parametrize(("change", "message"), table("importers/unusable_folders"))
def test_an_unusable_folder_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    folder = copy_of("bart", tmp_path / "broken")
    for name, content in change.items():
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(content)
    with pytest.raises(CheckpointError, match=f"(?s){message}"):
        hf.load(folder, LoadOptions(task="retro"))


def test_a_model_that_transformers_computes_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def louder(model: HfNetwork) -> Weights:
        weights = hf_weights.convert_weights(model)
        name = "decoder.layers.0.norm1.weight"
        return replace(weights, tensors={**weights.tensors, name: 1.1 * weights[name]})

    monkeypatch.setattr(hf, "convert_weights", louder)
    for kind in ("t5 v1.1", "bart"):
        with pytest.raises(CheckpointError, match="our logits differ from those of transformers"):
            hf.load(folder_of(kind), LoadOptions(task="retro"))


def test_an_architecture_that_is_not_supported_is_refused_with_the_feature(tmp_path: Path) -> None:
    mish = {"feed_forward_proj": "gated-mish", "dense_act_fn": "mish"}
    folder = copy_of("t5 v1.1", tmp_path / "mish", "config.json", **mish)
    with pytest.raises(CheckpointError, match="not support this architecture: its activation is mish"):
        hf.load(folder, LoadOptions(task="retro"))
    size = write_tokenizer(tmp_path / "uneven", "bart")
    network("uneven", size).save_pretrained(tmp_path / "uneven")
    with pytest.raises(CheckpointError, match="differ in attention_heads"):
        hf.load(tmp_path / "uneven", LoadOptions(task="retro"))


def test_settings_of_generate_that_are_not_applied_are_told(tmp_path: Path) -> None:
    folder = copy_of("bart", tmp_path / "rules", "generation_config.json", no_repeat_ngram_size=3, num_beams=4)
    found = Engine.load(folder, task="retro", device="cpu", threads=1)
    (result,) = found.predict(["CCO"], DecodeSettings(decoder="greedy", n=1, drafter="none", max_len=5))
    assert result.notes == ("options of the checkpoint that are not applied: no_repeat_ngram_size=3",)


def test_ids_are_looked_up_in_the_local_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointError, match=r"does not download models.*hf download some/model"):
        Engine.load("some/model", task="retro")
    stored = tmp_path / "models--some--model"
    (stored / "refs").mkdir(parents=True)
    (stored / "refs" / "main").write_text("abc\n")
    (stored / "snapshots").mkdir()
    copy_of("bart", stored / "snapshots" / "abc")
    found = Engine.load("some/model", task="retro", device="cpu", threads=1)
    assert found.name == "some/model" and found.task == "retro"


def test_runtimes_and_precisions_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="overflows in fp16"):
        Engine.load(folder_of("t5 v1.0"), task="retro", device="cpu", dtype="fp16")
    with pytest.raises(ValueError, match="only those take a template"):
        Engine.load("retro", template="{query}")


def test_the_command_line_takes_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(folder_of("t5 v1.1"))
    options = ["--model", folder, "--n", "1", "--drafter", "copy", "--max-len", "12", "--threads", "1", "--json"]
    done = CliRunner().invoke(cli.app, ["predict", "CCO", "--task", "retro", *options])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout.splitlines()[-1])
    plain = engine("t5 v1.1").predict(["CCO"], DecodeSettings(decoder="greedy", n=1, max_len=12))
    assert document["results"][0]["hypotheses"][0]["smiles"] == plain[0].hypotheses[0].smiles
    told = CliRunner().invoke(cli.app, ["predict", "CCO", *options])
    assert told.exit_code == 2 and "--task forward or --task retro" in told.stderr
    monkeypatch.setitem(sys.modules, "transformers", None)
    told = CliRunner().invoke(cli.app, ["predict", "CCO", "--task", "retro", *options])
    assert told.exit_code == 2 and "pip install 'chemspec-smiles[hf]'" in told.stderr


@pytest.mark.parametrize("kind", ["t5 v1.0", "bart", "pegasus"])
def test_pickled_weights_give_the_same_model_and_run_no_code(kind: str, tmp_path: Path) -> None:
    folder = copy_of(kind, tmp_path / "pickled")
    network = loaded(kind).model.model
    kept = {name: tensor.float().contiguous() for name, tensor in network.state_dict().items()}
    (folder / "model.safetensors").unlink()
    torch.save(kept, folder / "pytorch_model.bin")
    own, theirs = (Engine.load(one, task="retro", device="cpu", threads=1) for one in (folder, folder_of(kind)))
    how = DecodeSettings(n=3, max_len=MAX_LEN)
    for mine, other in zip(own.predict(QUERIES, how), theirs.predict(QUERIES, how), strict=True):
        assert mine.hypotheses == other.hypotheses
    assert own.digest != theirs.digest
    mark = tmp_path / "ran"
    torch.save({"model": _Runs(mark)}, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin"):
        hf.load(folder, LoadOptions(task="retro"))
    assert not mark.exists()
    torch.save({**kept, "more": 3}, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="'more' is no tensor"):
        hf.load(folder, LoadOptions(task="retro"))


class _Runs:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self._file,)
