"""The app as a desktop program: a window of its own, in a browser's app mode, and an entry in the system's menu."""

import os
import plistlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

from chemspec.asset_files import assets_folder
from chemspec.system.files import home_folder, make_private_folder

VARIABLE = "CHEMSPEC_BROWSER"  # command of the browser to take
# Browsers with an app mode, by system: names on the path, or files below the folders of programs.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge", "brave-browser")
MAC = ("Google Chrome", "Chromium", "Microsoft Edge", "Brave Browser")
WINDOWS = (r"Microsoft\Edge\Application\msedge.exe", r"Google\Chrome\Application\chrome.exe")
START_SECONDS = 60.0
WORDS = ("app", "--window")  # words of a menu entry's command


def browser_command() -> list[str]:
    """Return the command of a browser with an app mode; raises ValueError if there is none."""
    if chosen := os.environ.get(VARIABLE):
        return shlex.split(chosen, posix=sys.platform != "win32")
    if browser := next(_browsers(), None):
        return [browser]
    raise ValueError(
        "--window needs Chrome, Chromium, Edge or Brave, and none was found; install one, name its command in "
        f"{VARIABLE}, or leave --window out to use any browser"
    )


def _browsers() -> Iterator[str]:
    if sys.platform == "darwin":
        files = [Path(home, f"{name}.app/Contents/MacOS/{name}") for name in MAC for home in _mac_folders()]
    elif sys.platform == "win32":
        folders = filter(None, map(os.environ.get, ("PROGRAMFILES(X86)", "PROGRAMFILES", "LOCALAPPDATA")))
        files = [Path(folder, name) for folder in folders for name in WINDOWS]
    else:
        files = [Path(path) for path in map(shutil.which, NAMES) if path]
    return (str(file) for file in files if file.is_file())


def _mac_folders() -> tuple[Path, Path]:
    return Path("/Applications"), Path.home() / "Applications"


def open_with_server(port: int) -> None:
    """Open the window when the server of this process answers, and end this process when the window is closed.

    Raises:
        ValueError: if there is no browser for it.
    """
    # With a profile of its own: else a browser that is open already would take the window, and this process end.
    profile = make_private_folder(home_folder() / "window")
    url = f"http://127.0.0.1:{port}"
    command = [*browser_command(), f"--app={url}", f"--user-data-dir={profile}", "--no-first-run"]
    Thread(target=_show_window, args=(command, f"{url}/_stcore/health"), daemon=True, name="window").start()


def _show_window(command: list[str], health: str) -> None:
    try:
        if _answers(health):
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)  # the server ends as with Ctrl-C


def _answers(url: str) -> bool:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return True
        except OSError:
            time.sleep(0.1)
    return False


def free_port(preferred: int) -> int:
    """Return a port of this machine that is free: the preferred one if it is."""
    for port in (preferred, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as server:
                return int(server.getsockname()[1])
        except OSError:
            continue
    return preferred


# --- menu entries ----------------------------------------------------------------------------------


def install_shortcut() -> Path:
    """Add chemspec to the menu of programs of this user, in its window; returns the new file.

    Raises:
        ValueError: on a system without such a menu.
    """
    makers: dict[str, Callable[[list[str]], Path]] = {
        "linux": _install_desktop_entry,
        "darwin": _install_mac_app,
        "win32": _install_start_menu_link,
    }
    if sys.platform not in makers:
        raise ValueError(f"--install-shortcut is not written for {sys.platform}")
    return makers[sys.platform]([sys.executable, "-m", "chemspec.cli", *WORDS])


def _install_desktop_entry(command: list[str]) -> Path:
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    file = data / "applications" / "chemspec.desktop"
    quoted = " ".join('"' + "".join("\\" + c if c in '"`$\\' else c for c in word) + '"' for word in command)
    lines = {
        "Type": "Application",
        "Name": "chemspec",
        "Comment": "Predict reactions and plan syntheses",
        "Exec": quoted.replace("%", "%%"),
        "Icon": str(assets_folder() / "web" / "logo_light.svg"),
        "Terminal": "false",
        "Categories": "Science;Chemistry;",
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[Desktop Entry]\n" + "".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
    return file


def _install_mac_app(command: list[str]) -> Path:
    app = Path.home() / "Applications" / "chemspec.app"
    program = app / "Contents" / "MacOS" / "chemspec"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\nexec {shlex.join(command)}\n", encoding="utf-8")
    program.chmod(0o755)
    facts = {"CFBundleName": "chemspec", "CFBundleExecutable": "chemspec", "CFBundleIdentifier": "org.chemspec.app"}
    (app / "Contents" / "Info.plist").write_bytes(plistlib.dumps({**facts, "CFBundlePackageType": "APPL"}))
    return app


def _install_start_menu_link(command: list[str]) -> Path:
    menu = Path(os.environ["APPDATA"], "Microsoft", "Windows", "Start Menu", "Programs")
    file = menu / "chemspec.lnk"
    quiet = Path(command[0]).with_name("pythonw.exe")  # Python without a console
    program = quiet if quiet.is_file() else Path(command[0])
    values = [file, program, subprocess.list2cmdline(command[1:])]
    link, target, words = ("'" + str(value).replace("'", "''") + "'" for value in values)
    script = f"$s = (New-Object -ComObject WScript.Shell).CreateShortcut({link}); $s.TargetPath = {target}; "
    script += f"$s.Arguments = {words}; $s.Save()"
    subprocess.run(["powershell", "-NoProfile", "-NonInteractive", "-Command", script], check=True, timeout=60)
    return file
