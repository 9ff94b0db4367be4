"""Training recipes: TOML files that say all that it takes to make a model again, and what to expect of it.

The shipped ones lie in `recipes/`, one file each, named after the recipe. A file may say `extends = "name"`: what it
does not set is then that recipe's, table by table. Everything is read into frozen settings.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self, get_args, get_type_hints

import msgspec

from chemspec.data.settings import DataSettings
from chemspec.settings import NetworkKind, Task, TrainSettings

FOLDER = Path(__file__).parent / "recipes"


@dataclass(frozen=True, kw_only=True)
class BaseRecipe:
    """What every training has.

    Attributes:
        name: the file's, without `.toml`.
        average_last: the result is the mean of so many last checkpoints.
        tried: whether anybody has run it to its end.
        expectation: what it is for, what it takes, and what came of it; `{task}` is replaced by the task
            and `{target}` by the model that a drafter is for.
    """

    name: str
    task: Task
    train: TrainSettings
    average_last: int = 1
    tried: bool
    expectation: str

    def __post_init__(self) -> None:
        if not 1 <= self.average_last <= self.train.keep + 1:
            raise ValueError(f"average_last is {self.average_last}, but train.keep is {self.train.keep}")

    def with_settings(self, **changes: Any) -> Self:
        """Return the recipe with other `TrainSettings` in these fields."""
        return replace(self, train=replace(self.train, **changes))


@dataclass(frozen=True, kw_only=True)
class Recipe(BaseRecipe):
    """One way to train a model on reactions.

    Attributes:
        preset: the model's size, see `chemspec.settings.preset`.
        train_files, validation_files: names within a data folder; without validation files, the last pairs of the
            training data are held out.
        data: how the training files are prepared.
        validation_data: how the validation files are prepared, with the vocabulary of the training data.
        starts_from: a recipe whose model this one goes on with; it is given with `--start`. If the data are others,
            they are prepared with that model's vocabulary (`chemspec data --vocab`).
    """

    preset: str
    train_files: tuple[str, ...]
    validation_files: tuple[str, ...] = ()
    data: DataSettings
    validation_data: DataSettings | None = None
    starts_from: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.validation_files) != (self.validation_data is not None):
            raise ValueError("validation_files and [validation_data] go together")


@dataclass(frozen=True, kw_only=True)
class DrafterRecipe(BaseRecipe):
    """One way to train a drafter for a target, on what `chemspec train distil` wrote.

    Attributes:
        kind: of network; a file with this key is the recipe of a drafter.
        target: the model that it drafts for, by name; empty: the task's.
        length: most tokens drafted at once: masks of a block (k), or heads.
        shape: of a Spec-Drafter `encoder` and `decoder` layers and `width` (see `spec_drafter.drafter_config`); of
            heads fields of `HeadsConfig`.
        blocks: prefixes of each target in a step, each with its own masks.
        glance: share of the wrong guesses that are shown in training, at the start and at the end of the run (Qian et
            al. 2021 go from 0.5 to 0.3).
        frozen: the encoder layers copied from the target stay as they are, which saves their backward pass.
    """

    kind: NetworkKind
    target: str = ""
    length: int
    shape: dict[str, Any] = field(default_factory=dict)
    blocks: int = 4
    glance: tuple[float, float] = (0.5, 0.3)
    frozen: bool = False


def load_recipe(file: Path) -> Recipe | DrafterRecipe:
    """Read a recipe from a TOML file.

    Raises:
        FileNotFoundError: if there is no such file, or none that it extends.
        ValueError: naming file and key, for what cannot be read or used.
    """
    values = _read(file)
    task = values.get("task", "")
    for name in ("data", "validation_data"):
        if isinstance(values.get(name), dict):
            values[name] = {"task": task, **values[name]}
    if isinstance(text := values.get("expectation"), str):
        told = text.replace("{task}", str(task)).replace("{target}", str(values.get("target") or task))
        values["expectation"] = told
    kind: type[Recipe | DrafterRecipe] = DrafterRecipe if "kind" in values else Recipe
    _check_keys(file, values, kind)
    try:
        return msgspec.convert({**values, "name": file.stem}, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{file}: {str(error).replace('$.', '')}") from error


def _read(file: Path, heirs: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Return what a file and those that it extends say."""
    if file in heirs:
        raise ValueError(f"{file}: extends itself")
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is no TOML file: {error}") from error
    parent = values.pop("extends", None)
    if parent is None:
        return values
    beside = file.with_name(f"{parent}.toml")
    inherited = beside if beside.is_file() else FOLDER / f"{parent}.toml"
    if not inherited.is_file():
        raise FileNotFoundError(f"{file}: extends {parent!r}, but there is no recipe of that name")
    merged = _read(inherited, (*heirs, file))
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = {**merged[key], **value} if both else value
    return merged


def _check_keys(file: Path, values: dict[str, Any], kind: type, table: str = "") -> None:
    """Refuse keys that no setting has; a typing mistake must not pass for a default."""
    known = [entry.name for entry in fields(kind) if entry.name != "name"]
    types = get_type_hints(kind)
    for key, value in values.items():
        if key not in known:
            raise ValueError(f"{file}: unknown key {table}{key}; there are {', '.join(known)}")
        inner = next((one for one in (types[key], *get_args(types[key])) if is_dataclass(one)), None)
        if isinstance(inner, type) and isinstance(value, dict):
            _check_keys(file, value, inner, f"{table}{key}.")


@cache
def shipped() -> dict[str, Recipe | DrafterRecipe]:
    """Return the recipes that come with the program by name, those of models first."""
    recipes = [load_recipe(file) for file in sorted(FOLDER.glob("*.toml"))]
    return {recipe.name: recipe for recipe in sorted(recipes, key=lambda recipe: isinstance(recipe, DrafterRecipe))}


def find_recipe(name: str) -> Recipe | DrafterRecipe:
    """Return a shipped recipe by name, or read one of the user's from a path that ends in `.toml`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if there is no such recipe, or for a file that cannot be used.
    """
    if name.endswith(".toml"):
        return load_recipe(Path(name))
    if name not in shipped():
        raise ValueError(f"no recipe {name!r}; there are {', '.join(shipped())}")
    return shipped()[name]


def model_recipe(name: str) -> Recipe:
    """Return the recipe of a model, see `find_recipe`.

    Raises:
        ValueError: for the recipe of a drafter too.
    """
    recipe = find_recipe(name)
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{name} is the recipe of a drafter, which learns from what `chemspec train distil` writes")
    return recipe
