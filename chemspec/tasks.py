"""The questions that models answer: a new one needs an entry here, and its name in the type `settings.Task`.

What an entry says is read wherever tasks differ: in preparing data, looking for leaks, scoring, options of commands.
How training pairs are made of a row is said in `data.reactions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from chemspec.plugins import Registry
from chemspec.settings import Task

Row = Mapping[str, str]  # of a reaction table
Pair = tuple[str, str]  # what a model reads, and what it writes
WritePair = Callable[[Random | None, bool], Pair | None]  # start (None: canonical), stereo


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """A question as the program knows it.

    Attributes:
        name: what `--task`, recipes and model folders call it.
        question: what is asked, in a few words.
        label: what is read and what is written.
        columns: of a table, that hold query and answer as plain SMILES.
        named: what a column of queries is usually called, likely names first; `io.columns` reads them.
        mapped: of a table, that training data need unless atom maps are guessed.
        product: the column of the product.
        sides: from query and answer to what goes into the flask and the product.
        stereo: whether test sets have stereochemistry, so that products are told apart by it.
        whole: the query is a whole reaction, `reactants>>product`.
        test: the standard test file; empty where there is none.
        about: what that file is, in words.
    """

    name: Task
    question: str
    label: str
    columns: tuple[str, ...]
    named: tuple[str, ...]
    mapped: tuple[str, ...]
    product: str
    sides: Callable[[str, str], tuple[str, str]]
    stereo: bool = True
    whole: bool = False
    test: str = ""
    about: str = ""


TASKS: Registry[TaskSpec] = Registry("task")


def questions() -> str:
    """Return what there is to ask, for help texts."""
    return " or ".join(f"{spec.name} ({spec.question})" for spec in TASKS.values())


def about_molecules() -> tuple[Task, ...]:
    """Return the tasks whose queries are molecules: what pages ask, and what a reaction is checked with."""
    return tuple(spec.name for spec in TASKS.values() if not spec.whole)


def about_reactions() -> Task:
    """Return the first task whose queries are whole reactions: as what a reaction is read of which nothing is asked."""
    return next(spec.name for spec in TASKS.values() if spec.whole)


def in_words(joint: str = "and") -> str:
    """Return the names of all tasks, for messages."""
    *some, last = TASKS
    return f"{', '.join(some)} {joint} {last}"


def checked(name: Any) -> Task:
    """Return a task's name if it is one.

    Raises:
        ValueError: naming those that there are.
    """
    if not isinstance(name, str) or name not in TASKS:
        raise ValueError(f"task {name!r} is not {in_words('or')}")
    return TASKS[name].name


def _sides_of_reagents(query: str, answer: str) -> tuple[str, str]:
    """Return the whole flask, reagents included, and the product."""
    core, _, product = query.partition(">>")
    return ".".join(filter(None, (core, answer))), product


TASKS.register(
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
    )
)
TASKS.register(
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
    )
)
TASKS.register(
    TaskSpec(
        name="reagents",
        question="what else?",
        label="reactants and product → reagents",
        columns=("core_reactants", "reactants_and_reagents", "main_product"),
        named=(
            *(
                "reaction",
                "reactions",
                "rxn",
                "rxns",
                "core_reactants|reactants|reactant>>main_product|product|products",
            ),
            *("reactants>reagents>production", "reactants>reagents>products", "reactants>agents>products"),
            *("canonical_rxn", "canonical_reaction", "cano_rxn", "clean_rxn", "original_rxn", "original_reaction"),
            *("mapped_rxn", "mapped_reaction", "rxn_mapped", "reaction_mapped", "atom_mapped_rxn", "mapped"),
        ),
        mapped=("core_reactants", "reactants_and_reagents", "main_product"),
        product="main_product",
        sides=_sides_of_reagents,
        stereo=False,
        whole=True,
    )
)
