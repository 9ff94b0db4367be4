"""Tests of formats.py and what it reads and writes with: every format there and back, every refusal, hostile input."""

from __future__ import annotations

import json
import random
import re
import time
from xml.etree import ElementTree

import pytest
from helpers.case_tables import table
from helpers.paths import TESTS
from helpers.reading import fault, read
from hypothesis import example, given
from hypothesis import strategies as st
from rdkit import Chem, rdBase
from rdkit.Chem import rdChemReactions, rdMolDescriptors

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.formats import MAX_TEXT, DrawnStep, Input, read_input, to_reaction_cdxml, to_rxn, to_sdf
from chemspec.chem.reading.names import reagents
from chemspec.chem.reading.notations import unescape_string, without_blank_lines
from chemspec.depict.molecules import Depiction

# Rings, [nH], stereo of atoms and bonds, charges, isotopes, salts, metals, nitro, azide.
MOLECULES = tuple(str(chem.canonical(smiles)) for smiles in table("chem/round_trips"))
REACTANTS, PRODUCT = "CC(=O)O.CCO", "CCOC(C)=O"


def molfile(smiles: str = "C[C@H](N)C(=O)O") -> str:
    return to_sdf([{"smiles": smiles}]).split("M  END\n")[0] + "M  END\n"


def v3000(smiles: str) -> str:
    with rdBase.BlockLogs():
        return str(Chem.MolToV3KMolBlock(Chem.MolFromMolBlock(molfile(smiles))))


def cdxml(smiles: str) -> str:
    if not hasattr(Chem, "MolToCDXMLBlock"):  # before RDKit 2026.9
        return smiles
    mol = Chem.MolFromMolBlock(molfile(smiles))
    Chem.Kekulize(mol)
    return str(Chem.MolToCDXMLBlock(mol))


def v3000_rxn() -> str:
    reaction = rdChemReactions.ReactionFromRxnBlock(to_rxn(REACTANTS, PRODUCT))
    return str(rdChemReactions.ReactionToV3KRxnBlock(reaction))


@pytest.mark.parametrize("smiles", MOLECULES)
def test_every_format_gives_the_molecule_back(smiles: str) -> None:
    texts = {
        "SMILES": smiles,
        "molfile": molfile(smiles),
        "SDF": to_sdf([{"smiles": smiles, "name": "x"}]),
        "CDXML": cdxml(smiles),
        "RXN": to_rxn("CCO", smiles.split(".")[0]),
    }
    for kind, text in texts.items():
        found = read(text)
        expected = smiles.split(".")[0] if kind == "RXN" else smiles
        assert (found.smiles, found.kind) == (expected, kind)
    assert read(v3000(smiles)).smiles == smiles


@pytest.mark.parametrize("smiles", [s for s in MOLECULES if "Mg" not in s])
def test_inchi_gives_the_molecule_back(smiles: str) -> None:
    with rdBase.BlockLogs():
        inchi = Chem.MolToInchi(Chem.MolFromSmiles(smiles))
        found = read(inchi)
        # It may be another tautomer, but never another InChI.
        assert Chem.MolToInchi(Chem.MolFromSmiles(found.smiles)) == inchi
    assert found.kind == "InChI"
    assert read(inchi.removeprefix("InChI=")) == found


def test_inchi_prefers_the_usual_tautomer() -> None:
    with rdBase.BlockLogs():
        for smiles in ("CNC(C)=O", "NC(=O)c1ccccc1", "CNc1nccs1", "NC(N)=S", "CNc1ccnc2ccccc12"):
            inchi = Chem.MolToInchi(Chem.MolFromSmiles(smiles))
            assert read(inchi).smiles == chem.canonical(smiles)
            assert any("tautomer" in note for note in read(inchi).notes)


def test_reactions_give_the_side_that_is_asked_for() -> None:
    rxn = to_rxn(REACTANTS, PRODUCT)
    rdf = f"$RDFILE 1\n$DATM    now\n$RFMT $RIREG 1\n{rxn}$DTYPE note\n$DATUM x\n"
    texts = {"reaction SMILES": f"{REACTANTS}>>{PRODUCT}", "RXN": rxn, "RDF": rdf + rdf.removeprefix("$RDFILE 1\n")}
    for kind, text in texts.items():
        for written in (text, f" {text}", text.replace("\n", "\r\n"), text.encode()):
            forward, retro = read(written, "forward"), read(written, "retro")
            assert (forward.smiles, forward.kind) == (REACTANTS, kind)
            assert (retro.smiles, retro.kind) == (PRODUCT, kind)
            assert any("reaction: " in note for note in forward.notes)
    assert "first of 2" in read(texts["RDF"]).notes[0]
    assert read(v3000_rxn(), "forward").smiles == REACTANTS
    assert read(v3000_rxn(), "retro").smiles == PRODUCT


def test_agents_belong_to_a_forward_query() -> None:
    reaction = rdChemReactions.ReactionFromSmarts("CC(=O)O.OCC>Cl>CCOC(C)=O", useSmiles=True)
    for text in (
        rdChemReactions.ReactionToRxnBlock(reaction, separateAgents=True),
        rdChemReactions.ReactionToV3KRxnBlock(reaction, separateAgents=True),
        "CC(=O)O.OCC>Cl>CCOC(C)=O",
    ):
        assert read(text, "forward").smiles == "CC(=O)O.CCO.Cl"
        assert read(text, "retro").smiles == PRODUCT


def test_blank_lines_are_left_out_of_molfiles_alone() -> None:
    words = "\n\n".join("abcdefgh")
    assert without_blank_lines(words) == (words, False)
    double = "\n\n".join(molfile("CCO").split("\n"))
    assert without_blank_lines(double) == (molfile("CCO"), True)


def test_flat_coordinates_are_a_shape_only_where_the_head_of_a_molfile_says_3d() -> None:
    places = {"cis": ("Cl", "Cl", "N", "N"), "trans": ("Cl", "N", "Cl", "N")}
    found = {}
    for name, ligands in places.items():
        for head in ("2D", "3D"):
            atoms = zip(("Pt", *ligands), ((0, 0), (2, 0), (0, 2), (-2, 0), (0, -2)), strict=True)
            lines = ["", f"     RDKit          {head}", "", "  5  4  0  0  0  0  0  0  0  0999 V2000"]
            lines += [f"{x:10.4f}{y:10.4f}{0:10.4f} {symbol:<3} 0  0" for symbol, (x, y) in atoms]
            lines += [f"  1  {number}  1  0" for number in range(2, 6)]
            found[name, head] = read("\n".join([*lines, "M  END"])).smiles
    assert "@SP1" in found["cis", "3D"] and "@SP2" in found["trans", "3D"]
    assert "@" not in found["cis", "2D"] and found["cis", "2D"] == found["trans", "2D"]


def test_an_aromatic_ring_that_no_double_bonds_fit_is_named() -> None:
    five = re.sub(r"(?m)^(  [1-5]  [1-5])  [12]", r"\1  4", molfile("C1=CC=CC1"))
    assert "no pattern of single and double bonds fits the aromatic atoms [1, 2, 3, 4, 5]" in fault(five).message


@pytest.mark.parametrize(("above", "long"), [("", 86.4), ("x" * 30, 180.0)])
def test_the_arrow_of_a_drawing_is_as_long_as_what_stands_above_it(above: str, long: float) -> None:
    mol = Chem.MolFromMolBlock(molfile("CCO"))
    text = to_reaction_cdxml([DrawnStep([mol], [mol], above)])
    arrow = next(ElementTree.fromstring(text[text.index("<CDXML") :]).iter("arrow"))
    tail, head = (float(arrow.attrib[end].split()[0]) for end in ("Tail3D", "Head3D"))
    assert head - tail == pytest.approx(long, abs=0.02)
    assert read(text, "forward").smiles == "CCO"


def test_what_a_molfile_cannot_hold_has_a_record_without_atoms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_ATOMS", 3)
    assert "  3  2  0" in to_sdf([{"smiles": "CCC"}])
    assert "  0  0  0" in to_sdf([{"smiles": "CCCC"}])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings(encoding: str) -> None:
    assert read(molfile("CCO").replace("RDKit", "Größe").encode(encoding)).smiles == "CCO"
    assert read("CCO Größe".encode(encoding)).smiles == "CCO"


def test_copied_molfiles_may_have_lost_their_head() -> None:
    text = molfile("CCO")
    for copied in (text.strip(), "\n\n" + text, text.replace("\n", "\r"), "\ufeff" + text):
        assert read(copied).smiles == "CCO"


def test_relative_stereo_is_noted() -> None:
    with rdBase.BlockLogs():
        block = Chem.MolToV3KMolBlock(Chem.MolFromSmiles("C[C@H](N)C(=O)O |&1:1|"))
        found = read(block)
    assert any("and/or" in note for note in found.notes)


@pytest.mark.parametrize(
    "text",
    [*table("chem/foreign_xml"), "<CDXML>" + "<group>" * 10_000, "<CDXML>" + '<n id="1"/>' * 10_000 + "</CDXML>"],
)
def test_hostile_and_foreign_xml(text: str) -> None:
    start = time.thread_time()
    assert ("too deep" in fault(text).message) == ("<group><group>" in text)
    assert time.thread_time() - start < 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *table("chem/refusals"),
        ("InChI=1S/" + "C" * 6000, "longer than"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"PK\x03\x04\x14\x00", "zip"),
        (b"VjCD0100\x04\x03", "CDXML"),
        (b"%PDF-1.7", "PDF"),
        (b"\x00\x01\x02", "no text file"),
        ("C" * (MAX_TEXT + 1), "Batch page"),
        (b"C" * (MAX_TEXT + 1), "Batch page"),
        ("C" * 1001, "too many"),
        *((molfile().replace(old, new), words) for old, new, words in table("chem/refused_molfiles")),
        (molfile("CC").replace("  1  2  1  0\n", "").replace("  2  1  0", "  2  0  0"), "no bonds"),
        (to_sdf([{"smiles": ""}]), "no atoms"),
        (v3000("CCN").replace(" N ", " [C,N] "), "list of atoms"),
        (v3000("CCN").replace(" N ", " Xx "), "no element"),
        (v3000("CCN").replace("COUNTS 3", "COUNTS 999999999"), "too many"),
        (to_rxn("CCO", "CC=O").rpartition("$MOL")[0], "cut off"),
    ],
)
def test_refusals_say_what_is_wrong(text: str | bytes, words: str) -> None:
    found = fault(text)
    assert words in found.message
    assert 0 <= found.start <= found.end <= max(len(text), 1)


def test_an_unknown_cas_number_is_not_explained_as_a_faulty_smiles() -> None:
    assert fault("99999-92-5").message == "this CAS number is not in the built-in list: enter the name or the SMILES"


def test_faults_of_molfiles_point_at_the_line() -> None:
    text = molfile().replace(" N   0", " R#  0")
    found = fault("\n" + text)  # one line too many above
    place = next(k for k, line in enumerate(("\n" + text).split("\n"), 1) if " R# " in line)
    assert found.message.startswith(f"line {place}: ")
    assert "R#" in ("\n" + text)[found.start : found.end]
    rxn = to_rxn("CCO", "CCN").replace(" N  ", " Q  ")
    assert "Q" in rxn[fault(rxn).start : fault(rxn).end]


def test_every_reagent_is_a_molecule() -> None:
    seen: dict[str, str] = {}
    for line in reagents.TABLE.read_text(encoding="utf-8").splitlines()[2:]:
        smiles, names = line.split("\t")
        assert chem.is_valid(smiles), line
        for name in names.split(" | "):
            assert reagents.find_by_name(name) == (smiles, names.split(" | ")[0])
            key = reagents.normalise(name)
            assert key not in seen or {seen[key], smiles} == {"O=C(Cl)Cl", "Cl[Co]Cl"}, name  # COCl2, CoCl2
            seen[key] = smiles


# Formulas from a supplier's catalogue, against slips in the table.
@pytest.mark.parametrize(("name", "formula"), table("chem/reagent_formulas"))
def test_formulas_of_reagents(name: str, formula: str) -> None:
    found = reagents.find_by_name(name)
    assert found is not None
    assert rdMolDescriptors.CalcMolFormula(Chem.MolFromSmiles(found[0])) == formula


@given(st.one_of(st.text(max_size=200), st.binary(max_size=200)))
def test_any_text_or_bytes(text: str | bytes) -> None:
    assert isinstance(read_input(text, task="forward"), Input | chem.Fault)


VALID = (
    molfile("CN1CCC[C@H]1c1cccnc1"),
    v3000("CC(=O)[O-].[Na+]"),
    to_sdf([{"smiles": "CCO"}, {"smiles": "CC"}]),
    to_rxn(REACTANTS, PRODUCT),
    v3000_rxn(),
    "$RDFILE 1\n$DATM x\n$RFMT\n" + to_rxn("CCO", "CC=O"),
    cdxml("CC(=O)Nc1ccccc1"),
    (TESTS / "chem" / "cases" / "scheme.cdxml").read_text(),
    "InChI=1S/C8H9NO/c1-7(10)9-8-5-3-2-4-6-8/h2-6H,1H3,(H,9,10)",
    "[CH3:1]O>Cl>[CH3:1]Br",
    "DMF, CCO; TEA",
)
PIECES = tuple(table("chem/damaging_pieces"))


def mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        place, other = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        lines = text.split("\n")
        del lines[rng.randrange(len(lines))]
        text = rng.choice(
            (
                text[:place] + text[place + 1 :],
                text[:place] + rng.choice(PIECES) + text[place:],
                text[:place] + rng.choice(PIECES) + text[place + 1 :],
                text[:place] + text[place : place + 60] + text[place:],
                text[:other],
                "\n".join(lines),
            )
        )
    return text


@given(st.integers(0, len(VALID) - 1), st.integers(0, 2**32))
@example(6, 2**32)  # a tag in the address of the document type
def test_damaged_files(which: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(5):
        text = mutate(VALID[which], rng)
        start = time.thread_time()
        found = read_input(text, task=rng.choice(("forward", "retro")))
        assert time.thread_time() - start < 2
        if isinstance(found, Input):
            assert chem.is_valid(found.smiles)
        else:
            assert found.message and 0 <= found.start <= found.end <= len(text)


# RDKit walks a molecule recursively; where that fails the process ends, and no error is raised.
def test_long_chains_do_not_overflow_the_stack() -> None:
    for count in (2900, 4000):
        atoms = "".join(f"M  V30 {k} C 0 0 0 0\n" for k in range(1, count + 1))
        bonds = "".join(f"M  V30 {k} 1 {k} {k + 1}\n" for k in range(1, count))
        text = (
            "\n\n\n  0  0  0     0  0            999 V3000\nM  V30 BEGIN CTAB\n"
            f"M  V30 COUNTS {count} {count - 1} 0 0 0\nM  V30 BEGIN ATOM\n{atoms}M  V30 END ATOM\n"
            f"M  V30 BEGIN BOND\n{bonds}M  V30 END BOND\nM  V30 END CTAB\nM  END\n"
        )
        assert "too many" in fault(text).message
    assert fault("InChI=1S/" + "C1" * 2000).message


def test_sdf_holds_what_was_given() -> None:
    rows = [
        {"smiles": "CCO", "name": "ethanol", "rank": 1, "log_prob": -0.25},
        {"smiles": "C1", "note": "two\n\nlines\n$$$$\n>  <x>"},
        {"smiles": "CC", "name": "$$$$", "a>b<c\n": None},
    ]
    text = to_sdf(rows)
    assert sum(line.startswith("$$$$") for line in text.split("\n")) == 3
    with rdBase.BlockLogs():
        supplier = Chem.SDMolSupplier()
        supplier.SetData(text)
        first, second, third = supplier
    assert first.GetProp("_Name") == "ethanol" and first.GetProp("log_prob") == "-0.25"
    assert first.GetConformer().GetAtomPosition(1).x != first.GetConformer().GetAtomPosition(0).x
    assert second.GetNumAtoms() == 0 and second.GetProp("smiles") == "C1"
    assert set(second.GetPropNames()) == {"smiles", "note"}
    assert third.GetNumAtoms() == 2
    assert to_sdf([]) == ""


@pytest.mark.parametrize("smiles", ["", "C1", "x", "C" * 2900, "C C"])
def test_exports_of_what_cannot_be_drawn_are_empty(smiles: str) -> None:
    assert Depiction(smiles).png() == b""
    assert to_rxn(smiles, "C") == to_rxn("C", smiles) == ""


def test_rxn_molecules_stand_side_by_side() -> None:
    reaction = rdChemReactions.ReactionFromRxnBlock(to_rxn("CCO.c1ccccc1.CC", "CCCC"))
    right = -1.0
    for mol in [*reaction.GetReactants(), *reaction.GetProducts()]:
        places = [mol.GetConformer().GetAtomPosition(k).x for k in range(mol.GetNumAtoms())]
        assert min(places) > right
        right = max(places)


@given(st.text(max_size=30))
def test_exports_never_raise(text: str) -> None:
    to_sdf([{"smiles": text, text: text}])
    assert isinstance(Depiction(text, 60, 60).png(), bytes)
    to_rxn(text, text)


def test_every_name_has_its_formula_and_means_one_thing() -> None:
    rows = [line.split("\t") for line in reagents.NAMES.read_text().splitlines() if not line.startswith("#")]
    assert len(rows) > 60
    for smiles, names, formula in rows:
        assert rdMolDescriptors.CalcMolFormula(Chem.MolFromSmiles(smiles)) == formula, names
        for name in names.split(" | "):
            found = reagents.find_by_name(name)
            assert found and chem.drop_stereo(found[0]) == chem.drop_stereo(smiles), name


AMIDE = "CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1"


@pytest.mark.parametrize(("text", "agents"), table("chem/reactions_by_name"))
def test_each_side_of_a_reaction_may_have_names(text: str, agents: str) -> None:
    whole, flask, target = (read(text, task) for task in ("reagents", "forward", "retro"))
    assert (whole.smiles, whole.agents) == (">>".join(AMIDE), agents)
    assert set(flask.smiles.split(".")) == set(filter(None, (*AMIDE[0].split("."), *agents.split("."))))
    assert (target.smiles, flask.other) == (AMIDE[1], AMIDE[1])
    assert set(target.other.split(".")) == set(flask.smiles.split("."))
    assert any("left out" in note for note in whole.notes) == bool(agents)


@pytest.mark.parametrize(
    ("text", "start", "part"),
    [
        ("aniline>>acetanilidee", 9, "this name is not in the built-in list"),
        ("aniline>CC(>acetanilide", 10, "never closed"),
        ("aniline>>", 7, "has no product"),
        ("aniline", 0, "write the whole reaction"),
        (to_sdf([{"smiles": "CCO"}]), 0, "write the whole reaction"),
    ],
)
def test_a_fault_in_a_reaction_with_names_is_pointed_at(text: str, start: int, part: str) -> None:
    found = fault(text, "reagents")
    assert found.start == start and part in found.message


def test_a_drawn_reaction_is_whole_too() -> None:
    found = read(to_rxn(*AMIDE), "reagents")
    assert (found.smiles, found.kind, found.notes) == (">>".join(AMIDE), "RXN", ())
    assert set(found.reaction.split(">>")[0].split(".")) == set(AMIDE[0].split("."))


def test_a_molfile_with_blank_lines_between_its_lines_or_as_a_string_is_read() -> None:
    block = Chem.MolToMolBlock(Chem.MolFromSmiles("CC(=O)Nc1ccccc1"))
    for text in ("\n\n".join(block.split("\n")), json.dumps(block), block.replace("\n", "\\n")):
        assert read(text).smiles == "CC(=O)Nc1ccccc1"


def test_a_molfile_pasted_as_a_string_of_json_is_the_molfile() -> None:
    block = molfile("CCO")
    assert unescape_string(json.dumps(block)) == unescape_string(json.dumps(block) + ",") == block
    assert unescape_string(json.dumps(block).strip('"')) == block


@pytest.mark.parametrize("arrows", [0, 1, 2])
def test_a_reaction_step_that_names_no_arrow_is_read_by_what_it_names(arrows: int) -> None:
    text = re.sub('ReactionStepArrows="30"', "", (TESTS / "chem" / "cases" / "scheme.cdxml").read_text("utf-8"))
    arrow = re.search('<arrow id="30"[^>]*/>', text)
    assert arrow
    further = [arrow[0], arrow[0].replace('"30"', '"32"')][:arrows]
    found = read(text.replace(arrow[0], "".join(further)), "retro")
    assert found.smiles == chem.canonical("CC=O")
