"""An own answer beside the model's: where it leaves the model's path, in tokens and atoms, and what flips it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chemspec import chem
from chemspec.chem.reactions.root_align import smiles_variants_of_query, write_in_order_of
from chemspec.engine.engine import Engine
from chemspec.engine.scoring import ScoredAnswer, ScoredToken
from chemspec.precedents import Conditions, Found
from chemspec.review import argument
from chemspec.review.argument import argue, find_departure, format_odds
from chemspec.review.reaction_check import check_reaction
from chemspec.settings import DecodeSettings
from chemspec.types import Hypothesis

FLASK = "C=CCBr.Oc1ccccc1.CN(C)C=O.O=C([O-])[O-].[K+].[K+]"  # gives the ether; who heats it gets the phenol
SETTINGS = DecodeSettings(decoder="beam", n=5, distinct=True)


@pytest.fixture(scope="module")
def forward() -> Engine:
    return Engine.load("forward", threads=1, dtype="int8")


@pytest.fixture(scope="module")
def retro() -> Engine:
    return Engine.load("retro", threads=1, dtype="int8")


def scored(tokens: str, ranks: str) -> ScoredAnswer:
    texts = tokens.split()
    return ScoredAnswer(
        "".join(texts[:-1]),
        tuple(ScoredToken(text, -0.1, int(rank), "C", -0.1) for text, rank in zip(texts, ranks, strict=True)),
    )


def written(*tokens: str) -> Hypothesis:
    text = "".join(tokens)
    return Hypothesis(text, chem.canonical(text) or "", True, tokens, (), 0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("tokens", "ranks", "model", "expected"),
    [
        ("C C O end", "1131", "C C N", (2, 2, 2, 2)),  # an atom against an atom
        (
            "O c 1 c c c c c 1 end",
            "1211111111",
            "O ( C ) C",
            (1, 1, 1, 0),
        ),  # an atom against a branch of the one before
        ("C C end", "112", "C C O", (2, 2, 1, 2)),  # an end against another atom
        ("C C C end", "1121", "C C", (2, 2, 2, 1)),  # another atom against an end
        ("C . O end", "1211", "C C", (1, 1, 0, 1)),
        ("[Na+] . O end", "2111", "C C", (0, 0, 0, 0)),
    ],
)
def test_the_departure_has_the_atoms_of_both_answers(
    tokens: str, ranks: str, model: str, expected: tuple[int, ...]
) -> None:
    found = find_departure(scored(tokens, ranks), written(*model.split()))
    assert found and (found.position, found.shared, found.atom, found.model_atom) == expected


def test_an_answer_on_the_models_path_does_not_leave_it() -> None:
    assert find_departure(scored("C C end", "111"), written("C", "C")) is None


def test_a_product_leaves_the_path_at_the_atom_that_takes_the_new_bond(forward: Engine) -> None:
    found = argue(forward, check_reaction(forward, f"{FLASK}>>C=CCc1ccccc1O", SETTINGS))
    assert found.first.canonical == "C=CCOc1ccccc1" and found.departure
    before = [token.rank for token in found.scored.tokens[: found.departure.position]]
    assert set(before) <= {1} and found.departure.token.rank > 1
    shared = "".join(token.text for token in found.scored.tokens[: found.departure.position])
    assert shared and found.first.smiles.startswith(shared), "up to there both are one text"
    assert "the model chose" in found.path_sentence and f"of {found.check.answers}" in found.rank_sentence
    assert "»" in found.marked_text and found.marked_text.replace("»", "").replace("«", "") == found.scored.smiles
    assert chem.same_molecules(found.scored.smiles, "C=CCc1ccccc1O") and found.scored.variants >= 2
    assert f"the highest of {found.scored.variants} SMILES variants" in found.rank_sentence
    assert found.document()["departure"] == found.departure.position


def test_the_models_own_answer_never_leaves_its_path(forward: Engine) -> None:
    found = argue(forward, check_reaction(forward, f"{FLASK}>>C=CCOc1ccccc1", SETTINGS))
    assert found.departure is None and found.check.rank == 1
    assert "own first answer" in found.path_sentence and "»" not in found.marked_text


def test_variations_are_flasks_of_the_same_reactants_scored_as_alone(
    forward: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Found(1, 1, (), (Conditions("Cl[Fe](Cl)Cl", 1),))
    monkeypatch.setattr(argument, "find_precedents", lambda *_: recorded)
    check = check_reaction(forward, f"{FLASK}>>C=CCc1ccccc1O", SETTINGS)
    found = argue(forward, check, conditions=["O=C([O-])[O-].[Cs+].[Cs+]"])
    changes = [variation.change for variation in found.variations]
    assert changes[0].startswith("with ") and "recorded" in changes[0]
    assert any("proposed" in change for change in changes) and "without DMF" in changes and "without K₂CO₃" in changes
    assert len(found.variations) <= argument.MAX_VARIATIONS
    flask = "C=CCBr.Oc1ccccc1.Cl[Fe](Cl)Cl"
    assert found.variations[0].probability == forward.score(flask, "C=CCc1ccccc1O").model_probability
    alone = forward.predict(flask, decoder="greedy", n=1).hypotheses[0]
    assert (found.variations[0].first, found.variations[0].first_probability) == (
        alone.canonical,
        alone.model_probability,
    )


def test_precursors_are_scored_without_the_agents_beside_them(retro: Engine) -> None:
    reaction = "CC(=O)O.Nc1ccc(O)cc1.ClCCl>>CC(=O)Nc1ccc(O)cc1"
    found = argue(retro, check_reaction(retro, reaction, SETTINGS))
    assert chem.same_molecules(found.scored.smiles, "CC(=O)O.Nc1ccc(O)cc1")
    assert found.scored.variants == 1, "as given, canonical, aligned and as listed are one text"
    assert "the highest of" not in found.rank_sentence
    words = [variation.change for variation in found.variations]
    assert any("must break" in change for change in words) and any("another atom" in change for change in words)
    assert all(variation.first for variation in found.variations)
    spellings = smiles_variants_of_query("CC(=O)Nc1ccc(O)cc1", argument.MAX_VARIATIONS, Random(0))
    assert all(word.endswith(f"of {len(spellings) - 1})") for word in words if "another atom" in word)


def test_what_the_vocabulary_lacks_is_named(forward: Engine) -> None:
    check = check_reaction(forward, "CCO.CC(=O)O>>CCO[Og]", SETTINGS)
    with pytest.raises(ValueError, match=r"never seen '\[Og\]'"):
        argue(forward, check)


@pytest.mark.parametrize(
    ("molecule", "model", "expected"),
    [
        ("C=CCc1ccccc1O", "O(c1ccccc1)CC=C", "O"),  # begins at the oxygen, as the model does
        ("CCO", "OCC", "OCC"),
        ("CCO", "not a SMILES", None),
        ("CCO.C", "OCC", None),
        ("[Na+]", "OCC", None),
    ],
)
def test_a_molecule_is_written_in_the_order_of_another(molecule: str, model: str, expected: str | None) -> None:
    text = write_in_order_of(molecule, model)
    assert text == expected if expected is None else (text or "").startswith(expected)
    assert text is None or chem.same_molecules(text, molecule)


@pytest.mark.parametrize(
    ("odds", "words"), [(0.5, "50 %"), (0.007, "1 in 140"), (2.4e-4, "1 in 4,200"), (1e-12, "less than 1 in a billion")]
)
def test_small_odds_are_told_as_one_in_many(odds: float, words: Any) -> None:
    assert format_odds(odds) == words
