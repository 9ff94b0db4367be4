"""Build the app's vendored JavaScript and the kernels when chemspec is installed from a clone, or packed.

The sketcher (Ketcher) and the 3-D viewer (3Dmol.js) come from npm, in exact versions with hashes
(assets/frontend/package-lock.json). A wheel carries what was built, so installing one runs neither this file nor npm.
Without Node.js or a network chemspec installs all the same: the app then says in one line what is missing and why.
The kernels are compiled by `hatch_kernels.py`.
One line says what was done (pip shows it with -v). `python hatch_build.py` builds later, `CHEMSPEC_NO_FRONTEND=1`
skips the build.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface as Hook
except ImportError:  # run by hand
    Hook = object

NODE = 18  # oldest version that esbuild runs on
TESTS_ONLY = "axe"  # the checker of accessibility: built for the tests, not packed
MINUTES = 10
STAMP = "stamp.txt"  # hash of what the files were built from
WHY = "why.txt"  # why there are none; shown by the app
# No scripts of packages are run. Names and versions are known, so a cached copy is as good as a new one.
INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")  # fmt: skip
RETRIES = ("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")


class FrontendHook(Hook):
    """What hatchling calls before it collects files."""

    def dependencies(self) -> list[str]:
        """Return what a build needs besides hatchling: a C++ compiler where the system has none."""
        kernels = _kernels(Path(self.root))
        return [] if kernels.can_compile() or kernels.are_there() else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Bring assets/vendor and the kernels up to date, say so, and add them to a wheel.

        An editable install reads them in place.
        """
        root = Path(self.root)
        kernels = _kernels(root)
        trouble = "" if kernels.are_there() else kernels.build(kernels.for_this_machine())
        self.app.display_info(f"chemspec: {trouble or 'the kernels are up to date'}")
        if version != "editable" and kernels.FOLDER.is_dir():
            build_data["force_include"][str(kernels.FOLDER)] = "chemspec/assets/kernels"
        if version != "editable":
            models = root / "assets" / "models"
            for path in filter(Path.is_file, models.rglob("*")):
                if not is_further(path.relative_to(models)):
                    target = path.relative_to(root).as_posix()
                    build_data["force_include"][str(path)] = f"chemspec/{target}"
        vendor = root / "assets" / "vendor"
        before = _read(vendor / STAMP)
        why = build(root)
        self.app.display_info(f"chemspec: {_describe_build(before, _read(vendor / STAMP), why)}")
        if version != "editable" and vendor.is_dir():
            for part in vendor.iterdir():
                if part.name != TESTS_ONLY:
                    build_data["force_include"][str(part)] = f"chemspec/assets/vendor/{part.name}"


def is_further(path: Path) -> bool:
    """Return whether a file of assets/models is part of the distribution chemspec-smiles-more (more/), not of this."""
    return path.parts[0] == "retro-50k" or "drafters" in path.parts


def _kernels(root: Path) -> Any:
    sys.path.insert(0, str(root))
    import hatch_kernels

    return hatch_kernels


def build(root: Path) -> str:
    """Bring assets/vendor up to date; return an empty text, or one line on why that failed and older files stay."""
    source, target = root / "assets" / "frontend", root / "assets" / "vendor"
    stamp = fingerprint(source)
    if _read(target / STAMP) == stamp:
        return ""
    if os.environ.get("CHEMSPEC_NO_FRONTEND", "") not in ("", "0"):
        why = "CHEMSPEC_NO_FRONTEND was set when chemspec was installed"
    else:
        with tempfile.TemporaryDirectory(prefix="chemspec-frontend-") as folder:
            work_folder = Path(folder)
            why = _build(source, work_folder)
            if not why:
                (work_folder / "out" / STAMP).write_text(stamp + "\n", encoding="utf-8")
                _replace(target, work_folder / "out")
    if why and not (target / STAMP).exists():
        target.mkdir(parents=True, exist_ok=True)
        (target / WHY).write_text(why + "\n", encoding="utf-8")
    return why


def _describe_build(before: str, after: str, why: str) -> str:
    """Return one line on what a build did; `before` and `after` are the stamps of assets/vendor."""
    if why:
        remedy = f"with Node.js {NODE} or newer and a network, install chemspec again"
        what = "kept an older sketcher and 3-D view" if after else "no sketcher and no 3-D view"
        return f"{what}: {why} ({remedy})"
    if before == after:
        return "the sketcher and the 3-D view are up to date; npm did not run"
    return "built the sketcher and the 3-D view with Node.js into assets/vendor"


def fingerprint(source: Path) -> str:
    """A hash of every file that decides what is built."""
    digest = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.suffix != ".md" and "node_modules" not in path.parts:
            digest.update(f"{path.relative_to(source).as_posix()}\n".encode())
            digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def _build(source: Path, folder: Path) -> str:
    """Install and bundle in `folder`, which gets a folder `out`; return an empty text, or why it failed."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "Node.js was not found"
    # Outside of the source tree, so that it stays clean and no archive picks up node_modules.
    work = folder / "work"
    shutil.copytree(source, work, ignore=shutil.ignore_patterns("node_modules"))
    (folder / "out").mkdir()
    result = _run([node, "--version"], work)
    if isinstance(result, str):
        return f"Node.js does not run: {result}"
    version = re.match(rb"v(\d+)", result.stdout)
    if version is None or int(version[1]) < NODE:
        return f"Node.js is too old ({result.stdout.decode().strip()}); {NODE} or newer is needed"
    result = _run([npm, *INSTALL, *RETRIES], work)
    if isinstance(result, str):
        return f"npm could not get the packages: {result}"
    result = _run([node, "build.mjs", str(folder / "out")], work)
    return f"the build failed: {result}" if isinstance(result, str) else ""


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[bytes] | str:
    """Run a command; return its result, or one line that says why it failed."""
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=60 * MINUTES)
    except subprocess.TimeoutExpired:
        return f"not done after {MINUTES} minutes"
    except OSError as error:
        return str(error)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").splitlines()
        messages = [line.removeprefix("npm error").strip() for line in lines if line.strip()]
        # A sentence if there is one (npm puts a code before it, and a trace behind), else the first line.
        sentences = [line for line in messages if re.search(r"failed|[Ee]rror:|when using", line)]
        return (sentences or messages or [f"exit status {error.returncode}"])[0][:300]


def _replace(target: Path, new: Path) -> None:
    """Replace a folder by another, by renaming: at no time is half of it there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".vendor-", dir=target.parent) as near:
        shutil.copytree(new, Path(near) / "new")
        if target.exists():
            target.rename(Path(near) / "old")
        (Path(near) / "new").rename(target)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


if __name__ == "__main__":
    reason = build(Path(__file__).resolve().parent)
    print(reason or "assets/vendor is up to date")
    sys.exit(bool(reason))
