"""Tests of the list of names and CAS numbers: every row, what is found by it, and what it costs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.case_tables import table
from helpers.reading import fault, read
from helpers.slowness import slowness
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

from chemspec import chem
from chemspec.chem.reading.names import additive, near_names, reagents
from chemspec.chem.reading.names.packed import NameTable, Record, write_table

FORMS = ("dibal-h", "platinum oxide")  # names whose two readings differ in hydrates or the state of a metal
TABLE = reagents.load_table()
SAMPLE = [*TABLE][::40]


def test_every_row_is_a_molecule_that_its_number_and_its_name_find() -> None:
    assert len(TABLE) > 75_000
    assert len({record.smiles for record in TABLE}) == len(TABLE)
    for record in SAMPLE:
        assert chem.canonical(record.smiles) == record.smiles
        assert TABLE.find_smiles(record.smiles) == record
        if record.cas:
            assert reagents.is_cas(record.cas)
            assert record in TABLE.find(record.cas)
        if record.name:
            assert record in TABLE.find(reagents.normalise_name(record.name))


def test_a_written_table_finds_what_was_put_in_and_says_what_is_ambiguous(tmp_path: Path) -> None:
    records = [Record("CCO", "64-17-5", "ethanol"), Record("CO", "67-56-1", "methanol")]
    write_table(tmp_path / "t.bin", records, {"ethanol": ["CCO"], "alcohol": ["CCO", "CO"], "64-17-5": ["CCO"]})
    small = NameTable(tmp_path / "t.bin")
    assert small.find("ethanol") == (records[0],) == small.find("64-17-5")
    assert {*small.find("alcohol")} == {*records}
    assert small.find("methanol") == () and small.find_smiles("CO") == records[1] and small.find_smiles("C") is None
    (tmp_path / "other").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match="no packed table"):
        NameTable(tmp_path / "other")


def test_a_molecule_of_the_tables_by_hand_has_its_name_however_it_is_written_there() -> None:
    for name in ("levodopa", "pregabalin", "3,4-pyridinedicarboxylic acid"):
        smiles, full = reagents.find_by_hand(name) or ("", "")
        assert chem.canonical(smiles) != smiles and reagents.name_of(str(chem.canonical(smiles))) == full


def test_the_tables_by_hand_agree_with_the_table() -> None:
    """A name that is read in two ways is read as one molecule (tautomers and salts count as one)."""
    read = 0
    for record in TABLE:
        known = reagents.find_by_hand(record.name) if record.name else None
        if known and chem.drop_stereo(known[0]) != chem.drop_stereo(record.smiles):
            mols = [Chem.MolFromSmiles(smiles) for smiles in (known[0], record.smiles)]
            assert CalcMolFormula(mols[0]) == CalcMolFormula(mols[1]) or record.name in FORMS, record
        read += bool(known)
    assert read > 150


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


@pytest.mark.parametrize(("of", "read_as"), sorted(set(reagents.load_isomers().values())))
def test_the_isomers_of_a_name_can_be_typed(of: tuple[str, ...], read_as: str) -> None:
    """They are different molecules, and the list does not know the name."""
    assert len({read(name, "forward").smiles for name in of}) == len(of) > 1 and read_as in ("", *of)


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


def test_a_look_up_takes_microseconds_and_reads_no_whole_table() -> None:
    code = (
        "import time, chemspec.chem.formats as f, chemspec.chem.reading.names.reagents as n\n"
        "assert not n.load_table.cache_info().currsize\n"
        "start = time.process_time(); assert n.find_in_list('vanillin'); print(time.process_time() - start)"
    )
    took = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
        for _ in range(3)
    ]
    assert min(took) < 0.05 * slowness()  # seconds of processor time
    start = time.process_time()
    for number in range(10_000):
        reagents.find_in_list(f"no such molecule {number}")
    assert time.process_time() - start < 0.5 * slowness()


@pytest.mark.parametrize(("typed", "meant"), [("triethlyamine", "triethylamine"), ("benzaldehdye", "benzaldehyde")])
def test_near_names_are_offered(typed: str, meant: str) -> None:
    assert meant in near_names.near_names(typed)
    assert f"did you mean {meant}" in fault(typed).message


def test_several_near_names_are_of_several_molecules() -> None:
    assert {"methanal", "methanol"} < {*near_names.near_names("methanl")}


@pytest.mark.parametrize(("name", "smiles"), table("chem/systematic_names"))
def test_common_systematic_names_are_in_the_table(name: str, smiles: str) -> None:
    found = reagents.find_by_name(name)
    assert found is not None
    assert chem.canonical(found[0]) == chem.canonical(smiles)


@pytest.mark.parametrize("name", table("chem/uncertain_names"))
def test_names_that_mean_no_certain_molecule_are_not_read(name: str) -> None:
    assert reagents.find_by_name(name) is None


@pytest.mark.parametrize(("numeral", "charge"), [("I", 1), ("II", 2), ("III", 3), ("IV", 4), ("V", 5), ("VI", 6)])
def test_the_roman_numeral_of_a_metal_is_its_charge(numeral: str, charge: int) -> None:
    found = additive.read(f"vanadium({numeral}) fluoride", lambda _: None)
    assert chem.canonical(str(found)) == chem.canonical(".".join([f"[V+{charge}]", *["[F-]"] * charge]))
