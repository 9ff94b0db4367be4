"""Algorithm, limits and constraints of a multi-step search."""

from __future__ import annotations

import math
from dataclasses import dataclass

from chemspec.plan import constraints
from chemspec.plan.bonds import Bonds

ALGORITHMS = ("retro-star", "mcts", "breadth-first")


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """Algorithm and limits of a search."""

    algorithm: str = "retro-star"  # one of `ALGORITHMS`
    seconds: float = 60.0  # time limit of the search, without loading and without listing the routes
    # time limit of the plan, the list of routes included: nothing is begun that would end later if it took as long as
    # the longest step so far, and steps that cannot be checked in time stay unchecked
    within: float = math.inf
    expansions: int = 200  # maximum number of molecules expanded (mcts: visits)
    depth: int = 6  # maximum length of the longest linear sequence
    nodes: int = 50_000  # maximum number of nodes of the graph, which limits the memory: about 4 kB each
    routes: int = 20  # maximum number of routes returned
    # maximum number of further open molecules decoded in the same batch; useful if a wider batch takes no longer, as on
    # a GPU
    ahead: int = 0
    # reactions (SMILES in the form of `Proposal.reaction`) that are the only steps to their products
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()  # excluded reactions
    keep: Bonds = ()  # protected bonds of the target, which no step forms (not with mcts)
    # an intermediate or building block that every route contains, as SMILES, name or another format; without
    # stereochemistry, it stands for all its stereoisomers
    through: str = ""
    avoid: tuple[str, ...] = ()  # substructures as SMARTS that no molecule of a route has, except the target

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"no algorithm {self.algorithm!r}; available: {', '.join(ALGORITHMS)}")
        for name in ("seconds", "within", "expansions", "depth", "nodes", "routes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.keep and self.algorithm == "mcts":
            raise ValueError("mcts does not support protected bonds (keep); choose retro-star or breadth-first")
        if self.ahead < 0:
            raise ValueError(f"ahead is {self.ahead}; it must not be negative")
        constraints.check_patterns(self.avoid)
        if self.through:
            object.__setattr__(self, "through", constraints.read_intermediate(self.through))
            if constraints.is_avoided(self.through, self.avoid):
                raise ValueError(f"the intermediate {self.through} has a substructure that is to be avoided")
