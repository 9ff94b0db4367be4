"""Read salts, hydrates and complexes part by part: caesium periodate dihydrate, Mg(MnO4)2, dichloro(dppe)nickel(II)."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

from rdkit import Chem

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import mol_from_smiles

MAX_IONS = 6  # ions of one kind, and metal atoms
Molecule = Callable[[str], str | None]  # SMILES of a molecule or an ion by its name
_METALS = {
    name: (symbol, int(charge)) for symbol, name, charge in read_asset_table(Path(__file__).with_name("metals.tsv"))
}
SYMBOLS = {symbol: name for name, (symbol, _) in _METALS.items() if symbol not in "HIBr"}
_ROMAN = {"0": 0, "I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7, "VIII": 8}
_TIMES = {
    "mono": 1, "di": 2, "bis": 2, "tri": 3, "tris": 3, "tetra": 4, "tetrakis": 4, "penta": 5, "pentakis": 5, "hexa": 6,
    "hexakis": 6, "hepta": 7, "octa": 8, "nona": 9, "deca": 10,
}  # fmt: skip
_MANY = "|".join(sorted(_TIMES, key=len, reverse=True))
_METAL = rf"({'|'.join(sorted(_METALS, key=len, reverse=True))})(?:\s?\(({'|'.join(_ROMAN)})\))?"
_CATION = re.compile(rf"(?:({_MANY})-?)?{_METAL}", re.IGNORECASE)
_COMPLEX = re.compile(rf"(.+?)-?{_METAL}", re.IGNORECASE)
_COUNTED = re.compile(rf"(?:({_MANY})-?|(\d)\s?)[(\[]?(.+?)[)\]]?(?:\((?:\d[+-]|[IV]+)\))?", re.IGNORECASE)
_LEFT_OUT = {"salt", "complex", "adduct", "reagent", "-", "free", "base"}
_TAIL = re.compile(r"(?:ide|ate|ite|cyl|hcl|hbr|hf|tfa|H2O)[)\]]?(?:\([IV]+\))?$", re.IGNORECASE)
_ACIDS = {"O=S(=O)(O)O", "O=[N+]([O-])O", "O=P(O)(O)O", "CC(=O)O", "O=C(O)C(F)(F)F", "O=C(O)C(=O)O"}
_WORD = re.compile(r"(?:[^\s()\[\]]|\((?:[^()]|\([^()]*\))*\)|\[(?:[^\[\]]|\[[^\[\]]*\])*\]|[()\[\]])+")
_ATOM = re.compile(r"\[[A-Z][a-z]?\]")
_FIXED = {"Al", "Zn", "Mg", "Ti", "Zr", "Hf", "In", "Ga"}  # metals that have their usual charge in complexes
_SEVERAL = {"Co", "Cu", "Sn", "Pb", "Pd", "Ni", "Mn", "Pt"}  # metals whose salts have other charges, too


@dataclass(frozen=True)
class _Part:
    """Ions or molecules of one kind; count 0 means as many as the charges need, charge None is what is left."""

    smiles: str
    charge: int | None = 0
    count: int = 1

    def written(self, charge: int) -> str:
        return self.smiles.replace("+?", f"+{charge}" if charge else "").replace("+1]", "+]")


@cache
def ions() -> dict[str, dict[int, str]]:
    """Return the SMILES of ions and ligands by name or formula, and charge."""
    table: dict[str, dict[int, str]] = {}
    for charge, names, smiles in read_asset_table(Path(__file__).with_name("ions.tsv")):
        for name in names.split(" | "):
            table.setdefault(name, {})[int(charge)] = smiles
    return table


_FORMULA = re.compile(r"\[?(NH4|[A-Z][a-z]?)(\d?)(?=[A-Z(])")
_ANIONS = "|".join(re.escape(name) for name in sorted(ions(), key=len, reverse=True) if name[0].isupper())
_GROUP = re.compile(rf"\(([^()]+)\)(\d?)|({_ANIONS})(\d?)(?![a-z])")


def read_formula(text: str, molecule: Molecule) -> str | None:
    """Return the SMILES of a salt or complex by its formula: NaMnO4, Mg(ClO4)2, Pd(dba)2, NiCl2(dppe)."""
    match = _FORMULA.match(text)
    if match is None or match[1] not in {*SYMBOLS, "NH4"}:
        return None
    around, rest = list[tuple[str, int]](), text[match.end() :]
    while rest:
        group = _GROUP.match(rest)
        part = _group(group[1] or group[3], bool(group[1]), molecule) if group else None
        if group is None or part is None:
            return None
        around += [part] * int(group[2] or group[4] or 1)
        rest = rest[group.end() :]
    metals = int(match[2] or 1)
    charge, left = divmod(-sum(bound for _, bound in around), metals)
    usual = 1 if match[1] == "NH4" else _METALS[SYMBOLS[match[1]]][1]
    is_complex = any(not bound for _, bound in around)
    if left or not around or not (is_complex or (charge and (charge == usual or usual > 2 or match[1] in _SEVERAL))):
        return None
    cation = "[NH4+]" if match[1] == "NH4" else _Part(f"[{match[1]}+?]").written(charge)
    return ".".join([*(smiles for smiles, _ in around), *[cation] * metals])


def _group(name: str, in_brackets: bool, molecule: Molecule) -> tuple[str, int] | None:
    """Return SMILES and charge of what stands in a formula behind a metal: Cl, acac, (dppe)."""
    by_charge = ions().get(name) or ions().get(name.lower() if in_brackets else "") or {}
    smiles = by_charge[min(by_charge)] if by_charge else molecule(name) if in_brackets else None
    return (smiles, min(by_charge, default=0)) if smiles and min(by_charge, default=0) <= 0 else None


def is_unnamed_salt(name: str) -> bool:
    """Return whether a name says what cation a salt has but no anion: barium salt, disodium salt (1:2)."""
    match = re.fullmatch(r"(.+) salt(?: \(\d:\d\))?", name)
    return bool(match and _CATION.fullmatch(match[1]))


def read(name: str, molecule: Molecule) -> str | None:
    """Return the SMILES of a compound whose name lists its parts; None if a part is not read or charges are left."""
    name = re.sub("(?i)alumin(?=um)", "alumini", name.lower() if name.isupper() else name)
    words = [word for word in _WORD.findall(name) if word.lower() not in _LEFT_OUT]
    times = 2 if words and words[-1].lower() == "dimer" else 1
    words = words[: len(words) - times + 1]
    for start in range(1, len(words) + 1):
        head, tail = " ".join(words[:start]), words[start:]
        for base in _bases(head, molecule, alone=not tail):
            parts = _tail(tail, base.charge != 0, molecule)
            if parts is not None and _fit(base, parts) and (smiles := _balanced([base, *parts])):
                return ".".join([smiles] * times)
    return None


def _fit(base: _Part, parts: Sequence[_Part]) -> bool:
    """Return whether a molecule takes what is named behind it: phenol acetate is an ester, a metal holds no cation."""
    if _ATOM.fullmatch(base.smiles):
        return not any("+" in part.smiles for part in parts)
    return base.charge != 0 or bool(re.search("[Nn]", base.smiles)) or _ACIDS.isdisjoint(part.smiles for part in parts)


def _bases(head: str, molecule: Molecule, *, alone: bool) -> list[_Part]:
    """Return what the first words may be: a metal, a complex of one, or another cation or molecule."""
    if match := _CATION.fullmatch(head):
        symbol, usual = _METALS[match[2].lower()]
        charge = _ROMAN[match[3].upper()] if match[3] else None
        count = _TIMES[match[1].lower()] if match[1] else 0
        if charge is not None:
            return [_Part(f"[{symbol}+?]", charge, count)]
        return [_Part(f"[{symbol}+?]", usual, count), _Part(f"[{symbol}+?]", None, count or 1), _Part(f"[{symbol}]")]
    if (complexed := _complex(head, molecule)) and (complexed.charge or 0) >= 0:
        return [complexed]
    smiles = None if alone else molecule(head)
    charge = Chem.GetFormalCharge(mol_from_smiles(smiles)) if smiles else -1
    return [_Part(smiles, charge, 0 if charge else 1)] if smiles and charge >= 0 else []


def _tail(words: Sequence[str], of_cation: bool, molecule: Molecule) -> list[_Part] | None:
    """Return the ions, acids, solvents and metals that the last words are; None if any of them is none."""
    if not words:
        return []
    for end in range(min(2, len(words)), 0, -1):
        if part := _counter(" ".join(words[:end]), of_cation, molecule):
            rest = _tail(words[end:], of_cation, molecule)
            return None if rest is None else [part, *rest]
    return None


def _counter(word: str, of_cation: bool, molecule: Molecule) -> _Part | None:
    match = _COUNTED.fullmatch(word)
    forms = [(word, 0)] + ([(match[3], _TIMES[match[1].lower()] if match[1] else int(match[2]))] if match else [])
    for text, count in forms if _TAIL.search(word) else ():
        for key in (text, re.sub(r"\([iv]+\)$", "", text.lower())):
            for charge, smiles in sorted(ions().get(key, {}).items()):
                if charge == 0 or (charge < 0) == of_cation:
                    return _Part(smiles, charge, count or (0 if charge else 1))
    if of_cation and (complexed := _complex(word, molecule)):
        return replace(complexed, count=0 if complexed.charge else 1)
    for text, count in forms if of_cation and re.search(r"[a-z]{2}(?:ate|ide|ite)$", word) else ():
        anion = molecule(text)
        charge = Chem.GetFormalCharge(mol_from_smiles(anion)) if anion else 0
        if anion and charge < 0:
            return _Part(anion, charge, count)
    return None


def _balanced(parts: Sequence[_Part]) -> str | None:
    """Return the SMILES of as few ions as have no charge together; None if there are none."""
    choices = [range(1, MAX_IONS + 1) if part.count == 0 else (part.count,) for part in parts]
    for counts in sorted(product(*choices), key=sum):
        rest = -sum((part.charge or 0) * count for part, count in zip(parts, counts, strict=True))
        unknown = parts[0].charge is None
        if (unknown and 0 < rest <= 8 and rest % counts[0] == 0) or (not unknown and rest == 0):
            charge = rest // counts[0] if unknown else parts[0].charge or 0
            written = [[parts[0].written(charge)] * counts[0]]
            written += [[part.smiles] * count for part, count in zip(parts[1:], counts[1:], strict=True)]
            return ".".join(part for several in written for part in several)
    return None


def _complex(word: str, molecule: Molecule) -> _Part | None:
    """Read ligands in front of their metal: dichlorobis(triphenylphosphine)palladium(II)."""
    match = _COMPLEX.fullmatch(word[1:-1] if word[0] == "[" and word[-1] == "]" else word)
    ligands = _ligands(match[1], molecule) if match else None
    if match is None or ligands is None:
        return None
    symbol, usual = _METALS[match[2].lower()]
    if usual == 1 and symbol not in {"Ag", "Br", "I"}:  # chloroacetic acid sodium
        return None
    bound = sum(charge for _, charge in ligands)
    charge = _ROMAN[match[3].upper()] if match[3] else -bound if symbol not in _FIXED and bound else usual
    metal = f"[{symbol}{'+' + str(charge) if charge else ''}]".replace("+1]", "+]")
    return _Part(".".join([*(smiles for smiles, _ in ligands), metal]), charge + bound, 1)


def _ligands(text: str, molecule: Molecule) -> list[tuple[str, int]] | None:
    """Return SMILES and charge of all ligands that a text names one after the other; None if it is not read."""
    text = text.lstrip("-")
    if not text:
        return []
    for count, start in _multiples(text):
        for name, end in _names(text, start):
            smiles, charge = _ligand(name, molecule)
            if smiles and (rest := _ligands(text[end:], molecule)) is not None:
                return [(smiles, charge)] * count + rest
    return None


def _ligand(name: str, molecule: Molecule) -> tuple[str, int]:
    """Return SMILES and charge of a ligand: acetato is acetate, 2-methoxyethoxy the anion of the alcohol."""
    if by_charge := ions().get(name.lower()):
        return by_charge[min(by_charge)], min(by_charge)
    anion = re.sub(r"oxy$", "oxide", re.sub(r"(?<=[ai])do$|(?<=at)o$", lambda match: match[0][:-1] + "e", name))
    if re.search(r"(?:yl|ylidene)$", name) and not re.search(r"azol[a-z0-9-]*-2-ylidene$", name):
        return "", 0
    smiles = molecule(anion) or ""
    if _ATOM.fullmatch(smiles):  # a metal before another
        return "", 0
    charge = Chem.GetFormalCharge(mol_from_smiles(smiles)) if smiles else 0
    return (smiles, charge) if (charge < 0) == (anion != name) else ("", 0)


def _multiples(text: str) -> list[tuple[int, int]]:
    """Return counts that a text may begin with, and where the name behind them starts: di-chloro, triphenyl-."""
    match = re.match(rf"(?:{_MANY})-?(?=[(\[a-z])", text, re.IGNORECASE)
    if match is None:
        return [(1, 0)]
    several = (_TIMES[match[0].lower().rstrip("-")], match.end())
    counted = text[match.end()] in "([" or _names(text, match.end())[0][1] < len(text)
    return [several] if counted else [(1, 0), several]


def _names(text: str, start: int) -> list[tuple[str, int]]:
    """Return the names of ligands that may begin at a position, with their ends."""
    if text[start] in "([":
        depth = 0
        for end in range(start, len(text)):
            depth += (text[end] in "([") - (text[end] in ")]")
            if depth == 0:
                return [(text[start + 1 : end], end + 1), (text[start:], len(text))]
        return []
    listed = [name for name in ions() if text[start:].lower().startswith(name) and name.islower()]
    return [(name, start + len(name)) for name in sorted(listed, key=len, reverse=True)] + [(text[start:], len(text))]
