"""Look up what is meant by a name as chemists and catalogues write it: listed, of a stereoisomer or salt, by OPSIN."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from rdkit import Chem
from rdkit.Chem.EnumerateStereoisomers import EnumerateStereoisomers, StereoEnumerationOptions

import chemspec.chem.reading.names.additive as additive
import chemspec.chem.reading.names.reagents as reagents
import chemspec.chem.reading.names.spelling as spelling
from chemspec.chem.molecules.parsing import mol_from_smarts, mol_from_smiles
from chemspec.chem.molecules.query import canonical, drop_stereo
from chemspec.chem.reading.names.opsin import is_closed_shell, parse_name, read_by_opsin

WORDS = Path(__file__).with_name("words.txt")  # ordinary words that are trade names as well
MAX_CHARS = 200  # characters of a name
_CAS = r"\d{2,7}-\d\d-\d"
_CAS_WORD = re.compile(
    rf"(?:cas|casrn|(?=rn))(?:[\s-]*(?:no|nr|number|rn|reg(?:istry)?(?:\s*(?:no|number))?|id))?[\s.:#=-]*\[?({_CAS})\]?"
    rf"|[\[(]({_CAS})[\])]",
    re.IGNORECASE,
)
_NAME_AND_CAS = re.compile(
    rf"(.+?)[\s,;]*(?:[\[(]\s*)?(?:cas[\s.:#-]*(?:no\.?\s*)?)?({_CAS})(?:\s*[\])])?", re.IGNORECASE
)
_SUPPORTED = re.compile(
    r"(Pd(?:\(OH\)2)?|Pt|Rh|Ru|Ir|Ni|Cu|Ag|Au|palladium(?: hydroxide)?|platinum|rhodium"
    r"|ruthenium|iridium|nickel|copper|gold)"
    r"(?:\s?/\s?|\s+(?:on|over)\s+|[\s-]+|\s?(?=\())"
    r"(\(?(?:activated\s|active\s)?(?:C|carbon|charcoal|alumina|Al2O3|silica|SiO2|CaCO3|BaSO4|SrCO3|TiO2"
    r"|calcium carbonate|barium sulfate|graphite|kieselguhr|celite)\)?)"
)
_SUPPORTED_WORDS = re.compile(
    r"(palladium(?: hydroxide)?|platinum|rhodium|ruthenium|nickel)(?:\s?/\s?|\s+(?:on|over)\s+|[\s-]+)"
    r"((?:activated\s)?(?:carbon|charcoal|alumina|silica))",
    re.IGNORECASE,
)
NO_AXIS = "axial or planar stereo left out, which SMILES do not hold"
_AXIS = re.compile(r"\(?([RSMP]a?|rac|\+-|\+/-|\+|-|(?:Di|Tri)?\w+ \([RSMP]\))\)?(?:-\([+-]\))?-(.+)")
_AXIAL = mol_from_smarts("[c;$(c:[c,n;D3])]-[c;$(c:[c,n;D3])]")
NO_STEREO = "read without stereo, which the table does not have; draw the isomer that is meant"
_THREE_ISOMERS = StereoEnumerationOptions(maxIsomers=3)  # type: ignore[no-untyped-call]
OPEN_CENTRES = 2  # of a trivial name, from which on it is said that they are open


@dataclass(frozen=True)
class Named:
    """A molecule that was looked up: SMILES, full name, and notes on what was left out or assumed."""

    smiles: str
    name: str
    notes: tuple[str, ...] = ()


_GAS = re.compile(r"atm|bar|psi|Pa|torr|balloon|gas|\(g\)", re.IGNORECASE)  # that carbon monoxide is meant by CO


@lru_cache(maxsize=10_000)
def look_up(text: str) -> Named | None:
    """Look up a name or CAS number with qualifiers, stereo descriptors and counter-ions; None if it is not known."""
    if len(text) > 2 * MAX_CHARS:
        return None
    if entry := reagents.lab_names().get(" ".join(text.split()).casefold()):
        return Named(*entry)
    name = spelling.plain_name(text)
    if not 1 < len(name) + (name in additive.SYMBOLS) <= MAX_CHARS or not re.search(r"[A-Za-z0-9].*(?<!-)$", name):
        return None
    named = _molecule(name) or _on_support(name) or _complex(name) or _with_remark(name)
    if named is not None:
        return named
    bare, left_out = spelling.split_qualifiers(name)
    if bare == "CO" and any(map(_GAS.search, left_out)):
        bare = "carbon monoxide"
    named = (_molecule(bare) if left_out else None) or _on_support(bare)
    return named and Named(
        named.smiles, named.name, (*named.notes, *((f"left out: {', '.join(left_out)}",) * bool(left_out)))
    )


@lru_cache(maxsize=10_000)
def read_systematic(text: str) -> Named | None:
    """Read a systematic name by OPSIN; None if it is none, means several molecules, or OPSIN is not installed."""
    name, left_out = spelling.split_qualifiers(spelling.plain_name(text))
    if not _SYSTEMATIC.fullmatch(name) or is_ordinary_word(name):
        return None
    if "(" not in name and reagents.find_isomers(name):
        return None
    named = (
        (_by_parts(name) if _STATE.search(name) else None)
        or _by_opsin(name)
        or _by_parts(name)
        or _of_axis(name, _by_opsin)
        or _with_remark(name, _by_opsin)
    )
    return named and Named(
        named.smiles, name, (*named.notes, *((f"left out: {', '.join(left_out)}",) * bool(left_out)))
    )


_STATE = re.compile(r"\((?:0|I{1,3}|I?V|VI{0,3})\)")  # of the metal of a complex
_OXYL = re.compile(r"(.+?)e?[ -]+1-oxyl(?: radical| free radical)?", re.IGNORECASE)


def _by_opsin(name: str) -> Named | None:
    if match := _OXYL.fullmatch(name):  # a nitroxide: the hydroxylamine that has one hydrogen more
        named = _by_opsin(f"{match[1]}-1-ol")
        smiles = named and re.sub(r"(N\d?\(?)O(?=\)|$)", r"\1[O]", named.smiles)
        return Named(smiles, name, (f"{name}: read by OPSIN",)) if smiles and "[O]" in smiles else None
    for form in _opsin_forms(name):
        parsed = read_by_opsin(form)
        if parsed is not None and not parsed.is_ambiguous and _is_whole(name, parsed.smiles):
            isomer = ", one of several isomers" * ("propylene glycol" in form)
            return Named(canonical(parsed.smiles) or parsed.smiles, name, (f"{name}: read by OPSIN{isomer}",))
    return None


def _by_parts(name: str) -> Named | None:
    smiles = additive.read(name, _component)
    return Named(smiles, name, (f"{name}: read part by part",)) if smiles else None


@lru_cache(maxsize=10_000)
def _component(name: str) -> str | None:
    """Return the SMILES of a molecule or an ion by its name in the list or by OPSIN."""
    if smiles := _listed_smiles(name):
        return smiles
    for form in _opsin_forms(name) if _SYSTEMATIC.fullmatch(name) else ():
        parsed = parse_name(form)
        if parsed is not None and not parsed.is_ambiguous and is_closed_shell(parsed.smiles):
            return parsed.smiles
    named = _of_axis(name, _by_opsin)
    return named.smiles if named else None


# Words of four letters or a locant; OPSIN makes something of abbreviations and formulas, too.
_SYSTEMATIC = re.compile(r"(?=.*(?:[a-z]{4}|[A-Z]{5}|[a-z]{3}-\d))[A-Za-z0-9 ,.'()\[\]{}:;+^~/*$-]{4,400}")


def _opsin_forms(name: str) -> Iterator[str]:
    """Yield a name as OPSIN understands it: capital locants, hyphens between what is on silicon, words in full."""
    plain = name.lower() if name.isupper() else name
    hyphened = spelling.with_hyphens(plain)
    yield hyphened
    yield from dict.fromkeys(
        form for form in (spelling.with_capitals(hyphened), *spelling.other_forms(hyphened)) if form != hyphened
    )


_SALT_FORMER = re.compile(
    r"(?:hydro(?:chlor|brom|iod|fluor)ide|hydrate|salt|solvate|ate|ide|HCl|HBr|acid)\)?$", re.IGNORECASE
)


def _is_whole(name: str, smiles: str) -> bool:
    """Return whether what OPSIN made of a name is one compound and no list of words."""
    if "." not in smiles or " " not in name:
        return True
    return bool(_SALT_FORMER.search(name)) and not (" " in name and all(map(look_up, name.split(" "))))


def near_names(text: str) -> tuple[str, ...]:
    """Return listed names that differ from a text in one letter, or two exchanged ones; at most three."""
    name = spelling.split_qualifiers(spelling.plain_name(text))[0].lower()
    if not 5 <= len(name) <= 40 or not re.search("[a-z]{4}", name):
        return ()
    names: dict[str | None, str] = {}
    for near in _edits(name):
        if entry := reagents.find_by_hand(near) or reagents.find_in_list(near):
            names.setdefault(canonical(entry[0]), near.strip(" -"))
            if len(names) == 3:
                break
    return tuple(names.values())


def _edits(name: str) -> Iterator[str]:
    """Yield the texts at one edit of a letter from a name, the likely ones first; locants and hyphens stay."""
    cuts = [(name[:at], name[at:]) for at in range(len(name) + 1)]
    cuts = [(head, tail) for head, tail in cuts if tail[:1].isalpha() or head[-1:].isalpha()]
    yield from (head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if tail[:2].isalpha() and len(tail) > 1)
    cuts = [(head, tail) for head, tail in cuts if not tail or tail[0].isalpha()]
    yield from (head + tail[1:] for head, tail in cuts if tail)
    letters = "abcdefghijklmnopqrstuvwxyz"
    yield from (head + letter + tail[1:] for head, tail in cuts if tail for letter in letters)
    yield from (head + letter + tail for head, tail in cuts for letter in letters)


def _molecule(name: str) -> Named | None:
    named = _racemate(name) or _listed(name) or _by_cas(name) or _of_axis(name, _listed) or _isomer(name)
    return named or _salt(name) or _precatalyst(name)


def _listed(name: str) -> Named | None:
    for form in (name, *_with_metal(name), *spelling.other_forms(name)):
        if not is_ordinary_word(form) and (entry := reagents.find_by_name(form)):
            mixture = reagents.find_isomers(form)
            kind = "an acidic resin" if "resin" in form or "sulfonic" in entry[1] else "a mixture"
            note = f"{form}: {kind}, read as {entry[1]}"
            return Named(entry[0], form, (note,)) if mixture else Named(*entry, _flat_notes(form, entry[0]))
    return None


_RACEMIC = re.compile(r"(?:dl|rac|racemic|\(?rs\)?|\(?\+-\)?|\(\+/-\))[- ]", re.IGNORECASE)


def _racemate(name: str) -> Named | None:
    """Read the name of a racemate without stereo, whatever the table says: DL-dithiothreitol."""
    match = _RACEMIC.match(name)
    named = _listed(name) or _listed(name[match.end() :]) if match else None
    return named and Named(drop_stereo(named.smiles) or named.smiles, name, (f"{name}: read without stereo",))


_METAL_FIRST = re.compile(r"([A-Z][a-z]?)(\s*\((?:I{1,3}|I?V|VI{0,3}|0)\))?[\s-]+([a-z(].+)")
_METAL_ZERO = re.compile(r"(.{2,}?)\s*\(0\)")


def _with_metal(name: str) -> Iterator[str]:
    """Yield names with the metal's name for its symbol, and with the oxidation state in its usual place or left out."""
    if (match := _METAL_FIRST.fullmatch(name)) and (metal := additive.SYMBOLS.get(match[1])):
        yield f"{metal}{(match[2] or '').strip()} {match[3]}"
        yield f"{metal} {match[3]}"
    if re.search(r"[a-z]\s+\([IV]+\)", name):
        yield re.sub(r"([a-z])\s+(\([IV]+\))", r"\1\2", name)
    if match := _METAL_ZERO.fullmatch(name):
        yield match[1]


_PRECATALYST = re.compile(
    r"(.+?)[\s-]*(?:palladacycle|Pd|precatalyst)?[\s-]*(?:Pd[\s-]*)?(?<![A-Za-z])G(?:en)?[\s.-]?([234])(?:\s+(?:pre)?catalyst)?"
)
_PALLADACYCLES = {
    "2": "Nc1ccccc1-c1ccccc1[Pd]Cl",
    "3": "CS(=O)(=O)O[Pd]c1ccccc1-c1ccccc1N",
    "4": "CNc1ccccc1-c1ccccc1[Pd]OS(C)(=O)=O",
}


def _precatalyst(name: str) -> Named | None:
    """Read Buchwald's palladacycles by their ligand and generation: XPhos Pd G3."""
    match = _PRECATALYST.fullmatch(name)
    ligand = _listed(match[1]) if match else None
    if match is None or ligand is None or "P" not in ligand.smiles:
        return None
    return Named(f"{ligand.smiles}.{_PALLADACYCLES[match[2]]}", f"{ligand.name} Pd G{match[2]}")


def _flat_notes(name: str, smiles: str) -> tuple[str, ...]:
    """Return a note if a trivial name has no stereo in the table, where the molecule surely has some: strychnine."""
    if reagents.find_by_hand(name) or re.search(r"\d", name) or "@" in smiles or len(smiles) < 20:
        return ()
    open_elements = Chem.FindMolChiralCenters(  # type: ignore[no-untyped-call]
        mol_from_smiles(smiles), includeUnassigned=True, useLegacyImplementation=False
    )
    return (f"{name}: {NO_STEREO}",) if len(open_elements) >= OPEN_CENTRES else ()


def _by_cas(name: str) -> Named | None:
    if match := _CAS_WORD.fullmatch(name):
        return _listed(match[1] or match[2])
    if match := _NAME_AND_CAS.fullmatch(name):
        named, number = _listed(match[1]), _listed(match[2])
        if named and (number is None or canonical(named.smiles) == canonical(number.smiles)):
            return named
    return None


def _of_axis(name: str, read: Callable[[str], Named | None]) -> Named | None:
    """Read a name with the descriptor of an axis or plane, without it: (R)-(+)-BINAP."""
    match = _AXIS.fullmatch(name)
    flat = read(match[2]) if match else None
    if (
        match is None
        or flat is None
        or "@" in flat.smiles
        or not mol_from_smiles(flat.smiles).HasSubstructMatch(_AXIAL)
    ):
        return None
    return Named(flat.smiles, name, (*flat.notes, f"({match[1]}): {NO_AXIS}"))


_DESCRIPTOR = re.compile(r"(?:\(\d{0,2}([RSEZ])\)|([RSEZ])|(cis|trans))(?:-\([+-]\))?[- ]\s*([a-z0-9(].*[a-z]{3}.*)")


def _isomer(name: str) -> Named | None:
    """Read a name with the descriptor of the only stereo element that its molecule has: (R)-carvone."""
    match = _DESCRIPTOR.fullmatch(name)
    named = _listed(match[4]) if match else None
    if match is None or named is None or named.smiles.count(".") > 1:
        return None
    isomers = [*EnumerateStereoisomers(mol_from_smiles(drop_stereo(named.smiles) or named.smiles), _THREE_ISOMERS)]  # type: ignore[no-untyped-call]
    sign = match[1] or match[2] or {"cis": "Z", "trans": "E"}[match[3]]
    for mol in map(mol_from_smiles, map(Chem.MolToSmiles, isomers) if len(isomers) == 2 else ()):
        codes = {atom.GetProp("_CIPCode") for atom in mol.GetAtoms() if atom.HasProp("_CIPCode")}
        if sign in codes | {str(bond.GetStereo())[-1] for bond in mol.GetBonds()}:
            return Named(str(Chem.MolToSmiles(mol)), name)
    return None


_COMPLEX = re.compile(r"(.+?)(?:\s+-\s+|\s+)(\S.*?)\s+(?:complex|adduct)(?:\s*\([\d:]+\))?", re.IGNORECASE)
_REMARK = re.compile(r"(.{3,}?)(?:\s*[(\[<]([^()\[\]<>]+)[)\]>]|\s+[(\[<](.+)[)\]>])")
_REMARK_WORDS = (
    r"\b(?:stabili[sz]ed|contains?|mixture|for|racemic|not specified|isomers?|purified|reagent|catalyst|agent|precursor"
    r"|free|antagonist)\b"
)


def _complex(name: str) -> Named | None:
    """Read two molecules that are sold together: borane - morpholine complex."""
    match = _COMPLEX.fullmatch(name)
    if " - " in name:
        match = re.fullmatch(r"(.+) - (.+?)(?: complex| adduct)?", name, re.IGNORECASE)
    first, second = (_listed(match[1]), _listed(match[2])) if match else (None, None)
    return Named(f"{first.smiles}.{second.smiles}", name) if first and second else None


def _with_remark(name: str, read: Callable[[str], Named | None] | None = None) -> Named | None:
    """Read a name with a catalogue's remark in brackets behind it: a code, an abbreviation, (stabilized with BHT)."""
    match = _REMARK.fullmatch(name)
    if match is None:
        return None
    inside = match[2] or match[3]
    if inside[0] == "=" and (named := (read or _molecule)(inside.strip("= "))):
        return named
    if re.fullmatch(r"[IVX]+|[0-9,+'-]+|[A-Z][a-z]?|[+-]|[SREZ]", inside):
        return None
    first, second = _listed(match[1]), _listed(inside)
    if first and second and canonical(first.smiles) == canonical(second.smiles):  # tetrahydrofuran (THF)
        return Named(first.smiles, first.name)
    is_code = re.fullmatch(r"[A-Za-z]{1,6}-?\d[\w-]*|[A-Za-z-]{3,8}", inside) and not second
    is_remark = re.search(_REMARK_WORDS, inside, re.IGNORECASE)
    read = read or _molecule
    named = (read(match[1]) or _with_remark(match[1], read)) if is_code or is_remark else None
    return named and Named(named.smiles, named.name, (*named.notes, f"left out: ({inside})"))


def _on_support(name: str) -> Named | None:
    """Return a catalyst without what it is on: Pd(OH)2/C."""
    match = _SUPPORTED.fullmatch(name) or _SUPPORTED_WORDS.fullmatch(name)
    named = _listed(match[1]) if match else None
    return named and match and Named(named.smiles, named.name, (f"left out: {match[2]}",))


def _salt(name: str) -> Named | None:
    """Read a salt, hydrate or complex whose parts are listed."""
    smiles = additive.read_formula(name, _listed_smiles) or additive.read(name, _listed_smiles)
    return Named(smiles, name, _flat_notes(name, smiles)) if smiles else None


def _listed_smiles(name: str) -> str | None:
    named = _listed(name) or _of_axis(name, _listed) or _isomer(name)
    return named.smiles if named else None


def is_ordinary_word(name: str) -> bool:
    """Return whether a name is an ordinary word, too, which is what is meant; capitals are an abbreviation (DEAD)."""
    return not name.isupper() and name.casefold() in _ordinary_words()


@cache
def _ordinary_words() -> frozenset[str]:
    return frozenset(line for line in WORDS.read_text(encoding="utf-8").split("\n") if line and line[0] != "#")
