"""The app as a desktop program: its window, what ends with it, and its entry in the menu of each system."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import ROOT

from chemspec.ui.launch import window


@pytest.mark.smoke  # starts the app
def test_the_server_ends_with_its_window(tmp_path: Path) -> None:
    """The browser is a program that looks at the page and ends."""
    browser = tmp_path / "browser.py"
    browser.write_text(
        "import sys, urllib.request\n"
        "url = next(word for word in sys.argv if word.startswith('--app=')).removeprefix('--app=')\n"
        "page = urllib.request.urlopen(url).read(99).decode()\n"
        f"open({str(tmp_path / 'seen')!r}, 'w').write(' '.join(sys.argv[1:]) + page)\n"
    )
    busy = socket.create_server(("127.0.0.1", 0))
    environment = {
        **os.environ,
        "CHEMSPEC_BROWSER": shlex.join([sys.executable, str(browser)]),
        "CHEMSPEC_HOME": str(tmp_path / "home"),
        "CHEMSPEC_WARM_UP": "0",
        "PYTHONPATH": str(ROOT),
    }
    port = busy.getsockname()[1]
    command = [sys.executable, "-m", "chemspec.cli", "app", "--window", "--port", str(port)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    busy.close()
    seen = (tmp_path / "seen").read_text()
    assert "--app=http://127.0.0.1:" in seen and f":{port}" not in seen, "a used port is passed over"
    assert "<!" in seen and f"--user-data-dir={tmp_path / 'home' / 'window'}" in seen
    assert done.returncode in (0, -15) and "Traceback" not in done.stderr


def test_without_a_browser_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHEMSPEC_BROWSER", raising=False)
    monkeypatch.setattr(window, "_browsers", lambda: iter(()))
    with pytest.raises(ValueError, match=r"Chrome, Chromium, Edge or Brave.*CHEMSPEC_BROWSER.*leave --window out"):
        window.browser_command()


@pytest.mark.parametrize(
    ("platform", "file"),
    [
        ("linux", "bin/chromium"),
        ("darwin", "Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
        ("win32", r"Microsoft\Edge\Application\msedge.exe"),
    ],
)
def test_each_system_has_its_browsers(
    platform: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / file
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.delenv("CHEMSPEC_BROWSER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PROGRAMFILES", str(tmp_path))
    monkeypatch.delenv("PROGRAMFILES(X86)", raising=False)
    monkeypatch.setattr(window, "_mac_folders", lambda: (tmp_path / "none", tmp_path / "Applications"))
    monkeypatch.setattr(sys, "platform", platform)
    assert window.browser_command() == [str(program)]


@pytest.mark.parametrize("python", ["/usr/bin/python3", "/home/a b/$x/100%/py`thon", '/odd "quoted"/python'])
def test_a_desktop_entry_runs_the_window(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "executable", python)
    file = window.install_shortcut()
    assert file == tmp_path / "applications" / "chemspec.desktop"
    entries = dict(line.split("=", 1) for line in file.read_text().splitlines()[1:])
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', entries["Exec"].replace("%%", "%"))
    assert [re.sub(r"\\(.)", r"\1", word) for word in words] == [python, "-m", "chemspec.cli", "app", "--window"]
    assert Path(entries["Icon"]).is_file() and entries["Terminal"] == "false"


def test_a_mac_gets_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    app = window.install_shortcut()
    facts = plistlib.loads((app / "Contents" / "Info.plist").read_bytes())
    program = app / "Contents" / "MacOS" / facts["CFBundleExecutable"]
    assert program.stat().st_mode & 0o100 and "app --window" in program.read_text()


def test_windows_gets_a_link_in_the_start_menu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    python = tmp_path / "it's" / "python.exe"
    python.parent.mkdir()
    python.with_name("pythonw.exe").write_text("")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("APPDATA", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", lambda command, **_: calls.append(command))
    assert window.install_shortcut().name == "chemspec.lnk"
    assert "it''s" in calls[0][-1] and "pythonw.exe" in calls[0][-1] and "app --window" in calls[0][-1]


def test_other_systems_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "sunos5")
    with pytest.raises(ValueError, match="not written for sunos5"):
        window.install_shortcut()
