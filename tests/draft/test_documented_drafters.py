"""The drafters of drafters.md and the decoder of how-it-works.md run as written there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from helpers.plugin import scope_of
from helpers.small import tiny_folder
from typer.testing import CliRunner

from chemspec.cli.__main__ import app
from chemspec.plugins import DECODERS, DRAFTERS

DOCS = Path(__file__).parents[2] / "assets" / "docs"
TEXT = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("drafters.md", "how-it-works.md"))
BLOCKS = re.findall(r"```(?:python|sh)\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the page's files, and a models folder with a tiny `retro`."""
    for block in BLOCKS:
        if name := re.match(r"# (\w+\.py)\n", block):
            (tmp_path / name[1]).write_text(block, encoding="utf-8")
    tiny_folder(tmp_path / "models" / "retro")
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path / "models"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("my_drafter", "second_start"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_the_documented_commands_run(folder: Path) -> None:
    commands = re.findall(r"chemspec predict [^\n`]+\.py:\w+[^\n`]*", TEXT)
    assert [re.findall("--drafter|--decoder", command) for command in commands] == [["--drafter"], ["--decoder"]]
    commands.append("chemspec predict CCO --task retro --drafter my_drafter.py:TOY")
    for command in commands:
        with scope_of(DRAFTERS), scope_of(DECODERS):
            arguments = [part.strip('"') for part in command.split()[1:]]
            result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("plug_in", "output"), [("my_drafter", r"\d+ passes, \d+ tokens accepted"), ("second_start", r"\[True\]")]
)
def test_the_documented_program_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], plug_in: str, output: str
) -> None:
    (program,) = [block for block in BLOCKS if block.startswith("import chemspec") and f"from {plug_in}" in block]
    with scope_of(DRAFTERS), scope_of(DECODERS):
        exec(program, {})
    assert re.fullmatch(output + "\n", capsys.readouterr().out)
