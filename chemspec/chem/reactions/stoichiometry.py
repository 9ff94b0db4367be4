"""What a mixture can supply when amounts are not known: products that take a reactant twice or three times, and salts.

A bis-tosylate needs tosyl chloride twice, which a mixture names once: an over-reaction, classified with it doubled.
"""

import re
from collections import Counter
from dataclasses import replace
from functools import lru_cache

from chemspec.chem.molecules.parsing import shared_mol
from chemspec.chem.molecules.query import elements, formula_balance, heavy_atoms
from chemspec.chem.reactions.atom_maps import map_atoms
from chemspec.chem.reactions.step_class import BYSTANDERS, FOLDER, SECONDS, StepClass, classify_step

MAX_EQUIVALENTS = 3  # equivalents
MAX_BONDS = 4  # bonds that an over-reaction makes; more are a wrong map
MAX_CANDIDATES = 3  # reactants that are tried, the largest
MIN_COPIED = 4  # heavy atoms of a reactant that is looked for twice in a product
# Canonical SMILES of acids and counterions that a work-up adds to a product.
SALT_FORMERS = frozenset((FOLDER / "salt_formers.txt").read_text(encoding="utf-8").split())
_LABELS = re.compile(r"\[(\d+)([A-Z][a-z]?|[a-z]+)")  # isotope and symbol in SMILES


@lru_cache(maxsize=4000)
def missing_elements(reactants: str, product: str) -> dict[str, int]:
    """Return the heavy atoms of a product that its reactants cannot supply, by element; not to be changed.

    A reactant may be taken up to three times where the product holds the same piece of it as often, and the acid or
    counterion of a salt need not be among the reactants. Both are canonical SMILES.
    """
    core = ".".join(part for part in product.split(".") if part not in SALT_FORMERS) or product
    lacking = formula_balance(reactants, core) or {}
    return {} if lacking and extra_copies(reactants, product) else lacking


@lru_cache(maxsize=4000)
def extra_copies(reactants: str, product: str) -> tuple[str, ...]:
    """Return a reactant that a product takes more than once, as often as it is needed again; empty if none is."""
    lacking = Counter(formula_balance(reactants, product) or {}) if "." not in product else Counter()
    if not lacking:
        return _whole_copy(reactants, product)
    best: tuple[int, tuple[str, ...]] = (MAX_BONDS + 1, ())
    for part in _candidates(reactants):
        held = elements(part) or Counter()
        for extra in range(1, MAX_EQUIVALENTS):
            if all(count <= extra * held[element] for element, count in lacking.items()):
                copies = (part,) * extra
                bonds = _bonds_made(reactants, copies, product)
                best = min(best, (bonds, copies)) if bonds else best
                break
    return best[1]


def missing_labels(reactants: str, product: str) -> Counter[str]:
    """Return the isotope labels of a product, such as "[2H]", of which its reactants have none."""
    given, required = _labels(reactants), _labels(product)
    return Counter({label: count for label, count in required.items() if label not in given})


def lost_labels(reactants: str, product: str, step: StepClass) -> Counter[str]:
    """Return the isotope labels that the product lacks, of atoms that it takes and of hydrogen at its carbon atoms."""
    remaining = Counter[str]()
    stays = set(step.origin)
    for atom in shared_mol(reactants).GetAtoms():
        carbons = {near.GetIdx() for near in atom.GetNeighbors() if (atom.GetSymbol(), near.GetSymbol()) == ("H", "C")}
        if atom.GetIsotope() and stays & {atom.GetIdx(), *carbons}:
            remaining[f"[{atom.GetIsotope()}{atom.GetSymbol()}]"] += 1
    return remaining - _labels(product)


def _labels(smiles: str) -> Counter[str]:
    return Counter(f"[{mass}{symbol.capitalize()}]" for mass, symbol in _LABELS.findall(smiles))


def _candidates(reactants: str) -> list[str]:
    parts = {part for part in reactants.split(".") if part not in BYSTANDERS | SALT_FORMERS}
    return sorted(parts, key=lambda part: (-heavy_atoms(part), part))[:MAX_CANDIDATES]


def _whole_copy(reactants: str, product: str) -> tuple[str, ...]:
    """Return a reactant that a product holds twice, if fewer bonds are made that way; empty if there is none.

    Its elements may be in the flask as often without it, as those of an aniline twice in a urea. Half of it will do if
    a carbon group would have to move otherwise: one anhydride has both acetyl groups of an acetylated aminophenol.
    """
    if "." in product:
        return ()
    target, once_only = shared_mol(product), classify_step(reactants, product)
    moves = once_only is not None and once_only.breaks_carbon_bond
    for part in _candidates(reactants):
        if heavy_atoms(part) < MIN_COPIED:
            continue
        if moves or len(target.GetSubstructMatches(shared_mol(part))) > 1:
            once, twice = (_bonds_made(reactants, copies, product) for copies in ((), (part,)))
            if 0 < twice < once:
                return (part,)
    return ()


def classify_whole_step(reactants: str, product: str) -> StepClass | None:
    """Return what a step does, with reactants taken more than once; the atoms of further copies are -1."""
    copies = extra_copies(reactants, product)
    change = classify_step(".".join((reactants, *copies)), product) if copies else None
    if change is None:
        return classify_step(reactants, product)
    atoms = shared_mol(reactants).GetNumAtoms()
    return replace(
        change,
        origin=tuple(origin if origin < atoms else -1 for origin in change.origin),
        before=tuple(atom for atom in change.before if atom < atoms),
    )


def _bonds_made(reactants: str, copies: tuple[str, ...], product: str) -> int:
    """Return how many bonds are made; 0 where an atom has no origin or copies of the reactant give unequal pieces."""
    flask = ".".join((reactants, *copies))
    match = map_atoms(flask, product, seconds=SECONDS)
    if match is None or min(match.origin) < 0:
        return 0
    given = Counter(match.left.molecules[origin] for origin in match.origin)
    counts = sorted(given[number] for number, part in enumerate(flask.split(".")) if part in copies[:1])
    counts = counts[-1 - len(copies) :]
    if copies and not 0 < counts[0] == counts[-1]:
        return 0
    return len(match.made_bonds())
