"""Revise names.tsv.gz: usual tautomers, names of the right molecule, no ordinary words as names.

`python assets/names/revise.py` rewrites the list in place. A row gets the usual tautomer (amides for imidic acids,
amines for imines of aromatic rings) only where its standard InChI stays the same. Names that mean another molecule by
the rules of `nomenclature`, or several (`isomers.tsv`), and ordinary words, are taken out.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from rdkit import Chem, RDLogger

from chemspec.chem.names import lookup, nomenclature, reagents
from chemspec.chem.read.inchi import usual_form

FILE = Path(__file__).with_name("names.tsv.gz")


def usual(smiles: str) -> str:
    """Return the usual tautomer of a molecule, if that has the same standard InChI."""
    mol = Chem.MolFromSmiles(smiles)
    return str(Chem.MolToSmiles(usual_form(mol, Chem.MolToInchi(mol))))


def is_plain(name: str, smiles: str) -> bool:
    """Whether a name is no ordinary word, and means one molecule, this one, by `nomenclature` and `isomers.tsv`."""
    if lookup.is_ordinary_word(name) or reagents.find_isomers(name):
        return False
    other = nomenclature.read(name)
    if other is None:
        return True
    return Chem.MolToInchiKey(Chem.MolFromSmiles(other))[:14] == Chem.MolToInchiKey(Chem.MolFromSmiles(smiles))[:14]


def main() -> None:
    """Rewrite the list."""
    RDLogger.DisableLog("rdApp.*")
    rows = [line.split("\t") for line in gzip.decompress(FILE.read_bytes()).decode().splitlines()]
    lines: dict[str, str] = {}
    for smiles, cas, names, *rest in rows:
        better = usual(smiles)
        plain = [name for name in names.split(" | ") if is_plain(name, better)]
        if better != smiles or " | ".join(plain) != names:
            print(f"{smiles} -> {better}: {names} -> {' | '.join(plain)}")
        if plain and better not in lines:
            lines[better] = "\t".join((better, cas, " | ".join(plain), *rest))
    FILE.write_bytes(gzip.compress(("\n".join(lines.values()) + "\n").encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
