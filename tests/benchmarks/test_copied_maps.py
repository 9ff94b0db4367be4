"""Maps against recorded ones: symmetric atoms may be exchanged, others may not, and stops are measured in bonds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from benchmarks import copied_atoms as benchmark

from chemspec.tokenizer import split_smiles
from chemspec.types import AcceptedSpan, DecodeResult, Hypothesis, Pass, Trace

# N-benzoylation of ethylamine by the acid; atoms 5 to 9 of the ring are alike in pairs.
RECORD = (
    "[CH3:1][CH2:2][NH2:3].O[C:4](=[O:5])[c:6]1[cH:7][cH:8][cH:9][cH:10][cH:11]1"
    ">>[CH3:1][CH2:2][NH:3][C:4](=[O:5])[c:6]1[cH:7][cH:8][cH:9][cH:10][cH:11]1"
)
PRODUCT, REACTANTS = "CCNC(=O)c1ccccc1", "CCN.OC(=O)c1ccccc1"


def answered(*spans: tuple[int, int, int]) -> DecodeResult:
    """The reactants, with spans as (start in the answer, start in the query, length)."""
    accepted = tuple(AcceptedSpan(start, length, "copy", (at, at + length)) for start, at, length in spans)
    step = Pass(1, 1, 0, 1, 0, 0.0, 1, 0.0, 0.0, accepted)
    tokens = tuple(split_smiles(REACTANTS))
    answer = Hypothesis(REACTANTS, REACTANTS, True, tokens, (0.0,) * len(tokens), 0.0, 1.0)
    return DecodeResult(PRODUCT, "ok", "", (answer,), Trace(tuple(split_smiles(PRODUCT)), {}, (step,)))


def tally(result: DecodeResult, record: str = RECORD) -> Counter[str]:
    counts: Counter[str] = Counter()
    benchmark.count_reaction(record, result, counts)
    return counts


RIGHT = answered((0, 0, 3), (5, 3, 13))


def test_copied_atoms_and_the_mapper_agree_with_the_record() -> None:
    counts = tally(RIGHT)
    assert counts["atoms"] == counts["copied: mapped"] == counts["copied: as recorded"] == 11
    assert all(counts[f"{name}: all as recorded"] == 1 for name in ("copied", "mapper", "copied breaks ties"))
    report = benchmark.report({**counts, "stops": 1})
    assert report["copied"]["mapped atoms as recorded"]["value"] == 1


def test_atoms_alike_may_be_exchanged_and_others_may_not() -> None:
    turned = RECORD.split(">>")[0].replace(":7]", ":x]").replace(":11]", ":7]").replace(":x]", ":11]")
    assert tally(RIGHT, f"{turned}>>{RECORD.split('>>')[1]}")["copied: as recorded"] == 11
    wrong = RECORD.split(">>")[0].replace(":7]", ":x]").replace(":8]", ":7]").replace(":x]", ":8]")
    assert tally(RIGHT, f"{wrong}>>{RECORD.split('>>')[1]}")["copied: as recorded"] < 11


def test_a_wrong_copy_and_an_atom_that_was_not_copied_are_counted() -> None:
    assert tally(answered((0, 0, 3)))["copied: mapped"] == 3
    swapped = tally(answered((0, 1, 1), (1, 0, 1), (5, 3, 13)))
    assert swapped["copied: mapped"] - swapped["copied: as recorded"] == 2
    assert swapped["copied: fewer than the mapper"] == 1


def test_copying_stops_at_the_last_atom_of_a_run_except_at_the_end() -> None:
    assert benchmark.stops_of_copying(RIGHT) == {2}  # the nitrogen, whose bond to the acyl group is made
    counts = tally(RIGHT)
    assert counts["centre"] == 2 and counts["stops within 0"] == 1
    assert [counts[f"atoms within {most}"] for most in benchmark.DISTANCES] == [2, 5, 8]
    early = answered((0, 0, 1))
    early = replace(early, hypotheses=(replace(early.hypotheses[0], tokens=("C", "=", "O")),))
    assert benchmark.stops_of_copying(early) == {0}


def test_a_record_of_other_molecules_is_left_out() -> None:
    other = RECORD.replace("[CH3:1]", "[CH3:1][CH2:12]")
    assert tally(RIGHT, other) == {"of other structures": 1}


@pytest.mark.parametrize("how", ["alone", "tie-breaker", "start"])
def test_the_mapper_is_the_one_that_ships(how: str) -> None:
    from chemspec.chem.atom_maps import map_atoms

    left, right = (benchmark.graph_of(benchmark.Chem.MolFromSmiles(text)) for text in (REACTANTS, PRODUCT))
    shipped = map_atoms(REACTANTS, PRODUCT)
    assert shipped is not None and benchmark.map_by(how, left, right, {}).origin == shipped.origin
