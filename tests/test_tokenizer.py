"""Tests of tokenizer.py: what is split is restored, and what is not is refused, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_tables import table
from hypothesis import given
from hypothesis import strategies as st

from chemspec.tokenizer import BOS, EOS, PAD, SPECIALS, UNK, TokenError, Tokenizer, split_smiles

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
