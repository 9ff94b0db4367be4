"""Our models inside Syntheseus, and in one of its searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.serving import serving
from helpers.small import tiny_folder

from chemspec.engine.engine import Engine

pytest.importorskip("syntheseus")

from syntheseus import Bag, Molecule
from syntheseus.search.algorithms.best_first.retro_star import MolIsPurchasableCost, RetroStarSearch
from syntheseus.search.mol_inventory import SmilesListInventory
from syntheseus.search.node_evaluation.common import ConstantNodeEvaluator, ReactionModelLogProbCost

from chemspec.planners.source import Step, StepSource
from chemspec.planners.syntheseus import ChemspecBackward, ChemspecForward

# With this seed some of the answers are molecules.
QUERIES = ["C", "CN(C)C=O", "CC(C)(C)OC(=O)NC", "CCN", "CCF"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny", task="retro", seed=3)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return Engine.load(folder, threads=1)


def expected(engine: Engine, query: str, n: int) -> list[tuple[str, float]]:
    found: dict[str, float] = {}
    for one in engine.predict(query, n=n, decoder="beam", distinct=False).hypotheses:
        if one.valid:
            found.setdefault(".".join(sorted(one.canonical.split("."))), one.model_probability)
    return list(found.items())


def told(reactions: Any) -> list[tuple[str, float]]:
    return [(".".join(sorted(m.smiles for m in one.reactants)), one.metadata["probability"]) for one in reactions]


def test_a_backward_model_gives_the_engines_answers_with_their_probabilities(folder: Path, engine: Engine) -> None:
    model = ChemspecBackward(str(folder), threads=1, keep_salts=False)
    calls = model([Molecule(query) for query in QUERIES], num_results=8)
    assert [told(reactions) for reactions in calls] == [expected(engine, query, 8) for query in QUERIES]
    assert sum(map(len, calls)) > 5
    products = [{one.product for one in reactions} for reactions in calls]
    assert products == [{Molecule(query)} if steps else set() for query, steps in zip(QUERIES, calls, strict=True)]
    assert model.get_model_info() == {"name": engine.name, "digest": engine.full_digest}
    assert list(model.get_parameters()) == [] and not model.is_forward()


def test_a_model_with_a_deadline_gives_the_answers_of_a_beam(folder: Path, engine: Engine) -> None:
    model = ChemspecBackward(str(folder), threads=1, keep_salts=False, within=60.0)
    calls = model([Molecule(query) for query in QUERIES], num_results=4)
    assert [told(reactions) for reactions in calls] == [expected(engine, query, 4) for query in QUERIES]
    assert ChemspecBackward(str(folder), threads=1, within=1e-6)([Molecule("CCN")], num_results=4) == [[]]
    with serving({"retro": engine}) as service:
        remote = StepSource("retro", server=service.url, within=60.0)
        assert remote.predict_steps(QUERIES, 4) == StepSource("retro", model=str(folder), threads=1).predict_steps(
            QUERIES, 4
        )


def test_a_forward_model_reads_bags(folder: Path, tmp_path: Path) -> None:
    home = tiny_folder(tmp_path / "forward", task="forward", seed=3)
    engine = Engine.load(home, threads=1)
    model = ChemspecForward(str(home), threads=1, keep_salts=False)
    bag = Bag([Molecule("CO"), Molecule("C")])
    (reactions,) = model([bag], num_results=10)
    products = [(".".join(sorted(m.smiles for m in one.products)), one.metadata["probability"]) for one in reactions]
    assert products == expected(engine, "C.CO", 10) != []
    assert all(one.reactants == bag for one in reactions)
    assert model.is_forward()


def test_all_molecules_of_a_call_are_one_batch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ChemspecBackward(str(folder), threads=1, use_cache=True)
    asked: list[list[str]] = []
    honest = model.source.predict_steps
    monkeypatch.setattr(
        model.source, "predict_steps", lambda queries, n: asked.append(list(queries)) or honest(queries, n)
    )
    model([Molecule(query) for query in ("C", "CCN", "C")], num_results=3)
    model([Molecule(query) for query in ("CCN", "CCF")], num_results=3)
    assert [sorted(queries) for queries in asked] == [["C", "CCN"], ["CCF"]]


def test_a_model_of_the_other_task_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="is a retro model, not one for forward"):
        ChemspecForward(str(folder), threads=1)([Bag([Molecule("C")])], num_results=2)


def test_a_service_answers_alike(folder: Path, engine: Engine) -> None:
    pytest.importorskip("fastapi")

    molecules = [Molecule(query) for query in QUERIES]
    with serving({"tiny": engine}) as service:
        remote = ChemspecBackward("tiny", server=service.url)(molecules, num_results=8)
        assert service.count("batch_queries_sum", model="tiny") == len(QUERIES)
        assert service.count("batch_queries_count", model="tiny") == 1
        # By default the service's model of the task, whatever its name.
        model = ChemspecBackward(server=service.url)
        assert list(map(told, model(molecules, num_results=8))) == list(map(told, remote))
        assert model.get_model_info() == {"name": "tiny", "digest": engine.full_digest, "server": service.url}
    own = ChemspecBackward(str(folder), threads=1)(molecules, num_results=8)
    assert list(map(told, remote)) == list(map(told, own))


def test_salts_stay_together_and_can_be_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepSource, "predict_steps", lambda *_: [[Step(("CCO", "[Na+].[OH-]"), 0.5, -0.7)]])
    for keep_salts, expected in ((True, ["CCO", "[Na+].[OH-]"]), (False, ["CCO", "[Na+]", "[OH-]"])):
        ((reaction,),) = ChemspecBackward(keep_salts=keep_salts)([Molecule("CC")], num_results=1)
        assert sorted(one.smiles for one in reaction.reactants) == expected


def test_a_search_of_syntheseus_runs_with_our_model(folder: Path) -> None:
    search = RetroStarSearch(
        reaction_model=ChemspecBackward(str(folder), threads=1, use_cache=True, default_num_results=5),
        mol_inventory=SmilesListInventory(["C", "N", "O"]),
        or_node_cost_fn=MolIsPurchasableCost(),
        and_node_cost_fn=ReactionModelLogProbCost(),
        value_function=ConstantNodeEvaluator(0.0),
        limit_iterations=3,
    )
    graph, iterations = search.run_from_mol(Molecule("CCN"))
    assert iterations >= 1 and len(graph) > 1
