"""Look up molecules by name or CAS number, in hand-written tables and the packed table (`assets/names`)."""

import re
from functools import cache
from pathlib import Path

from rdkit import Chem

import chemspec.chem.reading.names.formulas as formulas
import chemspec.chem.reading.names.lab_names as lab_names
import chemspec.chem.reading.names.peptides as peptides
import chemspec.chem.reading.names.spelling as spelling
from chemspec.asset_files import assets_folder, read_asset_table
from chemspec.chem.molecules.query import canonical
from chemspec.chem.reading.names.packed import NameTable

_CAS = re.compile(r"(\d{2,7})-(\d\d)-(\d)")
_OWNER = re.compile(r"(?<=[a-z])'s?(?=\s)")  # Lawesson's reagent, Lawesson reagent
_FORMULA = re.compile(r"(?:[A-Z][a-z]?\d*)+")
_MARKED = [  # what a name says, and the sign of it in a SMILES
    (re.compile(pattern, re.IGNORECASE), sign)
    for pattern, sign in read_asset_table(Path(__file__).with_name("marks.tsv"))
]
SYMBOLS = frozenset(Chem.GetPeriodicTable().GetElementSymbol(number) for number in range(1, 119))


def normalise_name(name: str) -> str:
    """Normalise a name: case, blanks and hyphens are ignored."""
    return _bare(name).casefold()


def find_in_list(name: str) -> tuple[str, str] | None:
    """Return SMILES and usual name of a molecule of the packed table by name or CAS number; None if it is ambiguous."""
    key = name.strip() if is_cas(name) else normalise_name(name)
    records = load_table().find(key)
    # The table has a polymer as its monomer, some labelled compounds without the label, and salts without the stereo.
    marked = (sign for named, sign in _MARKED if named.search(name))
    if (key.startswith("poly") and records == load_table().find(key[4:])) or not all(
        any(sign in record.smiles for record in records) for sign in marked
    ):
        return None
    return (records[0].smiles, records[0].name or name.strip()) if len(records) == 1 else None


def name_in_list(smiles: str) -> str:
    """Return the usual name of a molecule by canonical SMILES; empty if it is not in the packed table."""
    return record.name if (record := load_table().find_smiles(smiles)) else ""


def is_cas(text: str) -> bool:
    """Return whether a text is a CAS number with a valid check digit."""
    match = _CAS.fullmatch(text.strip())
    if match is None:
        return False
    digits = map(int, reversed(match[1] + match[2]))
    return sum(position * digit for position, digit in enumerate(digits, 1)) % 10 == int(match[3])


@cache
def load_table() -> NameTable:
    """Open the packed table of names."""
    return NameTable(assets_folder() / "names" / "names.bin")


TABLE = Path(__file__).with_name("reagents.tsv")
NAMES = Path(__file__).with_name("names.tsv")  # drugs and building blocks


def find_by_name(name: str) -> tuple[str, str] | None:
    """Return SMILES and full name of a molecule; None if the name is not listed, and no formula of a molecule.

    None, too, if it means several molecules, see `find_isomers`; a mixture of isomers is read as one of them.
    """
    if several := load_isomers().get(normalise(name)):
        return find_by_name(several[1]) if several[1] else None
    if entry := find_by_hand(name) or (None if _is_formula(name) else find_in_list(name)):
        return entry
    smiles = formulas.read(name.strip()) or peptides.read(name.strip())
    return (smiles, name.strip()) if smiles else None


def find_isomers(name: str) -> tuple[str, ...]:
    """Return the names of the molecules that a name means if it means several: cresol, nitrotoluene."""
    if several := load_isomers().get(normalise(name)):
        return several[0]
    if not name[:1].isalpha() or find_by_name(name):
        return ()
    records = load_table().find(normalise_name(name))
    if len(records) > 1:
        return tuple(record.name or record.smiles for record in records)
    isomers: dict[str | None, str] = {}
    for isomer in (f"{locant}-{name}" for locant in spelling.QUALIFIERS["locant"].split("|")):
        if entry := find_by_hand(isomer) or find_in_list(isomer):
            usual = find_by_name(entry[1])
            isomers.setdefault(canonical(entry[0]), entry[1] if usual and usual[0] == entry[0] else isomer)
    return tuple(isomers.values()) if len(isomers) > 1 else ()


def name_of(smiles: str) -> str:
    """Return the name of a molecule by canonical SMILES from tables or list; empty if it has none."""
    return names_by_smiles().get(smiles) or name_in_list(smiles)


@cache
def names_by_smiles() -> dict[str, str]:
    """Return the full name of each canonical SMILES of the tables."""
    entries = (*_load_tables().values(), *lab_names.lab_names().values())
    return {canonical(smiles) or smiles: full for smiles, full in entries}


@cache
def _load_tables() -> dict[str, tuple[str, str]]:
    rows = [(smiles, names.split(" | ")) for smiles, names, *_ in (*read_asset_table(NAMES), *read_asset_table(TABLE))]
    return {key(name): (smiles, names[0]) for key in (normalise, _bare) for smiles, names in rows for name in names}


@cache
def load_isomers() -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the isomers that a name means, and the one that a mixture is read as, by normalised name."""
    return {
        normalise(name): (tuple(isomers.split(" | ")), "".join(read_as))
        for names, isomers, *read_as in read_asset_table(TABLE.with_name("isomers.tsv"))
        for name in names.split(" | ")
    }


def find_by_hand(name: str) -> tuple[str, str] | None:
    """Return the entry of a name in the hand-written tables, as it is written if possible: COCl2 is not CoCl2."""
    return _load_tables().get(_bare(_OWNER.sub("", name))) or _load_tables().get(normalise(name))


def _bare(name: str) -> str:
    return re.sub(r"[\s\u2010\u2011\u2013-]+", "", name)


def normalise(name: str) -> str:
    """Return the key of a name in the tables: a formula as it is, anything else without case."""
    bare = _bare(_OWNER.sub("", name))
    return _is_formula(bare) or bare.casefold()


def _is_formula(name: str) -> str | None:
    """Return a name whose case counts, as its letters are elements: Hf is not HF, nor NiS NIS, nor Pd-C PDC."""
    bare = _bare(name)
    if not _FORMULA.fullmatch(bare) or bare.isupper() or not any(map(str.islower, bare)):
        return None
    return bare if set(re.findall("[A-Z][a-z]?", bare)) <= SYMBOLS else None
