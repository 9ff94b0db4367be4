"""Routes as trees of molecules and steps, groups of similar ones, JSON, tables and text; the likeliest search tree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from rdkit import DataStructs
from rdkit.Chem import rdFingerprintGenerator

from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.query import heavy_atoms
from chemspec.chem.reactions.stoichiometry import classify_whole_step
from chemspec.chem.reading.names.reagents import name_of
from chemspec.plan.constraints import is_intermediate, need_avoided
from chemspec.plan.expand import Counts, Proposal
from chemspec.plan.problems import step_problems
from chemspec.precedents import Found, Precedents, in_words
from chemspec.review.conditions import usable_conditions
from chemspec.review.suggestions import format_percent
from chemspec.stock.lists import PAROUTES, TITLES, Stock

HEAD_START = 0.8  # share of the target's atoms from which a building block that only patents list is told
MAX_GROUP_DISTANCE = 0.25  # maximum tree edit distance per node within a group; a changed molecule counts less than one


@dataclass(frozen=True)
class Node:
    """A molecule of a route: in the list `stock`, formed by `step` from `children`, or neither (open)."""

    smiles: str
    stock: str = ""
    step: Proposal | None = None
    children: tuple[Node, ...] = ()
    intermediate: bool = False  # whether it is rather an intermediate of patents than a molecule that is sold
    other_form: str = ""  # where the lab keeps it in another form, such as a salt, which is no stock

    @property
    def branches(self) -> list[Node]:
        """The children, those of the most consecutive steps first."""
        return sorted(self.children, key=_tree_depth, reverse=True)

    def __iter__(self) -> Iterator[Node]:
        """Iterate over all molecules, this one first."""
        yield self
        for child in self.children:
            yield from child


@dataclass(frozen=True)
class Route:
    """A synthesis route."""

    root: Node  # the target
    group: int = 0  # number of its group of similar routes, from 1, ordered by their best routes
    avoid: tuple[str, ...] = ()  # substructures (SMARTS) that its conditions do not have either

    @property
    def steps(self) -> list[Node]:
        """The molecules formed by steps in synthesis order, the target last; step 1 is the first."""
        return list({node.smiles: node for node in _products_below(self.root)}.values())

    @property
    def numbers(self) -> dict[str, int]:
        """The number of the step to each product, the same in all pictures, tables and files."""
        return {node.smiles: number for number, node in enumerate(self.steps, 1)}

    @property
    def leaves(self) -> list[Node]:
        """The starting materials, without repeats."""
        return list({node.smiles: node for node in self.root if not node.step}.values())

    @property
    def solved(self) -> bool:
        """Whether all starting materials are in stock, and there is at least one step."""
        return self.root.step is not None and all(node.stock for node in self.leaves)

    @property
    def score(self) -> float:
        """The product of its steps' priors: calibrated probabilities, a tenth if the forward model disagrees."""
        return math.prod(node.step.prior(node.smiles) for node in self.steps if node.step)

    def contains(self, smiles: str) -> bool:
        """Return whether a molecule is an intermediate or a starting material."""
        return any(is_intermediate(node.smiles, smiles) for node in self.root if node is not self.root)

    @property
    def summary(self) -> str:
        """The number of steps, the probability of the weakest, doubts of the forward model, and what no list has."""
        doubts = [str(number) for number, node in enumerate(self.steps, 1) if node.step and node.step.round_trip == 0]
        troubled = [str(number) for number, node in enumerate(self.steps, 1) if node_problems(node)]
        patent = sum(leaf.intermediate for leaf in self.leaves)
        unlisted = sum(not (leaf.stock or leaf.intermediate) for leaf in self.leaves)
        parts = [_count(len(self.steps), "step")]
        parts += [f"weakest step {format_percent(self.weakest)}"] if self.steps else []
        parts += [f"forward model differs on step{'s' * (len(doubts) > 1)} {', '.join(doubts)}"] if doubts else []
        parts += [f"⚠ on step{'s' * (len(troubled) > 1)} {', '.join(troubled)}"] if troubled else []
        parts += [f"starts from {100 * self.head_start:.0f} % of the target"] if self.head_start > HEAD_START else []
        parts += [f"{_count(patent, 'patent intermediate')} to make or buy"] if patent else []
        parts += [f"{_count(unlisted, 'building block')} in no list"] if unlisted else []
        parts += [] if patent or unlisted else ["all in stock lists"]
        return ", ".join(parts)

    @property
    def head_start(self) -> float:
        """The share of the target's heavy atoms in the largest building block that only patents list, at most 1."""
        listed = (leaf for leaf in self.leaves if leaf.intermediate or leaf.stock.partition(",")[0] in PAROUTES)
        return min(1.0, max((heavy_atoms(leaf.smiles) for leaf in listed), default=0) / heavy_atoms(self.root.smiles))

    @property
    def weakest(self) -> float:
        """The lowest calibrated probability of a step."""
        return min((node.step.probability for node in self.steps if node.step), default=0.0)

    @property
    def depth(self) -> int:
        """The length of the longest linear sequence."""
        return _tree_depth(self.root)

    @property
    def signature(self) -> frozenset[tuple[str, tuple[str, ...]]]:
        """The set of reactions, which identifies a route."""
        return frozenset((node.smiles, node.step.reactants) for node in self.root if node.step)


@dataclass(frozen=True)
class Plan:
    """Result of a search."""

    target: str  # canonical SMILES
    status: str  # "solved", "open" (no complete route; `routes` has the closest one) or "refused"
    message: str  # summary in a sentence
    routes: tuple[Route, ...] = ()  # best first
    stock: str = ""  # the stock list with the target itself, if any
    expansions: int = 0  # number of different molecules expanded
    seconds: float = 0.0  # total time
    counts: Counts = field(default_factory=Counts)  # cost of the models
    interrupted: bool = False  # whether Ctrl-C ended it
    notes: tuple[str, ...] = ()  # notes on how the target was read

    @property
    def effort(self) -> str:
        """What the models did for the search, in words."""
        counts = self.counts
        text = f"{_count(self.expansions, 'molecule')} expanded ({counts.molecules} decoded now, "
        text += f"{max(0, self.expansions - counts.molecules)} from the cache); {_count(counts.checks, 'step')} checked"
        text += f"; {_count(counts.calls, 'call')} of the models, {counts.seconds:.1f} s"
        if counts.passes:
            text += f"; {counts.tokens / counts.passes:.2f} tokens a pass (standard decoding: 1)"
        return text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _products_below(node: Node) -> Iterator[Node]:
    """Yield a molecule and those below it that steps form, each after its precursors."""
    for child in node.branches:
        yield from _products_below(child)
    if node.step:
        yield node


def _tree_depth(node: Node) -> int:
    return 1 + max(map(_tree_depth, node.children)) if node.step else 0


def build_tree(smiles: str, steps: Mapping[str, Proposal], supply: Stock, above: frozenset[str] = frozenset()) -> Node:
    """Build the tree of a molecule from the step for each product; `supply` has what need not be made."""
    step = steps.get(smiles)
    stock = supply.source(smiles) if above else ""  # not of the target itself
    if step is None or smiles in above:
        other_form = "" if stock else supply.other_form_here(smiles)
        return Node(smiles, stock, intermediate=supply.is_intermediate(smiles), other_form=other_form)
    children = tuple(build_tree(reactant, steps, supply, above | {smiles}) for reactant in step.reactants)
    return Node(smiles, stock, step, children)


def rank_routes(routes: Sequence[Route], limit: int) -> list[Route]:
    """Return the best distinct routes: solved ones first, then by `Route.score`, then by number of steps."""
    different = {route.signature: route for route in routes}.values()
    return sorted(
        different, key=lambda route: (not route.solved, -route.score, len(route.steps), sorted(route.signature))
    )[:limit]


def group_routes(routes: Sequence[Route]) -> tuple[Route, ...]:
    """Number the groups of routes, keeping their order.

    A route joins the group of the first better route that is similar: their tree edit distance (Zhang and Shasha; a
    changed molecule costs one minus the Tanimoto similarity) per node of the larger tree is at most
    `MAX_GROUP_DISTANCE`.
    """
    heads: list[Route] = []
    numbered = []
    for route in routes:
        group = next((k for k, head in enumerate(heads) if _are_similar(route, head)), len(heads))
        if group == len(heads):
            heads.append(route)
        numbered.append(replace(route, group=group + 1))
    return tuple(numbered)


def route_titles(routes: Sequence[Route]) -> list[str]:
    """Return a title for each route: "Route 2" for the best of group 2, "Route 2, variant 2" for the next of it."""
    seen: Counter[int] = Counter()
    titles = []
    for route in routes:
        seen[route.group] += 1
        variant = f", variant {seen[route.group]}" * (seen[route.group] > 1)
        titles.append(f"Route {route.group}{variant}")
    return titles


def _are_similar(first: Route, second: Route) -> bool:
    fewer, more = sorted((len(list(first.root)), len(list(second.root))))
    # Each missing node is an edit.
    return more - fewer <= MAX_GROUP_DISTANCE * more and route_distance(first, second) <= MAX_GROUP_DISTANCE


def route_distance(first: Route, second: Route) -> float:
    """Return the tree edit distance of two routes per node of the larger one."""
    from apted import APTED, Config

    class ByMolecule(Config):  # type: ignore[misc]
        def rename(self, a: Node, b: Node) -> float:
            return 1 - float(
                DataStructs.TanimotoSimilarity(_morgan_fingerprint(a.smiles), _morgan_fingerprint(b.smiles))
            )

        def children(self, node: Node) -> list[Node]:
            return sorted(node.children, key=lambda child: child.smiles)

    size = max(len(list(first.root)), len(list(second.root)))
    return float(APTED(first.root, second.root, ByMolecule()).compute_edit_distance()) / size


def shared_part(smiles: str, other: str) -> float:
    """Return the share of a molecule's atom environments that another has, 0 to 1."""
    return float(DataStructs.TverskySimilarity(_morgan_fingerprint(smiles), _morgan_fingerprint(other), 1.0, 0.0))


@lru_cache(maxsize=10_000)
def _morgan_fingerprint(smiles: str) -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=2).GetFingerprint(mol_from_smiles(smiles))


Evidence = Mapping[str, Found]  # precedents by reaction SMILES


def find_evidence(routes: Sequence[Route], index: Precedents | None) -> Evidence:
    """Return the precedents of all steps from an index of patent reactions; empty without one."""
    steps = {
        node.step.reaction(node.smiles): (node, route.avoid) for route in routes for node in route.steps if node.step
    }
    return {name: _precedents_of(*step, index) for name, step in steps.items()} if index else {}


def _precedents_of(node: Node, avoid: tuple[str, ...], index: Precedents) -> Found:
    """Return the precedents of the step that forms a molecule, without conditions that are to be avoided."""
    assert node.step
    precedents = index.find(".".join(node.step.reactants), node.smiles)
    allowed = (entry for entry in precedents.conditions if not need_avoided(entry.reagents.split("."), avoid))
    return replace(precedents, conditions=tuple(allowed))


def step_class(node: Node) -> str:
    """Return the reaction class of the step that forms a molecule, such as "Amide formation"; empty if unknown."""
    change = classify_whole_step(".".join(node.step.reactants), node.smiles) if node.step else None
    return change.name if change else ""


def step_reagents(node: Node, evidence: Evidence = MappingProxyType({}), avoid: tuple[str, ...] = ()) -> str:
    """Return the one set of reagents of the step that forms a molecule, as SMILES; see `review.conditions`."""
    assert node.step
    step = node.step
    if step.opinion == "agrees" and step.added and not need_avoided(step.added.split("."), avoid):
        return step.added
    precedents = evidence.get(step.reaction(node.smiles))
    reagents, _ = usable_conditions(precedents, ".".join(step.reactants), node.smiles, filter(None, [step.reagents]))
    return step.reagents if need_avoided(reagents.split("."), avoid) else reagents


def step_conditions(node: Node, evidence: Evidence = MappingProxyType({}), avoid: tuple[str, ...] = ()) -> str:
    """Return the conditions of the step that forms a molecule, in words."""
    return in_words(step_reagents(node, evidence, avoid), formulas=True)


def node_problems(
    node: Node, evidence: Evidence = MappingProxyType({}), avoid: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return what speaks against the step that forms a molecule with its reagents, in words; see `plan.problems`."""
    assert node.step
    return step_problems(".".join(node.step.reactants), node.smiles, step_reagents(node, evidence, avoid))


def step_percent(step: Proposal) -> str:
    """Return the probability of a step, and what the forward model says of it."""
    return format_percent(step.probability) + (f", forward {step.opinion}" if step.opinion else "")


def leaf_name(node: Node) -> str:
    """Return the name of a molecule, or its SMILES where it has none."""
    return name_of(node.smiles) or node.smiles


def stock_text(node: Node) -> str:
    """Return in which list a molecule is, with its offer, or that it is rather an intermediate of patents."""
    if node.other_form:
        return node.other_form
    if node.intermediate:
        return "a patent intermediate"
    name, comma, offer = node.stock.partition(", ")
    return f"in {TITLES.get(name, name)}{comma}{offer}" if node.stock else "in no list"


def route_document(route: Route, title: str = "", evidence: Evidence = MappingProxyType({})) -> dict[str, Any]:
    """Return a route as a tree (`tree_document`), with title and scores."""
    scores = {
        "score": route.score,
        "weakest_step": route.weakest,
        "steps": len(route.steps),
        "depth": route.depth,
        "solved": route.solved,
        "group": route.group,
    }
    return {**tree_document(route.root, evidence, route.numbers), "title": title, "scores": scores}


def tree_document(
    node: Node, evidence: Evidence = MappingProxyType({}), numbers: Mapping[str, int] = MappingProxyType({})
) -> dict[str, Any]:
    """Return a tree as AiZynthFinder and PaRoutes do: molecules and reactions, with precedents and numbers of steps."""
    tree: dict[str, Any] = {"type": "mol", "smiles": node.smiles, "in_stock": bool(node.stock)}
    if node.stock:
        tree["metadata"] = {"stock": node.stock}
    if node.intermediate:
        tree["metadata"] = {**tree.get("metadata", {}), "patent_intermediate": True}
    if node.step:
        step, reaction = node.step, node.step.reaction(node.smiles)
        metadata: dict[str, Any] = {
            "probability": step.probability,
            "policy_probability": step.prior(node.smiles),
            "round_trip": step.round_trip,
        }
        if node.smiles in numbers:
            metadata |= {"step": numbers[node.smiles], "class": step_class(node)}
            metadata["problems"] = list(node_problems(node, evidence))
        if step.reagents:
            metadata["proposed_reagents"] = step.reagents
        if step.added:
            metadata["checked_with"] = step.added
        if reaction in evidence:
            metadata["precedents"] = {"close": evidence[reaction].close, "wide": evidence[reaction].wide}
            metadata["nearest"] = [asdict(entry) for entry in evidence[reaction].nearest]
            metadata["conditions"] = [asdict(entry) for entry in evidence[reaction].conditions]
        children = [tree_document(child, evidence, numbers) for child in node.children]
        tree["children"] = [{"type": "reaction", "smiles": reaction, "metadata": metadata, "children": children}]
    return tree


def plan_document(plan: Plan, evidence: Evidence = MappingProxyType({})) -> dict[str, Any]:
    """Return a plan as a JSON document; `routes` are those of `route_document`."""
    return {
        "target": plan.target,
        "notes": list(plan.notes),
        "status": plan.status,
        "message": plan.message,
        "target_in_stock": plan.stock,
        "expansions": plan.expansions,
        "seconds": plan.seconds,
        "counts": vars(plan.counts),
        "routes": [
            route_document(route, title, evidence)
            for title, route in zip(route_titles(plan.routes), plan.routes, strict=True)
        ],
    }


def step_table(route: Route, evidence: Evidence = MappingProxyType({})) -> list[dict[str, str]]:
    """Return a route's steps as a table in synthesis order, with conditions if there are precedents."""
    origin: dict[str, str] = {}
    table = []
    with_reagents = any(node.step and node.step.reagents for node in route.steps)
    for number, node in enumerate(route.steps, 1):
        assert node.step
        from_ = [f"{child.smiles} ({origin.get(child.smiles) or stock_text(child)})" for child in node.children]
        origin[node.smiles] = f"step {number}"
        opinion = node.step.opinion + (f" ({format_percent(node.step.round_trip)})" if node.step.round_trip else "")
        row = {
            "step": str(number),
            "class": step_class(node),
            "product": node.smiles,
            "from": " + ".join(from_),
            "probability": format_percent(node.step.probability),
            "forward model": opinion,
            "problems": "; ".join(node_problems(node, evidence, route.avoid)),
        }
        if evidence:
            precedents = evidence.get(node.step.reaction(node.smiles), Found())
            row["patent reactions"] = precedents.count_text
            row["conditions"] = step_conditions(node, evidence, route.avoid)
        if with_reagents:
            row["reagents by a model"] = in_words(node.step.reagents)
        table.append(row)
    return table


def plan_to_markdown(plan: Plan, evidence: Evidence = MappingProxyType({})) -> str:
    """Return a plan as Markdown text."""
    lines = [f"# Routes to `{plan.target}`", "", plan.message, ""]
    titled = zip(route_titles(plan.routes), plan.routes, strict=True)
    for title, route in sorted(titled, key=lambda pair: pair[1].group):
        lines += [f"## {title}: {route.summary}", ""]
        for row in step_table(route, evidence):
            detail_names = ("forward model", "problems", "patent reactions", "conditions", "reagents by a model")
            tail = "".join(f"; {name}: {row[name]}" for name in detail_names if row.get(name))
            head = f"{row['step']}. {row['class'] or 'One step'}, {row['probability']}"
            lines += [f"{head}: `{row['product']}` from {row['from']}" + (f" ({tail[2:]})" if tail else "")]
        lines += [""]
    return "\n".join(lines)
