"""Parse a text with RDKit and use the molecule, in a process that may crash (`chemspec.chem.molecules.sandbox`)."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdinchi

from chemspec.chem.molecules.layout import add_layout

SECONDS = 0.4  # seconds of processor time; C60 takes 0.03
DRAWN = 24  # rings that are drawn without a trial: peptides of a dozen rings take half a second, and none took for ever
# What C++ throws, as Python sees it: broken invariants, bad values, std::out_of_range, std::bad_alloc and so on.
RDKIT_ERRORS = (RuntimeError, ValueError, IndexError, KeyError, MemoryError, OverflowError)


def from_smiles(smiles: str, sanitize: bool = True) -> Any:
    """Return RDKit's molecule; None where RDKit refuses it. For texts that `parsing` has let through."""
    with rdBase.BlockLogs(), suppress(*RDKIT_ERRORS):  # broken invariants inside RDKit surface as these
        return _from_smiles(smiles, sanitize)
    return None


def _from_smiles(smiles: str, sanitize: bool = True) -> Any:
    params: Any = Chem.SmilesParserParams()
    params.sanitize = sanitize
    params.removeHs = sanitize
    return Chem.MolFromSmiles(smiles, params)


def _use_molecule(mol: Any) -> None:
    plain = from_smiles(Chem.MolToSmiles(mol))
    if plain is not None:
        Chem.MolToInchiKey(plain)  # type: ignore[no-untyped-call]
        if plain.GetRingInfo().NumRings() > DRAWN:
            add_layout(plain)


READERS: dict[str, Callable[[str], Iterable[Any]]] = {
    "smiles": lambda text: [_from_smiles(text)],
    "molblock": lambda text: [Chem.MolFromMolBlock(text, sanitize=False), Chem.MolFromMolBlock(text)],
    "cdxml": lambda text: Chem.MolsFromCDXML(text),
    "inchi": lambda text: [rdinchi.InchiToMol(text)[0]],
}


def parse_and_use(kind: str, text: str) -> str:
    """Read a text and use what it means; returns "", or raises MemoryError where there is not enough."""
    try:
        for mol in _read_with_reasons(kind, text):
            if mol is not None:
                with rdBase.BlockLogs():
                    _use_molecule(mol)
    except MemoryError:
        raise
    except RDKIT_ERRORS:
        pass  # as it will be refused in the program itself
    return ""


def _read_with_reasons(kind: str, text: str) -> list[Any]:
    """Return what RDKit reads; MemoryError where it refuses without a reason, as it does when it gets no memory."""
    errors: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: errors.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("rdkit")
    log.handlers, log.propagate = [handler], False
    rdBase.LogToPythonLogger()
    try:
        mols = [*READERS[kind](text)]
    finally:
        rdBase.LogToCppStreams()
    if kind in ("smiles", "molblock") and any(mol is None for mol in mols) and not errors:
        raise MemoryError
    return mols
