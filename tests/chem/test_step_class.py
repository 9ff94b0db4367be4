"""What a step does: its class, what is the same idea in another dress, and what becomes of stereocentres."""

from __future__ import annotations

import pytest
from helpers.case_tables import table
from rdkit import Chem

from chemspec import chem
from chemspec.chem.reactions.step_class import classify_step, load_rules


def of(reaction: str):  # type: ignore[no-untyped-def]
    left, right = (chem.canonical(side) or "" for side in reaction.split(">>"))
    found = classify_step(left, right)
    assert found
    return found


@pytest.mark.parametrize(("reaction", "name", "leaving"), table("chem/reaction_classes"))
def test_classes(reaction: str, name: str, leaving: str) -> None:
    found = of(reaction)
    assert (found.name, found.leaving) == (name, leaving)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CCNCC.CC(C)NC(=O)CCl>>CCN(CC)CC(=O)NC(C)C", "CCNCC.CC(C)NC(=O)CBr>>CCN(CC)CC(=O)NC(C)C"),
        ("OCc1ccc(CBr)cc1.O>>OCc1ccc(CO)cc1", "OCc1ccc(CCl)cc1.O>>OCc1ccc(CO)cc1"),  # a symmetric target
    ],
)
def test_twins_have_one_key_and_other_ideas_another(one: str, other: str) -> None:
    assert of(one).key == of(other).key != of("CCN(CC)CC(=O)Cl.CC(C)N>>CCN(CC)CC(=O)NC(C)C").key


@pytest.mark.parametrize(
    "reaction", ["COC(=O)c1ccccc1.OCc1ccccc1>>O=C(OCc1ccccc1)c1ccccc1", "CCO.COC(=O)CC(C)C>>CCOC(=O)CC(C)C"]
)
def test_the_whole_alkoxy_group_of_an_ester_comes_from_the_alcohol(reaction: str) -> None:
    found = of(reaction)
    assert found.name == "Ester formation" and len(found.made) == 1 and found.leaving == "methyl ester"


def test_a_stereocentre_that_takes_no_part_is_watched() -> None:
    target = "C[C@H](NC(C)=O)C(=O)O"
    assert of(f"C[C@H](NC(C)=O)C(=O)OC>>{target}").inverted_centres == ()
    assert len(of(f"C[C@@H](NC(C)=O)C(=O)OC>>{target}").inverted_centres) == 1
    assert len(of(f"CC(NC(C)=O)C(=O)OC>>{target}").new_centres) == 1


def test_a_centre_that_is_not_told_any_more_is_lost_unless_it_is_none() -> None:
    assert len(of("C[C@H](N)C(=O)OC.CC(=O)Cl>>COC(=O)C(C)NC(C)=O").lost_centres) == 1
    assert not of("C[C@H](N)C(=O)OC.CC(=O)Cl>>COC(=O)[C@H](C)NC(C)=O").lost_centres
    assert not of("N[C@H]1CC[C@H](O)CC1>>NC1CCC(=O)CC1").lost_centres  # no centre without the other


@pytest.mark.parametrize(
    "reaction",
    [
        "N[C@H]1CC[C@H](O)CC1.O=C(O)c1ccccc1>>O=C(N[C@H]1CC[C@H](O)CC1)c1ccccc1",  # a mirror image of itself
        "CC(C)(C)OC(=O)N[C@H]1[C@@H]2CN(Cc3ccccc3)C[C@@H]21>>N[C@H]1[C@@H]2CN(Cc3ccccc3)C[C@@H]21",
    ],
)
def test_symmetry_is_no_inversion(reaction: str) -> None:
    found = of(reaction)
    assert not found.inverted_centres and not found.new_centres


def test_a_relative_centre_may_be_the_wrong_one() -> None:
    assert of("N[C@H]1CC[C@H](O)CC1.O=C(O)c1ccccc1>>O=C(N[C@H]1CC[C@@H](O)CC1)c1ccccc1").inverted_centres


MITSUNOBU = "CCOC(=O)N=NC(=O)OCC.c1ccc(P(c2ccccc2)c2ccccc2)cc1"


@pytest.mark.parametrize(
    ("reactants", "retained", "inverted"),
    [
        ("CC[C@H](C)Br.[N-]=[N+]=[N-]", "CC[C@H](C)N=[N+]=[N-]", "CC[C@@H](C)N=[N+]=[N-]"),
        (  # a ring that symmetry maps either way
            "CC(=O)N[C@H]1C[C@H](OS(C)(=O)=O)C1.[N-]=[N+]=[N-]",
            "CC(=O)N[C@H]1C[C@H](N=[N+]=[N-])C1",
            "CC(=O)N[C@H]1C[C@@H](N=[N+]=[N-])C1",
        ),
        (f"CN1CC[C@@H](O)C1.Oc1ccccc1.{MITSUNOBU}", "CN1CC[C@@H](Oc2ccccc2)C1", "CN1CC[C@H](Oc2ccccc2)C1"),
        # An ester gets the acid's oxygen.
        (f"CC[C@H](C)O.O=C(O)c1ccccc1.{MITSUNOBU}", "CC[C@H](C)OC(=O)c1ccccc1", "CC[C@@H](C)OC(=O)c1ccccc1"),
        (f"CC[C@H](C)O.BrC(Br)(Br)Br.{MITSUNOBU.split('.')[1]}", "CC[C@H](C)Br", "CC[C@@H](C)Br"),  # Appel
        ("CC[C@H](C)O.Oc1ccccc1", "CC[C@H](C)Oc1ccccc1", "CC[C@@H](C)Oc1ccccc1"),  # a precursor is without reagents
    ],
)
def test_a_substitution_that_retains_a_centre_is_noticed(reactants: str, retained: str, inverted: str) -> None:
    assert len(of(f"{reactants}>>{retained}").unlawful) == 1
    assert not of(f"{reactants}>>{inverted}").unlawful and not of(f"{reactants}>>{inverted}").inverted_centres


def test_acylation_and_glycosylation_may_retain_a_centre() -> None:
    assert not of("CN1CC[C@@H](O)C1.CC(=O)Cl>>CC(=O)O[C@@H]1CCN(C)C1").unlawful
    sugar, rest = (
        "CC(=O)O[C@@H]1[C@@H](OC(C)=O)[C@@H](Br)OC[C@H]1OC(C)=O",
        "1OC[C@@H](OC(C)=O)[C@H](OC(C)=O)[C@H]1OC(C)=O",
    )
    assert not of(f"{sugar}.CO>>CO[C@@H]{rest}").unlawful, "trans to the acetate at the next carbon atom"
    cis = of(f"{sugar}.CO>>CO[C@H]{rest}")
    assert len(cis.unlawful) == 1 and chem.same_molecules(cis.lawful, f"CO[C@@H]{rest}")


def test_a_double_bond_that_takes_no_part_is_watched() -> None:
    ester, acid = "C/C=C/CC(=O)OC", "C/C=C/CC(=O)O"
    (bond,) = of(f"C/C=C\\CC(=O)OC>>{acid}").flipped_bonds
    right = Chem.MolFromSmiles(acid).GetBondBetweenAtoms(*bond)
    assert right.GetBondType() == Chem.BondType.DOUBLE and right.GetStereo() == Chem.BondStereo.STEREOE
    assert not of(f"{ester}>>{acid}").flipped_bonds
    assert not of(f"CC=CCC(=O)OC>>{acid}").flipped_bonds  # nothing was told before
    assert not of("O=C(O)C/C=C\\C/C=C/C>>COC(=O)C/C=C\\C/C=C/C").flipped_bonds


@pytest.mark.parametrize("flipped", [False, True])
def test_the_side_is_that_of_the_same_neighbours_whatever_ranks_first(flipped: bool) -> None:
    after = "C/C=C(\\CF)CCl" if flipped else "C/C=C(/CF)CCl"  # the chloride ranks above the fluoride, the alcohol below
    assert bool(of(f"C/C=C(/CF)CO.O=S(Cl)Cl>>{Chem.CanonSmiles(after)}").flipped_bonds) == flipped


def test_an_acid_is_no_anhydride() -> None:
    for acyl, word in (("O", "An acid,"), ("OC", "An acid,"), ("Cl", "acid halide"), ("OC(C)=O", "anhydride")):
        found = of(f"O=C({acyl})c1ccccc1.C1CCNCC1>>O=C(c1ccccc1)N1CCCCC1")
        assert word in found.sentence and ("F[P-]" in found.reagents) == (word == "An acid,")


def test_every_rule_can_be_read_and_its_reagents_are_molecules() -> None:
    assert len(load_rules()) > 50
    for rule in load_rules():
        assert rule.product is not None and None not in rule.reactants, rule.name
        assert rule.sentence.endswith(".")
        assert not rule.reagents or Chem.MolFromSmiles(rule.reagents), rule.name


@pytest.mark.parametrize("reaction", ["c1ccc(CN2CCCC2)cc1>>c1ccc(N2CCCC2)cc1", "C1CCOCC1>>C1CCOC1"])
def test_a_carbon_that_is_cut_out_of_a_chain_is_no_leaving_group(reaction: str) -> None:
    assert of(reaction).leaving == ""


def test_aluminium_gives_its_methyl_group_rather_than_a_solvent() -> None:
    flask, ketone = str(chem.canonical("C[Al](C)C.CN(C)C=O.O=C(Cl)c1ccccc1")), "CC(=O)c1ccccc1"
    step = classify_step(flask, ketone)
    assert step
    methyl = Chem.MolFromSmiles(flask).GetAtomWithIdx(step.origin[0])
    assert [near.GetSymbol() for near in methyl.GetNeighbors()] == ["Al"]


def test_without_a_double_bond_that_turns_none_is_listed() -> None:
    assert of("C/C=C/C(=O)O.CO>>C/C=C/C(=O)OC").flipped_bonds == ()
