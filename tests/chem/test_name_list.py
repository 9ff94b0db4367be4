"""Tests of the list of names and CAS numbers: every row, what is found by it, and what it costs."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time

import pytest
from case_tables import table
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem
from reading import read
from slowness import slowness

from chemspec import chem
from chemspec.asset_files import assets_folder
from chemspec.chem.names import reagents


def rows() -> list[list[str]]:
    text = gzip.decompress((assets_folder() / "names" / "names.tsv.gz").read_bytes()).decode()
    return [line.split("\t") for line in text.splitlines()]


ROWS = rows()


def test_every_row_is_a_molecule_and_every_name_means_one() -> None:
    assert len(ROWS) > 5_000
    smiles, numbers, names = zip(*ROWS, strict=True)
    assert len(set(smiles)) == len(ROWS)
    known = [*filter(None, numbers)]
    assert len(set(known)) == len(known) > 0.95 * len(ROWS)
    assert all(map(reagents.is_cas, known))
    keys = [reagents.normalise_name(name) for row in names for name in row.split(" | ")]
    assert len(keys) == len(set(keys)) and not {"", "|"} & set(keys)
    for written in smiles:
        assert chem.canonical(written) == written


def test_the_tables_by_hand_and_the_rules_agree_with_the_list() -> None:
    """A name that is read in two ways is read as one molecule (tautomers of it count as one)."""
    read = 0
    for smiles, _, names in ROWS[::3]:
        for name in names.split(" | "):
            known = (reagents._find_by_hand(name) or (reagents.nomenclature.read(name),))[0]
            if known and chem.drop_stereo(known) != chem.drop_stereo(smiles):
                keys = [Chem.MolToInchiKey(Chem.MolFromSmiles(one))[:14] for one in (known, smiles)]
                assert keys[0] == keys[1], name
            read += bool(known)
    assert read > 1_000


@pytest.mark.parametrize(("text", "smiles"), table("chem/typed_names"))
def test_names_and_numbers_that_chemists_type(text: str, smiles: str) -> None:
    found = read(text)
    assert (found.kind, found.smiles) == ("name", chem.canonical(smiles))


def test_names_numbers_and_smiles_in_one_flask() -> None:
    found = read("121-33-5, p-anisaldehyde; piperidine + CCO", "forward")
    assert found.smiles == chem.canonical("COc1cc(C=O)ccc1O.COc1ccc(C=O)cc1.C1CCNCC1.CCO")
    assert "121-33-5: vanillin" in found.notes


def test_molecules_are_called_by_their_usual_name() -> None:
    for smiles, name in (("CC(=O)Oc1ccccc1C(=O)O", "aspirin"), ("c1ccc2ccccc2c1", "naphthalene")):
        assert reagents.name_in_list(str(chem.canonical(smiles))) == name
    assert reagents.name_in_list("C" * 77) == ""


@pytest.mark.parametrize(("of", "read_as"), sorted(set(reagents._load_isomers().values())))
def test_the_isomers_of_a_name_can_be_typed(of: tuple[str, ...], read_as: str) -> None:
    """They are different molecules, and the list does not know the name."""
    assert len({read(name, "forward").smiles for name in of}) == len(of) > 1 and read_as in ("", *of)


def test_the_list_has_no_name_of_several_molecules() -> None:
    assert not {reagents._normalise(name) for row in ROWS for name in row[2].split(" | ")} & {*reagents._load_isomers()}


def test_what_the_tables_by_hand_say_goes_first() -> None:
    assert reagents.find_by_name("alanine") == ("C[C@H](N)C(=O)O", "L-alanine")


@pytest.mark.parametrize("blank", " \N{THIN SPACE}\N{NARROW NO-BREAK SPACE}\N{IDEOGRAPHIC SPACE}")
def test_blanks_of_all_kinds_do_not_count(blank: str) -> None:
    assert reagents.find_by_name(f"sodium{blank}hydride") == ("[H-].[Na+]", "sodium hydride")


@given(st.text(max_size=40))
def test_no_text_raises(text: str) -> None:
    found = reagents.find_by_name(text)
    assert found is None or chem.is_valid(found[0])


def test_check_digits() -> None:
    assert reagents.is_cas("64-17-5") and reagents.is_cas("7732-18-5")
    for text in ("64-17-6", "64175", "1-23-4", "64-17-5-1", ""):
        assert not reagents.is_cas(text)


def test_the_list_is_read_when_it_is_asked_for_and_quickly() -> None:
    code = (
        "import time, chemspec.chem.formats as f, chemspec.chem.names.reagents as n\n"
        "assert not n._load_list.cache_info().currsize\n"
        "start = time.process_time(); assert n.find_in_list('vanillin'); print(time.process_time() - start)"
    )
    took = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
        for _ in range(3)
    ]
    assert min(took) < 0.05 * slowness()  # seconds of processor time
    start = time.process_time()
    for _ in range(10_000):
        reagents.find_in_list("no such molecule")
    assert time.process_time() - start < 0.2 * slowness()
