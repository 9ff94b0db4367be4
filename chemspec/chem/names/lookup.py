"""Look up what is meant by a name as chemists and catalogues write it: listed, of a stereoisomer or salt, by OPSIN."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources, util
from pathlib import Path

from rdkit import Chem, rdBase
from rdkit.Chem import FindPotentialStereo

import chemspec.chem.names.reagents as reagents
import chemspec.chem.names.spelling as spelling
from chemspec.asset_files import read_asset_table
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.query import canonical, drop_stereo, is_valid

WORDS = Path(__file__).with_name("words.txt")  # ordinary words that are trade names as well
LONGEST = 200  # characters of a name
_CAS = r"\d{2,7}-\d\d-\d"
_CAS_WORD = re.compile(
    rf"(?:cas|casrn|(?=rn))(?:[\s-]*(?:no|nr|number|rn|reg(?:istry)?(?:\s*(?:no|number))?|id))?[\s.:#=-]*\[?({_CAS})\]?"
    rf"|[\[(]({_CAS})[\])]",
    re.IGNORECASE,
)
_NAME_AND_CAS = re.compile(
    rf"(.+?)[\s,;]*(?:[\[(]\s*)?(?:cas[\s.:#-]*(?:no\.?\s*)?)?({_CAS})(?:\s*[\])])?", re.IGNORECASE
)
_SUPPORT = re.compile(r"(?:\s?/\s?|\s+on\s+)(?:C|carbon|charcoal|alumina|Al2O3|silica|SiO2|CaCO3|BaSO4)$")
_COUNTERIONS = read_asset_table(Path(__file__).with_name("counterions.tsv"))
_PARTS = {word: smiles for words, smiles in _COUNTERIONS for word in words.split(" | ")}
_TIMES = {
    "": 1, "mono": 1, "di": 2, "tri": 3, "tetra": 4, "penta": 5, "hexa": 6, "hepta": 7, "octa": 8, "nona": 9,
    "deca": 10,
}  # fmt: skip
_SALT = re.compile(rf"(.+?)[\s-]+(?:({'|'.join(_TIMES)})-?|([2-9])\s?)({'|'.join(_PARTS)})(?:\s+salt)?", re.IGNORECASE)


@dataclass(frozen=True)
class Named:
    """A molecule that was looked up: SMILES, full name, and notes on what was left out or assumed."""

    smiles: str
    name: str
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=10_000)
def look_up(text: str) -> Named | None:
    """Look up a name or CAS number with qualifiers, stereo descriptors and counter-ions; None if it is not known."""
    if len(text) > 2 * LONGEST:
        return None
    name = spelling.plain_name(text)
    if not 1 < len(name) <= LONGEST or not re.search("[A-Za-z0-9]", name):
        return None
    named = _molecule(name)
    if named is not None:
        return named
    bare, left_out = spelling.split_qualifiers(name)
    named = (_molecule(bare) if left_out else None) or _on_support(bare)
    return named and Named(
        named.smiles, named.name, (*named.notes, *((f"left out: {', '.join(left_out)}",) * bool(left_out)))
    )


def read_systematic(text: str) -> Named | None:
    """Read a systematic name by OPSIN, which takes seconds; None if it is none or OPSIN is not installed."""
    name = spelling.plain_name(text)
    smiles = None if is_ordinary_word(name) or reagents.find_isomers(name) else read_by_opsin(name)
    return Named(smiles, name, (f"{name}: read by OPSIN",)) if smiles else None


def _molecule(name: str) -> Named | None:
    return _listed(name) or _by_cas(name) or _isomer(name) or _salt(name)


def _listed(name: str) -> Named | None:
    for form in (name, *spelling.other_forms(name)):
        if not is_ordinary_word(form) and (entry := reagents.find_by_name(form)):
            mixture = reagents.find_isomers(form)
            note = f"{form}: a mixture, read as {entry[1]}"
            return Named(entry[0], form, (note,)) if mixture else Named(*entry)
    return None


def _by_cas(name: str) -> Named | None:
    if match := _CAS_WORD.fullmatch(name):
        return _listed(match[1] or match[2])
    if match := _NAME_AND_CAS.fullmatch(name):
        named, number = _listed(match[1]), _listed(match[2])
        if named and (number is None or canonical(named.smiles) == canonical(number.smiles)):
            return named
    return None


def _isomer(name: str) -> Named | None:
    split = split_descriptor(name)
    if split is None or (named := _listed(split[1])) is None:
        return None
    sign, rest = split
    if sign in "DL":
        mirrored = _listed(f"{'L' if sign == 'D' else 'D'}-{rest}")
        turn = {"@": "@@", "@@": "@"}
        return mirrored and Named(re.sub("@@?", lambda mark: turn[mark[0]], mirrored.smiles), name)
    smiles = with_descriptor(named.smiles, sign)
    return Named(smiles, name) if smiles else None


def _on_support(name: str) -> Named | None:
    """Return a catalyst without what it is on: Pd(OH)2/C."""
    match = _SUPPORT.search(name)
    named = _listed(name[: match.start()]) if match else None
    return named and match and Named(named.smiles, named.name, (f"left out: {match.group().strip()}",))


def _salt(name: str) -> Named | None:
    match = _SALT.fullmatch(name)
    if match is None or (base := _listed(match[1]) or _isomer(match[1])) is None:
        return None
    count = int(match[3]) if match[3] else _TIMES[(match[2] or "").lower()]
    return Named(".".join([base.smiles] + [_PARTS[match[4].lower()]] * count), name)


def is_ordinary_word(name: str) -> bool:
    """Return whether a name is an ordinary word, too, which is what is meant; capitals are an abbreviation (DEAD)."""
    return not name.isupper() and name.casefold() in _ordinary_words()


@cache
def _ordinary_words() -> frozenset[str]:
    return frozenset(line for line in WORDS.read_text(encoding="utf-8").split("\n") if line and line[0] != "#")


_DESCRIPTOR = re.compile(
    r"(?:\(\d{0,2}(?P<cip>[RSEZ])\)|(?P<bare>[RSEZ])|(?P<l>[DL])|(?P<rac>rac|DL|RS|\(RS\)|\((?:\+-|\+/-)\)|racemic)"
    r"|(?P<geo>trans|cis))(?:-\([+-]\))?[-\s]\s*(?P<name>[a-z0-9(].*)"
)


def split_descriptor(name: str) -> tuple[str, str] | None:
    """Return a stereo descriptor (R, S, E, Z, D, L or rac) and the rest of a plain name; None without one."""
    match = _DESCRIPTOR.fullmatch(name)
    if match is None or not re.search("[a-z]{3}", match["name"]):
        return None
    sign = match["cip"] or match["bare"] or match["l"] or {"trans": "E", "cis": "Z"}.get(match["geo"] or "", "rac")
    return sign, match["name"]


def with_descriptor(smiles: str, sign: str) -> str | None:
    """Return the stereoisomer that a descriptor means; None unless the molecule has just one such stereo element."""
    flat = drop_stereo(smiles)
    if flat is None or sign == "rac":
        return flat
    with rdBase.BlockLogs():
        mol = mol_from_smiles(flat)
        kind = Chem.StereoType.Bond_Double if sign in "EZ" else Chem.StereoType.Atom_Tetrahedral
        elements = [element for element in FindPotentialStereo(mol) if element.type == kind]
        if len(elements) != 1:
            return None
        for number in (0, 1):
            if sign in "EZ":
                bond, ends = mol.GetBondWithIdx(elements[0].centeredOn), elements[0].controllingAtoms
                bond.SetStereoAtoms(ends[0], ends[2])
                bond.SetStereo((Chem.BondStereo.STEREOCIS, Chem.BondStereo.STEREOTRANS)[number])
            else:
                tags = Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW
                mol.GetAtomWithIdx(elements[0].centeredOn).SetChiralTag(tags[number])
            isomer = mol_from_smiles(Chem.MolToSmiles(mol))
            codes = [atom.GetProp("_CIPCode") for atom in isomer.GetAtoms() if atom.HasProp("_CIPCode")]
            if sign in codes or any(str(bond.GetStereo()) == f"STEREO{sign}" for bond in isomer.GetBonds()):
                return str(Chem.MolToSmiles(isomer))
    return None


SECONDS = 20  # that a name may take, most of which Java needs to start
OFF = "CHEMSPEC_NO_OPSIN"  # environment variable
_SYSTEMATIC = re.compile(
    r"(?=.*(?:ane?|ene?|yne?|yl|ol|al|ile|one|acid|ate|ide|ine|ole|oxy|imine|amide|ether)(?:$|[\s)\]-]))"
    r"[A-Za-z0-9 ,.'()\[\]{}:+-]{6,200}"
)


@lru_cache(maxsize=10_000)
def read_by_opsin(name: str) -> str | None:
    """Return the SMILES of a systematic name; None if it is none or OPSIN is not installed."""
    jar = _opsin_jar()
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
def _opsin_jar() -> Path | None:
    if os.environ.get(OFF) or util.find_spec("py2opsin") is None or shutil.which("java") is None:
        return None
    files = sorted(Path(str(resources.files("py2opsin"))).glob("opsin-cli-*.jar"))
    return files[-1] if files else None
