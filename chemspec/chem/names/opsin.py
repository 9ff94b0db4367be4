"""Systematic names by OPSIN, where the package py2opsin (extra `names`) and Java are installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache, lru_cache
from importlib import resources, util
from pathlib import Path

from chemspec.chem.query import is_valid

SECONDS = 20  # that a name may take, most of which Java needs to start
OFF = "CHEMSPEC_NO_OPSIN"  # environment variable
_SYSTEMATIC = re.compile(
    r"(?=.*(?:ane?|ene?|yne?|yl|ol|al|ile|one|acid|ate|ide|ine|ole|oxy|imine|amide|ether)(?:$|[\s)\]-]))"
    r"[A-Za-z0-9 ,.'()\[\]{}:+-]{6,200}"
)


@lru_cache(maxsize=10_000)
def read(name: str) -> str | None:
    """Return the SMILES of a systematic name; None if it is none or OPSIN is not installed."""
    jar = _jar()
    if jar is None or not _SYSTEMATIC.fullmatch(name):
        return None
    try:
        result = subprocess.run(
            ["java", "-Xmx512m", "-jar", str(jar), "-osmi"],
            input=f"{name}\n",
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    smiles = result.stdout.strip()
    return smiles if smiles and "*" not in smiles and is_valid(smiles) else None


@cache
def _jar() -> Path | None:
    if os.environ.get(OFF) or util.find_spec("py2opsin") is None or shutil.which("java") is None:
        return None
    files = sorted(Path(str(resources.files("py2opsin"))).glob("opsin-cli-*.jar"))
    return files[-1] if files else None
