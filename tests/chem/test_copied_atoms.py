"""Atom maps from copied tokens: what was copied is mapped, in numbers of the SMILES as written, and nothing else."""

from __future__ import annotations

import re

from chemspec.chem.copied_atoms import copied_atoms, copied_map, copied_runs
from chemspec.tokenizer import split_smiles
from chemspec.types import AcceptedSpan, DecodeResult, Hypothesis, Pass, Trace


def answered(query: str, answer: str, *spans: tuple[int, int, int], valid: bool = True) -> DecodeResult:
    """A greedy result whose spans are (start in the answer, start in the query, length)."""
    passes = tuple(
        Pass(1, 1, 0, length + 1, length, 0.0, 1, 0.0, 0.0, (AcceptedSpan(start, length, "copy", (at, at + length)),))
        for start, at, length in spans
    )
    tokens = tuple(split_smiles(answer))
    hypothesis = Hypothesis(answer, answer, valid, tokens, (0.0,) * len(tokens), 0.0, 1.0)
    return DecodeResult(query, "ok", "", (hypothesis,), Trace(tuple(split_smiles(query)), {}, passes))


AMIDE, PARTS = "CCC(=O)NCC", "CCC(=O)O.NCC"


def test_copied_atoms_are_mapped_and_the_others_are_not() -> None:
    result = answered(AMIDE, PARTS, (0, 0, 7), (9, 7, 2))
    assert copied_atoms(result) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 5, 5: 6, 6: 7}
    assert copied_map(result) == (
        "[CH3:1][CH2:2][C:3](=[O:4])[NH:5][CH2:6][CH3:7]>>O[C:3]([CH2:2][CH3:1])=[O:4].[NH2:5][CH2:6][CH3:7]"
    )


def test_tokens_that_the_model_chose_continue_a_run_as_long_as_the_query_has_them_next() -> None:
    # Drafted are all but "(", the acid's "O.", which the query does not have, and the last two carbons.
    runs = copied_runs(answered(AMIDE, PARTS, (0, 0, 3), (4, 4, 3), (9, 7, 1)))
    assert runs == [[(at, at) for at in range(7)], [(7, 9), (8, 10), (9, 11)]]


def test_an_atom_that_was_copied_twice_counts_in_the_longer_run() -> None:
    result = answered("CCO", "CC.CCO", (0, 0, 2), (3, 0, 3))
    assert copied_atoms(result) == {0: 2, 1: 3, 2: 4}


def test_ring_labels_may_be_renamed_and_spans_of_another_hypothesis_are_left_out() -> None:
    renamed = answered("C1CC1CC2CC2", "CC1CC1", (0, 5, 2))
    assert copied_atoms(renamed) == {3: 0, 4: 1, 5: 2, 6: 3}
    assert copied_atoms(answered("CCN", "CCO", (0, 0, 3))) == {0: 0, 1: 1}
    assert copied_atoms(answered("CCN", "CC", (0, 0, 3))) == {0: 0, 1: 1}
    assert copied_atoms(answered("CCN", "OCC", (0, 0, 1), (1, 1, 1))) == {1: 1}


def test_nothing_is_mapped_without_spans_or_a_valid_answer() -> None:
    assert copied_map(answered("CCO", "CCO")) == "CCO>>CCO"
    assert copied_map(answered("CCO", "CC(", (0, 0, 2), valid=False)) == ""
    failed = DecodeResult("C(", "invalid", "not a SMILES")
    assert copied_map(failed) == "" and copied_atoms(failed) == {}


def test_map_numbers_are_the_same_on_both_sides_and_unique() -> None:
    query, answer = copied_map(answered(AMIDE, PARTS, (0, 0, 6), (8, 6, 3))).split(">>")
    numbers = [sorted(re.findall(r":(\d+)", side)) for side in (query, answer)]
    assert numbers[0] == numbers[1] and len(set(numbers[0])) == len(numbers[0]) > 0
