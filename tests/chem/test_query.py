"""Tests of chem.py: no text makes it raise, and every fault points at what is wrong."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pytest
from helpers.case_tables import table
from helpers.reading import fault, read
from helpers.slowness import slowness
from helpers.thinned import NIGHTLY
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem, rdBase

from chemspec.chem import (
    MAX_LENGTH,
    Fault,
    Query,
    atom_tokens,
    canonical,
    canonical_parts,
    drop_stereo,
    explain,
    formula_balance,
    is_valid,
    main_product,
    pointer,
    read_query,
    same_molecules,
)
from chemspec.chem.formats import Input, read_input
from chemspec.settings import Task

# Drugs, dyes, salts, reagents: what people type.
REAL = tuple(table("chem/real_molecules"))


def strict(text: str) -> str:
    """The canonical form of a SMILES that must be valid."""
    found = canonical(text)
    assert found is not None
    return found


def rdkit_accepts(text: str) -> bool:
    with rdBase.BlockLogs():
        return Chem.MolFromSmiles(text) is not None


def test_agents_of_a_whole_reaction_are_read_and_left_out() -> None:
    found = read("CO.CC(=O)O>OS(=O)(=O)O.[OH2:1]>COC(C)=O", "reagents")
    assert (found.smiles, set(found.agents.split("."))) == ("CC(=O)O.CO>>COC(C)=O", {"O", "O=S(=O)(O)O"})
    assert found.notes == ("the agents are left out",)
    open_ = fault("CO>CC(>COC", "reagents")
    assert (open_.start, open_.message) == (5, "this ( is never closed")


ALPHABET = "CCCNOPSFIBclrbnos()()[]==##-+123%@@/\\.:H*~$>XZ05& \u2212\u0421"
PIECES = "C c N n O ( ) ( ) 1 2 1 = # / \\ [nH] [C@H] [H] [Na+] . %10 -> - : [CH3:1] [Uuu] * >>"


def fuzzed(rng: random.Random) -> str:
    """Real SMILES with typing errors, SMILES-like strings, or any characters at all."""
    kind = rng.randrange(4)
    if kind == 0:
        chars = list(rng.choice(REAL))
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(chars))
            end = place + rng.randint(0, 1)
            chars[place:end] = rng.choice(["", rng.choice(ALPHABET)]) or chars[end : end + 1]
        return "".join(chars)
    if kind == 1:
        return "".join(rng.choices(PIECES.split(), k=rng.randint(0, 14)))
    if kind == 2:
        return "".join(rng.choices(ALPHABET, k=rng.randint(0, 12)))
    return "".join(chr(rng.choice([rng.randrange(0x250), rng.randrange(0x110000)])) for _ in "CCOC")


def check(text: str, task: Task | None) -> Query | Input | Fault:
    """Read a text as molecules, or as what a task takes of it, and return what was read."""
    answer = read_input(text, task=task) if task else read_query(text)
    if not isinstance(answer, Fault):
        assert canonical(answer.smiles) == answer.smiles
        return answer
    assert 0 <= answer.start <= answer.end <= len(text)
    assert answer.start < answer.end or not text
    line, carets = pointer(text, answer).split("\n")
    assert line.isprintable() and "^" in carets
    str(answer).encode()
    return answer


@pytest.mark.parametrize("count", [3_000, pytest.param(10_000, marks=NIGHTLY)])
def test_broken_texts_give_a_query_or_a_fault(count: int) -> None:
    rng = random.Random(0)
    seen: Counter[str] = Counter()
    for number in range(count):
        text = fuzzed(rng)
        answer = check(text, (None, "forward", "retro")[number % 3] if ">" in text else None)
        seen[answer.kind if isinstance(answer, Fault) else "query"] += 1
    assert {"query", "syntax", "atom", "ring", "valence", "aromaticity", "reaction"} <= set(seen)


def test_explain_finds_a_fault_exactly_where_rdkit_does_and_seldom_shrugs() -> None:
    rng = random.Random(1)
    texts = [fuzzed(rng) for _ in range(4_000)]
    # RDKit takes "" for a molecule, and text after a blank for a name.
    texts = [text for text in texts if text and text.isascii() and " " not in text]
    texts = [text for text in texts if text.isprintable()]
    faults = [explain(text) for text in texts]
    assert [found is None for found in faults] == [rdkit_accepts(text) for text in texts]
    assert [found is None for found in faults] == [is_valid(text) for text in texts]
    assert sum(found is not None and found.kind == "other" for found in faults) <= 2


@given(st.text(max_size=30), st.sampled_from([None, "forward", "retro"]))
@settings(max_examples=200, deadline=None)
def test_any_text_gives_a_query_or_a_fault(text: str, task: Task | None) -> None:
    check(text, task)
    assert (explain(text) is None) == is_valid(text) == (canonical(text) is not None)


@pytest.mark.parametrize(
    ("smiles", "blamed", "start", "kind"),
    [*table("chem/faults"), ("C" * (MAX_LENGTH + 5), "C" * 5, MAX_LENGTH, "length")],
)
def test_a_fault_points_at_its_cause(smiles: str, blamed: str, start: int, kind: str) -> None:
    found = explain(smiles)
    assert found is not None
    assert (smiles[found.start : found.end], found.start, found.kind) == (blamed, start, kind)


@pytest.mark.parametrize(
    ("smiles", "hint"), [("CC(=O)ONa", "[Na]"), ("CCCL", "Cl"), ("[D]C", "[2H]"), ("Cc1ccccn1C", "[nH]")]
)
def test_a_common_slip_comes_with_its_remedy(smiles: str, hint: str) -> None:
    found = explain(smiles)
    assert found is not None and hint in found.message


def test_the_pointer_draws_carets_below_the_fault() -> None:
    assert pointer("CC(=O)ONa", Fault("", 7, 9, "atom")) == "CC(=O)ONa\n       ^^"
    assert pointer("", Fault("", 0, 0, "empty")) == "\n^"
    assert pointer("\uff23\tX", Fault("", 2, 3, "atom")) == "\uff23 X\n   ^"
    line, carets = pointer("C" * 500 + "X", Fault("", 500, 501, "atom")).split("\n")
    assert (line[-1], len(line), carets) == ("X", 76, " " * 75 + "^")
    line, carets = pointer("C" * 500 + "X" + "C" * 500, Fault("", 500, 501, "atom")).split("\n")
    assert len(line) == 76 and line[carets.index("^")] == "X" and carets.count("^") == 1


def test_a_fault_names_its_place_counted_from_one() -> None:
    assert str(Fault("no", 2, 3, "atom")) == "no (character 3)"
    assert str(Fault("no", 2, 5, "atom")) == "no (characters 3-5)"
    assert str(Fault("no", 0, 0, "empty")) == "no"


def test_rdkit_logging_is_left_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    explain("c1cccc1")
    canonical("CC(")
    read_query("[H]")
    assert capfd.readouterr().err == ""
    Chem.MolFromSmiles("CC(")
    assert "Parse Error" in capfd.readouterr().err


@pytest.mark.parametrize(("text", "smiles", "note"), table("chem/changed_queries"))
def test_a_query_says_what_was_changed(text: str, smiles: str, note: str | None) -> None:
    answer = read_query(text)
    assert isinstance(answer, Query)
    assert answer.smiles == strict(smiles)
    assert len(answer.notes) == (note is not None)
    assert note is None or note in answer.notes[0]


@pytest.mark.parametrize(("text", "forward", "retro"), table("chem/sides_of_reactions"))
def test_each_task_takes_its_side_of_a_reaction(text: str, forward: str, retro: str) -> None:
    for answer, smiles in ((read(text, "forward"), forward), (read(text, "retro"), retro)):
        assert answer.smiles == strict(smiles)
        assert any("reaction" in note for note in answer.notes)


@pytest.mark.parametrize(("text", "task", "blamed", "kind"), table("chem/faults_as_typed"))
def test_a_fault_points_into_the_text_as_typed(text: str, task: Any, blamed: str, kind: str) -> None:
    answer = read_input(text, task=task) if task else read_query(text)
    assert isinstance(answer, Fault)
    assert (text[answer.start : answer.end], answer.kind) == (blamed, kind)


@pytest.mark.parametrize("text", ["C" * 2000, "C" * 10**7, "C(" * 1500, "C1" * 1000, " " * 50_000, "[" * 5000])
def test_a_text_that_is_too_long_is_refused_at_once(text: str) -> None:
    begin = time.process_time()
    answer = read_query(text)
    assert time.process_time() - begin < 0.5 * slowness()
    assert isinstance(answer, Fault) and answer.kind == "length"


def test_the_limit_is_on_the_part_that_is_used() -> None:
    assert isinstance(read_query("C" * 1000 + " " + "n" * 500), Query)
    assert isinstance(read_input("C" * 900 + ">>" + "C" * 900, task="retro"), Input)
    assert isinstance(read_query("CCCC", max_chars=3), Fault)
    # A higher limit cannot lift the one that keeps RDKit's recursion off the end of the stack.
    assert isinstance(read_query("C" * 100_000, max_chars=10**9), Fault)


@pytest.mark.parametrize("smiles", REAL)
def test_canonical_is_idempotent_and_keeps_the_molecule(smiles: str) -> None:
    once = strict(smiles)
    assert canonical(once) == once
    assert explain(smiles) is None and same_molecules(smiles, once)
    flat = drop_stereo(smiles)
    assert flat is not None and drop_stereo(flat) == flat and "@" not in flat and "/" not in flat
    parts = [strict(part) for part in smiles.split(".")]
    assert canonical_parts(smiles) == tuple(sorted(parts)) and main_product(smiles) in parts


@pytest.mark.parametrize("smiles", ["", " ", "CC(", "c1cccc1", "C C", "[Xx]", "C" * 10**6, "\ud800"])
def test_an_invalid_smiles_is_a_value(smiles: str) -> None:
    assert not is_valid(smiles)
    assert canonical(smiles) is canonical_parts(smiles) is drop_stereo(smiles) is None
    assert main_product(smiles) is formula_balance(smiles, "C") is formula_balance("C", smiles) is None
    assert not same_molecules(smiles, smiles)
    assert atom_tokens([smiles, ""]) == (None, None)


def test_components_compare_as_multisets() -> None:
    assert same_molecules("OCC.[Na+]", "[Na+].CCO")
    assert same_molecules("C1.CC1", "CCC")
    assert not same_molecules("CCO.CCO", "CCO")
    assert not same_molecules("C[C@H](N)O", "C[C@@H](N)O")
    assert canonical_parts("OCC.C.C") == ("C", "C", "CCO")


def test_drop_stereo_keeps_isotopes() -> None:
    assert drop_stereo("[2H]/C=C/F") == drop_stereo("[2H]C=CF") != drop_stereo("C=CF")
    assert drop_stereo("[H]/N=C(/C)Cl") == strict("N=C(C)Cl")


def test_main_product_has_most_heavy_atoms() -> None:
    assert main_product("[Na+].OCC.Cl") == "CCO"
    assert main_product("CCN.CCO") == main_product("CCO.CCN") == "CCN"
    assert main_product("BrBr.[H][H].C") == "BrBr"


def test_formula_balance_counts_what_cannot_come_from_the_reactants() -> None:
    assert formula_balance("CC(=O)Cl.OCC", "CC(=O)OCC") == {}
    assert formula_balance("CC=O", "CCO") == {}
    assert formula_balance("CC", "BrCC(Br)C") == {"Br": 2, "C": 1}


def pieces(smiles: str) -> list[str]:
    """Atom-wise tokens, cut independently of the code under test."""
    tokens: list[str] = []
    for char in smiles:
        open_bracket = bool(tokens) and tokens[-1].startswith("[") and "]" not in tokens[-1]
        halogen = bool(tokens) and tokens[-1] + char in ("Cl", "Br")
        if open_bracket or halogen:
            tokens[-1] += char
        else:
            tokens.append(char)
    return tokens


HYDROGENS = tuple(table("chem/hydrogens"))


@pytest.mark.parametrize("smiles", [*REAL, *HYDROGENS])
def test_each_atom_of_rdkit_belongs_to_one_token_that_spells_it(smiles: str) -> None:
    tokens = pieces(smiles)
    mol = Chem.MolFromSmiles(smiles)
    found = atom_tokens(tokens)
    assert len(found) == len(tokens)
    assert [index for index in found if index is not None] == list(range(mol.GetNumAtoms()))
    for token, index in zip(tokens, found, strict=True):
        if index is not None:
            assert mol.GetAtomWithIdx(index).GetSymbol().lower() in token.lower()
        else:
            assert token.startswith("[H") or not any(char.isalpha() for char in token)


def test_a_hydrogen_that_rdkit_folds_away_has_no_atom() -> None:
    assert atom_tokens(["[H]", "O", "C", "[H]"]) == (None, 0, 1, None)
    assert atom_tokens(["[2H]", "O", "[H]"]) == (0, 1, None)


def test_a_token_of_several_atoms_gets_its_first() -> None:
    assert atom_tokens(["CC", "(=", "O)", "", "O"]) == (0, None, 2, None, 3)
    assert atom_tokens([]) == ()
