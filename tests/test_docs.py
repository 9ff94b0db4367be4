"""The docs build, ask no other host, and name only files and commands that there are."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import typer
from helpers.paths import ROOT
from typer.testing import CliRunner

from chemspec.chem import formats
from chemspec.chem.reading.reader import ENDINGS
from chemspec.cli.__main__ import app
from chemspec.engine.engine import installed_models
from chemspec.model.checkpoint import read_config
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import TrainSettings, preset_config
from chemspec.stock.lists import BUILT_IN, INTERMEDIATES, TITLES
from chemspec.ui.common import nav

DOCS = ROOT / "assets" / "docs"
PAGES = sorted(DOCS.glob("*.md"))
LESSONS = sorted((ROOT / "assets" / "learn").glob("*.md"))
TEXTS = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")), *PAGES, *LESSONS]
# Tables of the past keep the commands that gave them.
PAST = ("CHANGELOG", "measurements", "measurement-notes", "log")
TODAY = [page for page in TEXTS if page.stem not in PAST]
# Made by a build or a run, or an example of a name.
MADE = ("assets/vendor", "log.csv", "papers.csv", "heldout.csv", "my_drafter.py")


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


SOURCES = [path for suffix in ("py", "h", "cpp") for path in (ROOT / "chemspec").rglob(f"*.{suffix}")]


def members(owner: str) -> set[str]:
    """Every word of the files that define a class."""
    texts = (path.read_text(encoding="utf-8") for path in SOURCES)
    return {
        word for text in texts if re.search(rf"(?:class|struct) {owner}\b", text) for word in re.findall(r"\w+", text)
    }


@pytest.mark.parametrize("page", TODAY, ids=lambda path: path.name)
def test_members_of_classes_named_in_the_docs_exist(page: Path) -> None:
    for owner, member in re.findall(r"`([A-Z]\w+)(?:\.|::)(\w+)", page.read_text(encoding="utf-8")):
        known = members(owner)
        assert not known or member in known, f"{page.name} names {owner}.{member}"


def test_names_of_code_in_contributing_exist() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Add something")[2]
    named = set(re.findall(r"`([A-Z]+_?[A-Z]+|\w*_\w+)`", section.partition("## Docs")[0]))
    places = [*SOURCES, *(path for top in ("tests", "pages", "assets/docs") for path in (ROOT / top).rglob("*.py"))]
    words = {word for path in places for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    assert {"answer_cells", "LIMITS"} <= named
    assert not named - words


def commands(text: str) -> list[list[str]]:
    """Return the words of every chemspec command in a page: in code blocks, indented lines and between backticks."""
    blocks = re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"^    (.*\bchemspec .*)$", text, flags=re.MULTILINE)
    lines += [" ".join(code.split()) for code in re.findall(r"(?<!`)`(chemspec [^`]+)`(?!`)", text)]
    found = []
    for line in lines:
        if not re.search(r"(?:^|[|;&]|/bin/|\b[A-Z_]+=\S+ ) *chemspec\s", line.strip()):
            continue
        words = shlex.split(line, comments=True)
        starts = [at for at, word in enumerate(words) if word == "chemspec" or word.endswith("/bin/chemspec")]
        if not starts or any(word in ("docker", "pip", "uv", "import", "FROM") for word in words[: starts[0]]):
            continue
        ends = [at for at, word in enumerate(words) if at > starts[0] and re.match(r"[|&;]|\d?>|<", word)]
        found.append(words[starts[0] + 1 : min(ends, default=None)])
    return found


def parse(words: list[str]) -> None:
    """Parse a command's names and options without running it; what is wrong raises click's error."""
    command, rest = typer.main.get_command(app), words
    while True:
        given, rest, _ = command.make_parser(command.context_class(command)).parse_args(list(rest))
        if not rest or not hasattr(command, "commands"):
            lacking = [one.opts[0] for one in command.params if one.required and one.name not in given]
            has_options = any(word.startswith("-") for word in words)
            assert not has_options or not lacking, f"lacks {', '.join(lacking)}"
            return
        assert rest[0] in command.commands, f"no command {rest[0]}"
        command, rest = command.commands[rest[0]], rest[1:]


@pytest.mark.parametrize("page", TODAY, ids=lambda path: path.name)
def test_commands_named_in_the_guides_exist_with_their_options(page: Path) -> None:
    for words in commands(page.read_text(encoding="utf-8")):
        try:
            parse(words)
        except Exception as error:
            if str(error).endswith("requires an argument."):  # prose names an option without its value
                continue
            pytest.fail(f"{page.name} says chemspec {' '.join(words)}: {error}")


@cache
def is_query(word: str) -> bool:
    """Whether a word can be read as molecules."""
    return isinstance(formats.read_input(word, task="forward"), formats.Input)


def complete(words: list[str]) -> bool:
    """Whether a command needs nothing but the shipped models: it has its query and names no other file."""
    if words[0] == "precedents":
        words = words[1:]
    elif words[0] not in ("predict", "race", "check"):
        return False
    files = {"-o", "--trace", "--ray", "-"} | {word for word in words if word.endswith((".pt", ".csv"))}
    files.add("--within")  # a busy machine may be late
    if len(words) < 2 or files & set(words) or words[0] not in ("predict", "race", "check", "find"):
        return False
    given = next((words[at + 1] for at, word in enumerate(words) if word in ("--model", "-m")), "forward")
    query = any(is_query(word) for word in words[1:] if not word.startswith("-"))
    if any(".py:" in word for word in words):  # tests/draft/test_documented_drafters.py runs them
        return False
    return query and (ROOT / "assets" / "models" / given).is_dir()


COMPLETE = {
    " ".join(map(shlex.quote, words)): words
    for page in TODAY
    for words in commands(page.read_text(encoding="utf-8"))
    if complete(words)
}


@pytest.mark.weights
@pytest.mark.parametrize("words", COMPLETE.values(), ids=COMPLETE)
def test_commands_that_are_complete_run_as_printed(words: list[str], tmp_path: Path) -> None:
    if not {"forward", "retro", "reagents"} <= {folder.name for folder in installed_models()}:
        pytest.skip("not all models in assets/models")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert done.output.strip() and not list(tmp_path.iterdir())


def test_the_guides_have_commands_to_run() -> None:
    """README's first ones among them, and the papers' figures."""
    first = {words[0] for words in commands((ROOT / "README.md").read_text(encoding="utf-8")) if complete(words)}
    assert first == {"race", "predict", "check"}
    assert any("sbs" in words for words in COMPLETE.values())


@pytest.mark.parametrize(
    ("preset", "models"), [("small-5x3", ["forward", "retro"]), ("small", ["reagents", "retro-50k"])]
)
def test_the_presets_named_for_going_on_from_a_shipped_model_have_its_size(preset: str, models: list[str]) -> None:
    configs = {folder.name: read_config(folder)[1] for folder in installed_models()}
    same_size = [
        name for name, config in configs.items() if config == preset_config(preset, vocab_size=config.vocab_size)
    ]
    assert sorted(same_size) == models
    named = " and ".join(f"`{name}`" for name in models)
    guide = " ".join((ROOT / "assets/docs/models.md").read_text().split())
    assert f"`{preset}` for {named}" in guide
    assert f"takes {TrainSettings.steps:,} steps of {TrainSettings.tokens:,} tokens" in guide


def words_marked_in(page: str) -> str:
    """The words of a page in code or bold, outside blocks of code."""
    text = re.sub(r"^```.*?^```", "", (DOCS / f"{page}.md").read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return " ".join("".join(pair) for pair in re.findall(r"`([^`]+)`|\*\*([^*]+)\*\*", text))


def built_in(kind: str) -> set[str]:
    """The names in a registry's file, without those of plug-ins that happen to be installed."""
    text = (ROOT / "chemspec" / kind / "registry.py").read_text(encoding="utf-8")
    return set(re.findall(r'(?:Spec|_learned)\(\s*"([\w-]+)"', text))


def test_every_program_of_the_authors_is_listed() -> None:
    folder = ROOT / "tests" / "programs"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in folder.glob("*.py") if not path.name.startswith("test_")}
    assert names - set(re.findall(r"`([\w.]+)`", listed)) == set()


def test_what_is_registered_is_documented() -> None:
    drafters, decoders = built_in("draft"), built_in("decode")
    assert drafters <= {*DRAFTERS} and decoders <= {*DECODERS}
    assert "auto" in drafters and "medusa" in drafters and "greedy" in decoders
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "chemspec" / "service").glob("*.py"))
    routes = re.findall(r"\.(?:get|post)\(\s*\"(/[^\"]+)\"", code)
    assert len(routes) > 6
    lesson = set(re.findall(r"`([\w-]+)`", (ROOT / "assets" / "learn" / "drafters.md").read_text(encoding="utf-8")))
    told_of_stock = (ROOT / "assets" / "stock" / "README.md").read_text(encoding="utf-8")
    guide = (ROOT / "assets" / "docs" / "engineers.md").read_text(encoding="utf-8")
    undocumented = {
        "assets/stock/README.md": {name for name in BUILT_IN if f"`{name}.txt.gz`" not in told_of_stock},
        "engineers.md, In:": {ending for ending in ENDINGS if f"`{ending}`" not in guide} - {".sd"},
        "engineers.md": (drafters | decoders) - set(words_marked_in("engineers").split()),
        "assets/learn/drafters.md": drafters - lesson - {"none"},
        "chemists.md": {title for _, title in nav.PAGES[1:] if title not in words_marked_in("chemists")},
        "service.md": {route for route in routes if route not in words_marked_in("service")},
    }
    assert not (missing := {file: names for file, names in undocumented.items() if names}), f"not documented: {missing}"


def test_pages_and_stock_lists_in_their_folders_are_registered() -> None:
    """A file alone would be found by nobody, and a list without a title read as its name."""
    assert {path.stem for path in (ROOT / "pages").glob("*.py")} == {name for name, _ in nav.PAGES}
    stock = {path.name.removesuffix(".txt.gz") for path in (ROOT / "assets" / "stock").glob("*.txt.gz")}
    assert stock == {*BUILT_IN} == {*TITLES} - {INTERMEDIATES}


def test_tables_of_measurements_are_those_of_their_csv_files() -> None:
    """Written by `python assets/docs/measurement_tables.py`, which refuses a row without weights, machine or date."""
    write_page = runpy.run_path(str(DOCS / "measurement_tables.py"))["write_page"]
    page = (DOCS / "measurements.md").read_text(encoding="utf-8")
    assert write_page(page) == page
    written = set(re.findall(r"^<!-- table ([\w-]+) -->\n\n\|", page, flags=re.MULTILINE))
    assert written == {file.stem for file in (DOCS / "raw" / "tables").glob("*.csv")}
    ours = page.partition("<!-- chemspec bench papers: begin -->")[0]  # those of the papers are of one run
    assert len(re.findall(r"^\| --- ", ours, flags=re.MULTILINE)) == len(written) > 40


def test_every_finding_of_the_log_begins_with_one_sentence() -> None:
    log = (DOCS / "log.md").read_text(encoding="utf-8")
    findings = re.findall(r"^### (.*)\n\n(?:\*\*([^*]+)\*\*\n\n)?", log, flags=re.MULTILINE)
    assert len(findings) > 20
    for title, claim in findings:
        assert re.fullmatch(r"[A-Z][^.]*(?:\.\d[^.]*)*\.", claim) and len(claim) < 200, title


def test_the_lesson_on_drafters_has_the_measured_figures() -> None:
    lesson = (ROOT / "assets" / "learn" / "drafters.md").read_text(encoding="utf-8")
    measured = (DOCS / "measurements.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)`(.*?) \| ([\d.]+) \| (.*)\|$", lesson, flags=re.MULTILINE)
    assert {name for name, *_ in rows} == {"none", "mixed", "ar", "copy", "medusa", "spec_drafter"}
    for name, length, passes, hits in rows:
        row = f"| retro | {name}{length} | {passes} | "
        cells = next((line.split("|") for line in measured.splitlines() if line.startswith(row)), None)
        assert cells and cells[6].strip() == hits.strip(), row
    guide = (DOCS / "drafters.md").read_text(encoding="utf-8")
    (mixed,) = (hits.strip() for name, *_, hits in rows if name == "mixed")
    assert f"`mixed` {mixed})" in guide


@pytest.mark.parametrize("path", sorted((ROOT / "chemspec" / "ui").rglob("*.py")), ids=lambda path: path.stem)
def test_charts_and_pictures_have_a_text(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("altair_chart", "image"):
            assert any(keyword.arg == "alt" for keyword in node.keywords), f"{path.name}:{node.lineno}"


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
