"""Prediction tasks. A new one needs an entry here, and its name in the type `settings.Task`.

The entries are used to prepare data, find leaks, score predictions and build command-line options. `data.reactions`
builds training pairs from rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from chemspec.plugins import Registry
from chemspec.settings import Task

Row = Mapping[str, str]  # row of a reaction table
Pair = tuple[str, str]  # input and output of a model
WritePair = Callable[[Random | None, bool], Pair | None]  # arguments: random start atoms (None: canonical), stereo


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """Description of a task."""

    name: Task  # name in `--task`, recipes and model folders
    question: str  # short question, for help texts
    label: str  # input and output, for menus
    columns: tuple[str, ...]  # table columns of query and output as plain SMILES
    named: tuple[str, ...]  # usual names of a query column, most likely first; used by `io.columns`
    mapped: tuple[str, ...]  # table columns needed for training unless atom maps are guessed
    product: str  # table column of the product
    # Converts query and output to the starting materials (with reagents) and the product.
    sides: Callable[[str, str], tuple[str, str]]
    stereo: bool = True  # whether test sets contain stereochemistry
    whole: bool = False  # whether the query is a whole reaction, `reactants>>product`
    test: str = ""  # standard test file; empty if there is none
    about: str = ""  # description of the test file


TASKS: Registry[TaskSpec] = Registry("task")


def task_questions() -> str:
    """Return the tasks with their questions, for help texts."""
    return " or ".join(f"{spec.name} ({spec.question})" for spec in TASKS.values())


def about_molecules() -> tuple[Task, ...]:
    """Return the tasks whose queries are molecules."""
    return tuple(spec.name for spec in TASKS.values() if not spec.whole)


def about_reactions() -> Task:
    """Return the first task whose queries are whole reactions, used to parse reactions without a task."""
    return next(spec.name for spec in TASKS.values() if spec.whole)


def task_names(joint: str = "and") -> str:
    """Return the names of all tasks as text, for messages."""
    *others, last = TASKS
    return f"{', '.join(others)} {joint} {last}"


def check_task(name: Any) -> Task:
    """Return the name of a task; raises ValueError for other values."""
    if not isinstance(name, str) or name not in TASKS:
        raise ValueError(f"task {name!r} is not {task_names('or')}")
    return TASKS[name].name


def _sides_of_reagents(query: str, answer: str) -> tuple[str, str]:
    """Return the starting materials with reagents, and the product."""
    core, _, product = query.partition(">>")
    return ".".join(filter(None, (core, answer))), product


for _spec in (
    TaskSpec(
        name="forward",
        question="what forms?",
        label="reactants → product",
        columns=("reactants_and_reagents", "main_product"),
        named=("reactants_and_reagents", "reactants", "reactant", "precursors", "core_reactants"),
        mapped=("mapped_core_rxn", "core_reactants", "reactants_and_reagents"),
        product="main_product",
        sides=lambda query, answer: (query, answer),
        stereo=False,
        test="forward_test.csv.gz",
        about="USPTO-MIT mixed test set",
    ),
    TaskSpec(
        name="retro",
        question="what from?",
        label="product → reactants",
        columns=("product", "reactants"),
        named=("product", "products", "main_product", "target"),
        mapped=("mapped_rxn",),
        product="product",
        sides=lambda query, answer: (answer, query),
        test="retro_test.csv.gz",
        about="USPTO-50K test part",
    ),
    TaskSpec(
        name="reagents",
        question="what else?",
        label="reactants and product → reagents",
        columns=("core_reactants", "reactants_and_reagents", "main_product"),
        named=(
            *("reaction", "reactions", "rxn", "rxns"),
            "core_reactants|reactants|reactant>>main_product|product|products",
            *("reactants>reagents>production", "reactants>reagents>products", "reactants>agents>products"),
            *("canonical_rxn", "canonical_reaction", "cano_rxn", "clean_rxn", "original_rxn", "original_reaction"),
            *("mapped_rxn", "mapped_reaction", "rxn_mapped", "reaction_mapped", "atom_mapped_rxn", "mapped"),
        ),
        mapped=("core_reactants", "reactants_and_reagents", "main_product"),
        product="main_product",
        sides=_sides_of_reagents,
        stereo=False,
        whole=True,
    ),
):
    TASKS.register(_spec)
