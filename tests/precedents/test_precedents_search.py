"""Counts are exact, the nearest come first, and what cannot be read is no error."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers.case_tables import table
from helpers.precedents_index import make, write
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

from chemspec import chem
from chemspec.precedents import Precedents, in_words, search
from chemspec.precedents.build import build_index
from chemspec.precedents.index_file import product_fingerprint
from chemspec.precedents.search import count_set_bits, highest_scores, tanimoto_similarity

AMIDE = ("CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Precedents:
    return make(tmp_path_factory.mktemp("index"))[0]


def test_a_change_is_counted_and_its_reactions_are_ranked(index: Precedents) -> None:
    found = index.find("CCCC(=O)Cl.Cc1ccc(N)c(C)c1", "CCCC(=O)Nc1ccc(C)cc1C")
    assert (found.close, found.wide, found.product, found.same) == (3, 3, 0, None)
    assert found.in_words == "3 patent reactions make this change"
    assert [one.similarity for one in found.nearest] == sorted((one.similarity for one in found.nearest), reverse=True)
    assert found.nearest[0].product == "CC(=O)Nc1ccccc1C"
    assert found.nearest[0].source == "US01000003 (2003)"


def test_what_is_only_of_the_kind_is_told_so(index: Precedents) -> None:
    found = index.find("O=C(Cl)c1ccccc1.Nc1ccccc1", "O=C(Nc1ccccc1)c1ccccc1")
    assert (found.close, found.wide) == (0, 3)
    assert found.in_words == "none with these neighbours; 3 patent reactions make the same bonds at others"
    assert not any(one.close for one in found.nearest)


def test_the_very_reaction_comes_first_and_is_told(index: Precedents) -> None:
    found = index.find(*AMIDE, n=1)
    assert found.same == found.nearest[0]
    assert (found.same.similarity, found.product) == (1.0, 1)
    assert found.seen_by("retro") and found.seen_by("forward")
    assert not index.find("COC(=O)c1ccccc1", "O=C(O)c1ccccc1").seen_by("forward")
    with pytest.raises(ValueError, match="n is -1"):
        index.find(*AMIDE, n=-1)


def index_of(folder: Path, *reactions: str) -> Precedents:
    """An index of reactions without agents, reagents or patents."""
    pairs = [reaction.split(">>") for reaction in reactions]
    rows = [{"product": product, "reactants": flask, "patent_id": "", "mapped_rxn": ""} for flask, product in pairs]
    build_index([write(folder / "retro_train.csv.gz", rows)], folder / "index", workers=1)
    return Precedents(folder / "index")


def test_a_close_reaction_stands_before_a_more_similar_one_of_the_kind(tmp_path: Path) -> None:
    index = index_of(
        tmp_path,
        "CCCCCCCCCCCC(=O)Cl.Nc1ccc(C(F)(F)F)cc1>>CCCCCCCCCCCC(=O)Nc1ccc(C(F)(F)F)cc1",
        "Cc1ccccc1C(=O)Cl.Nc1ccccc1>>Cc1ccccc1C(=O)Nc1ccccc1",
    )
    found = index.find("CCC(=O)Cl.Nc1ccccc1", "CCC(=O)Nc1ccccc1")
    assert found.in_words == "1 patent reaction makes this change"
    far, near = found.nearest
    assert far.close and not near.close and far.similarity < near.similarity


@pytest.mark.parametrize("recorded", ["[Mg+]C", "C[Mg]Br"])
def test_a_grignard_reagent_is_found_with_and_without_its_halide(tmp_path: Path, recorded: str) -> None:
    index = index_of(tmp_path, f"O=Cc1ccccc1.{recorded}>>CC(O)c1ccccc1")
    assert index.find("O=Cc1ccc(F)cc1.C[Mg]Br", "CC(O)c1ccc(F)cc1").close == 1


def test_the_very_reaction_stands_before_others_that_are_as_similar(tmp_path: Path) -> None:
    """Fingerprints do not tell enantiomers apart."""
    reactions = (
        "CC(=O)Cl.C[C@H](N)c1ccccc1>>CC(=O)N[C@@H](C)c1ccccc1",
        "CC(=O)Cl.C[C@@H](N)c1ccccc1>>CC(=O)N[C@H](C)c1ccccc1",
    )
    index = index_of(tmp_path, *reactions)
    for reaction in reactions:
        found = index.find(*reaction.split(">>"), n=2)
        assert [(one.close, one.similarity, one.same) for one in found.nearest] == [(True, 1, True), (True, 1, False)]
        assert found.same == found.nearest[0]


def test_agents_do_not_hide_the_very_reaction(index: Precedents) -> None:
    assert index.find(f"{AMIDE[0]}.C1CCOC1.[Na+].[Cl-]", AMIDE[1]).same == index.find(*AMIDE).same


def test_the_same_product_of_others_is_not_the_same_reaction(index: Precedents) -> None:
    found = index.find("CC(=O)O.Nc1ccccc1", AMIDE[1])
    assert found.same is None and found.product == 1 and not found.wide


def test_conditions_are_those_of_the_nearest(index: Precedents) -> None:
    found = index.find("CCC(=O)Cl.Cc1ccccc1N", "CCC(=O)Nc1ccccc1C")
    assert [(one.text, one.count) for one in found.conditions] == [("pyridine", 1), ("DCM, Et₃N", 1)]
    assert index.find("COC(=O)c1ccncc1", "O=C(O)c1ccncc1").conditions[0].text == "NaOH, MeOH"


@pytest.mark.parametrize(("recorded", "first"), table("precedents/votes"))
def test_sets_vote_for_what_they_share(monkeypatch: pytest.MonkeyPatch, recorded: tuple[str, ...], first: str) -> None:
    monkeypatch.setattr(search, "NEAR", 2.0)
    assert search.vote_conditions((reagents, 1.0) for reagents in recorded)[0].reagents == first


@pytest.mark.parametrize(("recorded", "similarities", "order"), table("precedents/near_sets"))
def test_the_set_of_a_near_reaction_comes_before_the_vote(
    recorded: tuple[str, ...], similarities: tuple[float, ...], order: tuple[str, ...]
) -> None:
    voted = search.vote_conditions(zip(recorded, similarities, strict=True))
    assert tuple(item.reagents for item in voted) == order


def test_a_group_does_not_lend_its_conditions_to_another() -> None:
    """Hydrogenation removes benzyl, not tert-butyl; halides replace each other."""
    benzyl = search.lost_atoms("O=S(=O)(NCc1ccccc1)c1ccccc1", "NS(=O)(=O)c1ccccc1")
    tert_butyl = search.lost_atoms("CC(C)(C)NS(=O)(=O)c1ccccc1", "NS(=O)(=O)c1ccccc1")
    assert benzyl == {"C": 7} and tert_butyl == {"C": 4}
    assert search.lost_atoms("[2H]CBr.[NH3+]C", "CNC[2H]") == search.lost_atoms("CI.NC", "CNC") == {"X": 1}


@pytest.mark.parametrize(("reagents", "words"), table("precedents/sets_in_words"))
def test_names_and_what_has_none(reagents: str, words: str) -> None:
    assert in_words(reagents) == words


@pytest.mark.parametrize(
    ("reactants", "product"),
    [("", ""), ("C", ""), ("", "C"), ("C(", "CC"), ("CC", "N#"), ("CCO", "CCO"), ("Cl", "[Na+]"), ("C" * 5000, "CC")],
)
def test_what_cannot_be_read_or_changes_nothing_is_unknown(index: Precedents, reactants: str, product: str) -> None:
    found = index.find(reactants, product)
    assert (found.close, found.wide, found.nearest, found.conditions) == (0, 0, (), ())
    assert found.in_words == "no patent reaction at hand"


def test_threads_get_the_same(index: Precedents) -> None:
    asked = [AMIDE, ("COC(=O)c1ccncc1", "O=C(O)c1ccncc1")] * 10
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda one: index.find(*one, n=2), asked)) == [index.find(*one, n=2) for one in asked]


@pytest.mark.parametrize("bits", [64, 256, 512])
def test_similarity_is_that_of_rdkit(bits: int) -> None:
    texts = ["CC(=O)Nc1ccccc1", "c1ccccc1", "CCO", "O=C(Nc1ccccc1)c1ccccc1"]
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=bits)
    theirs = [generator.GetFingerprint(Chem.MolFromSmiles(text)) for text in texts]
    ours = np.stack([product_fingerprint(text, bits) for text in texts])
    for k, text in enumerate(texts):
        expected = [DataStructs.TanimotoSimilarity(theirs[k], other) for other in theirs]
        similarity = tanimoto_similarity(ours, count_set_bits(ours), product_fingerprint(text, bits))
        assert similarity == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("count", [1, 3, 50, 400, 1000])
def test_the_highest_values_come_in_the_order_of_a_stable_sort(count: int) -> None:
    values = np.random.default_rng(7).integers(0, 40, 500) / 8
    assert highest_scores(values, count).tolist() == np.argsort(-values, kind="stable")[:count].tolist()


def test_what_text_mining_took_for_a_reagent_is_none() -> None:
    from chemspec.precedents.search import without_mining_errors

    cupric = chem.canonical("I[Cu]I")
    assert without_mining_errors(f"Cc1ccccc1.CCN.{cupric}", "CCN") == f"Cc1ccccc1.{chem.canonical('[Cu]I')}"
    salt = chem.canonical("O=C([O-])[O-].[K+].[K+]")
    assert in_words(without_mining_errors(f"{cupric}.{salt}", "CCN")) == "K₂CO₃, CuI"
    assert in_words(without_mining_errors(f"{cupric}.[Na+]", "CCN")) == "CuI, NaI"
    assert without_mining_errors("", "CCN") == ""
    assert without_mining_errors("CCN(CC)c1ccccc1.N#Cc1cnc(O)cc1O", "CCN") == "CCN(CC)c1ccccc1"  # one has a name
