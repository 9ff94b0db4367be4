"""A route as the draft of a procedure in Markdown: what each step takes for a chosen amount of the target."""

import math
from collections import Counter, defaultdict
from types import MappingProxyType
from typing import NamedTuple

from rdkit.Chem import rdMolDescriptors

from chemspec import chem
from chemspec.chem.checks.flask_media import is_solvent
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.query import heavy_atoms
from chemspec.chem.molecules.salts import group_molecules
from chemspec.chem.reactions.stoichiometry import extra_copies
from chemspec.plan import routes as values
from chemspec.plan.routes import Evidence, Node, Plan, Route
from chemspec.precedents import Found, in_words

YIELD = 0.7  # yield of every step, if the caller gives none
EXCESS = 1.1  # equivalents of each precursor but the one that limits the step
ORDERED = "| | from | mmol | g/mol | amount |", "|---|---|---|---|---|"
NEEDED = "| | equivalents | mmol | g/mol | amount |", "|---|---|---|---|---|"
DRAFT = """\
**A draft by rule, not a procedure.** Amounts assume {percent} in every step; the precursor that limits a step is taken
once, each other one 1.1 times. Reagents, their amounts, solvents, temperatures and safety are yours to decide: read the
patents named below first."""


def procedure_outline(
    route: Route,
    title: str = "Route",
    evidence: Evidence = MappingProxyType({}),
    *,
    grams: float = 1.0,
    step_yield: float = YIELD,
) -> str:
    """Return a route as Markdown: the amount of every precursor of every step, what stands over its arrow, its patents.

    The largest precursor of a step, or the one that an earlier step makes, limits it; of the others 1.1 equivalents are
    taken, times the number of copies that the product holds. Records have no amounts of reagents: for each the table
    has what one equivalent weighs.

    Args:
        route: the route.
        title: its title.
        evidence: precedents of its steps.
        grams: amount of the target.
        step_yield: yield of every step, above 0 and at most 1.

    Raises:
        ValueError: for an amount or a yield out of range.
    """
    if not (0 < grams < math.inf and 0 < step_yield <= 1):
        raise ValueError(f"{grams} g at a yield of {step_yield}; give an amount above 0, and a yield above 0 up to 1")
    flasks = _plan_amounts(route, grams, step_yield)
    lines = [f"# {title}: {values.leaf_name(route.root)}, {weight(grams)}", "", f"{route.summary}.", ""]
    lines += [DRAFT.format(percent=f"{100 * step_yield:.0f} %"), "", "## To order", "", *ORDERED]
    for leaf in route.leaves:
        needed = sum(flask.amounts.get(leaf.smiles, 0.0) for flask in flasks)
        mass = molar_mass(leaf.smiles)
        origin = values.stock_text(leaf)
        lines += [f"| {_cell(leaf)} | {origin} | {needed:.3g} | {mass:.1f} | {weight(needed * mass / 1000)} |"]
    for node, flask in zip(route.steps, flasks, strict=True):
        lines += ["", *_step(node, flask, route, evidence)]
    return "\n".join([*lines, ""])


def plan_outlines(plan: Plan, evidence: Evidence = MappingProxyType({}), *, grams: float) -> str:
    """Return the outlines of all routes of a plan, one below the other."""
    titled = zip(values.route_titles(plan.routes), plan.routes, strict=True)
    return "\n".join(procedure_outline(route, title, evidence, grams=grams) for title, route in titled)


class _Flask(NamedTuple):
    """Amounts of a step in mmol."""

    made: float  # product
    limit: float  # one equivalent
    amounts: dict[str, float]  # amounts by precursor


def _plan_amounts(route: Route, grams: float, step_yield: float) -> list[_Flask]:
    """Return the amounts of each step."""
    needed = defaultdict[str, float](float, {route.root.smiles: 1000 * grams / molar_mass(route.root.smiles)})
    flasks = []
    for node in reversed(route.steps):  # a product comes before what it is made of
        made = needed[node.smiles]
        limit = made / step_yield
        amounts = {smiles: limit * share for smiles, share in _equivalents(node).items()}
        for smiles, amount in amounts.items():
            needed[smiles] += amount
        flasks.append(_Flask(made, limit, amounts))
    return flasks[::-1]


def _equivalents(node: Node) -> dict[str, float]:
    """Return how many equivalents of each precursor a step takes."""
    assert node.step
    limiting = max(node.children, key=lambda child: (child.step is not None, heavy_atoms(child.smiles))).smiles
    copies = Counter(node.step.reactants)
    copies.update(extra_copies(".".join(node.step.reactants), node.smiles))
    return {smiles: count * (1.0 if smiles == limiting else EXCESS) for smiles, count in copies.items()}


def _step(node: Node, flask: _Flask, route: Route, evidence: Evidence) -> list[str]:
    """Return the section of a step."""
    assert node.step
    made, limit, amounts = flask
    numbers = route.numbers
    product = f"{_cell(node)}, {weight(made * molar_mass(node.smiles) / 1000)} ({made:.3g} mmol)"
    lines = [f"## Step {numbers[node.smiles]}: {values.step_class(node) or 'one step'}", ""]
    lines += [f"Gives {product}.", "", *NEEDED]
    for child in {child.smiles: child for child in node.children}.values():
        mmol, each = amounts[child.smiles], molar_mass(child.smiles)
        name = f"{_cell(child)} (step {numbers[child.smiles]})" if child.smiles in numbers else _cell(child)
        lines += [f"| {name} | {mmol / limit:.2g} | {mmol:.3g} | {each:.1f} | {weight(mmol * each / 1000)} |"]
    reagents = values.step_reagents(node, evidence, route.avoid)
    parts = reagents.split(".") if reagents else []
    bottles = (".".join(parts[ion] for ion in ions) for ions in group_molecules(parts))
    for smiles in dict.fromkeys(filter(None, map(chem.canonical, bottles))):
        each = molar_mass(smiles)
        name = in_words(smiles) or f"`{smiles}`"
        if is_solvent(smiles):
            lines += [f"| {name} | solvent | | {each:.1f} | |"]
            continue
        lines += [f"| {name} | open | | {each:.1f} | {weight(limit * each / 1000)} an equivalent |"]
    lines += ["", f"Probability of the step {values.step_percent(node.step)}."]
    lines += [f"⚠ {problem}" for problem in values.node_problems(node, evidence, route.avoid)]
    nearest = evidence.get(node.step.reaction(node.smiles), Found()).nearest
    if sources := list(dict.fromkeys(entry.source for entry in nearest if entry.close and entry.patent)):
        lines += [f"Nearest patents: {', '.join(sources[:3])}."]
    return lines


def molar_mass(smiles: str) -> float:
    """Return the molar mass in g/mol."""
    return float(rdMolDescriptors._CalcMolWt(mol_from_smiles(smiles)))


def weight(grams: float) -> str:
    """Return a mass with three figures, in kg, g or mg."""
    for unit, size in (("kg", 1000.0), ("g", 1.0)):
        if grams >= 0.9995 * size:
            return f"{_three_figures(grams / size)} {unit}"
    return f"{_three_figures(1000 * grams)} mg"


def _three_figures(number: float) -> str:
    return f"{number:.0f}" if number >= 99.95 else f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"


def _cell(node: Node) -> str:
    """Return a molecule for a cell of a table: its name and its SMILES, or its SMILES alone."""
    name = values.leaf_name(node)
    return f"`{node.smiles}`" if name == node.smiles else f"{name} (`{node.smiles}`)"
