"""What the solvent of a flask does to its reagents, and what to use instead, by tables written by hand.

`flask_media.tsv` has the reagents, `flask_solvents.tsv` the kinds of solvents. A solvent that would destroy a reagent
is a conflict; where a proper solvent is in the flask as well it may be the work-up, and is only remarked.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from chemspec.asset_files import read_asset_table
from chemspec.chem.checks.flask_parts import matches_any
from chemspec.chem.molecules.query import canonical
from chemspec.chem.reading.names.reagents import name_in_list

FOLDER = Path(__file__).parent
_WORK_UP = {"water", "ester", "acid"}  # kinds of solvents that quench, extract and neutralise


class MediumConflict(NamedTuple):
    """A solvent that does not go with a reagent, and the repair."""

    sentence: str  # what happens
    certain: bool  # false where the solvent may be the work-up
    repair: str  # what to use instead, in words
    flask: str  # canonical SMILES of the repaired flask


class _Rule(NamedTuple):
    """A line of the table of media."""

    reagent: str
    patterns: str
    gives: bool
    unless: str
    media: dict[str, bool]  # kinds of solvents, and whether a proper solvent does not excuse them
    proper: frozenset[str]
    verb: str
    usual: str


@lru_cache(maxsize=4000)
def medium_conflicts(given: tuple[str, ...], agents: tuple[str, ...]) -> tuple[MediumConflict, ...]:
    """Return what solvents do to reagents: `given` are the molecules that give the product atoms, `agents` the others.

    Both are canonical SMILES. Of a solvent and a reagent only the first line of the table counts.
    """
    whole = (*given, *agents)
    solvents = [part for part in dict.fromkeys(agents) if part in _all_solvents()]
    if not solvents:
        return ()
    conflicts: dict[str, MediumConflict] = {}
    for rule in _rules():
        if not any(_kinds(part) & rule.media.keys() for part in solvents):
            continue
        if not matches_any(whole, rule.patterns) or (rule.gives and not matches_any(given, rule.patterns)):
            continue
        if matches_any(whole, rule.unless):
            continue
        proper = [part for part in whole if part in rule.proper]
        for conflict in _of_rule(rule, solvents, proper, whole):
            conflicts.setdefault(conflict.sentence, conflict)
    return tuple(conflicts.values())


def _of_rule(
    rule: _Rule, solvents: Sequence[str], proper: Collection[str], whole: Sequence[str]
) -> Iterator[MediumConflict]:
    watered = any("water" in _kinds(part) for part in solvents)  # then others may be of the work-up, too
    for part in solvents:
        kinds = _kinds(part) & rule.media.keys()
        if not kinds or part in rule.proper:
            continue
        strict = any(rule.media[kind] for kind in kinds)
        if proper:
            certain = strict and ("water" in kinds or not watered)
        else:
            certain = not (watered and len(solvents) > 1 and kinds & _WORK_UP)
        name = "water" if "water" in kinds else name_in_list(part) or part
        usual = name_in_list(rule.usual) or rule.usual
        sentence = _sentence(rule, name)
        if not certain:
            sentence += " unless it is added afterwards, as the work-up"
        others = [other for other in whole if other != part]
        repaired = ".".join(others if proper else [*others, rule.usual])
        repair = f"without {name}" if proper else f"{usual} instead of {name}"
        yield MediumConflict(sentence, certain, repair, canonical(repaired) or repaired)


def _sentence(rule: _Rule, solvent: str) -> str:
    """Return what happens: the solvent acts, or if the verb says so the reagent does."""
    if rule.verb.startswith(("be ", "react ", "condense ", "attack", "acylate")):
        return f"{rule.reagent} would {rule.verb} {solvent}"
    return f"{solvent} would {rule.verb} {rule.reagent}"


def is_solvent(smiles: str) -> bool:
    """Return whether a molecule, canonical SMILES, is a common solvent."""
    return smiles in _all_solvents()


@cache
def _solvents() -> dict[str, frozenset[str]]:
    return {kind: frozenset(molecules.split()) for kind, molecules in read_asset_table(FOLDER / "flask_solvents.tsv")}


@cache
def _all_solvents() -> frozenset[str]:
    return frozenset().union(*_solvents().values())


@cache
def _kinds(part: str) -> frozenset[str]:
    return frozenset(kind for kind, molecules in _solvents().items() if part in molecules)


@cache
def _rules() -> tuple[_Rule, ...]:
    rules = []
    for reagent, patterns, gives, unless, media, proper, verb, usual in read_asset_table(FOLDER / "flask_media.tsv"):
        kinds = {kind.removesuffix("!"): kind.endswith("!") for kind in media.split()}
        molecules = frozenset[str]().union(*(_solvents()[kind] for kind in proper.split()))
        rules.append(_Rule(reagent, patterns, gives == "gives", unless, kinds, molecules, verb, usual))
    return tuple(rules)
