"""Training recipes: TOML files with everything needed to reproduce a model, and the expected results.

Built-in recipes are the tables of `recipes.toml`. Your own recipe is a file, or a table of a file with several. With
`extends = "name"` it inherits unset keys from that recipe, table by table. Recipes are read into frozen settings.
"""

import tomllib
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec

from chemspec.data.settings import DataSettings
from chemspec.settings import NetworkKind, Task, TrainSettings, check_range

BUILTIN_FILE = Path(__file__).with_name("recipes.toml")


@dataclass(frozen=True, kw_only=True)
class BaseRecipe:
    """Settings of every recipe; in `expectation`, `{task}` and `{target}` (of a drafter) are replaced."""

    name: str  # name of its table, or file name without `.toml`
    task: Task
    train: TrainSettings
    average_last: int = 1  # number of last checkpoints to average
    tried: bool = False  # whether the recipe has been run to its end
    expectation: str = ""  # purpose, requirements and results

    def __post_init__(self) -> None:
        if not 1 <= self.average_last <= self.train.keep + 1:
            raise ValueError(f"average_last is {self.average_last}, but train.keep is {self.train.keep}")


@dataclass(frozen=True, kw_only=True)
class Recipe(BaseRecipe):
    """Recipe of a model.

    `starts_from` is the recipe of the initial model, which is given with `--start`; different data are prepared with
    that model's vocabulary (`chemspec data --vocab`).
    """

    preset: str  # size of the model, see `chemspec.settings.preset_config`
    train_files: tuple[str, ...]  # file names in a data folder
    validation_files: tuple[str, ...] = ()  # empty: the last pairs of the training data are held out
    data: DataSettings
    validation_data: DataSettings | None = None  # has the vocabulary of the training data
    starts_from: str = ""
    trainer: Literal["padded", "packed"] = "padded"  # packed: for a GPU, by time, from an existing model

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trainer == "padded" and self.train.ema:
            raise ValueError('train.ema is of packed training; set trainer = "packed"')
        if bool(self.validation_files) != (self.validation_data is not None):
            raise ValueError("validation_files and [validation_data] go together")


@dataclass(frozen=True, kw_only=True)
class DrafterRecipe(BaseRecipe):
    """Recipe of a drafter for a target, trained on the output of `chemspec train distil`.

    `shape`: for a Spec-Drafter `encoder` and `decoder` layers and `width` (see `spec_drafter.drafter_config`); for
    heads fields of `HeadsConfig`. `glance`: share of wrong predictions that are revealed in training, at the start and
    at the end of the run (Qian et al. 2021: from 0.5 to 0.3).
    """

    kind: NetworkKind  # a file with this key is the recipe of a drafter
    target: str = ""  # name of the target model; "" takes the default model of the task
    length: int  # maximum number of tokens drafted at once: masks of a block (k), or heads
    shape: dict[str, Any] = field(default_factory=dict)
    blocks: int = 4  # prefixes of each target in a step, each with its masks
    glance: tuple[float, float] = (0.5, 0.3)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("length", self.length, 1)
        check_range("blocks", self.blocks, 1)
        for share in self.glance:
            check_range("glance", share, 0.0, 1.0)


def load_recipe(file: Path, name: str = "") -> Recipe | DrafterRecipe:
    """Read the recipe of a TOML file, or the one with this name of a file with several.

    Raises FileNotFoundError if the file or a recipe that it extends is missing, or ValueError naming file and key, for
    an invalid recipe.
    """
    values = _read_merged(file, name)
    task = values.get("task", "")
    for table in ("data", "validation_data"):
        if isinstance(values.get(table), dict):
            values[table] = {"task": task, **values[table]}
    if isinstance(text := values.get("expectation"), str):
        expectation = text.replace("{task}", str(task)).replace("{target}", str(values.get("target") or task))
        values["expectation"] = expectation
    kind: type[Recipe | DrafterRecipe] = DrafterRecipe if "kind" in values else Recipe
    where = f"{file}:{name}" if name else str(file)
    _check_keys(where, values, kind)
    try:
        return msgspec.convert({**values, "name": name or file.stem}, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: {str(error).replace('$.', '')}") from error


def _read_tables(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not a TOML file: {error}") from error


def _read_merged(file: Path, name: str, extended_by: tuple[tuple[Path, str], ...] = ()) -> dict[str, Any]:
    """Return the values of a recipe merged with those of the recipes that it extends."""
    if (file, name) in extended_by:
        raise ValueError(f"{file}: {name or file.stem} extends itself")
    values = _read_tables(file)
    if name:
        if not isinstance(values.get(name), dict):
            raise ValueError(f"{file} has no recipe {name!r}; available: {', '.join(values)}")
        values = values[name]
    parent = values.pop("extends", None)
    if parent is None:
        return values
    merged = _read_merged(*_find_parent(file, name, str(parent)), (*extended_by, (file, name)))
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = {**merged[key], **value} if both else value
    return merged


def _find_parent(file: Path, name: str, parent: str) -> tuple[Path, str]:
    """Return file and name of a recipe to extend: from the same file or folder, else a built-in one."""
    if name and parent in _read_tables(file):
        return file, parent
    sibling = file.with_name(f"{parent}.toml")
    if not name and sibling.is_file():
        return sibling, ""
    if parent in _read_tables(BUILTIN_FILE):
        return BUILTIN_FILE, parent
    raise FileNotFoundError(f"{file}: extends {parent!r}, but there is no recipe of that name")


def _check_keys(where: str, values: dict[str, Any], kind: type, table: str = "") -> None:
    """Raise for unknown keys, so that a typing mistake is not ignored."""
    known_keys = [entry.name for entry in fields(kind) if entry.name != "name"]
    types = get_type_hints(kind)
    for key, value in values.items():
        if key not in known_keys:
            raise ValueError(f"{where}: unknown key {table}{key}; known keys are {', '.join(known_keys)}")
        inner = next(filter(is_dataclass, (types[key], *get_args(types[key]))), None)
        if isinstance(inner, type) and isinstance(value, dict):
            _check_keys(where, value, inner, f"{table}{key}.")


@cache
def builtin_recipes() -> dict[str, Recipe | DrafterRecipe]:
    """Return the built-in recipes by name, those of models first."""
    recipes = [load_recipe(BUILTIN_FILE, name) for name in sorted(_read_tables(BUILTIN_FILE))]
    return {recipe.name: recipe for recipe in sorted(recipes, key=lambda recipe: isinstance(recipe, DrafterRecipe))}


def recipe_heading(recipe: Recipe | DrafterRecipe) -> str:
    """Return a recipe as a line: name, task, what it trains, limits, and whether it has been run to its end."""
    trains = f"model, {recipe.preset}" if isinstance(recipe, Recipe) else f"drafter {recipe.kind}"
    limits = f"{recipe.train.steps:,} steps" + f" or {recipe.train.minutes:g} minutes" * bool(recipe.train.minutes)
    return f"{recipe.name}: {recipe.task}, {trains}; at most {limits}; {'tried' if recipe.tried else 'not tried'}"


def find_recipe(name: str) -> Recipe | DrafterRecipe:
    """Return a built-in recipe by name, or that of FILE.toml or FILE.toml:NAME; raises as `load_recipe`."""
    file, ending, table = name.rpartition(".toml")
    if ending and table[:1] in ("", ":"):
        return load_recipe(Path(file + ending), table[1:])
    if name not in builtin_recipes():
        raise ValueError(f"no recipe {name!r}; available: {', '.join(builtin_recipes())}")
    return builtin_recipes()[name]


def model_recipe(name: str) -> Recipe:
    """Return a recipe as `find_recipe` does; raises ValueError if it is the recipe of a drafter."""
    recipe = find_recipe(name)
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{name} is a drafter's recipe, which is trained on the output of `chemspec train distil`")
    return recipe
