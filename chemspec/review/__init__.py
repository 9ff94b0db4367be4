"""Review of predictions: strategies, plausibility, the forward check, reagents, precedents and stock.

    from chemspec.review import load_engines, review

    engines = load_engines()
    for suggestion in review(engines, "retro", "CC(=O)Nc1ccc(O)cc1").suggestions:
        print(suggestion.name, suggestion.best.canonical, suggestion.check.verdict, suggestion.problems)

`forward_check` has the rule by which a forward model confirms reactants, which the app, plans, the command line and the
HTTP service share. It needs no Streamlit.
"""

from chemspec.evaluation.loading import load_engines
from chemspec.review.forward_check import ForwardCheck, StepChecker
from chemspec.review.review import Review, Reviewer, review, review_result, review_results
from chemspec.review.rows import review_document
from chemspec.review.selectivity import Selectivity
from chemspec.review.suggestions import Suggestion

__all__ = [
    "ForwardCheck", "Review", "Reviewer", "Selectivity", "StepChecker", "Suggestion", "load_engines", "review",
    "review_document", "review_result", "review_results",
]  # fmt: skip
