"""Look up molecules by name or CAS number, in hand-written tables and the built-in list (`assets/names`)."""

import gzip
import re
from functools import cache
from pathlib import Path

import chemspec.chem.names.nomenclature as nomenclature
from chemspec.asset_files import assets_folder, read_asset_table
from chemspec.chem.query import canonical

_DROPPED = dict.fromkeys(map(ord, " \t\n\r\f\v\N{NO-BREAK SPACE}-\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{EN DASH}"))
_CAS = re.compile(r"(\d{2,7})-(\d\d)-(\d)")


def normalise_name(name: str) -> str:
    """Normalise a name: case, blanks and hyphens are ignored."""
    return name.casefold().translate(_DROPPED)


def find_in_list(name: str) -> tuple[str, str] | None:
    """Return SMILES and usual name of a molecule by name or CAS number."""
    by_name, names = _load_list()
    smiles = by_name.get(name.strip() if is_cas(name) else normalise_name(name))
    return (smiles, names[smiles]) if smiles else None


def name_in_list(smiles: str) -> str:
    """Return the usual name of a molecule by canonical SMILES; empty if it is not in the list."""
    return _load_list()[1].get(smiles, "")


def is_cas(text: str) -> bool:
    """Return whether a text is a CAS number with a valid check digit."""
    match = _CAS.fullmatch(text.strip())
    if match is None:
        return False
    digits = map(int, reversed(match[1] + match[2]))
    return sum(position * digit for position, digit in enumerate(digits, 1)) % 10 == int(match[3])


@cache
def _load_list() -> tuple[dict[str, str], dict[str, str]]:
    """Return SMILES by normalised name or CAS number, and the usual name by canonical SMILES."""
    path = assets_folder() / "names" / "names.tsv.gz"
    text = gzip.decompress(path.read_bytes()).decode() if path.exists() else ""
    rows = [line.split("\t") for line in text.splitlines()]
    smiles: dict[str, str] = {}
    for row, keys in zip(rows, normalise_name("\0".join(row[2] for row in rows)).split("\0"), strict=False):
        smiles |= dict.fromkeys(keys.split("|"), row[0])
        smiles[row[1]] = row[0]
    smiles.pop("", None)  # molecules without a CAS number
    return smiles, {row[0]: row[2].partition(" | ")[0] for row in rows}


TABLE = Path(__file__).with_name("reagents.tsv")
NAMES = Path(__file__).with_name("names.tsv")  # drugs and building blocks
_LOCANTS = [*"123456", "1,2", "1,3", "1,4", "2,3", "2,4", "2,5", "2,6", "3,4", "3,5"]


def find_by_name(name: str) -> tuple[str, str] | None:
    """Return SMILES and full name of a molecule; None if the name is neither listed nor simple and systematic.

    None, too, if it means several molecules, see `find_isomers`; a mixture of isomers is read as one of them.
    """
    if several := _load_isomers().get(_normalise(name)):
        return find_by_name(several[1]) if several[1] else None
    if (entry := _find_by_hand(name) or find_in_list(name)) is not None:
        return entry
    smiles = nomenclature.read(name)
    return (smiles, name.strip()) if smiles else None


def find_isomers(name: str) -> tuple[str, ...]:
    """Return the names of the molecules that a name means if it means several: cresol, nitrotoluene."""
    if several := _load_isomers().get(_normalise(name)):
        return several[0]
    with_locant = (f"{locant}-{name}" for locant in _LOCANTS) if name[:1].isalpha() and not find_by_name(name) else ()
    isomers: dict[str | None, str] = {}
    for isomer in with_locant:
        if entry := find_by_name(isomer):
            isomers.setdefault(canonical(entry[0]), isomer)
    return tuple(isomers.values()) if len(isomers) > 1 else ()


def name_of(smiles: str) -> str:
    """Return the name of a molecule by canonical SMILES from tables or list; empty if it has none."""
    return _names_by_smiles().get(smiles) or name_in_list(smiles)


@cache
def _names_by_smiles() -> dict[str, str]:
    return {canonical(smiles) or smiles: full for smiles, full in _load_tables().values()}


@cache
def _load_tables() -> dict[str, tuple[str, str]]:
    table: dict[str, tuple[str, str]] = {}
    for smiles, names, *_ in (*read_asset_table(NAMES), *read_asset_table(TABLE)):
        full, *others = names.split(" | ")
        for key in (_normalise, _bare):
            table |= {key(name): (smiles, full) for name in (full, *others)}
    return table


@cache
def _load_isomers() -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the isomers that a name means, and the one that a mixture is read as, by normalised name."""
    return {
        _normalise(name): (tuple(isomers.split(" | ")), "".join(read_as))
        for names, isomers, *read_as in read_asset_table(TABLE.with_name("isomers.tsv"))
        for name in names.split(" | ")
    }


def _find_by_hand(name: str) -> tuple[str, str] | None:
    """Return the entry of a name in the hand-written tables, as it is written if possible: COCl2 is not CoCl2."""
    return _load_tables().get(_bare(name)) or _load_tables().get(_normalise(name))


def _bare(name: str) -> str:
    return "".join(name.split()).translate(_DROPPED)  # blanks of all kinds


def _normalise(name: str) -> str:
    bare = _bare(name)
    # Hf is hafnium, HF is not.
    return bare if re.fullmatch("[A-Z][a-z]", bare) else bare.casefold()
