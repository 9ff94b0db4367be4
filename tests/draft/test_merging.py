"""Vocabularies whose tokens are merged symbols: drafts are text, and no drafter changes an answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from helpers.adversaries import AlwaysWrong, EmptyDrafts, EosInside, Oracle, RandomDrafts, TooLong
from helpers.small import MERGED, QUERIES, TOKENIZER, tiny_folder
from helpers.table import assert_same
from helpers.thinned import every
from helpers.tiny import tiny_model
from hypothesis import assume, given
from hypothesis import strategies as st
from programs.int8_reference import quantised

from chemspec.data.arrays import Pairs, RaggedArray
from chemspec.decode.registry import DECODERS
from chemspec.draft.base import as_drafter
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.draft.merging import Merging
from chemspec.draft.registry import DRAFTERS
from chemspec.engine.engine import Engine
from chemspec.engine.forks import find_forks, token_alternatives
from chemspec.model import checkpoint
from chemspec.model.heads import Heads, HeadsConfig
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.testing import Target, naive_beam, naive_greedy
from chemspec.tokenizer import BOS, EOS, SPECIALS, Tokenizer, split_smiles
from chemspec.train.fit_drafters import fit_drafters
from chemspec.train.settings import DrafterFitSettings

MERGING = Merging.from_tokens(MERGED.tokens, MERGED.merges)
CLASSES = TokenClasses.from_tokens(MERGED.tokens, merges=MERGED.merges)
TEXTS = (*QUERIES, "O=C(O)c1ccc2c(c1)c1ccccc1n2C", "CC(C)(C)OC(=O)N1CCC(CC1)Nc1ccccc1.ClC(=O)c1ccccc1", "C1CC1")
texts = st.lists(st.sampled_from(TOKENIZER.tokens[len(SPECIALS) :]), min_size=1, max_size=40).map("".join)
# A trained model with merges, if the variable names one, is compared too.
TRAINED = [Path(folder) for folder in [os.environ.get("CHEMSPEC_MERGED", "")] if folder]


# Text on token ids ---------------------------------------------------------------------------------


@given(st.one_of(st.sampled_from(TEXTS), texts), st.data())
def test_text_is_cut_as_the_tokenizer_cuts_it_from_every_border_on(text: str, data: st.DataObject) -> None:
    assume(set(split_smiles(text)) <= set(TOKENIZER.tokens))  # two symbols may read as another one
    tokens = list(MERGED.encode(text))
    assert MERGING.split(tokens) == list(TOKENIZER.encode(text))
    border = data.draw(st.integers(0, len(tokens)))
    assert MERGING.join(MERGING.split(tokens[border:])) == tokens[border:]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_copied_whole_is_the_rest_of_the_text(text: str) -> None:
    """Wherever a token ends: cut from there on, as the model would write it, with the positions of its symbols."""
    source = MERGED.encode(max(text.split("."), key=len))  # the longest molecule, with which copying begins
    for written in range(len(source)):
        (draft,) = Copy(length=99, token_classes=CLASSES).propose(source, (BOS, *source[:written]), 99)
        assert draft.tokens == (*source[written:], EOS)
        ends = [len(MERGING.split(source[:end])) for end in range(written, len(source) + 1)]
        assert [draft.query_position(index) for index in range(len(draft.tokens))] == ends


def draft_text(query: str, written: str, merges: int = 16) -> list[str]:
    """The tokens that copy proposes behind a text."""
    tokenizer = TOKENIZER.with_merges(MERGED.merges[:merges])
    classes = TokenClasses.from_tokens(tokenizer.tokens, merges=tokenizer.merges)
    copy = Copy(length=99, token_classes=classes)
    (draft,) = copy.propose(tokenizer.encode(query), (BOS, *tokenizer.encode(written)), 99)
    return tokenizer.token_texts(draft.tokens)


@pytest.mark.parametrize("merges", [1, 4, 8, 16])
@pytest.mark.parametrize(
    ("query", "written", "expected"),
    [
        ("CC(=O)Nc1ccccc1", "CC(=O)", "Nc1ccccc1"),
        ("OC(=O)c1ccccc1", "ClC(=O)", "c1ccccc1"),  # the query's tokens ended elsewhere
        ("CN(C)c1ccccc1", "BrC", "N(C)c1ccccc1"),
        ("c1ccc(-c2ccccc2)cc1", "c1ccccc1.Brc1ccc(-", "c2ccccc2)cc1"),
        ("c1ccc(c2ccccc2)cc1", "Ic1ccccc1.Oc1ccc(", "c2ccccc2)cc1"),  # the lowest free label, inside of tokens
    ],
)
def test_text_is_copied_behind_any_border(query: str, written: str, expected: str, merges: int) -> None:
    found = draft_text(query, written, merges)
    tokenizer = TOKENIZER.with_merges(MERGED.merges[:merges])
    assert "".join(found) == expected
    assert found == tokenizer.token_texts(tokenizer.encode(expected))


def test_a_merged_pair_of_ring_labels_is_no_ring_label() -> None:
    tokenizer = Tokenizer((*SPECIALS, "C", "1", "2", ".", "12"), merges=(("1", "2"),))
    classes = TokenClasses.from_tokens(tokenizer.tokens, merges=tokenizer.merges)
    assert classes.rings == (5, 6) and classes.split([8]) == (5, 6)


# Lossless ------------------------------------------------------------------------------------------


@cache
def small_folder(home: Path) -> Path:
    """A random model with merges, all kinds of drafters, and a table of edits."""
    folder = tiny_folder(home / "retro", tokenizer=MERGED)
    for seed, kind in enumerate(("ar", "medium")):
        tiny_folder(folder / "drafters" / kind, seed=5 + seed, tokenizer=MERGED)
    shape = {"d_model": 32, "heads": 4, "feedforward": 32, "max_positions": 1024}
    filler = tiny_model(7, len(MERGED) + 1, **shape).float()
    checkpoint.save_drafter(folder / "drafters" / "spec_drafter", filler, MERGED, kind="spec_drafter", length=20)
    digest = checkpoint.load(folder).digest
    for kind in ("blockwise", "medusa"):
        heads = Heads(HeadsConfig(vocab_size=len(MERGED), d_model=32, style=kind, heads=3))  # type: ignore[arg-type]
        checkpoint.save_drafter(folder / "drafters" / kind, heads, MERGED, kind=kind, length=3, target=digest)  # type: ignore[arg-type]
    data = home / "data"
    data.mkdir()
    MERGED.save(data / "vocab.json")
    pairs = [MERGED.encode(text) for text in TEXTS]
    Pairs(RaggedArray.pack(pairs * 9), RaggedArray.pack([*pairs[1:], pairs[0]] * 9)).save(data / "train.npz")
    Pairs(RaggedArray.pack(pairs), RaggedArray.pack(pairs)).save(data / "val.npz")
    fit_drafters(Engine.load(folder, threads=1), DrafterFitSettings(data_dir=data, pairs=60, queries=8))
    return folder


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine.load(small_folder(tmp_path_factory.mktemp("merged")), threads=1)


@cache
def network(engine: Engine) -> Transformer:
    return Transformer.of(checkpoint.load(engine.folder).weights).eval()


@cache
def integer_network(engine: Engine) -> Transformer:
    return quantised(network(engine))


@cache  # for every drafter the same
def naive_answers(model: Transformer, source: tuple[int, ...], decoder: str, n: int, max_len: int) -> list[Any]:
    return [naive_greedy(model, source, max_len)] if decoder == "greedy" else naive_beam(model, source, n, max_len)


def naive(engine: Engine, source: tuple[int, ...], settings: DecodeSettings) -> list[Any]:
    return naive_answers(network(engine), source, settings.decoder, settings.n, settings.max_len)


def settings_of(decoder: str, **options: Any) -> DecodeSettings:
    return DecodeSettings(decoder=decoder, n=1 if decoder == "greedy" else 4, **options)  # type: ignore[arg-type]


EXACT = [name for name, spec in DECODERS.items() if spec.guarantee == "exact"]
NAIVE = ("greedy", "beam")


# By default each length with every third drafter.
@pytest.mark.parametrize("case", every(3, [*product(DRAFTERS, (1, 2, 9, 30))]))
def test_every_drafter_gives_the_answers_of_naive_decoding(engine: Engine, case: tuple[str, int]) -> None:
    drafter, max_len = case
    sources = [MERGED.encode(text) for text in TEXTS]
    random = Random(f"{drafter} {max_len}")
    for decoder in NAIVE:
        how = {"drafter": drafter, "max_len": max_len, "batch_size": random.choice((1, 4))}
        settings = settings_of(decoder, drafting="fixed", **how)
        expected = [naive(engine, source, settings) for source in sources]
        found = engine.generate_ids(sources, settings)
        assert_same(found, expected, within=1e-4)
        planned = engine.generate_ids(sources, settings_of(decoder, **how))
        assert [[answer.tokens for answer in row] for row in planned] == [
            [answer.tokens for answer in row] for row in found
        ]


@pytest.mark.parametrize("drafter", list(DRAFTERS))
def test_in_int8_too(engine: Engine, drafter: str) -> None:
    """The compiled kernel against the definition of int8, bit for bit."""
    integers = Engine.load(engine.folder, threads=1, dtype="int8")
    reference = integer_network(engine)
    sources = [MERGED.encode(text) for text in TEXTS[1::3]]
    for decoder in NAIVE:
        settings = settings_of(decoder, drafter=drafter, drafting="fixed", max_len=9, batch_size=2)
        found = integers.generate_ids(sources, settings)
        expected = [naive_answers(reference, source, decoder, settings.n, 9) for source in sources]
        assert_same(found, expected, within=0.0)


@pytest.mark.parametrize("drafter", [name for name in DRAFTERS if name != "none"])
@pytest.mark.parametrize("decoder", EXACT)
def test_every_exact_decoder_answers_the_same_with_drafts(engine: Engine, decoder: str, drafter: str) -> None:
    sources = [MERGED.encode(text) for text in TEXTS]
    plain = engine.generate_ids(sources, settings_of(decoder, drafter="none", max_len=20))
    found = engine.generate_ids(sources, settings_of(decoder, drafter=drafter, drafting="fixed", max_len=20))
    assert_same(found, plain, within=1e-5)


ADVERSARIES: dict[str, Callable[[Target, int], Any]] = {
    "random": lambda _, size: RandomDrafts(1, vocab_size=size),
    "bushy": lambda _, size: RandomDrafts(2, vocab_size=size, count=12, length=9),
    "empty": lambda *_: EmptyDrafts(),
    "eos inside": lambda _, size: EosInside(size),
    "too long": lambda *_: TooLong(),
    "wrong": lambda target, _: AlwaysWrong(target),
    "oracle": lambda target, _: Oracle(target),
}


@pytest.mark.parametrize("name", sorted(ADVERSARIES))
def test_no_adversary_changes_an_answer(engine: Engine, name: str) -> None:
    drafter = ADVERSARIES[name](network(engine), len(MERGED))
    harmed = replace(engine, build_drafter=lambda *_: as_drafter(drafter))
    sources = [MERGED.encode(text) for text in TEXTS[:6]]
    for decoder in NAIVE:
        for max_len in (1, 5, 14):
            settings = settings_of(decoder, drafting="fixed", max_len=max_len, batch_size=3)
            found = harmed.generate_ids(sources, settings)
            assert_same(found, [naive(engine, source, settings) for source in sources], within=1e-4)


def test_a_trained_model_too() -> None:
    for folder in TRAINED:
        trained = Engine.load(folder, threads=1)
        sources = [Tokenizer.load(folder / "vocab.json").encode(text) for text in TEXTS]
        for drafter, decoder in product(("copy", "mixed", "smart", "windows", "auto"), NAIVE):
            settings = settings_of(decoder, drafter=drafter, drafting="fixed", max_len=60)
            found = trained.generate_ids(sources, settings)
            assert_same(found, [naive(trained, source, settings) for source in sources], within=1e-4)


# What stands around --------------------------------------------------------------------------------


def test_scores_forks_and_alternatives_are_of_tokens_and_restore_the_text(engine: Engine) -> None:
    query = "CC(=O)Nc1ccccc1"
    scored = engine.score(query, "CC(=O)O.Nc1ccccc1")
    assert [token.text for token in scored.tokens[:-1]] == MERGED.token_texts(MERGED.encode(scored.smiles))
    (answer,) = engine.predict(query, settings_of("greedy", max_len=40)).hypotheses
    for position, candidates in enumerate(token_alternatives(engine, query, answer)[: len(answer.tokens)]):
        assert max(candidates, key=candidates.__getitem__) == answer.tokens[position]
    assert all(fork.token == answer.tokens[fork.position] for fork in find_forks(engine, query, answer))


def test_data_of_other_merges_are_refused(engine: Engine, tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "vocab.json")  # the same tokens, as far as they go
    pairs = RaggedArray.pack([TOKENIZER.encode(text) for text in TEXTS])
    Pairs(pairs, pairs).save(tmp_path / "train.npz")
    with pytest.raises(ValueError, match="has another vocabulary"):
        fit_drafters(engine, DrafterFitSettings(data_dir=tmp_path))
