"""Our model inside AiZynthFinder: with stand-ins for its classes here, with the package itself where it is.

AiZynthFinder cannot be installed beside what these tests need (RDKit below 2024, numpy below 2), so CHEMSPEC_AIZYNTH
may name a Python that has it: `pip install "aizynthfinder==4.4.1" "pyarrow<22"` in an environment of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import ROOT
from helpers.serving import serving
from helpers.small import tiny_folder
from rdkit import Chem

from chemspec.engine.engine import Engine
from chemspec.planners.source import Step

PYTHON = os.environ.get("CHEMSPEC_AIZYNTH", "")


class Molecule:
    """As much of a TreeMolecule as is needed."""

    mapping_to_index: dict[int, int] = {}  # noqa: RUF012

    def __init__(self, smiles: str, **_: Any) -> None:
        self.smiles = smiles
        if Chem.MolFromSmiles(smiles) is None:
            raise MoleculeError

    def sanitize(self) -> None:
        self.smiles = Chem.MolToSmiles(Chem.MolFromSmiles(self.smiles))


class MoleculeError(Exception):
    """What AiZynthFinder raises over a bad SMILES."""


class Reaction:
    """As much of a SmilesBasedRetroReaction as is needed."""

    def __init__(self, mol: Molecule, *, metadata: dict[str, Any], reactants_str: str) -> None:
        self.mol, self.metadata, self.reactants_str = mol, metadata, reactants_str

    def _remap(self, mol: Molecule, exclude_nums: set[int]) -> None:
        raise AssertionError("nothing is mapped here")


class Strategy:
    """As much of an ExpansionStrategy as is needed."""

    def __init__(self, key: str, config: Any, **options: Any) -> None:
        self.key = key


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    found = {
        "aizynthfinder": {},
        "aizynthfinder.chem": {"SmilesBasedRetroReaction": Reaction, "TreeMolecule": Molecule},
        "aizynthfinder.context": {},
        "aizynthfinder.context.policy": {"ExpansionStrategy": Strategy},
        "aizynthfinder.utils": {},
        "aizynthfinder.utils.exceptions": {"MoleculeException": MoleculeError},
    }
    for name, content in found.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "chemspec.planners.aizynth", raising=False)
    from chemspec.planners import aizynth

    yield aizynth
    sys.modules.pop("chemspec.planners.aizynth", None)


class Answers:
    """A source that remembers what it was asked."""

    def __init__(self, steps: dict[str, list[Step]]) -> None:
        self.steps, self.asked = steps, list[list[str]]()

    def predict_steps(self, queries: Sequence[str], n: int) -> list[list[Step]]:
        if queries:
            self.asked.append(list(queries))
        return [self.steps.get(query, [])[:n] for query in queries]


@pytest.fixture
def strategy(plugin: Any) -> Any:
    made = plugin.ChemspecExpansion("ours", None, n=2, cutoff=0.05, server="http://localhost:1")
    made.source = Answers(
        {
            "CCO": [Step(("C", "CO"), 0.5, -0.7), Step(("CCO", "N"), 0.3, -1.2), Step(("CF",), 0.2, -1.6)],
            "CCN": [Step(("C[O-].[Na+]", "N"), 0.4, -0.9), Step(("F",), 0.01, -4.6)],
        }
    )
    return made


def test_all_molecules_of_a_call_are_one_batch_and_are_remembered(strategy: Any) -> None:
    actions, priors = strategy.get_actions([Molecule("OCC")], [Molecule("CCN"), Molecule("CCO")])
    assert strategy.source.asked == [["CCO", "CCN"]]  # also those that are only to be remembered
    assert {action.mol.smiles for action in actions} == {"CCO"}  # and answered for those asked about
    strategy.get_actions([Molecule("CCN")])
    assert len(strategy.source.asked) == 1
    assert len(actions) == len(priors)


def test_steps_have_their_probabilities_as_priors_and_say_whose_they_are(strategy: Any) -> None:
    actions, priors = strategy.get_actions([Molecule("CCO"), Molecule("CCN")])
    assert priors == [0.5, 0.4]  # in one list over both; none below the cutoff, none that needs its own product
    assert [action.reactants_str for action in actions] == ["C.CO", "C[O-].[Na+].N"]
    assert actions[0].metadata == {
        "policy_probability": 0.5,
        "policy_probability_rank": 0,
        "policy_name": "ours",
        "log_prob": -0.7,
    }


def test_salts_stay_together(strategy: Any) -> None:
    (action,), _ = strategy.get_actions([Molecule("CCN")])
    (parts,) = action._apply()
    assert sorted(part.smiles for part in parts) == ["C[O-].[Na+]", "N"]


def test_what_is_no_molecule_has_no_outcome(strategy: Any) -> None:
    strategy.source.steps["CCF"] = [Step(("C(",), 0.9, -0.1)]
    (action,), _ = strategy.get_actions([Molecule("CCF")])
    assert action._apply() == ()


def test_what_is_remembered_has_an_end(strategy: Any, plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "CACHE_SIZE", 1)
    for molecules in ([Molecule("CCO"), Molecule("CCN")], [Molecule("CCN")], [Molecule("CCN")]):
        strategy.get_actions(molecules)
    assert strategy.source.asked == [["CCO", "CCN"], ["CCN"]]


CODE = """
import sys, json
assert not {"torch", "msgspec", "typer"} & {name.split(".")[0] for name in sys.modules}
from aizynthfinder.aizynthfinder import AiZynthFinder
from aizynthfinder.chem import TreeMolecule
finder = AiZynthFinder(configdict=json.loads(sys.argv[1]))
finder.stock.select("own")
finder.expansion_policy.select("ours")
finder.target_smiles = "CCN"
finder.tree_search()
finder.build_routes()
actions, priors = finder.expansion_policy.get_actions([TreeMolecule(smiles="CCN", parent=None)])
assert not {"torch", "msgspec", "typer"} & {name.split(".")[0] for name in sys.modules}, "it needs our dependencies"
print(json.dumps([[one.reactants_str for one in actions], [float(one) for one in priors], len(finder.routes)]))
"""


@pytest.mark.slow  # imports AiZynthFinder, which takes ten seconds
@pytest.mark.skipif(not PYTHON, reason="CHEMSPEC_AIZYNTH names no Python with aizynthfinder (see the file's docstring)")
@pytest.mark.parametrize("algorithm", ["mcts", "aizynthfinder.search.retrostar.search_tree.SearchTree"])
def test_the_real_package_searches_as_a_client_without_our_dependencies(tmp_path: Path, algorithm: str) -> None:
    pytest.importorskip("fastapi")
    engine = Engine.load(tiny_folder(tmp_path / "tiny", task="retro", seed=3), threads=1)
    (tmp_path / "stock.txt").write_text(Chem.MolToInchiKey(Chem.MolFromSmiles("C")) + "\n")
    with serving({"retro": engine}) as service:
        ours = {"type": "chemspec.planners.aizynth.ChemspecExpansion", "server": service.url, "n": 8}
        config = {
            "expansion": {"ours": ours},
            "stock": {"own": str(tmp_path / "stock.txt")},
            "search": {"iteration_limit": 5, "time_limit": 60, "algorithm": algorithm},
        }
        done = subprocess.run(
            [PYTHON, "-W", "ignore", "-c", CODE, json.dumps(config)],
            capture_output=True,
            text=True,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 0, done.stderr
    reactants, priors, routes = json.loads(done.stdout.splitlines()[-1])
    own = [one for one in engine.predict("CCN", n=8, decoder="beam", distinct=False).hypotheses if one.valid]
    assert priors[0] == pytest.approx(own[0].model_probability)
    assert len(reactants) == len(priors) > 0 and routes > 0
