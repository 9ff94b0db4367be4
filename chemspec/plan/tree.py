"""Likeliest part of a search tree, limited in size for display."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from chemspec.plan.expand import Proposal

CARDS, WAYS = 40, 3  # maximum number of molecules, and of steps for each


@dataclass
class Seen:
    """A molecule of the tree: in stock, with steps that form it, or neither (open)."""

    smiles: str
    stock: str = ""
    # steps, the likeliest first, each with its reactants
    ways: list[tuple[Proposal, list[Seen]]] = field(default_factory=list)
    more: int = 0  # number of further steps that are not in `ways`

    def __len__(self) -> int:
        """Return the number of molecules."""
        return 1 + sum(len(part) for _, parts in self.ways for part in parts)


def likeliest_subtree(
    target: str,
    steps: Mapping[str, Sequence[Proposal]],
    source: Callable[[str], str],
    *,
    cards: int = CARDS,
    ways: int = WAYS,
) -> Seen:
    """Return the likeliest part of a tree, by the product of the priors from the root.

    `steps` are by product; `source` returns the stock list with a molecule, or an empty text. At most `cards` molecules
    (the step that reaches that is complete) and `ways` steps per molecule.
    """
    root, turn, shown = Seen(target, source(target)), count(), 1
    waiting: list[tuple[float, int, Seen, frozenset[str]]] = [(-1.0, next(turn), root, frozenset())]
    while waiting:
        chance, _, seen, above = heappop(waiting)
        ranked_steps = sorted(steps.get(seen.smiles, ()), key=lambda step: (-step.prior(seen.smiles), step.reactants))
        for step in ranked_steps[:ways]:
            if shown >= cards:
                break
            parts = [Seen(smiles, source(smiles)) for smiles in step.reactants]
            seen.ways.append((step, parts))
            shown += len(parts)
            inside = above | {seen.smiles}
            for part in parts:
                if not part.stock and part.smiles not in inside:
                    heappush(waiting, (chance * step.prior(seen.smiles), next(turn), part, inside))
        seen.more = len(ranked_steps) - len(seen.ways)
    return root
