"""The docs build, ask no other host, and name only files and commands that there are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from paths import ROOT

from chemspec.cli import app

DOCS = ROOT / "assets" / "docs"
PAGES = sorted(DOCS.glob("*.md"))
TEXTS = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")), *PAGES]
# Tables of the past keep the commands that gave them.
TODAY = [page for page in TEXTS if page.stem in ("README", "CONTRIBUTING", "index", "chemists", "engineers")]
# Made by a build or a run, or an example of a name.
MADE = ("assets/vendor", "log.csv", "heldout.csv", "my_drafter.py")


def files() -> list[str]:
    """Every file of the project, relative to its root."""
    tops = ("chemspec", "pages", "tests", "assets", ".github", ".ci")
    below = [path for top in tops for path in (ROOT / top).rglob("*") if "node_modules" not in path.parts]
    return [path.relative_to(ROOT).as_posix() for path in [*below, *ROOT.glob("*")]]


FILES = files()


@pytest.mark.parametrize("page", TEXTS, ids=lambda path: path.name)
def test_files_named_in_the_docs_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`([\w./-]+\.(?:py|cpp|md|csv))`|`((?:chemspec|tests|assets|pages)/[\w./-]*)`", text)
    for name in {(one or other).rstrip("/") for one, other in named}:
        known = any(f"/{file}".endswith(f"/{name}") for file in FILES)
        assert known or name.startswith(MADE), f"{page.name} names {name}"


@pytest.mark.parametrize("page", TODAY, ids=lambda path: path.name)
def test_commands_named_in_the_guides_exist(page: Path) -> None:
    tree = typer.main.get_command(app)
    code = "\n".join(map("\n".join, re.findall(r"```sh\n(.*?)```|`(chemspec [^`\n]+)`", page.read_text(), re.DOTALL)))
    for words in re.findall(r"(?:^|/bin/|\| )chemspec ((?:dev )?[a-z][a-z-]*)\b", code, re.MULTILINE):
        found = tree
        for word in words.split():
            found = getattr(found, "commands", {}).get(word)
            assert found is not None, f"{page.name} says chemspec {words}"


# Slow: MkDocs reads the whole package; five seconds on an idle machine.
@pytest.mark.slow
def test_the_site_builds_strictly_and_asks_no_other_host(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="MkDocs is not installed (extra docs)")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "assets" / "mkdocs.yml")]
    done = subprocess.run([*command, "-d", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert {page.stem for page in PAGES} <= {page.stem for page in pages}
    # What a browser fetches by itself; links that somebody has to click are no requests.
    fetched = (
        r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*\bhref=\"?(?:https?:)?//"
    )
    for page in pages:
        text = page.read_text(encoding="utf-8")
        text = re.sub(r"<link\b[^>]*rel=\"?canonical[^>]*>", "", text)
        assert not re.search(fetched, text), page.name
    for sheet in tmp_path.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name
