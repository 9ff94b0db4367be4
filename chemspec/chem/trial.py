"""Read a text with RDKit in a process that may die of it; started by `parsing.trial`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdDepictor, rdinchi

SECONDS = 0.4  # of computing; C60 takes 0.03
MEMORY = 400_000_000  # bytes on top of what Python and RDKit take
# What C++ throws, as Python sees it: broken invariants, bad values, std::out_of_range, std::bad_alloc and so on.
RDKIT_ERRORS = (RuntimeError, ValueError, IndexError, KeyError, MemoryError, OverflowError)


def from_smiles(smiles: str, sanitize: bool = True) -> Any:
    """Return RDKit's molecule; None where RDKit refuses it. For texts that `parsing` has let through."""
    params: Any = Chem.SmilesParserParams()
    params.sanitize = sanitize
    params.removeHs = sanitize
    with rdBase.BlockLogs():
        try:
            return Chem.MolFromSmiles(smiles, params)
        except RDKIT_ERRORS:  # broken invariants inside RDKit surface as these
            return None


def _use(mol: Any) -> None:
    """Do what is done with a molecule once it is read."""
    plain = from_smiles(Chem.MolToSmiles(mol))
    if plain is not None:
        Chem.MolToInchiKey(plain)  # type: ignore[no-untyped-call]
        rdDepictor.Compute2DCoords(plain)


READERS: dict[str, Callable[[str], Iterable[Any]]] = {
    "smiles": lambda text: [from_smiles(text)],
    "molblock": lambda text: [Chem.MolFromMolBlock(text, sanitize=False), Chem.MolFromMolBlock(text)],
    "cdxml": lambda text: Chem.MolsFromCDXML(text),
    "inchi": lambda text: [rdinchi.InchiToMol(text)[0]],
}


def try_here(kind: str, text: str) -> None:
    """Read a text and use what it means; raises MemoryError where there is not enough."""
    try:
        with rdBase.BlockLogs():
            for mol in READERS[kind](text):
                if mol is not None:
                    _use(mol)
    except MemoryError:
        raise
    except RDKIT_ERRORS:
        return  # as it will be refused here


def limit() -> None:
    """End this process after so much computing, or when it asks for more memory."""
    try:
        import resource

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
    except (ImportError, OSError, AttributeError):
        return  # not Linux: whoever waits for this process ends it


if __name__ == "__main__":
    content = sys.stdin.buffer.read().decode()
    limit()
    try_here(sys.argv[1], content)
