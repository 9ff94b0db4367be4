"""Imports point downward only, and nobody pays for what they do not use."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from helpers.paths import ROOT, TESTS

# Lowest first. A module may import from layers below its own, and from its own.
LAYERS = (
    (
        "version",
        "types",
        "plugins",
        "settings",
        "tasks",
        "question_text",
        "tokenizer",
        "asset_files",
        "system",
        "client",
    ),
    ("metrics", "data.settings", "train.recipe"),
    ("chem", "chem.molecules"),
    ("chem.reading", "chem.reactions"),
    ("chem.checks",),
    ("chem.formats",),
    ("depict",),
    ("data",),
    ("precedents",),
    ("model", "draft"),
    ("decode",),
    ("testing", "importers"),
    ("engine",),
    ("io", "evaluation", "replay", "terminal"),
    ("stock",),
    ("review",),
    ("plan",),
    ("train",),
    ("jobs",),
    ("ui", "service", "planners", "cluster"),
    ("bench",),
    ("cli",),
)
FREE = ("", "__init__")  # the package itself: only its version


def level(module: str) -> int:
    """The layer of a module, by the longest name that fits."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        for number, layer in enumerate(LAYERS):
            if name in layer:
                return number
    raise AssertionError(f"{module} has no layer; say in LAYERS where it belongs")


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of a file's syntax tree."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


@cache
def imports(path: Path) -> set[str]:
    """Full names of what a file imports anywhere in it, but not for type checking only."""
    typing_only = {
        id(inner)
        for node in nodes_of(path)
        if isinstance(node, ast.If) and getattr(node.test, "id", getattr(node.test, "attr", "")) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in nodes_of(path):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules() -> dict[str, Path]:
    """Every module of the package without the leading chemspec, and its file."""
    found = {}
    for path in sorted((ROOT / "chemspec").rglob("*.py")):
        parts = path.relative_to(ROOT / "chemspec").with_suffix("").parts
        if "assets" not in parts:
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = modules()


def inside(name: str) -> str | None:
    """The module of the package that an imported name means."""
    if name != "chemspec" and not name.startswith("chemspec."):
        return None
    rest = name.removeprefix("chemspec").removeprefix(".")
    while rest not in MODULES:
        rest = rest.rpartition(".")[0]
    return rest


def test_imports_point_downward() -> None:
    upward = []
    for module in set(MODULES) - {*FREE}:
        used = {inside(name) for name in imports(MODULES[module])} - {None, *FREE}
        upward += [f"{module} imports {name}" for name in used if level(str(name)) > level(module)]
    assert not upward, "these stand above it:\n" + "\n".join(sorted(upward))
    assert "engine.engine" in {inside(name) for name in imports(MODULES["ui.common.queued_engine"])}, "imports are seen"


@pytest.mark.parametrize("room", ["reading", "reactions"])
def test_reading_and_reactions_could_each_be_published_alone(room: str) -> None:
    modules = [module for module in MODULES if f"{module}.".startswith(f"chem.{room}.")]
    used = {str(inside(name)) for module in modules for name in imports(MODULES[module]) if inside(name)}
    beneath = ("asset_files", "settings", "tasks", "system.", "chem.molecules.", f"chem.{room}.")
    assert {name for name in used if not f"{name}.".startswith(beneath)} == {"chem"}, "the names of `chem.molecules`"


def test_types_need_only_the_standard_library_and_msgspec() -> None:
    for module in ("types", "plugins", "settings", "tasks", "tokenizer", "metrics"):
        foreign = {name.split(".")[0] for name in imports(MODULES[module])} - {"chemspec", "msgspec"}
        late = {"pandas"} if module == "types" else set()  # of `DecodeResult.to_frame`, where somebody calls it
        assert foreign - late <= set(sys.stdlib_module_names), module
    used = {name.split(".")[0] for name in imports(MODULES["client"])}
    assert used - set(sys.stdlib_module_names) == {"urllib3"}, "of chemspec nothing either"


def mentions(path: Path) -> set[str]:
    """What a module imports anywhere in it, also for type checking only, and the modules that its strings name."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and re.fullmatch(r"chemspec(\.\w+)+(:\w+)?", str(node.value)):
            found.add(str(node.value).partition(":")[0])
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Neither lazily nor by strings. Below the public package, `import chemspec.x as x`: `from` asks the package."""
    prefixed = {f"chemspec.{name}".rstrip("."): path for name, path in MODULES.items()}
    graph = {name: {other for other in mentions(path) if other in prefixed} - {name} for name, path in prefixed.items()}
    while free := {name for name, others in graph.items() if not others & set(graph)}:  # imports nothing that is left
        for name in free:
            del graph[name]
    while last := {name for name in graph if not any(name in others for others in graph.values())}:
        for name in last:
            del graph[name]
    assert not graph, "these import each other: " + ", ".join(sorted(graph))


PAGES = [ROOT / "app.py", *sorted((ROOT / "pages").rglob("*.py"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_use_only_chemspec_and_streamlit(page: Path) -> None:
    allowed = {"chemspec", "streamlit", *sys.stdlib_module_names}
    assert {name.split(".")[0] for name in imports(page)} <= allowed


# One process runs a list, and what may not be imported by then stands beside each.
LIGHT = [
    (
        "from typer.testing import CliRunner; from chemspec.cli.__main__ import app\n"
        "assert CliRunner().invoke(app, ['predict', '--help']).exit_code == 0",
        ["torch", "rdkit", "numpy", "pandas", "pyarrow", "streamlit", "markdown_it", "pygments"],
    ),
    ("import chemspec.decode.decoding, chemspec.draft.registry", ["rdkit", "torch", "streamlit"]),
    (
        "import pkgutil, importlib, chemspec.model as m\n"
        "for x in pkgutil.walk_packages(m.__path__, 'chemspec.model.'): importlib.import_module(x.name)",
        ["rdkit", "streamlit"],
    ),
    ("import chemspec.engine.engine, chemspec.io.writers", ["streamlit", "pandas", "ctranslate2", "transformers"]),
    ("import chemspec.plan.export", ["streamlit", "segno", "chemspec.depict.pdf"]),
]
TRAINING = [("import chemspec.train.run", ["rdkit", "streamlit"])]


@pytest.mark.parametrize("steps", [LIGHT, pytest.param(TRAINING, marks=pytest.mark.train)], ids=["light", "training"])
def test_nobody_pays_for_what_they_do_not_use(steps: list[tuple[str, list[str]]]) -> None:
    if steps is TRAINING:
        pytest.importorskip("torch")
    code = "import sys\n" + "".join(
        f"{code}\nprint([name for name in {forbidden} if name in sys.modules])\n" for code, forbidden in steps
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]"] * len(steps)


def test_no_two_test_files_have_one_name() -> None:
    """Tests import each other by name, so pytest takes the second for the first, and stops."""
    counts = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in counts.items() if count > 1] == []


PARSER = re.compile(r"(?:Mol|Mols|Reaction|Reactions)From(?!Fragment)\w+|InchiToMol|\w*Mol\w*Supplier|CanonSmiles")


def rdkit_parsers(path: Path) -> set[str]:
    """The parsers of RDKit that a file names, called or handed on."""
    return {node.attr for node in nodes_of(path) if isinstance(node, ast.Attribute) and PARSER.fullmatch(node.attr)}


def test_only_one_module_hands_texts_to_rdkit() -> None:
    """It counts rings and characters first, and has a process of its own try the rest: RDKit dies of some texts."""
    files = [*MODULES.values(), *PAGES]
    others = {path.name for path in files if rdkit_parsers(path)} ^ {"parsing.py", "rdkit_tasks.py"}
    assert not others, f"{others}: parse with chemspec.chem.molecules.parsing, as mol_from_smiles"
    assert not any("rdkit" in name and PARSER.search(name) for path in files for name in imports(path))
