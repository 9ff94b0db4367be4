"""Read salts, hydrates and complexes part by part: caesium periodate dihydrate, Mg(MnO4)2, dichloro(dppe)nickel(II)."""

import re
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from rdkit import Chem

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import mol_from_smiles

MAX_IONS = 6  # ions of one kind, and metal atoms
Molecule = Callable[[str], str | None]  # SMILES of a molecule or an ion by its name
METALS = {
    name: (symbol, int(charge)) for symbol, name, charge in read_asset_table(Path(__file__).with_name("metals.tsv"))
}
SYMBOLS = {symbol: name for name, (symbol, _) in METALS.items() if symbol not in "HIBr"}
ROMAN = {"0": 0, "I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7, "VIII": 8}
_TIMES = {
    "mono": 1, "di": 2, "bis": 2, "tri": 3, "tris": 3, "tetra": 4, "tetrakis": 4, "penta": 5, "pentakis": 5, "hexa": 6,
    "hexakis": 6, "hepta": 7, "octa": 8, "nona": 9, "deca": 10,
}  # fmt: skip
_MANY = "|".join(sorted(_TIMES, key=len, reverse=True))
_METAL = rf"(?:({_MANY})-?)?({'|'.join(sorted(METALS, key=len, reverse=True))})(?:\s?\(({'|'.join(ROMAN)})\))?"
_CATION = re.compile(_METAL, re.IGNORECASE)
_COMPLEX = re.compile(rf"(.+?)-?{_METAL}", re.IGNORECASE)
_COUNTED = re.compile(rf"(?:({_MANY})-?|(\d)\s?)?[(\[]?(.+?)[)\]]?(?:\((?:\d[+-]|[IV]+)\))?$", re.IGNORECASE)
_OXIME = re.compile(r"=N[/\\]?O|O[/\\]?N=")  # whose nitrogen is no base
_LEFT_OUT = {"salt", "complex", "adduct", "reagent", "-", "free", "base"}
_INSIDE = r"[^()\[\]]*"
for _ in range(3):
    _INSIDE = rf"(?:[^()\[\]]|[(\[]{_INSIDE}[)\]])+"
_WORD = re.compile(rf"(?:[(\[]{_INSIDE}[)\]]|[^\s(\[])+")
_FIXED = {"Al", "Zn", "Mg", "Ti", "Zr", "Hf", "In", "Ga"}  # metals that have their usual charge in complexes
_SEVERAL = {"Co", "Cu", "Sn", "Pb", "Pd", "Ni", "Mn", "Pt"}  # metals whose salts have other charges, too


class _Part(NamedTuple):
    """Ions or molecules of one kind; 0 times means as many as the charges need."""

    smiles: str
    charge: int
    times: int


# SMILES of ions and ligands by name or formula, and charge.
IONS: dict[str, dict[int, str]] = {}
for _charge, _names, _smiles in read_asset_table(Path(__file__).with_name("ions.tsv")):
    for _name in _names.split(" | "):
        IONS.setdefault(_name, {})[int(_charge)] = _smiles
_NAMES = sorted(map(re.escape, IONS), key=len, reverse=True)
_LISTED = "|".join(name for name in _NAMES if name.islower())
_LIGAND = re.compile(rf"-?(?:({_MANY})-?)??(?:(?:mu-)?({_LISTED})|[(\[]({_INSIDE})[)\]])", re.IGNORECASE)
_SHORT = "dba|dpp[befp]|cod|coe|nbd|acac|bpy|phen|dme"  # Pd2dba3, PdCl2dppf
_GROUP = (
    rf"(?:\((?![IV0]+\))([^()]+)\)"
    rf"|((?:{'|'.join(name for name in _NAMES if name[0].isupper())})(?![a-z])|{_SHORT}))(\d?)"
)
_FORMULA = re.compile(
    rf"\[?(?P<before>(?>{_GROUP})*?)(?P<metal>NH4|[A-Z][a-z]?)(?P<count>[1-9]?)(?:\([IV0]+\))?"
    rf"(?P<behind>(?>{_GROUP})*+)(?:\](?P<times>[1-9]?))?(?P<dimer> dimer)?"
)


def _metal(symbol: str, charge: int) -> str:
    return f"[{symbol}{f'+{charge}' if charge else ''}]".replace("+1]", "+]")


def read_formula(text: str, molecule: Molecule) -> str | None:
    """Return the SMILES of a salt or complex by its formula: NaMnO4, Mg(ClO4)2, NiCl2(dppe), [Cp*RhCl2]2."""
    match = _FORMULA.fullmatch(text)
    if match is None or (metal := match["metal"]) not in SYMBOLS or text == "NH4":
        return None
    groups = [*re.finditer(_GROUP, match["before"]), *re.finditer(_GROUP, match["behind"])]
    around = [_ligand(group[1] or group[2], molecule) for group in groups for _ in range(int(group[3] or 1))]
    metals, usual = int(match["count"] or 1), METALS[SYMBOLS[metal]][1]
    charge, left = divmod(-sum(bound for _, bound in around), metals)
    is_complex = any(not bound for _, bound in around)
    is_usual = charge and (charge == usual or usual > 2 or metal in _SEVERAL or match["before"])
    if text != metal and (
        left or not all(smiles for smiles, _ in around) or not around or not (is_complex or is_usual)
    ):
        return None
    times = 2 if match["dimer"] else int(match["times"] or 1)
    return ".".join([*(smiles for smiles, _ in around), *[_metal(metal, charge)] * metals] * times)


def read(name: str, molecule: Molecule) -> str | None:
    """Return the SMILES of a compound whose name lists its parts; None if a part is not read or charges are left."""
    name = re.sub("(?i)alumin(?=um)", "alumini", name.lower() if name.isupper() else name)
    name = re.sub("(?i)(?<=hydrogen) |(?<=bromide) (?=perbromide)", "", name)
    words = [word for word in _WORD.findall(name) if word.lower() not in _LEFT_OUT]
    times = 2 if words and words[-1].lower() == "dimer" else 1
    words = words[: len(words) - times + 1]
    for start in range(1, len(words) + 1):
        for base in _bases(" ".join(words[:start]), molecule, alone=start == len(words)):
            parts = [base, *filter(None, (_counter(word, base, molecule) for word in words[start:]))]
            if len(parts) + start == len(words) + 1 and (smiles := _balanced(parts)):
                return ".".join([smiles] * times)
    return None


def _bases(head: str, molecule: Molecule, *, alone: bool) -> list[_Part]:
    """Return what the first words may be: a metal, a complex of one, or another cation or molecule."""
    if match := _CATION.fullmatch(head):
        symbol, usual = METALS[match[2].lower()]
        count = _TIMES[match[1].lower()] if match[1] else 0
        if match[3]:
            return [_Part(_metal(symbol, charge := ROMAN[match[3].upper()]), charge, count)] * (not alone)
        others = [_Part(_metal(symbol, charge), charge, count or 1) for charge in range(1, 9)]
        return [_Part(_metal(symbol, usual), usual, count), *others] * (not alone)
    if (complexed := _complex(head, molecule)) and complexed.charge >= 0:
        return [complexed]
    smiles = None if alone else molecule(head)
    charge = Chem.GetFormalCharge(mol_from_smiles(smiles)) if smiles else -1
    return [_Part(smiles, charge, 0 if charge else 1)] if smiles and charge >= 0 else []


def _counter(word: str, base: _Part, molecule: Molecule) -> _Part | None:
    """Return the ions, acids or solvents that a word behind a base means; an acid goes with nitrogen only."""
    counted = (
        (match[3], _TIMES[(match[1] or "mono").lower()] * int(match[2] or 1)) for match in _COUNTED.finditer(word)
    )
    forms = [(re.sub(r"(?i)\([iv]+\)$", "", word), 0), *counted]
    for text, count in forms:
        kinds = {**IONS.get(text.lower(), {}), **IONS.get(text, {})}
        if base.charge and kinds:
            return _Part(kinds[min(kinds)], min(kinds), count or (0 if min(kinds) else 1))
        if 0 in kinds and (len(kinds) == 1 or re.search("[Nn]", _OXIME.sub("", base.smiles))):
            return _Part(kinds[0], 0, count or 1)
    if not base.charge:
        return None
    if complexed := _complex(word, molecule):
        return complexed._replace(times=0 if complexed.charge else 1)
    for text, count in forms if re.search(r"[a-z]{2}(?:ate|ide|ite)[)\]]?$", word) else ():
        smiles = molecule(text)
        if smiles and (charge := Chem.GetFormalCharge(mol_from_smiles(smiles))) < 0:
            return _Part(smiles, charge, count)
    return None


def _balanced(parts: Sequence[_Part]) -> str | None:
    """Return the SMILES of as few ions as have no charge together; None if there are none."""
    choices = [range(1, MAX_IONS + 1) if part.times == 0 else (part.times,) for part in parts]
    for counts in sorted(product(*choices), key=sum):
        if not sum(part.charge * count for part, count in zip(parts, counts, strict=True)):
            return ".".join(part.smiles for part, count in zip(parts, counts, strict=True) for _ in range(count))
    return None


def _complex(word: str, molecule: Molecule) -> _Part | None:
    """Read ligands in front of their metal: dichlorobis(triphenylphosphine)palladium(II)."""
    match = _COMPLEX.fullmatch(word[1:-1] if word[0] == "[" and word[-1] == "]" else word)
    symbol, usual = METALS[match[3].lower()] if match else ("", 0)
    if match is None or (usual == 1 and symbol not in {"Ag", "Br", "I"}):  # chloroacetic acid sodium
        return None
    around, rest = list[tuple[str, int]](), match[1].rstrip("- ")
    while rest:
        ligand = _LIGAND.match(rest)
        read = _ligand(ligand[2] or ligand[3] if ligand else rest, molecule)
        if not read[0]:
            return None
        around += [read] * (_TIMES[ligand[1].lower()] if ligand and ligand[1] else 1)
        rest = rest[ligand.end() :] if ligand else ""
    bound, metals = sum(charge for _, charge in around), _TIMES[(match[2] or "mono").lower()]
    charge = ROMAN[match[4].upper()] if match[4] else -bound if symbol not in _FIXED and bound else usual
    return _Part(
        ".".join([*(smiles for smiles, _ in around), *[_metal(symbol, charge)] * metals]), charge * metals + bound, 1
    )


def _ligand(name: str, molecule: Molecule) -> tuple[str, int]:
    """Return SMILES and charge of a ligand, empty if it is none: acetato, phenoxy."""
    if by_charge := IONS.get(name) or IONS.get(name.lower()):
        return by_charge[min(by_charge)], min(by_charge)
    anion = re.sub(r"oxy$", "oxide", re.sub(r"(?<=[ai])do$|(?<=at)o$", lambda match: match[0][:-1] + "e", name))
    smiles = molecule(anion) or ""
    charge = Chem.GetFormalCharge(mol_from_smiles(smiles)) if smiles else 0
    is_none = re.fullmatch(r"\[[A-Z][a-z]?\]", smiles) or re.fullmatch("[A-Za-z]+yl", name)  # a metal, or a group
    return (smiles, charge) if (charge < 0) == (anion != name) and not is_none else ("", 0)
