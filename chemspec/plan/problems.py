"""What speaks against a step of a route, as on the cards of single steps and in the check of a flask."""

from functools import lru_cache

from chemspec.chem.checks.flask_check import missing_or_conflicting
from chemspec.review.suggestions import Suggestion
from chemspec.types import Hypothesis


@lru_cache(maxsize=5000)
def step_problems(reactants: str, product: str, reagents: str) -> tuple[str, ...]:
    """Return problems of a step with these reagents, in words: atoms, stereochemistry, other functional groups.

    `reactants` and `reagents` are SMILES joined by dots, `product` is one molecule. What the forward model says, and
    missing reagents, are left out.
    """
    answer = Hypothesis(reactants, reactants, True, (), (), 0.0, 1.0, 1.0)
    step = Suggestion("retro", product, 1, answer)
    made_from_nothing = [note for note in step.notes if note.startswith("one enantiomer")]
    flask = ".".join(filter(None, (reactants, reagents)))
    conflicts = (text for text in missing_or_conflicting(flask, product) if not text.startswith("Missing"))
    return (*step.problems, *made_from_nothing, *conflicts)
