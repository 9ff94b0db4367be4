"""The package of further models: found if it is installed, and no part of chemspec's own wheel."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.paths import ROOT

from chemspec import asset_files
from chemspec.engine import registry
from chemspec.model import checkpoint


@pytest.fixture
def installed(tiny_retro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A shipped model without drafters, and a package with one of its drafters and a further model."""
    further = tmp_path / "site" / "chemspec_more"
    shutil.copytree(tiny_retro, tmp_path / "assets" / "models" / "retro")
    shutil.copytree(tiny_retro, further / "retro-50k")
    shutil.copytree(tiny_retro, further / "retro" / "drafters" / "ar")
    monkeypatch.setattr(asset_files, "assets_folder", lambda: tmp_path / "assets")
    monkeypatch.setattr(registry, "assets_folder", lambda: tmp_path / "assets")
    monkeypatch.delenv("CHEMSPEC_MODELS", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    asset_files.further_models.cache_clear()
    yield further
    asset_files.further_models.cache_clear()
    sys.modules.pop("chemspec_more", None)


def test_further_models_and_drafters_are_found(installed: Path) -> None:
    retro = registry.model_folder("retro")
    assert [folder.name for folder in registry.installed_models()] == ["retro", "retro-50k"]
    assert registry.model_folder("retro-50k") == installed / "retro-50k"
    assert checkpoint.drafter_folder(retro, "ar") == installed / "retro" / "drafters" / "ar"
    assert "ar" in registry.usable_drafters(retro) and "medusa" not in registry.usable_drafters(retro)


def test_a_drafter_of_its_own_comes_first_and_other_models_get_none(installed: Path, tmp_path: Path) -> None:
    retro = registry.model_folder("retro")
    shutil.copytree(installed / "retro" / "drafters" / "ar", retro / "drafters" / "ar")
    assert checkpoint.drafter_folder(retro, "ar") == retro / "drafters" / "ar"
    mine = tmp_path / "mine" / "retro"
    assert checkpoint.drafter_folder(mine, "ar") == mine / "drafters" / "ar"


def test_models_of_ones_own_are_all_that_is_listed(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path / "none"))
    assert registry.installed_models() == []


def test_every_file_of_a_model_is_in_one_of_the_two_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    import hatch_build

    package = tomllib.loads((ROOT / "more" / "pyproject.toml").read_text())
    included = package["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    folders = [(ROOT / "more" / name).resolve() for name in included if "models" in name]
    home = ROOT / "assets" / "models"
    for path in filter(Path.is_file, home.rglob("*")):
        further = any(folder in path.parents for folder in folders)
        assert hatch_build.is_further(path.relative_to(home)) == further, path
    versions = [
        tomllib.loads((ROOT / part / "pyproject.toml").read_text())["project"]["version"] for part in ("", "more")
    ]
    assert len({*versions}) == 1
