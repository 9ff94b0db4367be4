"""Own reactions: faults name their row, and what is kept is a precedent beside those of patents."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.precedents_index import make

from chemspec.precedents import installed, own

TEXTS = (
    "CC(=O)Cl.Nc1ccccc1>CCN(CC)CC.ClCCl>CC(=O)Nc1ccccc1",
    "aniline.propionyl chloride>>CCC(=O)Nc1ccccc1",
    "",
    "CC(=O)Cx.N>>CC(N)=O",
    "CC(=O)Cl>>CC(=O)Nc1ccccc1",
    "ClCCl.CC(=O)Cl.Nc1ccccc1.CCN(CC)CC>>CC(=O)Nc1ccccc1",
    "CCO>>CCO",
    "CCO",
)


def test_each_row_is_a_reaction_or_a_fault_with_its_number() -> None:
    read = own.read_reactions(TEXTS, ["A1"])
    assert [(each.row, each.product) for each in read.reactions] == [(1, "CC(=O)Nc1ccccc1"), (2, "CCC(=O)Nc1ccccc1")]
    assert read.reactions[0].reactants == "CC(=O)Cl.Nc1ccccc1", "what gives no atoms is left out"
    assert dict(read.faults) == {
        3: "there is no reaction",
        4: "x is not an atom; without brackets there are only B C N O P S F Cl Br I b c n o p s",
        5: "the reactants lack atoms of the product: 6 C, 1 N",
        6: "the same reaction as in row 1; it counts once",
        7: "the product is among the reactants",
        8: "write the whole reaction, reactants>>product",
    }
    assert [each.label for each in read.reactions] == ["A1", "row 2"]
    with pytest.raises(ValueError, match="10,001 rows; 10,000 are the limit"):
        own.read_reactions([""] * 10_001)


def test_kept_reactions_are_precedents_before_those_of_patents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    (tmp_path / "index.safetensors").rename(tmp_path / "precedents.safetensors")
    question = ("CCCC(=O)Cl.Nc1ccccc1", "CCCC(=O)Nc1ccccc1")
    public = installed()
    before = public.find(*question)
    table = own.keep_reactions("our amides", own.read_reactions(TEXTS, ["ELN 7"]).reactions)
    assert table.name == "our-amides.csv" and own.kept_tables() == {"our-amides": 2}
    found = installed().find(*question, n=5)
    assert (found.close, found.own, found.wide) == (before.close + 2, 2, before.wide + 2)
    assert found.in_words == f"2 of your reactions and {before.close} patent reactions make this change"
    assert {each.source.replace("\N{NO-BREAK SPACE}", " ") for each in found.nearest if each.own} == {
        "yours: ELN 7",
        "yours: row 2",
    }
    assert found.conditions[0].text == "DCM, Et₃N" and public.find(*question) == before
    again = installed().find("CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1")
    assert again.same is not None and len(installed()) == len(public)
    own.forget_table("our-amides")
    assert installed().find(*question) == before and not own.kept_tables()


def test_reactants_and_agents_that_are_too_much_together_are_a_fault_of_their_row() -> None:
    flask = ".".join(["c1ccccc1"] * 70), ".".join(["Cc1ccccc1"] * 70)  # either of them can be read
    read = own.read_reactions([">".join((*flask, "CCc1ccccc1"))])
    assert (read.reactions, dict(read.faults)) == ((), {1: "one side of the reaction cannot be read"})
