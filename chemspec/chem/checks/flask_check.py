"""What a flask lacks for a reaction, what contradicts it, and what is dangerous, by tables written by hand.

The tables are `flask_needs.tsv`, `flask_sets.tsv`, `flask_conflicts.tsv`, `flask_amounts.tsv` and `hazards.tsv`;
`flask_media` has those of solvents, `flask_laws` what no product may break. Only structures are compared: amounts,
temperature and time are not known.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from rdkit import rdBase

from chemspec.asset_files import read_asset_table
from chemspec.chem.checks.flask_laws import (
    OXIDANT,
    REDUCTANT,
    law_conflicts,
    missing_electrons,
    unstable_product,
    unusual_class,
)
from chemspec.chem.checks.flask_media import medium_conflicts
from chemspec.chem.checks.flask_parts import fits, matches_any, matches_of, split_flask
from chemspec.chem.molecules.parsing import check_smarts, fixed_pattern, shared_mol
from chemspec.chem.molecules.query import main_product
from chemspec.chem.reactions.step_class import StepClass
from chemspec.chem.reactions.stoichiometry import classify_whole_step
from chemspec.system.lab_files import read_lab_table

FOLDER = Path(__file__).parent
AS_IF = "the model answers as if it were there"
# Where they seem to give atoms, the atom map is wrong; aluminium amides are recorded as many things.
_BYSTANDERS = "O=C([O-])[O-,OH] CN(C)[CH]=O [CH3][CH2]OC(=O)[CH3] [CH3]N([CH3])C(=O)[CH3] [Al]-N"
_NITRITES = "O=[NX2]-[O-] O=[NX2]-[OX2]"  # they nitrosate, and take amino groups off arenes with any alcohol
_HYDROGEN = "[H][H] [CH](=O)[O-].[NH4+]"  # hydrogen, or ammonium formate in its place
_HYDROGENATION_METALS = "[Pd,Pt,Ni,Rh,Ru,Ir,Co,Cu,Fe]"
# Classes that need no oxidant or reductant, or of no certain change: the count of electrons is a remark.
_NEUTRAL = frozenset(
    (
        *("Functional group change", "No known class", "Ring closure", "Elimination", "Amide formation"),
        *("Imine, oxime or hydrazone formation", "Ketone from a Weinreb amide", "N-Alkylation", "S-Alkylation"),
        *("C-Acylation", "Claisen condensation", "Epoxide opening", "Aziridine opening", "Ester formation"),
    )
)
_HYDROGENATION_CATALYSTS = "[C;D0;H0].[Pd,Pt,Rh] [OH-].[Pd+2] O=[Pt]"  # palladium on carbon, Pearlman's and Adams's
_NO_HYDROGEN = "the flask has a catalyst of hydrogenations, but no hydrogen"
_NO_METAL = "hydrogen is in the flask, but no metal that activates it (such as palladium on carbon)"


class ReagentSet(NamedTuple):
    """Reagents with one effect: the word for it, and patterns in any molecule and in those that give no atom."""

    phrase: str
    anywhere: str
    agents: str = ""


class Need(NamedTuple):
    """A line of the table of needs: a pattern of the reactants, and sets of which one is enough."""

    reactants: str
    sets: list[ReagentSet]


class FlaskReport(NamedTuple):
    """What speaks against a product of a flask."""

    problems: tuple[str, ...] = ()  # what is missing, conflicts, and laws that the product would break
    # What would be a conflict unless it is the work-up, metals that go without saying, and what amounts decide.
    remarks: tuple[str, ...] = ()
    repairs: tuple[
        tuple[str, str, str], ...
    ] = ()  # remedies for solvents: the sentence, what to use instead, and that flask


def missing_or_conflicting(flask: str, product: str) -> tuple[str, ...]:
    """Return what a flask with all reagents lacks for a product, and what in it contradicts that, as sentences."""
    return check_flask(flask, product).problems


def lacks_reagents(flask: str, product: str) -> bool:
    """Return whether `check_flask` would say that something is missing."""
    product = main_product(product) or product
    if (step := classify_whole_step(flask, product)) is None:
        return False
    with rdBase.BlockLogs():
        missing, _ = _missing(flask, step, (shared_mol(flask), shared_mol(product)), *split_flask(flask, step))
    return bool(missing)


@lru_cache(maxsize=4000)
def check_flask(flask: str, product: str) -> FlaskReport:
    """Return what a flask with all reagents lacks for a product, what contradicts it, and repairs."""
    product = main_product(product) or product  # the acid of a salt may well do the work
    step = classify_whole_step(flask, product)
    if step is None:
        return FlaskReport()
    with rdBase.BlockLogs():
        given, agents = split_flask(flask, step)
        whole = [*given, *agents]
        left, right = shared_mol(flask), shared_mol(product)
        media = medium_conflicts(tuple(given), tuple(agents))
        missing, assumed = _missing(flask, step, (left, right), given, agents)
        problems = dict.fromkeys(
            [
                *missing,
                *(f"Conflict: {conflict.sentence}" for conflict in media if conflict.certain),
                *_group_conflicts(product, given, agents),
                *(f"Against the rule: {sentence}" for sentence in law_conflicts(step, left, right, whole)),
                *unusual_class(step, whole),
                *unstable_product(product, given, agents),
            ]
        )
        amounts = _decided_by_amounts(flask, step, whole)
    remarks = (*assumed, *amounts, *(conflict.sentence for conflict in media if not conflict.certain))
    repairs = tuple((conflict.sentence, conflict.repair, conflict.flask) for conflict in media)
    return FlaskReport(tuple(problems), remarks, repairs)


def _missing(
    flask: str, step: StepClass, sides: tuple[Any, Any], given: Sequence[str], agents: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return a sentence on what a reaction needs and the flask lacks, if anything, and a remark on what goes unsaid.

    Hydrogen without a metal is only remarked, as is a catalyst that does nothing else without hydrogen: each in 1 % of
    3,000 recorded reactions.
    """
    whole = [*given, *agents]
    needs = needs_of(flask, step)
    lacking = dict.fromkeys(need.sets[0].phrase for need in needs if not _is_met(need, whole, agents))
    remarks = []
    if (
        not needs
        and not matches_any(given, _BYSTANDERS)
        and not matches_any(whole, _NITRITES)
        and (agent := missing_electrons(step, *sides))
        and not _is_met(_electron_needs()[agent], whole, agents)
    ):
        if " and " in step.name or step.name in _NEUTRAL:
            remarks.append(f"by the count of electrons, {agent} is missing")
        else:
            lacking[agent] = None
    remark = ""
    if matches_any(agents, _HYDROGEN):
        remark = "" if matches_any(whole, _HYDROGENATION_METALS) else _NO_METAL
    elif matches_any(agents, _HYDROGENATION_CATALYSTS):
        remark = _NO_HYDROGEN
    assumed = [phrase for phrase in lacking if remark and ("reductant" in phrase or phrase.startswith("hydrogen"))]
    # "an oxidant" goes without saying next to "an oxidant of alcohols".
    phrases = [
        phrase
        for phrase in lacking
        if phrase not in assumed and not any(other.startswith(f"{phrase} ") for other in lacking)
    ]
    missing = [f"Missing in the reaction mixture: {'; '.join(phrases)}; {AS_IF}"] if phrases else []
    return missing, [*remarks, remark] if assumed else remarks


def _is_met(need: Need, whole: Sequence[str], agents: Sequence[str]) -> bool:
    return any(matches_any(whole, helps.anywhere) or matches_any(agents, helps.agents) for helps in need.sets)


def _group_conflicts(product: str, given: Sequence[str], agents: Sequence[str]) -> Iterator[str]:
    """Yield what in a flask a group that the product keeps would not survive."""
    whole = [*given, *agents]
    for cause, unless, group, when, sentence in read_rows("flask_conflicts"):
        if (
            fits(product, group)
            and any(fits(part, group) for part in given)
            and matches_any(agents if when == "kept" else whole, cause)
            and not matches_any(whole, unless)
        ):
            yield sentence


def _decided_by_amounts(flask: str, step: StepClass, whole: Sequence[str]) -> list[str]:
    """Return remarks on products between which amounts or temperature decide."""
    rows = read_rows("flask_amounts")
    return [
        remark for cause, group, remark in rows if matches_any(whole, cause) and _applies(Need(group, []), flask, step)
    ]


def needs_of(flask: str, step: StepClass) -> list[Need]:
    """Return what a reaction needs in addition to its reactants, whether or not the flask holds it."""
    names = step.name.split(" + ")
    needs = (need for name in names for classes, need in load_needs() if name in classes)
    return [need for need in needs if _applies(need, flask, step)]


def _applies(need: Need, flask: str, step: StepClass) -> bool:
    if need.reactants == "-":
        return True
    pattern, changed = fixed_pattern(need.reactants), set(step.before)
    numbered = [atom.GetIdx() for atom in pattern.GetAtoms() if atom.GetAtomMapNum()]
    hits = matches_of(shared_mol(flask), need.reactants)
    return any({hit[atom] for atom in numbered} <= changed for hit in hits)


@cache
def trap_score() -> dict[str, Any]:
    """Return how many flasks of the public trap set are told, and how many harmless ones raise an alarm."""
    return dict(json.loads((FOLDER / "trap_score.json").read_text(encoding="utf-8")))


@cache
def read_rows(name: str) -> list[list[str]]:
    """Return the rows of a table of this folder."""
    return read_asset_table(FOLDER / f"{name}.tsv")


@cache
def load_hazards() -> list[list[str]]:
    """Return the hazards of the table, and those of the lab (`system.lab_files`)."""
    return [*read_rows("hazards"), *read_lab_table("hazards", range(2, 3), lambda row: check_smarts(*row[0].split()))]


@cache
def _electron_needs() -> dict[str, Need]:
    """Return the sets of reagents that give and take electrons, by what `missing_electrons` calls them."""
    sets = {name: ReagentSet(*cells) for name, *cells in read_rows("flask_sets")}
    return {
        REDUCTANT: Need("-", [sets["electron donor"]]),
        OXIDANT: Need("-", [sets["oxidant"], sets["electron acceptor"]]),
    }


@cache
def load_needs() -> list[tuple[list[str], Need]]:
    """Return the lines of the table of needs, each with the names of its classes."""
    sets = {name: ReagentSet(*cells) for name, *cells in read_rows("flask_sets")}
    return [
        (classes.split("|"), Need(reactants, [sets[name] for name in names.split("|")]))
        for classes, reactants, names in read_rows("flask_needs")
    ]


@lru_cache(maxsize=4000)
def hazards(left: str, right: str) -> tuple[str, ...]:
    """Return dangers of a reaction by its structures, in words; amounts are not known: no word is no proof."""
    parts = [*dict.fromkeys([*left.split("."), *right.split(".")])]
    with rdBase.BlockLogs():
        return tuple(sentence for patterns, sentence in load_hazards() if matches_any(parts, patterns))
