"""Look up what is meant by a name as chemists and catalogues write it: listed, of a stereoisomer or salt, by OPSIN."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from rdkit import Chem

import chemspec.chem.reading.names.additive as additive
import chemspec.chem.reading.names.derivatives as derivatives
import chemspec.chem.reading.names.lab_names as lab_names
import chemspec.chem.reading.names.reagents as reagents
import chemspec.chem.reading.names.spelling as spelling
from chemspec.chem.molecules.parsing import mol_from_smarts, mol_from_smiles
from chemspec.chem.molecules.query import canonical, drop_stereo
from chemspec.chem.reading.names.opsin import is_closed_shell, parse_name, read_by_opsin

MAX_CHARS = 200  # characters of a name
_GAS = re.compile(r"atm|bar|psi|Pa|torr|balloon|gas|\(g\)", re.IGNORECASE)  # that carbon monoxide is meant by CO


@dataclass(frozen=True)
class Named:
    """A molecule that was looked up: SMILES, full name, and notes on what was left out or assumed."""

    smiles: str
    name: str
    notes: tuple[str, ...] = ()


Reader = Callable[[str], Named | None]


@lru_cache(maxsize=10_000)
def look_up(text: str) -> Named | None:
    """Look up a name or CAS number with qualifiers, stereo descriptors and counter-ions; None if it is not known."""
    if len(text) > 2 * MAX_CHARS:
        return None
    if entry := lab_names.lab_names().get(" ".join(text.split()).casefold()):
        return Named(*entry)
    name = spelling.plain_name(text)
    if not 1 < len(name) + (name in additive.SYMBOLS) <= MAX_CHARS or not re.search(
        r"[A-Za-z0-9](?:.*(?<!-)|.*\+.*)$|^[A-Z]\w*-$", name
    ):
        return None
    if named := _molecule(name) or _on_support(name) or _with_remark(name, _molecule):
        return named
    bare, left_out = spelling.split_qualifiers(name)
    if bare == "CO" and any(map(_GAS.search, left_out)):
        bare = "carbon monoxide"
    return _noted((_molecule(bare) if left_out else None) or _on_support(bare), *left_out)


def _noted(named: Named | None, *left_out: str) -> Named | None:
    return replace(named, notes=(*named.notes, f"left out: {', '.join(left_out)}")) if named and left_out else named


@lru_cache(maxsize=10_000)
def look_up_systematic(text: str) -> Named | None:
    """Read a systematic name by OPSIN; None if it is none, means several molecules, or OPSIN is not installed."""
    name, left_out = spelling.split_qualifiers(spelling.plain_name(text))
    if not _SYSTEMATIC.fullmatch(name):
        return None
    if "(" not in name and reagents.find_isomers(name):
        return None
    named = (_by_parts(name) if _STATE.search(name) else None) or _by_opsin(name) or _by_parts(name)
    named = named or _without_descriptor(name, _by_opsin) or _with_remark(name, _by_opsin)
    if named is None and (smiles := derivatives.read(name, _component)):
        named = Named(smiles, name, (f"{name}: read as a derivative of its parent",))
    return _noted(named and replace(named, name=name), *left_out)


_STATE = re.compile(r"\((?:0|I{1,3}|I?V|VI{0,3})\)")  # of the metal of a complex
# Words of four letters or a locant; OPSIN makes something of abbreviations and formulas, too.
_SYSTEMATIC = re.compile(r"(?=.*(?:[a-z]{4}|[A-Z]{5}|[a-z]{3}-\d))[A-Za-z0-9 ,.'()\[\]{}:;+^~/*$-]{4,400}")


def _by_opsin(name: str) -> Named | None:
    for form in spelling.opsin_forms(name):
        parsed = read_by_opsin(form)
        if parsed is not None and not parsed.is_ambiguous and _is_whole(name, parsed.smiles):
            return Named(canonical(parsed.smiles) or parsed.smiles, name, (f"{name}: read by OPSIN",))
    return None


_ACID_ALONE = re.compile(r" \w*(?<!hydr)(?<!solv)(?<!ether)ate$")


def _is_whole(name: str, smiles: str) -> bool:
    """Return whether what OPSIN made of a name is one compound and no list of words."""
    if "." not in smiles or " " not in name:
        return True
    is_ester = _ACID_ALONE.search(name) and not re.search("[Nn+]", smiles)  # salicylic acid acetate
    return not (is_ester or " oxime " in name or all(map(look_up, name.split(" "))))


def _by_parts(name: str) -> Named | None:
    smiles = next(filter(None, (additive.read(form, _component) for form in (name, *spelling.other_forms(name)))), None)
    axis = (NO_AXIS,) * bool(smiles and "@" not in smiles and re.search(r"\([RS]\)-", name))
    return Named(smiles, name, (f"{name}: read part by part", *axis)) if smiles else None


@lru_cache(maxsize=10_000)
def _component(name: str) -> str | None:
    """Return the SMILES of a molecule or an ion by its name in the list or by OPSIN."""
    if smiles := _known_smiles(name):
        return smiles
    for form in spelling.opsin_forms(name) if _SYSTEMATIC.fullmatch(name) else ():
        parsed = parse_name(form)
        if parsed is not None and not parsed.is_ambiguous and is_closed_shell(parsed.smiles):
            return parsed.smiles
    return named.smiles if (named := _without_descriptor(name, _by_opsin)) else None


def _molecule(name: str) -> Named | None:
    if named := _known(name):
        return named
    smiles = additive.read_formula(name, _known_smiles) or additive.read(name, _known_smiles)
    return Named(smiles, name, _flat_notes(name, smiles)) if smiles else None


def _known(name: str) -> Named | None:
    return _without_descriptor(name, _listed) or _listed(name)


def _known_smiles(name: str) -> str | None:
    return named.smiles if (named := _known(name)) else None


def _listed(name: str) -> Named | None:
    for form in (name, *spelling.other_forms(name)):
        if entry := reagents.find_by_name(form):
            mixture = reagents.find_isomers(form)
            kind = "an acidic resin" if "resin" in form or "sulfonic" in entry[1] else "a mixture"
            note = f"{form}: {kind}, read as {entry[1]}"
            return Named(entry[0], form, (note,)) if mixture else Named(*entry, _flat_notes(form, entry[0]))
    return None


NO_STEREO = "read without stereo, which the table does not have; draw the isomer that is meant"
MIN_OPEN_CENTRES = 2  # of a trivial name, from which on it is said that they are open


def _flat_notes(name: str, smiles: str) -> tuple[str, ...]:
    """Return a note if a trivial name has no stereo in the table, where the molecule surely has some: strychnine."""
    if reagents.find_by_hand(name) or re.search(r"\d", name) or "@" in smiles or len(smiles) < 20:
        return ()
    open_elements = Chem.FindMolChiralCenters(  # type: ignore[no-untyped-call]
        mol_from_smiles(smiles), includeUnassigned=True, useLegacyImplementation=False
    )
    return (f"{name}: {NO_STEREO}",) if len(open_elements) >= MIN_OPEN_CENTRES else ()


NO_AXIS = "axial or planar stereo left out, which SMILES do not hold"
_DESCRIPTOR = re.compile(
    r"\(?(?:(DL|dl|rac|racemic|RS|rs|\+-|\+/-)|([RSMP]a?|\+|-|(?:Di|Tri)?\w+ \([RSMP]\)))\)?(?:-\([+-]\))?[- ](.+)"
)
_AXIAL = mol_from_smarts("[c;$(c:[c,n;D3])]-[c;$(c:[c,n;D3])]")


def _without_descriptor(name: str, read: Reader) -> Named | None:
    """Read the name of a racemate, or with the descriptor of an axis or plane, without it: (R)-(+)-BINAP."""
    match = _DESCRIPTOR.fullmatch(name)
    flat = ((match[1] and read(name)) or read(match[3])) if match else None
    if match is None or flat is None:
        return None
    if match[1]:
        return Named(drop_stereo(flat.smiles) or flat.smiles, name, (f"{name}: read without stereo",))
    if "@" in flat.smiles or not mol_from_smiles(flat.smiles).HasSubstructMatch(_AXIAL):
        return None
    return Named(flat.smiles, name, (*flat.notes, f"({match[2]}): {NO_AXIS}"))


_REMARK = re.compile(r"(.{3,}?)(?:\s*[(\[<]([^()\[\]<>]+)[)\]>]|\s+[(\[<](.+)[)\]>])")
_REMARK_OR_CODE = re.compile(
    rf"(?i:.*\b(?:{spelling.QUALIFIERS['remark']})\b.*)|[A-Za-z]{{1,6}}-?\d[\w-]*|(?![IVX]+$)[A-Za-z-]{{3,8}}"
)


def _with_remark(name: str, read: Reader) -> Named | None:
    """Read a name with another one or a catalogue's remark in brackets behind it: THF (tetrahydrofuran)."""
    match = _REMARK.fullmatch(name)
    if match is None:
        return None
    inside = spelling.split_qualifiers((match[2] or match[3]).strip())[0]
    if inside.startswith("=") and (named := read(inside.strip("= "))):
        return named
    if other := _listed(inside):
        first = _listed(match[1])
        return first if first and canonical(first.smiles) == canonical(other.smiles) else None
    named = (read(match[1]) or _with_remark(match[1], read)) if _REMARK_OR_CODE.fullmatch(inside) else None
    return _noted(named, f"({inside})")


_SUPPORTED = re.compile(
    rf"({spelling.QUALIFIERS['metal']})(?:\s?[/@+.]\s?|[\s-]+(?:on|over)[\s-]+|[\s-]+|\s?(?=\())"
    rf"(\(?(?:\d+\s?(?:wt\.?\s?)?%\s?(?:on )?)?(?:activated |active )?(?:{spelling.QUALIFIERS['support']})\)?)",
    re.IGNORECASE,
)


def _on_support(name: str) -> Named | None:
    """Return a catalyst without what it is on: Pd(OH)2/C."""
    match = _SUPPORTED.fullmatch(name)
    return _noted(_listed(match[1]), match[2]) if match else None
