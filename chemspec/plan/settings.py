"""Settings of a search for routes."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """Limits of a search, and constraints on its routes.

    Attributes:
        seconds: time limit per target in seconds, without loading and without listing the routes.
        within: time limit of the plan in seconds, with the list of routes: nothing is begun that would end later if it
            took as long as the longest step so far, and steps that cannot be checked in time stay unchecked.
        expansions: maximum number of different molecules expanded per target; one known from elsewhere in the search
            does not count again.
        depth: maximum number of consecutive steps.
        nodes: maximum number of nodes of the graph, which limits the memory: about 4 kB each.
        routes: maximum number of routes listed per target.
        only: reactions (as `Proposal.reaction`) that are the only steps to their products.
        without: excluded reactions.
        keep: protected bonds of the target, which no step forms.
        through: intermediate or building block that every route must contain: SMILES or name; without stereochemistry,
            any stereoisomer.
        avoid: substructures (SMARTS) that no molecule of a route has, except the target.
    """

    seconds: float = 60.0
    within: float = math.inf
    expansions: int = 75
    depth: int = 6
    nodes: int = 50_000
    routes: int = 20
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    keep: tuple[tuple[int, int], ...] = ()
    through: str = ""
    avoid: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        from chemspec.plan import constraints  # takes a second to import, for which --help should not wait

        for name in ("seconds", "within", "expansions", "depth", "nodes", "routes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        constraints.check_patterns(self.avoid)
        if self.through:
            object.__setattr__(self, "through", constraints.read_intermediate(self.through))
            if constraints.is_avoided(self.through, self.avoid):
                raise ValueError(f"the intermediate {self.through} has a substructure that is to be avoided")
