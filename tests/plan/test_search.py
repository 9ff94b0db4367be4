"""Routes of a toy chemistry: found, within limits, stopped when asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from helpers.case_tables import table

pytest.importorskip("syntheseus")
pytest.importorskip("apted")

from helpers.toy import ACID_AMIDE, AMIDE, BOUGHT, ESTER_AMIDE, Toy, retro, stock
from rdkit import Chem

from chemspec import chem
from chemspec.chem.molecules.salts import split_keeping_salts
from chemspec.chem.reactions.guide import bonds_by_name
from chemspec.plan import constraints
from chemspec.plan.expand import DISAGREEMENT_FACTOR, Expander, Proposal
from chemspec.plan.routes import Plan, Route, step_table
from chemspec.plan.search import RouteSearch, plan
from chemspec.plan.settings import PlanSettings
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

pytestmark = pytest.mark.filterwarnings("ignore:No iteration or time")


def search(
    folder: Path, *, target: str = AMIDE, model: Toy | None = None, bought: list[str] = BOUGHT, **how: object
) -> Plan:
    settings = PlanSettings(**{"seconds": 20.0, "depth": 8, **how})  # type: ignore[arg-type]
    return plan(target, Expander(model or retro(), keep=False), stock(folder, bought), settings)


def signatures(found: Plan) -> set[frozenset[tuple[str, tuple[str, ...]]]]:
    return {route.signature for route in found.routes}


def all_routes(smiles: str) -> list[frozenset[tuple[str, tuple[str, ...]]]]:
    """Every set of steps from stock, by plain recursion: the oracle."""
    if smiles in {chem.canonical(one) for one in BOUGHT}:
        return [frozenset()]
    found = []
    for text, _ in retro().table.get(smiles, []):
        reactants = split_keeping_salts(str(chem.canonical(text))) if chem.is_valid(text) else ()
        if reactants and smiles not in reactants and not chem.formula_balance(text, smiles):
            for below in product(*map(all_routes, reactants)):
                found.append(frozenset({(smiles, reactants)}).union(*below))
    return found


@pytest.mark.parametrize("through", ["", ACID_AMIDE, ESTER_AMIDE, "CO", "COC(=O)c1ccc([N+](=O)[O-])cc1"])
def test_a_search_finds_all_routes_of_the_toy(tmp_path: Path, through: str) -> None:
    """With a required intermediate all that contain it."""
    routes = all_routes(str(chem.canonical(AMIDE)))
    wanted = {route for route in routes if not through or chem.canonical(through) in molecules(route)}
    assert wanted
    model = retro()
    found = search(tmp_path, model=model, through=through)
    asked = [smiles for call in model.asked for smiles in call]
    assert len(asked) == len(set(asked)), "a molecule was decoded twice"
    assert found.status == "solved"
    assert signatures(found) == wanted
    assert all(route.solved for route in found.routes)
    scores = [route.score for route in found.routes]
    assert scores == sorted(scores, reverse=True)


def test_answers_are_kept_on_disk_by_weights_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    first, again, other = retro(), retro(), retro()
    other.full_digest = "other weights"
    plans = [plan(AMIDE, Expander(model), stock(tmp_path)) for model in (first, again, other)]
    assert again.asked == []
    assert other.asked == first.asked
    assert len({frozenset(signatures(one)) for one in plans}) == 1
    assert plans[1].counts.molecules == 0
    assert " expanded (0 decoded now, " in plans[1].effort
    for file in (tmp_path / "cache").glob(
        "plan-*.sqlite"
    ):  # with a rollback journal each answer would wait for the disk
        with closing(sqlite3.connect(file)) as base:
            assert base.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_cache_that_cannot_be_written_costs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "file" / "below"))
    assert plan(AMIDE, Expander(retro()), stock(tmp_path)).status == "solved"


def test_ions_are_bought_together_and_bad_answers_are_left_out() -> None:
    (ways,) = Expander(retro(), keep=False).expand([str(chem.canonical(ACID_AMIDE))])
    assert ways[0].reactants == (chem.canonical("COC(=O)c1ccc(NC(C)=O)cc1"), "[Na+].[OH-]")
    assert len(ways) == 2, "the echo is no step"
    (ways,) = Expander(retro(), keep=False).expand(["CNC(=O)c1ccc([N+](=O)[O-])cc1"])
    assert len(ways) == 1, "atoms must be accounted for"


class Eager(Expander):
    """Checks every proposal of every molecule, as a filter in the model would."""

    def expand(self, molecules: Sequence[str]) -> list[tuple[Proposal, ...]]:
        found = super().expand(molecules)
        self.run_checks([(smiles, way) for smiles, ways in zip(molecules, found, strict=True) for way in ways])
        return found


def sceptic(seed: int) -> Toy:
    """A forward model that denies some steps of the toy."""
    rng = Random(seed)
    table: dict[str, list[tuple[str, float]]] = {}
    for smiles, ways in retro().table.items():
        for text, _ in ways:
            if chem.is_valid(text):
                key = ".".join(split_keeping_salts(str(chem.canonical(text))))
                table[key] = [(smiles if rng.random() < 0.6 else "CCO", 0.9)]
    return Toy(table)


@pytest.mark.parametrize("seed", range(12))
def test_checking_only_what_matters_finds_what_checking_all_finds(tmp_path: Path, seed: int) -> None:
    plans = []
    for expander in (Eager(retro(), sceptic(seed), keep=False), Expander(retro(), sceptic(seed), keep=False)):
        plans.append(plan(AMIDE, expander, stock(tmp_path), PlanSettings(depth=8)))
    eager, lazy = plans
    assert [route.signature for route in lazy.routes] == [route.signature for route in eager.routes]
    assert [route.score for route in lazy.routes] == pytest.approx([route.score for route in eager.routes])
    assert lazy.counts.checks <= eager.counts.checks
    assert all(node.step and node.step.round_trip is not None for route in lazy.routes for node in route.steps)


def test_fewer_steps_are_checked_than_proposed(tmp_path: Path) -> None:
    eager, lazy = Eager(retro(), sceptic(0), keep=False), Expander(retro(), sceptic(0), keep=False)
    few = PlanSettings(expansions=3)
    assert (
        plan(AMIDE, lazy, stock(tmp_path), few).counts.checks < plan(AMIDE, eager, stock(tmp_path), few).counts.checks
    )


def test_what_the_forward_model_denies_it_is_asked_about_with_proposed_reagents(tmp_path: Path) -> None:
    smiles = str(chem.canonical(AMIDE))
    (ways,) = Expander(retro(), keep=False).expand([smiles])
    flasks = [".".join(one.reactants) for one in ways]
    forward = Toy({flasks[0]: [(smiles, 0.9)], f"{flasks[1]}.CCN(CC)CC": [(smiles, 0.8)]})
    reagents = Toy({way.reaction(smiles): [("CCN(CC)CC", 0.5)] for way in ways[:2]})
    models = Expander(retro(), forward, reagents=reagents, keep=False)
    models.run_checks([(smiles, way) for way in ways])
    agreed, helped, denied = (models.with_checks(smiles, way) for way in ways[:3])
    assert (agreed.round_trip, agreed.reagents, agreed.prior(smiles)) == (pytest.approx(0.9), "", ways[0].prior(smiles))
    assert (helped.round_trip, helped.reagents) == (pytest.approx(0.8), "CCN(CC)CC")
    assert (denied.round_trip, denied.reagents) == (0, "")
    assert denied.prior(smiles) == pytest.approx(ways[2].prior(smiles) * DISAGREEMENT_FACTOR)
    assert len(forward.asked) == 3, "alone, and what was denied with usual and with proposed reagents"
    assert reagents.asked == [[way.reaction(smiles) for way in ways[1:]]], "only where it was denied"
    found = plan(AMIDE, models, stock(tmp_path))
    told = [row for route in found.routes for row in step_table(route)]
    assert any(row.get("reagents by a model") == "Et₃N" for row in told), "every step of the routes is asked about"
    asked = len(forward.asked), len(reagents.asked)
    plan(AMIDE, models, stock(tmp_path))
    assert (len(forward.asked), len(reagents.asked)) == asked, "what is known is not asked again"
    without = plan(AMIDE, models, stock(tmp_path), PlanSettings(depth=8, avoid=("CCN(CC)CC",)))
    assert not any(node.step.reagents for route in without.routes for node in route.steps if node.step)


def test_without_a_route_the_closest_is_shown(tmp_path: Path) -> None:
    found = search(tmp_path, bought=["CN", "CO", "CC(=O)Cl"])
    assert found.status == "open"
    assert "no route from stock; the closest route lacks 4-aminobenzoic acid" in found.message
    (route,) = found.routes
    assert not route.solved and sum(not leaf.stock for leaf in route.leaves) == 1


def test_the_closest_route_ends_where_the_fewest_atoms_are_missing(tmp_path: Path) -> None:
    """Not where the search went on to something larger, and it has the required intermediate if one does."""
    amine, larger, other = "NCCCCCC", "CC(C)(C)OC(=O)NCCCCCC", "NCCCCCCC(=O)O"
    table = {"CC(=O)NCCCCCC": [(f"CC(=O)Cl.{amine}", 0.9), (f"CC(=O)Cl.{other}", 0.1)], amine: [(larger, 0.9)]}
    model = Toy({str(chem.canonical(product)): ways for product, ways in table.items()})
    for constraint, missing in (({}, amine), ({"through": other}, other), ({"through": larger}, larger)):
        found = search(tmp_path, target="CC(=O)NCCCCCC", model=model, bought=["CC(=O)Cl"], **constraint)
        (route,) = found.routes
        assert [leaf.smiles for leaf in route.leaves if not leaf.stock] == [chem.canonical(missing)]


@pytest.mark.parametrize(("target", "status", "words"), table("plan/unplannable"))
def test_what_cannot_be_planned_is_said(tmp_path: Path, target: str, status: str, words: str) -> None:
    found = search(tmp_path, target=target)
    assert found.status == status and words in found.message
    assert not found.routes


def test_a_target_in_stock_is_said_and_planned_all_the_same(tmp_path: Path) -> None:
    found = search(tmp_path, bought=[*BOUGHT, AMIDE])
    assert found.status == "solved" and found.stock == "mine.smi"
    assert all(isinstance(route, Route) and route.steps for route in found.routes)


def test_a_step_can_be_fixed_or_left_out(tmp_path: Path) -> None:
    free = search(tmp_path)
    step = next(iter(free.routes[0].steps[-1:]))
    assert step.step
    reaction = step.step.reaction(step.smiles)
    fixed, other = search(tmp_path, only=(reaction,)), search(tmp_path, without=(reaction,))
    has = [any(one.step and one.step.reaction(one.smiles) == reaction for one in route.steps) for route in free.routes]
    assert 0 < sum(has) < len(has)
    assert signatures(fixed) == {route.signature for route, one in zip(free.routes, has, strict=True) if one}
    assert signatures(other) == {route.signature for route, one in zip(free.routes, has, strict=True) if not one}


def test_a_bond_that_is_kept_is_made_by_no_step(tmp_path: Path) -> None:
    target = Chem.MolFromSmiles(str(chem.canonical(AMIDE)))
    matches = [target.GetSubstructMatch(Chem.MolFromSmarts(text)) for text in ("[CH3]C(=O)Nc", "cC(=O)N[CH3]")]
    amides = [(min(match[1], match[3]), max(match[1], match[3])) for match in matches]
    assert set(amides) <= set(bonds_by_name(str(chem.canonical(AMIDE))).values())
    # Both amides made by steps of the toy: keeping either leaves the routes that make only the other one.
    assert search(tmp_path, keep=(amides[0],), bought=[*BOUGHT, ACID_AMIDE]).status == "solved"
    for route in search(tmp_path, keep=(amides[0],), bought=[*BOUGHT, ACID_AMIDE]).routes:
        assert "CC(=O)Cl" not in {leaf.smiles for leaf in route.leaves}
    assert search(tmp_path, keep=(amides[0],)).status == "open"
    assert search(tmp_path, keep=tuple(amides), bought=[*BOUGHT, ACID_AMIDE]).status == "open"


def molecules(signature: frozenset[tuple[str, tuple[str, ...]]]) -> set[str]:
    """All molecules of a route but the target."""
    return {reactant for _, reactants in signature for reactant in reactants}


def test_extraction_is_exact_where_a_likelier_route_is_elsewhere(tmp_path: Path) -> None:
    """Of one route per list, the best through the intermediate is listed, not the best of all."""
    intermediate = str(chem.canonical("CNC(=O)c1ccc(N)cc1"))
    ranked = search(tmp_path).routes
    best = next(number for number, route in enumerate(ranked) if route.contains(intermediate))
    assert best > 0
    (listed,) = search(tmp_path, routes=1, through=intermediate).routes
    assert listed.signature == ranked[best].signature


def test_routes_through_a_deep_intermediate_count_no_way_around_it(tmp_path: Path) -> None:
    """The likeliest ways to the target and to what is above the intermediate leave it out."""
    target, above, way = "CCCCCCCC", "CCCCCCC", "CCCCCC"
    table = {
        target: [*((f"{'C' * length}O.CCCCCO", 0.1) for length in range(3, 9)), (f"{above}.CO", 0.05)],
        above: [("CCO.CCCCCO", 0.9), (f"{way}.CO", 0.1)],
        way: [("CCO.CCCCO", 0.9)],
    }
    bought = ["C" * length + "O" for length in range(1, 9)]
    found = search(tmp_path, target=target, model=Toy(table), bought=bought, through=way, routes=1)
    assert [way in molecules(route.signature) for route in found.routes] == [True]


def test_what_looks_like_the_required_intermediate_is_expanded_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The likeliest way leads away from it; with few expansions only a search that turns to it finds a route."""
    target, way = "CCOC(=O)c1ccc(NC(=O)CCC)cc1", "CCOC(=O)c1ccc(N)cc1"
    decoys = ["NOCCOCCOCCCCCCCCCC" + "C" * number for number in range(9)]
    table = {
        target: [(decoys[0], 0.9), (f"{way}.CCCC(=O)Cl", 0.02)],
        way: [("CCOC(=O)c1ccc([N+](=O)[O-])cc1", 0.9)],
        **{one: [(after, 0.99)] for one, after in pairwise(decoys)},
    }
    model = Toy({str(chem.canonical(product)): ways for product, ways in table.items()})
    bought = ["CCCC(=O)Cl", "CCOC(=O)c1ccc([N+](=O)[O-])cc1"]
    how: dict[str, Any] = {"target": target, "model": model, "bought": bought, "through": way, "expansions": 3}
    assert search(tmp_path, **how).status == "solved"
    monkeypatch.setattr("chemspec.plan.algorithms.DETOUR_COST", 0.0)
    assert search(tmp_path, **how).status == "open"


def test_what_cannot_be_had_through_an_intermediate_is_said(tmp_path: Path) -> None:
    found = search(tmp_path, through="CCCCCC")
    assert found.status == "open" and "no route contains CCCCCC" in found.message and not found.routes
    lacking = search(tmp_path, through=ACID_AMIDE, bought=["CN", "CO"])
    assert lacking.status == "open" and "no route from stock" in lacking.message
    assert all(route.contains(str(chem.canonical(ACID_AMIDE))) for route in lacking.routes) and lacking.routes
    assert search(tmp_path, through=AMIDE).message == "the required intermediate is the target itself"


def test_an_intermediate_without_stereochemistry_stands_for_its_stereoisomers() -> None:
    assert constraints.is_intermediate("C[C@H](N)C(=O)O", "CC(N)C(=O)O")
    assert not constraints.is_intermediate("CC(N)C(=O)O", "C[C@H](N)C(=O)O")
    assert PlanSettings(through="alanine").through == PlanSettings(through="C[C@H](N)C(O)=O").through
    assert not constraints.is_intermediate("C[C@@H](N)C(=O)O", "C[C@H](N)C(=O)O")


@pytest.mark.parametrize("smarts", ["C(=O)Cl", "[CX3](=O)[OX2H1]", "[OH-]", "[N+](=O)[O-]"])
def test_no_precursor_has_a_substructure_to_avoid(tmp_path: Path, smarts: str) -> None:
    pattern = Chem.MolFromSmarts(smarts)
    wanted = {
        route
        for route in all_routes(str(chem.canonical(AMIDE)))
        if not any(Chem.MolFromSmiles(one).HasSubstructMatch(pattern) for one in molecules(route))
    }
    model = retro()
    found = search(tmp_path, model=model, avoid=(smarts,))
    assert {route.signature for route in found.routes if route.solved} == wanted
    asked = [Chem.MolFromSmiles(query) for call in model.asked for query in call if query != chem.canonical(AMIDE)]
    assert not any(mol.HasSubstructMatch(pattern) for mol in asked), "it is pruned, not filtered at the end"


def test_the_target_itself_may_have_what_is_avoided(tmp_path: Path) -> None:
    aryl_amide = "[CH3]NC(=O)c"  # of the target, and of the precursors that still have this amide
    found = search(tmp_path, avoid=(aryl_amide,))
    assert found.status == "solved"
    assert all(len([one for one in route.root if "CNC(=O)c" in one.smiles]) <= 1 for route in found.routes)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"through": "C(("}, "cannot be read"),
        ({"through": "CCO.CCN"}, "several molecules"),
        ({"through": "C" * 3000}, "cannot be read"),
        ({"avoid": ("C((",)}, "is not a SMARTS"),
        ({"avoid": ("",)}, "is not a SMARTS"),
        ({"avoid": ("C" * 201,)}, "the limit is 200"),
        ({"avoid": ("C",) * 6}, "the limit is 5"),
        ({"through": "CCO", "avoid": ("[OH]",)}, "that is to be avoided"),
        *(({name: 0}, name) for name in ("seconds", "within")),
        *(({name: -1}, name) for name in ("expansions", "depth")),
    ],
)
def test_settings_that_cannot_be_met_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PlanSettings(**settings)


def test_a_substructure_that_takes_too_long_to_search_counts_as_present(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = "*~*~*~*~[C;H0;D1]"
    assert not constraints.is_avoided("c1ccc2ccccc2c1CC", (pattern,))
    monkeypatch.setattr("chemspec.chem.molecules.query.MAX_COMPARED", 5)
    assert constraints.is_avoided("c1ccc2ccccc2c1C(C)C", (pattern,))


def test_limits_end_a_search_and_say_so(tmp_path: Path) -> None:
    assert "limit of 2 expansions" in search(tmp_path, expansions=2).message
    assert search(tmp_path, expansions=2).expansions == 2
    assert "limit of 3 nodes" in search(tmp_path, nodes=3).message
    assert all(route.depth <= 2 for route in search(tmp_path, depth=2).routes)
    assert "limit of 1e-06 s" in search(tmp_path, seconds=1e-6).message


@dataclass
class Slow:
    """A model and a clock on which each of its calls takes a second."""

    model: Toy
    ticks: list[float]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        self.ticks.append(1.0)
        return self.model.predict(queries, settings)


@pytest.mark.parametrize("within", [0.5, 2.5, 5.0, 8.0, 12.5, 20.0])
def test_a_deadline_includes_the_list_of_routes(tmp_path: Path, within: float) -> None:
    ticks: list[float] = []
    models = Slow(retro(), ticks), Slow(sceptic(1), ticks)
    expander = Expander(*models, keep=False)
    settings = PlanSettings(within=within, depth=8)
    found = plan(AMIDE, expander, stock(tmp_path), settings, clock=lambda: sum(ticks))
    assert sum(ticks) <= within + 1.0  # by one call: the first one, or a longer step than all before
    assert found.seconds <= within + 1.0
    assert found.expansions >= min(3, within // 3)
    if within == 0.5:
        assert "deadline of 0.5 s" in found.message


def test_a_far_deadline_changes_no_route_and_a_solution_is_noticed(tmp_path: Path) -> None:
    solved_at: list[int] = []

    def watch(now: RouteSearch) -> bool:
        solved_at.extend([now.expansions] * (now.solved and not solved_at))
        return False

    settings = PlanSettings(within=1e6, depth=8)
    expander = Expander(retro(), sceptic(1), keep=False)
    found = plan(AMIDE, expander, stock(tmp_path), settings, watch)
    checked = Expander(retro(), sceptic(1), keep=False)
    assert found.routes == plan(AMIDE, checked, stock(tmp_path), PlanSettings(depth=8)).routes
    assert 0 < solved_at[0] < found.expansions


def test_it_stops_when_asked_or_interrupted_with_what_it_has(tmp_path: Path) -> None:
    seen: list[int] = []

    def watch(now: RouteSearch) -> bool:
        seen.append(now.expansions)
        return now.expansions == 4

    def interrupt(now: RouteSearch) -> bool:
        if now.expansions == 5:
            raise KeyboardInterrupt
        return False

    for told, said in ((watch, "stopped"), (interrupt, "interrupted")):
        found = plan(AMIDE, Expander(retro(), keep=False), stock(tmp_path), PlanSettings(), told)
        assert said in found.message and found.routes
    assert list(dict.fromkeys(seen)) == [0, 1, 2, 3, 4]  # a molecule known from elsewhere in the tree does not count


def test_the_closest_route_counts_missing_atoms_and_not_molecules(tmp_path: Path) -> None:
    aniline = "Nc1ccc(C(=O)O)cc1"
    table = {str(chem.canonical(AMIDE)): [(f"{ACID_AMIDE}.CN", 0.8), (f"CC(=O)Cl.CN.{aniline}", 0.1)]}
    for bought, missing in (([aniline], ["CC(=O)Cl", "CN"]), (["CN"], [ACID_AMIDE])):
        (route,) = search(tmp_path, model=Toy(table), bought=bought).routes
        left = [leaf.smiles for leaf in route.leaves if not leaf.stock]
        assert sorted(left) == sorted(str(chem.canonical(item)) for item in missing)


def test_of_two_closest_routes_that_cost_the_same_the_first_is_shown(tmp_path: Path) -> None:
    ways = [("CC(=O)Cl.NCCCCCC", 0.4), ("CC(=O)Br.NCCCCCC", 0.4)]
    model = Toy({str(chem.canonical("CC(=O)NCCCCCC")): ways})
    (route,) = search(tmp_path, target="CC(=O)NCCCCCC", model=model, bought=["CC(=O)Cl", "CC(=O)Br"]).routes
    assert [leaf.smiles for leaf in route.leaves if not leaf.stock] == [chem.canonical("NCCCCCC")]
