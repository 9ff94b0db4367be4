"""Files of reactions of others: ORD's protobuf and JSON, Lowe's XML and RSMI; one record in all four formats."""

from __future__ import annotations

import gzip
import json
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chemspec import chem
from chemspec.data.reaction_records import is_reaction_file, read_reaction_file
from chemspec.data.shards import read_rows
from chemspec.evaluation.accuracy import read_known_reactions
from chemspec.io import FileError
from chemspec.io.readers import read_queries
from chemspec.precedents.build import build_index

MAPPED = "[CH3:1][C:2](=[O:3])Cl.[NH2:4][c:5]1[cH:6][cH:7][cH:8][cH:9][cH:10]1>ClCCl>"
MAPPED += "[CH3:1][C:2](=[O:3])[NH:4][c:5]1[cH:6][cH:7][cH:8][cH:9][cH:10]1"
FLASK, PRODUCT = "CC(=O)Cl.Nc1ccccc1.ClCCl", "CC(=O)Nc1ccccc1"
RSMI = "ReactionSmiles\tPatentNumber\tParagraphNum\tYear\tTextMinedYield\tCalculatedYield\n"
RSMI += f"{MAPPED} |f:0.1|\tUS03930836\t0042\t1976\t\t87.5%\n"
XML = f"""<?xml version="1.0"?><reactionList xmlns="http://www.xml-cml.org/schema" xmlns:dl="http://bitbucket.org/dan2097">
<reaction><dl:source><dl:documentId>US03930836</dl:documentId><dl:paragraphNum>0042</dl:paragraphNum></dl:source>
<dl:reactionSmiles>{MAPPED.replace(">", "&gt;")}</dl:reactionSmiles><productList><product>
<amount dl:propertyType="PERCENTYIELD">87.5%</amount></product></productList></reaction></reactionList>"""
RECORD = {
    "reactionId": "ord-1",
    "identifiers": [{"type": "REACTION_CXSMILES", "value": f"{MAPPED} |f:0.1|", "isMapped": True}],
    "provenance": {"patent": "US03930836"},
    "outcomes": [{"products": [{"measurements": [{"type": "YIELD", "percentage": {"value": 87.5}}]}]}],
}
COMPOUNDS = (("REACTANT", "CC(=O)Cl"), ("REACTANT", "Nc1ccccc1"), ("SOLVENT", "ClCCl"), ("WORKUP", "O"))


def compound(role: str, smiles: str) -> dict[str, object]:
    return {"identifiers": [{"type": "NAME", "value": "x"}, {"type": "SMILES", "value": smiles}], "reactionRole": role}


UNMAPPED = {
    "reactionId": "ord-2",
    "inputs": {str(n): {"components": [compound(*item)]} for n, item in enumerate(COMPOUNDS)},
    "outcomes": [{"products": [{**compound("PRODUCT", PRODUCT), "isDesiredProduct": True}]}],
}


def field(number: int, value: bytes | str | int | float) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    raw = value.encode() if isinstance(value, str) else value
    low = [len(raw) >> shift & 0x7F | 0x80 for shift in (0, 7)]
    return bytes([number << 3 | 2, *low, len(raw) >> 14]) + raw


def protobuf() -> bytes:
    """The two records as ORD writes them."""
    measured = field(2, 3) + field(8, field(1, 87.5) + field(2, 1.0))
    first = field(1, field(1, 6) + field(3, f"{MAPPED} |f:0.1|")) + field(8, field(3, field(3, measured)))
    first += field(9, field(5, "US03930836")) + field(10, "ord-1")
    roles = {"REACTANT": 1, "SOLVENT": 3, "WORKUP": 5}
    second = b""
    for number, (role, smiles) in enumerate(COMPOUNDS):
        part = field(1, field(1, 6) + field(3, "x")) + field(1, field(1, 2) + field(3, smiles)) + field(3, roles[role])
        second += field(2, field(1, str(number)) + field(2, field(1, part)))
    made = field(1, field(1, 2) + field(3, PRODUCT)) + field(2, 1) + field(7, 8)
    second += field(8, field(3, made)) + field(10, "ord-2")
    return field(1, "name") + field(3, first) + field(3, second) + field(5, "ord_dataset-1")


CONTENTS = {
    "a.pb.gz": gzip.compress(protobuf()),
    "b.json": json.dumps({"name": "x", "reactions": [RECORD, UNMAPPED]}).encode(),
    "c.xml": XML.encode(),
    "d.rsmi": RSMI.encode(),
}


@pytest.fixture(params=CONTENTS)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    path.write_bytes(CONTENTS[request.param])
    return path


def test_each_format_gives_the_columns_of_the_tables(file: Path) -> None:
    first, *others = read_rows(file)
    assert first["reactants_and_reagents"] == FLASK and first["main_product"] == first["product"] == PRODUCT
    assert first["core_reactants"] == first["reactants"] == "CC(=O)Cl.Nc1ccccc1"
    assert first["mapped_rxn"].startswith("[CH3:1]") and first["mapped_rxn"].endswith("[cH:10]1")
    assert (first["patent_id"], first["yield"]) == ("US03930836", "87.5")
    for other in others:
        assert (other["reactants_and_reagents"], other["product"], other["id"]) == (FLASK, PRODUCT, "ord-2")
        assert other["mapped_rxn"] == other["yield"] == ""
    assert len(others) == (file.suffix in (".gz", ".json"))


def test_they_serve_predictions_evaluation_and_precedents(file: Path, tmp_path: Path) -> None:
    assert read_queries(file, task="forward")[0] == FLASK
    assert read_queries(file, task="retro")[0] == PRODUCT
    known = read_known_reactions(file, "retro")
    assert (known[0].query, known[0].answer) == (PRODUCT, "CC(=O)Cl.Nc1ccccc1")
    report = build_index([file], tmp_path / "index", workers=1)
    assert (report.reactions, report.with_patent, report.with_reagents) == (1, 1, 1)


def test_what_is_cut_off_is_named(file: Path) -> None:
    if file.suffix == ".rsmi":
        file.write_text("Smiles\tPatent\nC>>C\tUS1\n", encoding="utf-8")
    else:
        file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(ValueError, match=f"{file.name} is damaged or not"):
        [*read_reaction_file(file)]
    with pytest.raises(FileError, match=file.name):
        read_queries(file, task="forward")


def test_compounds_without_smiles_are_read_by_name_and_none_is_dropped(tmp_path: Path) -> None:
    def compound(role: str, kind: str, value: str) -> dict[str, object]:
        return {"identifiers": [{"type": kind, "value": value}], "reaction_role": role}

    def record(first: dict[str, object]) -> dict[str, object]:
        parts = [first, compound("REACTANT", "SMILES", "BrCc1ccccc1"), compound("REAGENT", "CAS_NUMBER", "584-08-7")]
        product = compound("PRODUCT", "INCHI", "InChI=1S/C13H12O/c1-3-7-12(8-4-1)11-14-13-9-5-2-6-10-13/h1-10H,11H2")
        return {"inputs": {"a": {"components": parts}}, "outcomes": [{"products": [product]}]}

    (tmp_path / "one.json").write_text(json.dumps(record(compound("REACTANT", "NAME", "phenol"))))
    (row,) = read_reaction_file(tmp_path / "one.json")
    assert row["reactants"] == "Oc1ccccc1.BrCc1ccccc1"
    assert row["product"] == chem.canonical("c1ccc(COc2ccccc2)cc1") and "[K+]" in row["reactants_and_reagents"]
    (tmp_path / "b.json").write_text(json.dumps({"reactions": [record(compound("REACTANT", "NAME", "phenol 5b"))]}))
    (row,) = read_reaction_file(tmp_path / "b.json")
    assert row["reactants"] == "", "without one of its reactants it would be another reaction"
    (tmp_path / "c.rsmi").write_text(f"{RSMI.splitlines()[0]}\nCC(=O)Cl.Nc1ccccc>>CC(=O)Nc1ccccc1\tUS1\t1\t1976\t\t\n")
    (row,) = read_reaction_file(tmp_path / "c.rsmi")
    assert row["reactants"] == row["reactants_and_reagents"] == ""


def test_entities_are_refused_and_other_json_and_xml_are_no_reactions(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.xml"
    bomb.write_text('<!DOCTYPE x [<!ENTITY a "reactionSmiles">]><reactionList>&a;</reactionList>', encoding="utf-8")
    with pytest.raises(ValueError, match="entities"):
        [*read_reaction_file(bomb)]
    for name, content in (("x.json", '{"root": {}}'), ("x.xml", "<CDXML/>")):
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert not is_reaction_file(tmp_path / name)


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "x.pb"
    path.write_bytes(content)
    with suppress(ValueError):
        rows = [*read_reaction_file(path)]
        assert all(isinstance(value, str) for row in rows for value in row.values())
