"""The tree that a search has grown, as a value of limited size: the likeliest part of it, to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from chemspec.plan.expand import Proposal

CARDS, WAYS = 40, 3  # most molecules, and most ways to each


@dataclass
class Seen:
    """A molecule of the tree: bought from the list `stock`, with ways to make it, or neither (open).

    Attributes:
        ways: the likeliest first, each with the molecules that it needs.
        more: how many further ways are known but not in `ways`.
    """

    smiles: str
    stock: str = ""
    ways: list[tuple[Proposal, list[Seen]]] = field(default_factory=list)
    more: int = 0

    def __len__(self) -> int:
        """Molecules in it."""
        return 1 + sum(len(part) for _, parts in self.ways for part in parts)


def likeliest(
    target: str,
    steps: Mapping[str, Sequence[Proposal]],
    source: Callable[[str], str],
    *,
    cards: int = CARDS,
    ways: int = WAYS,
) -> Seen:
    """Return the part of a tree that good routes go through: molecules by the product of the priors down to them.

    Args:
        target: at the root.
        steps: known ways to molecules.
        source: the list that sells a molecule, empty for none.
        cards: most molecules; the step that reaches this number is shown whole.
        ways: most ways to one molecule.
    """
    root, turn, shown = Seen(target, source(target)), count(), 1
    waiting: list[tuple[float, int, Seen, frozenset[str]]] = [(-1.0, next(turn), root, frozenset())]
    while waiting:
        chance, _, seen, above = heappop(waiting)
        known = sorted(steps.get(seen.smiles, ()), key=lambda way: (-way.prior(seen.smiles), way.reactants))
        for way in known[:ways]:
            if shown >= cards:
                break
            parts = [Seen(one, source(one)) for one in way.reactants]
            seen.ways.append((way, parts))
            shown += len(parts)
            inside = above | {seen.smiles}
            for part in parts:
                if not part.stock and part.smiles not in inside:
                    heappush(waiting, (chance * way.prior(seen.smiles), next(turn), part, inside))
        seen.more = len(known) - len(seen.ways)
    return root
