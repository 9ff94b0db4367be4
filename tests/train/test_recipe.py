"""Recipes: the shipped ones are sound, and mistakes in a file are named."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from helpers.case_tables import table
from helpers.paths import ROOT

from chemspec.engine.drafter_resources import SMALL_MODELS, training_command
from chemspec.settings import NetworkKind, preset_config
from chemspec.tasks import TASKS
from chemspec.train.recipe import DrafterRecipe, Recipe, builtin_recipes, find_recipe, load_recipe, model_recipe

SMALL = """
task = "retro"
preset = "tiny"
train_files = ["a.csv"]
tried = false
expectation = "Nothing."
[data]
variants = 2
[train]
steps = 7
"""


@pytest.mark.parametrize("name", sorted(builtin_recipes()))
def test_recipes_are_sound(name: str) -> None:
    recipe = find_recipe(name)
    assert recipe.name == name
    assert name.startswith(recipe.task)
    assert recipe.task in TASKS
    assert len(recipe.expectation) > 80 and "{" not in recipe.expectation
    assert recipe.average_last <= recipe.train.keep + 1
    if isinstance(recipe, DrafterRecipe):
        assert f"`chemspec train distil --task {recipe.task} --model {recipe.target}`" in recipe.expectation
        assert recipe.target == recipe.task
        return
    assert recipe.data.task == recipe.task
    assert preset_config(recipe.preset, vocab_size=100).vocab_size == 100
    assert recipe.tried or recipe.expectation.startswith("Not yet run")
    if recipe.validation_data and not recipe.data.guess_maps:
        mixing = {"hold_out": {}, "apart_from": (), "variants_of": {}, "share_of": {}, "extend_vocabulary": False}
        checked = {"limit": recipe.validation_data.limit, "clean": recipe.validation_data.clean}
        assert recipe.validation_data == replace(recipe.data, variants=1, **mixing, **checked)
    files = (*recipe.train_files, *recipe.validation_files)
    assert not [file for file in files if "_test" in file]
    assert ("product_in_test" if recipe.task == "retro" else "product_in_mit_test") in recipe.data.leave_out
    assert ("heldout.csv" in recipe.validation_files) == bool(recipe.data.hold_out)
    if recipe.task == "forward":
        assert "forward_val.csv.gz" not in recipe.train_files
        assert not recipe.validation_data or "overlaps_test" in recipe.validation_data.leave_out
        assert set(recipe.data.leave_out) == {"product_in_50k_valtest", "product_in_mit_test"}
    first = builtin_recipes().get(recipe.starts_from, recipe)
    assert isinstance(first, Recipe) and (first.preset == recipe.preset or name == "forward-mit-gpu")  # is deeper
    assert first.task == recipe.task or (first.task, recipe.task) == ("forward", "reagents")


@pytest.mark.parametrize("kind", [*SMALL_MODELS, *get_args(NetworkKind)])
@pytest.mark.parametrize("task", ["retro", "forward"])
def test_a_missing_drafter_is_answered_with_a_recipe_that_exists(task: str, kind: str) -> None:
    command = training_command(task, kind, Path("model"))
    name = command.split("--recipe ")[1].split()[0]
    recipe = find_recipe(name)
    assert recipe.task == task
    assert getattr(recipe, "kind", kind) == kind == getattr(recipe, "preset", kind)


STAGES = ROOT / "assets" / "docs" / "recipes" / "stages.toml"
NAMES = list(tomllib.loads(STAGES.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", NAMES)
def test_stages_of_the_shipped_models_still_read(name: str) -> None:
    recipe = find_recipe(f"{STAGES}:{name}")
    assert isinstance(recipe, Recipe) and recipe.tried and recipe.name == name
    assert recipe.starts_from in builtin_recipes() or recipe.starts_from in NAMES


@pytest.mark.parametrize(("name", "merges"), [("merges-128", 128), ("merges-32", 32), ("merges-32-packed", 32)])
def test_recipes_with_larger_tokens_start_from_a_shipped_model(name: str, merges: int) -> None:
    recipe = find_recipe(f"{STAGES.with_name('merges.toml')}:{name}")
    assert isinstance(recipe, Recipe) and (recipe.data.merges, recipe.data.merge_dropout) == (merges, 0.2)
    assert recipe.starts_from == "retro" and recipe.data.extend_vocabulary


def test_the_recipe_of_rare_kinds_keeps_their_stereochemistry() -> None:
    recipe = model_recipe(f"{STAGES}:forward-rare-kinds")
    assert recipe.data.flat_share == 0.85
    assert recipe.data.flat_share_of["rare_kinds_train.csv.gz"] == 0
    assert set(recipe.data.clean) < set(recipe.train_files)


def test_the_recipe_of_strategic_bonds_keeps_the_share_of_uspto_50k_and_what_is_held_out() -> None:
    recipe = model_recipe(f"{STAGES}:retro-strategic-bonds")
    whole = model_recipe("retro-all")
    assert "strategic_bonds_train.csv.gz" in recipe.data.clean
    assert recipe.preset == "small-5x3"  # of a shallower one only the first layers are copied
    assert (recipe.data.share_of, recipe.data.hold_out) == (whole.data.share_of, whole.data.hold_out)
    assert not recipe.data.extend_vocabulary and recipe.data.variants_of["retro_train.csv.gz"] == 1


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no recipe 'x'; available: .*retro-50k.*retro-medusa"):
        find_recipe("x")
    with pytest.raises(ValueError, match=r"no recipe 'x'; available: .*retro-all-2"):
        find_recipe(f"{STAGES}:x")
    with pytest.raises(ValueError, match="retro-medusa is a drafter's recipe"):
        model_recipe("retro-medusa")


def test_a_recipe_of_one_s_own_extends_a_shipped_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "retro-50k"\n[train]\nminutes = 5\n')
    mine, theirs = model_recipe(str(file)), model_recipe("retro-50k")
    assert mine == replace(theirs, name="mine", train=replace(theirs.train, minutes=5))
    (tmp_path / "next.toml").write_text('extends = "mine"\n[data]\nvariants = 3\n')
    further = model_recipe(str(tmp_path / "next.toml"))
    assert (further.data.variants, further.train, further.data.task) == (3, mine.train, "retro")


@pytest.mark.parametrize(("old", "new", "message"), table("train/recipe_mistakes"))
def test_a_mistake_names_file_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SMALL)
    assert isinstance(load_recipe(file), Recipe)
    file.write_text(SMALL.replace(old, new))
    with pytest.raises(ValueError, match=rf"mine\.toml.*({message})"):
        load_recipe(file)


@pytest.mark.parametrize("wrong", [{"length": -3}, {"blocks": 0}, {"glance": (5.0, 0.3)}])
def test_sizes_of_a_drafter_out_of_range_are_named(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is .*; it must be"):
        replace(find_recipe("forward-spec-drafter"), **wrong)  # type: ignore[type-var]


def test_a_mistake_names_the_recipe_of_a_file_with_several(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[first]\nkind = "nothing"')
    with pytest.raises(ValueError, match=r"mine\.toml:first: "):
        load_recipe(tmp_path / "mine.toml", "first")


def test_a_value_beside_the_recipes_of_a_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('author = "I"\n[first]\nkind = "nothing"')
    with pytest.raises(ValueError, match=r"mine\.toml has no recipe 'author'"):
        load_recipe(tmp_path / "mine.toml", "author")


@pytest.mark.parametrize("parent", ['"nothing"', '["nothing"]'])
def test_what_is_extended_must_be_there(tmp_path: Path, parent: str) -> None:
    (tmp_path / "mine.toml").write_text(f"extends = {parent}")
    with pytest.raises(FileNotFoundError, match=r"mine\.toml: extends .*nothing.*but there is no recipe"):
        load_recipe(tmp_path / "mine.toml")
    with pytest.raises(FileNotFoundError):
        find_recipe(str(tmp_path / "none.toml"))
