"""Routes as values: trees of molecules and the steps that make them; JSON, tables, text and groups of like routes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from rdkit import DataStructs
from rdkit.Chem import rdFingerprintGenerator

from chemspec.chem.parsing import mol_from_smiles
from chemspec.plan.expand import Counts, Proposal
from chemspec.plan.tree import Seen
from chemspec.precedents import Found, Precedents, in_words

ALIKE = 0.25  # most edits a node by which routes still are variants of one; a changed molecule is less than one edit


@dataclass(frozen=True)
class Node:
    """A molecule of a route: bought from the list `stock`, made by `step` from `children`, or neither (open)."""

    smiles: str
    stock: str = ""
    step: Proposal | None = None
    children: tuple[Node, ...] = ()

    def __iter__(self) -> Iterator[Node]:
        """All molecules, this one first."""
        yield self
        for child in self.children:
            yield from child


@dataclass(frozen=True)
class Route:
    """One way to the target.

    Attributes:
        root: the target.
        group: the number of the group of like routes, from 1; groups are numbered by their best route.
    """

    root: Node
    group: int = 0

    @property
    def steps(self) -> list[Node]:
        """What is made, the target last, so that each comes after what it is made from."""
        made = [node for node in self.root if node.step]
        return list({node.smiles: node for node in reversed(made)}.values())

    @property
    def leaves(self) -> list[Node]:
        """What it starts from, without repeats."""
        return list({node.smiles: node for node in self.root if not node.step}.values())

    @property
    def solved(self) -> bool:
        """Whether all that it starts from is in stock, and there is a step at all."""
        return self.root.step is not None and all(node.stock for node in self.leaves)

    @property
    def score(self) -> float:
        """The product of its steps' priors: calibrated chances, a tenth where the forward model disagrees."""
        return math.prod(node.step.prior(node.smiles) for node in self.steps if node.step)

    @property
    def depth(self) -> int:
        """Steps one after the other, in the longest line."""
        return _depth(self.root)

    @property
    def signature(self) -> frozenset[tuple[str, tuple[str, ...]]]:
        """Its reactions; two routes with the same are one."""
        return frozenset((node.smiles, node.step.reactants) for node in self.root if node.step)


@dataclass(frozen=True)
class Plan:
    """What a search found.

    Attributes:
        target: canonical SMILES.
        status: "solved", "open" (no route ends in stock; `routes` holds how far it came) or "refused".
        message: in a sentence, what came out and why.
        routes: best first.
        stock: the list that has the target itself, if any.
        expansions: molecules that the search expanded.
        seconds: all in all.
        counts: what the models did for it.
        tree: the likeliest part of all that was tried.
        interrupted: whether Ctrl-C ended it.
    """

    target: str
    status: str
    message: str
    routes: tuple[Route, ...] = ()
    stock: str = ""
    expansions: int = 0
    seconds: float = 0.0
    counts: Counts = field(default_factory=Counts)
    tree: Seen | None = None
    interrupted: bool = False


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, node.children)) if node.step else 0


def grow(
    smiles: str, steps: Mapping[str, Proposal], sources: Mapping[str, str], above: frozenset[str] = frozenset()
) -> Node:
    """Return the tree of a molecule from the step that makes each product, and the list that sells each leaf."""
    step = steps.get(smiles)
    if step is None or smiles in above:
        return Node(smiles, sources.get(smiles, ""))
    children = tuple(grow(one, steps, sources, above | {smiles}) for one in step.reactants)
    return Node(smiles, sources.get(smiles, "") if above else "", step, children)


def ranked(routes: Sequence[Route], most: int) -> list[Route]:
    """Return the best different routes: those in stock as a whole first, then by `Route.score`, then by fewer steps."""
    different = {route.signature: route for route in routes}.values()
    return sorted(different, key=lambda one: (not one.solved, -one.score, len(one.steps), sorted(one.signature)))[:most]


def grouped(routes: Sequence[Route]) -> tuple[Route, ...]:
    """Return routes in their order, each with the number of its group.

    A route joins the group of the first better route that is like it: the tree edit distance by molecule (Zhang and
    Shasha; a changed molecule costs one minus the Tanimoto similarity), a node of the larger tree, is at most `ALIKE`.
    """
    heads: list[Route] = []
    found = []
    for route in routes:
        group = next((k for k, head in enumerate(heads) if _are_alike(route, head)), len(heads))
        if group == len(heads):
            heads.append(route)
        found.append(Route(route.root, group + 1))
    return tuple(found)


def _are_alike(one: Route, other: Route) -> bool:
    few, many = sorted((len(list(one.root)), len(list(other.root))))
    return many - few <= ALIKE * many and distance(one, other) <= ALIKE  # each missing node is an edit


def distance(one: Route, other: Route) -> float:
    """Return the tree edit distance of two routes, a node of the larger one."""
    from apted import APTED, Config

    class ByMolecule(Config):  # type: ignore[misc]
        def rename(self, a: Node, b: Node) -> float:
            return 1 - float(DataStructs.TanimotoSimilarity(_fingerprint(a.smiles), _fingerprint(b.smiles)))

        def children(self, node: Node) -> list[Node]:
            return sorted(node.children, key=lambda child: child.smiles)

    most = max(len(list(one.root)), len(list(other.root)))
    return float(APTED(one.root, other.root, ByMolecule()).compute_edit_distance()) / most


@lru_cache(maxsize=10_000)
def _fingerprint(smiles: str) -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=2).GetFingerprint(mol_from_smiles(smiles))


# --- what other programs and people read ----------------------------------------------------------


Evidence = Mapping[str, Found]  # what is known of steps, by reaction SMILES


def evidence(routes: Sequence[Route], index: Precedents | None) -> Evidence:
    """Return what an index of patent reactions knows of all steps; nothing without one."""
    steps = {node.step.reaction(node.smiles): node for route in routes for node in route.steps if node.step}
    return {name: precedents_of(node, index) for name, node in steps.items()} if index else {}


def precedents_of(node: Node, index: Precedents) -> Found:
    """Return what an index knows of the step that makes a molecule."""
    assert node.step
    return index.find(".".join(node.step.reactants), node.smiles)


def to_tree(node: Node, known: Evidence = MappingProxyType({})) -> dict[str, Any]:
    """Return the tree in the form of AiZynthFinder and PaRoutes: molecules and reactions by turns."""
    found: dict[str, Any] = {"type": "mol", "smiles": node.smiles, "in_stock": bool(node.stock)}
    if node.stock:
        found["metadata"] = {"stock": node.stock}
    if node.step:
        step, reaction = node.step, node.step.reaction(node.smiles)
        metadata: dict[str, Any] = {
            "chance": step.chance,
            "policy_probability": step.prior(node.smiles),
            "round_trip": step.round_trip,
        }
        if step.reagents:
            metadata["proposed_reagents"] = step.reagents
        if reaction in known:
            metadata["precedents"] = {"close": known[reaction].close, "wide": known[reaction].wide}
            metadata["nearest"] = [asdict(one) for one in known[reaction].nearest]
            metadata["conditions"] = [asdict(one) for one in known[reaction].conditions]
        children = [to_tree(child, known) for child in node.children]
        found["children"] = [{"type": "reaction", "smiles": reaction, "metadata": metadata, "children": children}]
    return found


def document(plan: Plan, known: Evidence = MappingProxyType({})) -> dict[str, Any]:
    """Return a plan as a JSON document; `routes` are trees that other programs read, each with its scores."""
    return {
        "target": plan.target,
        "status": plan.status,
        "message": plan.message,
        "target_in_stock": plan.stock,
        "expansions": plan.expansions,
        "seconds": plan.seconds,
        "counts": vars(plan.counts),
        "routes": [
            {
                **to_tree(route.root, known),
                "scores": {
                    "score": route.score,
                    "steps": len(route.steps),
                    "depth": route.depth,
                    "solved": route.solved,
                    "group": route.group,
                },
            }
            for route in plan.routes
        ],
    }


def rows(route: Route, known: Evidence = MappingProxyType({})) -> list[dict[str, str]]:
    """Return a route's steps as a table, in the order in which they are done; conditions where something is known."""
    made: dict[str, str] = {}
    found = []
    beside = any(node.step and node.step.reagents for node in route.steps)
    for number, node in enumerate(route.steps, 1):
        assert node.step
        from_ = [
            f"{child.smiles} ({child.stock or made.get(child.smiles) or 'not in stock'})" for child in node.children
        ]
        made[node.smiles] = f"step {number}"
        opinion = node.step.opinion + (f" ({node.step.round_trip:.2f})" if node.step.round_trip else "")
        row = {
            "step": str(number),
            "product": node.smiles,
            "from": " + ".join(from_),
            "chance": f"{node.step.chance:.2f}",
            "forward model": opinion,
        }
        if known:
            seen = known.get(node.step.reaction(node.smiles), Found())
            row["patent reactions"] = f"{seen.close:,}" if seen.close else f"0 ({seen.wide:,} of this kind)"
            row["conditions of the nearest"] = seen.conditions[0].text if seen.conditions else ""
        if beside:
            row["proposed reagents"] = in_words(node.step.reagents)
        found.append(row)
    return found


def to_markdown(plan: Plan, known: Evidence = MappingProxyType({})) -> str:
    """Return a plan as text for a notebook."""
    lines = [f"# Routes to `{plan.target}`", "", plan.message, ""]
    for rank, route in enumerate(plan.routes, 1):
        head = f"{len(route.steps)} steps, score {route.score:.3g}, group {route.group}"
        lines += [f"## Route {rank}: {head}" + ("" if route.solved else ", not all in stock"), ""]
        for row in rows(route, known):
            told = ("forward model", "patent reactions", "conditions of the nearest", "proposed reagents")
            tail = "".join(f"; {name}: {row[name]}" for name in told if row.get(name))
            lines += [f"{row['step']}. `{row['product']}` from {row['from']} (chance {row['chance']}{tail})"]
        lines += [""]
    return "\n".join(lines)
