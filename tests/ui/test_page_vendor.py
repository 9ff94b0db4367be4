"""What the build hook makes, how the app finds it, and what it says where it is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from helpers.case_tables import table
from helpers.paths import ROOT
from helpers.slowness import slowness

pytest.importorskip("streamlit")

from rdkit import Chem

from chemspec.ui.common import web_files
from chemspec.ui.predict import sketcher, view3d

SOURCE = ROOT / "assets" / "frontend"


# --- the hook ------------------------------------------------------------------------------------


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delenv("CHEMSPEC_NO_FRONTEND", raising=False)
    import hatch_build

    return hatch_build


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small source tree, whose build is a copy."""
    source = tmp_path / "assets" / "frontend"
    source.mkdir(parents=True)
    (source / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
    (source / "package-lock.json").write_text(
        '{"name": "x", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "x"}}}'
    )
    (source / "build.mjs").write_text(
        "import { writeFileSync } from 'node:fs'; writeFileSync(process.argv[2] + '/made.txt', String(process.pid));"
    )
    return tmp_path


def pretend(folder: Path, **programs: str) -> Path:
    """Put shell scripts under the names of programs."""
    folder.mkdir()
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


GOOD_NODE = '[ "$1" = --version ] && echo v22.1.0 || { echo $$ > "$2/made.txt"; }'


def test_an_install_builds_when_something_changed_and_says_in_one_line_what_it_did(
    hook: ModuleType, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    class Installing(hook.FrontendHook):  # type: ignore[name-defined, misc]
        root, app = str(tree), SimpleNamespace(display_info=told.append)

        def __init__(self) -> None:
            pass

    def install() -> str:
        Installing().initialize("editable", {})
        return told[-1]

    monkeypatch.setenv("PATH", "")
    assert "no sketcher and no 3-D view: Node.js was not found" in install()
    programs = pretend(tree / "bin", node=GOOD_NODE, npm='pwd > "$LOG"; /bin/mkdir node_modules')
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("LOG", str(tree / "log"))
    assert "built the sketcher and the 3-D view" in install()
    made = tree / "assets" / "vendor" / "made.txt"
    first = made.read_text()
    assert "npm did not run" in install() and made.read_text() == first
    assert not Path((tree / "log").read_text().strip()).is_relative_to(tree)
    assert not list(tree.rglob("node_modules"))

    (tree / "assets" / "frontend" / "build.mjs").write_text("// other")
    monkeypatch.setenv("PATH", "")
    assert "kept an older sketcher" in install() and made.read_text() == first
    monkeypatch.setenv("PATH", str(programs))
    assert "built the sketcher and the 3-D view" in install() and made.read_text() != first
    assert sorted(path.name for path in (tree / "assets").iterdir()) == ["frontend", "vendor"]
    assert len(told) == 2 * 5 and not any(  # one of them of the kernels
        "\n" in line for line in told
    )


@pytest.mark.parametrize(("programs", "environment", "why"), table("ui/failed_builds"))
def test_a_build_that_fails_is_told_in_one_line_and_hurts_nothing(
    hook: ModuleType,
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: dict[str, str],
    environment: dict[str, str],
    why: str,
) -> None:
    monkeypatch.setenv("PATH", str(pretend(tree / "bin", **programs)))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    told = hook.build(tree)
    assert told.startswith(why) and "\n" not in told
    monkeypatch.setenv("CHEMSPEC_VENDOR", str(tree / "assets" / "vendor"))
    assert web_files.part_folder("ketcher") is None and web_files.part_folder("3dmol") is None
    assert why in web_files.missing_reason("ketcher") and why in web_files.missing_reason("3dmol")

    # What an earlier version built stays; it is better than nothing.
    (tree / "assets" / "vendor" / "stamp.txt").write_text("older")
    (tree / "assets" / "vendor" / "why.txt").unlink()
    assert hook.build(tree) == told
    assert not (tree / "assets" / "vendor" / "why.txt").exists()


def test_the_lock_file_pins_everything_and_names_no_registry() -> None:
    lock = json.loads((SOURCE / "package-lock.json").read_text())
    assert not re.search(r"resolved|https?:", json.dumps(lock))
    for name, package in lock["packages"].items():
        assert name == "" or re.fullmatch(r"\d+\.\d+\.\d+\S*", package["version"]), name
        assert name == "" or package["integrity"].startswith("sha512-"), name
    wanted = json.loads((SOURCE / "package.json").read_text())
    assert lock["packages"][""]["dependencies"] == wanted["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", item) for item in wanted["dependencies"].values())
    used = {
        name.rpartition("node_modules/")[2] for name in lock["packages"]
    }  # overrides that nothing needs any more would mislead
    assert set(wanted["overrides"]) <= used


@pytest.mark.skipif(bool(web_files.missing_reason("ketcher")), reason=web_files.missing_reason("ketcher"))
def test_what_was_built_is_whole_and_carries_its_licences() -> None:
    ketcher, dmol = web_files.part_folder("ketcher"), web_files.part_folder("3dmol")
    assert ketcher and dmol
    page = (ketcher / "index.html").read_text()
    for name in re.findall(r'(?:src|href)="([^":]+)"', page):
        assert (ketcher / name).stat().st_size > 1000
    script = max(ketcher.glob("main-*.js"), key=lambda path: path.stat().st_size).read_text()
    worker = re.search(r'new Worker\(new URL\("([\w.-]+)"', script)
    assert worker and (ketcher / worker[1]).is_file()
    wasm = re.search(r'"(indigo-ketcher[\w.-]+\.wasm)"', (ketcher / worker[1]).read_text())
    assert wasm and (ketcher / wasm[1]).is_file()
    licences = (ketcher / "LICENSES.txt").read_text()
    for text in ("ketcher-core 3.18.0", "indigo-ketcher", "react-dom 18", "Apache License"):
        assert text in licences
    assert "Licence: undefined" not in licences
    assert "University of Pittsburgh" in (dmol / "LICENSES.txt").read_text()


# --- where it is found ---------------------------------------------------------------------------

ASK = "from chemspec.ui.common import web_files; print(web_files.vendor_dir()); print(web_files.part_folder('ketcher'))"


@pytest.mark.slow  # packs the whole package
def test_the_wheel_carries_it(tmp_path: Path, hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_NO_KERNELS", "1")
    builder = pytest.importorskip("hatchling.builders.wheel", reason="hatchling builds wheels")
    tree = tmp_path / "tree"
    names = ("chemspec", "app.py", "pages", ".streamlit", "pyproject.toml", "README.md", "LICENSE")
    for name in (*names, "hatch_build.py", "hatch_kernels.py"):
        (tree / name).parent.mkdir(exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name)
    for name in ("models", "examples", "learn", "web", "stock", "precedents", "names", "drafting", "fonts"):
        (tree / "assets" / name).mkdir(parents=True)
    for name in ("names.bin", "README.md"):
        (tree / "assets" / "names" / name).touch()
    shutil.copytree(SOURCE, tree / "assets" / "frontend")
    (tree / ".streamlit" / "secrets.toml").write_text("[auth]")
    ketcher = tree / "assets" / "vendor" / "ketcher"
    ketcher.mkdir(parents=True)
    (ketcher / "index.html").write_text("built")
    (ketcher.parent / "stamp.txt").write_text(hook.fingerprint(SOURCE))
    wheel = next(builder.WheelBuilder(str(tree)).build(directory=str(tmp_path), versions=["standard"]))
    with zipfile.ZipFile(wheel) as file:
        held = set(file.namelist())
        assert file.read("chemspec/assets/vendor/ketcher/index.html") == b"built"
    assert {"chemspec/assets/app/app.py", "chemspec/assets/app/.streamlit/config.toml"} <= held
    assert not any("secrets" in name for name in held)
    assert not any("node_modules" in name or "assets/frontend" in name for name in held)

    # Installing it runs no npm, and brings what was built.
    programs = pretend(tmp_path / "bin", npm='echo npm >> "$LOG"', node='echo node >> "$LOG"')
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")}
    to = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(to), wheel]
    subprocess.run(command, env={**os.environ, **environment}, check=True)
    assert not (tmp_path / "log").exists()
    ketcher = to / "chemspec/assets/vendor/ketcher"
    assert (ketcher / "index.html").read_bytes() == b"built"
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, cwd=to, check=True)
    assert done.stdout.split() == [str(ketcher.parent), str(ketcher)]
    assert web_files.vendor_dir() == ROOT / "assets" / "vendor", "and in the source tree"


# --- the sketcher's contract, without a browser --------------------------------------------------


@pytest.mark.parametrize(("a", "b", "alike"), table("ui/compared_texts"))
def test_texts_are_compared_as_molecules(a: str, b: str, alike: bool) -> None:
    assert (sketcher.canonical_sides(a) == sketcher.canonical_sides(b)) is alike


def test_only_reports_of_a_canvas_count() -> None:
    assert sketcher.parse_drawing({"smiles": "CC |^1:0|", "edit": 5}) == "CC"
    for value in (
        None,
        "CCO",
        {"smiles": "C"},
        {"smiles": 3, "edit": 1},
        {"smiles": "C", "edit": "1"},
        {"smiles": "C" * 99_999, "edit": 1},
    ):
        assert sketcher.parse_drawing(value) is None


@pytest.mark.parametrize("text", ["CC(=O)Nc1ccccc1", "c1cc[nH]c1.C[n+]1ccccc1>>O=c1cc[nH]cc1", "C/C=C/c1ccsc1", ""])
def test_rings_are_drawn_with_alternating_bonds(text: str) -> None:
    shown = sketcher.kekulized(text)
    assert sketcher.canonical_sides(shown) == sketcher.canonical_sides(text)
    assert shown == text or not set("cno") & set(shown)
    assert not sketcher.kekulized(f"{text}no(")


# --- the 3-D view --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "smiles", ["CC(=O)Oc1ccccc1C(=O)O", "[Na+].[Cl-]", "C[Si](C)(C)C.CCO", "[CH3:4][OH:2]", "N->[Cu]"]
)
def test_a_shape_has_every_atom_in_a_place_of_its_own(smiles: str) -> None:
    block = view3d.conformer_block(smiles)
    mol, flat = Chem.MolFromMolBlock(block, removeHs=False), Chem.AddHs(Chem.MolFromSmiles(smiles))
    assert mol.GetNumAtoms() == flat.GetNumAtoms()
    distances = Chem.Get3DDistanceMatrix(mol)
    assert min(distances[i, j] for i in range(len(distances)) for j in range(i)) > 0.7  # Å
    view3d.shape_in_time.cache_clear()
    assert view3d.conformer_block(smiles) == block


def test_handedness_survives() -> None:
    block = view3d.conformer_block("C[C@H](N)C(=O)O")
    mol = Chem.MolFromMolBlock(block)
    Chem.AssignStereochemistryFrom3D(mol)
    assert Chem.MolToSmiles(mol) == Chem.CanonSmiles("C[C@H](N)C(=O)O")


@pytest.mark.parametrize(
    ("smiles", "why"), [("C" * 201, "201 atoms"), ("*C", "not named"), ("CC(", "never closed"), ("", "no SMILES")]
)
def test_what_has_no_shape_says_why(smiles: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        view3d.conformer_block(smiles)


@pytest.mark.slow  # the limit is four seconds
def test_what_takes_too_long_is_ended_and_told() -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="time"):
        view3d.conformer_block("[13CH3]" + "[13CH2]" * 138 + "[13CH3]")  # the embedding does not look at the clock
    assert time.process_time() - began < 0.5 * slowness()  # of this process


def test_out_of_time_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    smiles = "CCCCCCCCOC1CC1"
    monkeypatch.setattr(view3d._SANDBOX, "ask", lambda *_: None)
    with pytest.raises(ValueError, match="time"):
        view3d.conformer_block(smiles)
    monkeypatch.undo()
    assert view3d.conformer_block(smiles)


class Tags(HTMLParser):
    """Tags with their attributes, and the text of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_asks_nobody_and_is_inert(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "3dmol").mkdir()
    (tmp_path / "3dmol" / "3Dmol-min.js").write_text("let s = '</script><b>' + '<!--' + '</SCRIPT>';")
    monkeypatch.setenv("CHEMSPEC_VENDOR", str(tmp_path))
    hostile = '"><script>x()</script>'
    for dark in (False, True):
        text = view3d.viewer_page.__wrapped__(hostile, "</script><i>", 300, dark)
        assert "http:" not in text and "https:" not in text and "//cdn" not in text
        assert text.lower().count("</script>") == text.lower().count("<script>") == 2
        parser = Tags()
        parser.feed(text)
        allowed = {"html", "head", "meta", "title", "style", "body", "div", "script", "p", "br"}
        assert {tag for tag, _ in parser.tags} <= allowed
        assert ("script", {}) in parser.tags and not any("src" in held for _, held in parser.tags)
        label = next(held for tag, held in parser.tags if held.get("role") == "img")
        assert label["aria-label"] == f"3-D model of {hostile}"
