"""Paths of the shipped files: models, examples, the app's pages and JavaScript."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).parent


def assets_folder() -> Path:
    """Return the assets folder: inside an installed package, or next to the package in a clone."""
    inside = PACKAGE / "assets"
    return inside if inside.is_dir() else PACKAGE.parent / "assets"


@cache
def further_models() -> Path | None:
    """Return the folder of models and drafters of the distribution chemspec-smiles-more, if that is installed.

    It is laid out as `assets/models`; in a clone its content is there.
    """
    spec = find_spec("chemspec_more")
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def app_script() -> Path:
    """Return the app's main script."""
    inside = PACKAGE / "assets" / "app" / "app.py"
    return inside if inside.is_file() else PACKAGE.parent / "app.py"


def read_asset_table(path: Path) -> list[list[str]]:
    """Return the rows of a hand-written table of cells parted by tabs; a line that begins with # is a comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


@cache
def bench_queries(task: str) -> tuple[str, ...]:
    """Return the 200 shipped test queries of a task."""
    path = assets_folder() / "examples" / f"bench_{task}.smi"
    return tuple(path.read_text(encoding="utf-8").split())


def bench_answers(task: str) -> dict[str, str]:
    """Return the recorded answers of the shipped test queries, by query; none for reagents."""
    path = assets_folder() / "examples" / f"bench_{task}_answers.smi"
    answers = path.read_text(encoding="utf-8").split() if path.is_file() else ()
    return dict(zip(bench_queries(task), answers, strict=False))
