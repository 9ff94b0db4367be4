"""Tests of tokenizer.py: what is split is restored, and what is not is refused, with its place."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from helpers.case_tables import table
from hypothesis import given
from hypothesis import strategies as st

from chemspec.tokenizer import BOS, EOS, PAD, SPECIALS, UNK, TokenError, Tokenizer, learn_merges, split_smiles

# text -> number of tokens
HARD = dict(table("hard_tokens"))


@pytest.mark.parametrize("smiles", HARD)
def test_hard_smiles_split_into_the_expected_number_of_tokens(smiles: str) -> None:
    assert "".join(split_smiles(smiles)) == smiles
    assert len(split_smiles(smiles)) == HARD[smiles]


@given(st.text() | st.text(alphabet="CNOclBr[]()=#@+-123%/\\.>nH \n"))
def test_any_text_is_split_without_loss_or_refused_at_a_place_in_it(text: str) -> None:
    fault = None
    try:
        assert "".join(split_smiles(text)) == text
    except TokenError as error:
        fault = error
    if fault is not None:
        assert 0 <= fault.start < fault.end <= len(text)
        assert "".join(split_smiles(text[: fault.start])) == text[: fault.start]
        assert f"position {fault.start + 1} " in str(fault)


@pytest.mark.parametrize(
    ("text", "start"),
    [("CXC", 1), ("C C", 1), ("CC\n", 2), ("[C", 0), ("C]", 1), ("[]", 0), ("C%1", 1), ("D", 0), ("CÅ", 1)],
)
def test_an_unknown_character_is_named_with_its_place(text: str, start: int) -> None:
    with pytest.raises(TokenError) as caught:
        split_smiles(text)
    assert (caught.value.start, caught.value.end) == (start, start + 1)
    assert repr(text[start]) in str(caught.value)


def test_a_token_the_model_never_saw_is_named_with_its_span() -> None:
    tokenizer = Tokenizer.build(["CCO"])
    with pytest.raises(TokenError, match=r"'\[Pt\+2\]' \(position 3\)") as caught:
        tokenizer.encode("CC[Pt+2]O")
    assert (caught.value.start, caught.value.end) == (2, 8)
    assert tokenizer.encode_or_unk("C[Pt+2]") == (tokenizer.encode("C")[0], UNK)


def test_ids_become_text_up_to_the_first_eos_without_special_tokens() -> None:
    tokenizer = Tokenizer.build(["CO"])
    c, o = tokenizer.encode("CO")
    assert tokenizer.decode((BOS, c, PAD, o, EOS, c)) == "CO"
    assert tokenizer.token_texts((c, UNK, o)) == ["C", "<unk>", "O"]
    assert tokenizer.decode(()) == ""


def test_no_text_encodes_to_a_special_token() -> None:
    tokenizer = Tokenizer.build(["C"])
    for special in SPECIALS:
        with pytest.raises(TokenError):
            tokenizer.encode(special)


def test_the_vocabulary_is_alphabetical_and_leaves_rare_tokens_out() -> None:
    texts = ["CCO", "CN", "C"]
    assert Tokenizer.build(texts).tokens == (*SPECIALS, "C", "N", "O")
    assert Tokenizer.build(texts, min_count=2).tokens == (*SPECIALS, "C")
    assert Tokenizer.build(reversed(texts)) == Tokenizer.build(texts)


def test_a_vocabulary_file_is_read_as_written(tmp_path: Path) -> None:
    tokenizer = Tokenizer.build(["C\\C/[13C@@H]%10"])
    tokenizer.save(tmp_path / "vocab.json")
    assert Tokenizer.load(tmp_path / "vocab.json") == tokenizer


@pytest.mark.parametrize(("content", "message"), table("faulty_vocabularies"))
def test_a_faulty_vocabulary_file_is_refused_by_name(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "vocab.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=message) as caught:
        Tokenizer.load(file)
    assert str(file) in str(caught.value)


# --- merges --------------------------------------------------------------------------------------

TEXTS = ("CC(=O)Nc1ccccc1.O", "CC(=O)O.Nc1ccccc1", "C[C@@H](N)C(=O)OCC%10CC%10", "O=C(O)c1ccccc1.[Na+]")
ATOMS = Tokenizer.build(TEXTS)
MERGED = ATOMS.with_merges(learn_merges(TEXTS, 12))


def test_merges_join_the_most_frequent_neighbours_first() -> None:
    (left, right), *_ = MERGED.merges
    counts = Counter(pair for text in TEXTS for part in text.split(".") for pair in pairwise(split_smiles(part)))
    assert counts[left, right] == max(counts.values())
    assert len(MERGED.merges) == 12 and MERGED.tokens[: len(ATOMS)] == ATOMS.tokens
    assert learn_merges(reversed(TEXTS), 12) == MERGED.merges
    assert len(learn_merges(["CC", "O"], 5)) == 1  # all that there are


@given(st.lists(st.sampled_from(ATOMS.tokens[len(SPECIALS) :]), min_size=1))
def test_merged_tokens_restore_the_text_and_cut_no_symbol(symbols: list[str]) -> None:
    text = "".join(symbols)
    if not set(split_smiles(text)) <= set(ATOMS.tokens):  # two symbols may read as another one
        return
    for random in (None, Random(0)):
        ids = MERGED.encode_or_unk(text, random)
        assert MERGED.decode(ids) == text
        parts = [part for token in ids for part in MERGED.token_parts(token)]
        assert tuple(parts) == ATOMS.encode(text)
        assert all(len(MERGED.token_parts(token)) == 1 or "." not in MERGED.tokens[token] for token in ids)
    assert MERGED.encode(text) == MERGED.encode_or_unk(text)
    assert len(MERGED.encode(text)) <= len(ATOMS.encode(text))


def test_a_piece_between_dots_is_cut_alike_anywhere() -> None:
    for text in TEXTS:
        dot = ATOMS.encode(".")
        parts = [MERGED.encode(part) for part in text.split(".")]
        assert MERGED.encode(text) == sum((dot + part for part in parts[1:]), parts[0])


def test_merges_left_out_at_random_cut_a_text_in_other_ways() -> None:
    cuts = {MERGED.encode_or_unk(TEXTS[0], Random(seed)) for seed in range(20)}
    assert len(cuts) > 3 and {MERGED.decode(cut) for cut in cuts} == {TEXTS[0]}


def test_an_unknown_token_is_named_with_its_span_in_a_merged_text() -> None:
    with pytest.raises(TokenError, match=r"'\[Pt\]' \(position 8\)") as caught:
        MERGED.encode("c1ccccc[Pt]1")
    assert (caught.value.start, caught.value.end) == (7, 11)


def test_merges_are_saved_and_old_files_have_none(tmp_path: Path) -> None:
    MERGED.save(tmp_path / "vocab.json")
    assert Tokenizer.load(tmp_path / "vocab.json") == MERGED
    (tmp_path / "vocab.json").write_text('["<pad>", "<bos>", "<eos>", "<unk>", "C"]')
    assert Tokenizer.load(tmp_path / "vocab.json").merges == ()
