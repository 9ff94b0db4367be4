"""Systematic names: those that are read are right, and all others are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

from chemspec import chem
from chemspec.chem.names import nomenclature, reagents

KNOWN = {
    "4-bromobenzonitrile": "N#Cc1ccc(Br)cc1",
    "p-bromobenzonitrile": "N#Cc1ccc(Br)cc1",
    "2-chloro-4-nitroaniline": "Nc1ccc([N+](=O)[O-])cc1Cl",
    "5-bromo-2-chloropyridine": "Clc1ccc(Br)cn1",
    "2,4-dichloropyrimidine": "Clc1ccnc(Cl)n1",
    "4,6-dichloropyrimidine": "Clc1cc(Cl)ncn1",
    "3,5-dimethoxybenzaldehyde": "COc1cc(OC)cc(C=O)c1",
    "4-methoxyphenylboronic acid": "COc1ccc(B(O)O)cc1",
    "(4-methoxyphenyl)boronic acid": "COc1ccc(B(O)O)cc1",
    "3,5-bis(trifluoromethyl)aniline": "Nc1cc(C(F)(F)F)cc(C(F)(F)F)c1",
    "4-(trifluoromethyl)benzyl bromide": "FC(F)(F)c1ccc(CBr)cc1",
    "2,4,6-trifluoroaniline": "Nc1c(F)cc(F)cc1F",
    "N,N-dimethylaniline": "CN(C)c1ccccc1",
    "N-methylbenzylamine": "CNCc1ccccc1",
    "2-chloro-N-phenylacetamide": "O=C(CCl)Nc1ccccc1",
    "N-Boc-piperazine": "CC(C)(C)OC(=O)N1CCNCC1",
    "1-methylpiperazine": "CN1CCNCC1",
    "N-methylmorpholine": "CN1CCOCC1",
    "ethyl 4-aminobenzoate": "CCOC(=O)c1ccc(N)cc1",
    "methyl 2-bromo-5-nitrobenzoate": "COC(=O)c1cc([N+](=O)[O-])ccc1Br",
    "tert-butyl 4-oxopiperidine-1-carboxylate": "CC(C)(C)OC(=O)N1CCC(=O)CC1",
    "tert-butyl piperazine-1-carboxylate": "CC(C)(C)OC(=O)N1CCNCC1",
    "ethyl bromoacetate": "CCOC(=O)CBr",
    "ethyl 4-bromobutanoate": "CCOC(=O)CCCBr",
    "6-chloronicotinic acid": "O=C(O)c1ccc(Cl)nc1",
    "2-chloroisonicotinic acid": "O=C(O)c1ccnc(Cl)c1",
    "pyridin-3-amine": "Nc1cccnc1",
    "pyridine-3-boronic acid": "OB(O)c1cccnc1",
    "pyridin-4-ylboronic acid": "OB(O)c1ccncc1",
    "thiophene-2-carbaldehyde": "O=Cc1cccs1",
    "3-methylthiophene": "Cc1ccsc1",
    "5-methylthiophene-2-carboxylic acid": "Cc1ccc(C(=O)O)s1",
    "4-methylthiophenol": "Cc1ccc(S)cc1",
    "4-(methylthio)phenol": "CSc1ccc(O)cc1",
    "4-methylthioaniline": "CSc1ccc(N)cc1",
    "thiophene-2-sulfonyl chloride": "O=S(=O)(Cl)c1cccs1",
    "5-bromothiophene-2-carboxylic acid": "O=C(O)c1ccc(Br)s1",
    "6-bromoindole": "Brc1ccc2cc[nH]c2c1",
    "1-methylindazole": "Cn1ncc2ccccc21",
    "6-nitrobenzothiazole": "O=[N+]([O-])c1ccc2ncsc2c1",
    "2-chlorobenzoxazole": "Clc1nc2ccccc2o1",
    "4-chloroquinoline": "Clc1ccnc2ccccc12",
    "4-chloroquinazoline": "Clc1ncnc2ccccc12",
    "1-chloroisoquinoline": "Clc1nccc2ccccc12",
    "1-bromohexane": "CCCCCCBr",
    "1,4-dibromobutane": "BrCCCCBr",
    "1-bromo-3-chloropropane": "ClCCCBr",
    "2-bromopropane": "CC(C)Br",
    "3-methyl-1-butanol": "CC(C)CCO",
    "butan-2-ol": "CCC(C)O",
    "hexylamine": "CCCCCCN",
    "octanoyl chloride": "CCCCCCCC(=O)Cl",
    "bromocyclohexane": "BrC1CCCCC1",
    "nitroethane": "CC[N+](=O)[O-]",
    "4-dimethylaminopyridine": "CN(C)c1ccncc1",
    "4-methylaminophenol": "CNc1ccc(O)cc1",
    "4-phenoxyphenol": "Oc1ccc(Oc2ccccc2)cc1",
    "4-chlorophenyl isocyanate": "O=C=Nc1ccc(Cl)cc1",
    "4-bromobiphenyl": "Brc1ccc(-c2ccccc2)cc1",
    "phenyl acetate": "CC(=O)Oc1ccccc1",
    "methyl phenylacetate": "COC(=O)Cc1ccccc1",
}


@pytest.mark.parametrize(("name", "smiles"), KNOWN.items())
def test_names_that_are_read_are_right(name: str, smiles: str) -> None:
    found = reagents.find_by_name(name)
    assert found is not None
    assert chem.canonical(found[0]) == chem.canonical(smiles)


@pytest.mark.parametrize(
    "name",
    [
        "chloroaniline",  # which?
        "2-bromoacetophenone",  # on the ring or beside it, as who says it
        "4-bromo-pyridine-oxide",
        "7-bromobenzonitrile",
        "1-bromobenzonitrile",
        "2,3-bromoaniline",
        "2-dibromoaniline",
        "2,2,2,2,2-pentachlorobutane",
        "2,2-dichloroaniline",
        "o-chloro-m-nitroaniline",
        "p-chloropyridine",
        "methyl benzene",
        "dimethyl phthalate",
        "ethyl 4-aminobenzonitrile",
        "3-pyridin-3-amine",
        "2-chloro-N-methylpurine",
        "N-methylbenzonitrile",
        "N-methyl-4-aminopiperidine",  # which nitrogen?
        "N-boc-2-methylpiperazine",
        "ethyl ethanate",
        "4-(4-methylpiperazin-1-yl)aniline",
        "CCO",
        "bromo",
        "2-",
        "",
    ],
)
def test_what_is_not_certain_is_not_read(name: str) -> None:
    assert nomenclature.read(name) is None


def test_every_parent_has_its_formula_and_every_group_is_one() -> None:
    for line in nomenclature.TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            _, names, _, formula = line.split("\t")
            for name in names.split(" | "):
                assert CalcMolFormula(Chem.MolFromSmiles(nomenclature.read(name))) == formula, name
    for group in (*nomenclature.PREFIXES.values(), *nomenclature.SUFFIXES.values()):
        assert chem.is_valid(f"C{group}"), group


def test_many_building_blocks_can_be_named() -> None:
    """A group on a benzene that has one: each name is another molecule."""
    plain = ("fluoro", "chloro", "bromo", "iodo", "methyl", "methoxy", "nitro", "cyano", "trifluoromethyl")
    parents = ("aniline", "phenol", "benzaldehyde", "benzoic acid", "benzonitrile", "phenylboronic acid")
    one = {nomenclature.read(f"{k}-{group}{parent}") for parent in parents for group in plain for k in (2, 3, 4)}
    assert None not in one and len(one) == len(parents) * len(plain) * 3


@given(st.text(alphabet="abcdeilmnoprtuxy0123456789,-() ", max_size=30))
def test_no_text_raises(text: str) -> None:
    assert nomenclature.read(text) is None or chem.is_valid(str(nomenclature.read(text)))
