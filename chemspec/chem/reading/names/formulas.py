"""Read condensed formulas in which every bond is certain: CH3I, NEt(iPr)2, (MeO)3CH, ZnEt2, nBu4NBr, NaOPh."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

from rdkit import Chem, rdBase

import chemspec.chem.reading.names.additive as additive
from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.query import canonical

MAX_CHARS = 60  # characters
TABLE = Path(__file__).with_name("formulas.tsv")
_VALENCES = {
    "H": 1, "C": 4, "N": 3, "O": 2, "S": 2, "P": 3, "B": 3, "Si": 4, "Sn": 4, "Ge": 4, "Se": 2, "Te": 2, "Li": 1,
    "Mg": 2, "Zn": 2, "Al": 3, "In": 3, "Ga": 3, "Hg": 2, "Pb": 4, "Ti": 4, "Zr": 4,
}  # fmt: skip
_ANIONS = {name: smiles[-1] for name, smiles in additive.IONS.items() if -1 in smiles and name[0].isupper()}
_SALT = re.compile(rf"(.+?)({'|'.join(map(re.escape, sorted(_ANIONS, key=len, reverse=True)))})")
_ALKALI = re.compile(r"(Li|Na|K|Cs|NH4)((?=[OSN]).+)|(.+[OS2])(Li|Na|K|Cs|NH4)")
_HYDRIDE = re.compile(r"(Li|Na|K|Cs)\[?((?=.*(?:B|Al)(?![a-z])).+?)\]?")  # LiAlH(OtBu)3, KBH(sBu)3
# Groups that stand at an end of a chain only: Me2NCOCl has no isocyanate.
_ENDS, _AT_END = {"CHO", "NCO", "NCS", "SCN", "N3", "CO2H", "COOH", "CO3H", "SO3H"}, r"(?=\d{0,2}(?:$|[)\]]))"
_AT_START = {name: rf"(?<![A-Za-z0-9)]){name}(?!H)" for name in ("NC", "HOOC", "HO2C", "O2N")}
_HALOGENS = {"F", "Cl", "Br", "I"}
_CHARS = re.compile(r"(?=.*[A-Z])[A-Za-z0-9()\[\]=#-]+")
_PHENYLENE = re.compile(r"(?:(?P<o>2|o)|(?P<m>3|m)|(?P<p>4|p))-(?P<before>.*?)-?C6H4-?(?P<behind>.*)")  # p-MeC6H4Br


class _OpenBondError(ValueError):
    """A formula that leaves a bond open, or what is no formula."""


@lru_cache(maxsize=10_000)
def read(text: str) -> str | None:
    """Return the canonical SMILES of a condensed formula; None if it is none, or leaves a bond open."""
    if not 2 <= len(text) <= MAX_CHARS or not _CHARS.fullmatch(text):
        return None
    if match := _PHENYLENE.fullmatch(text):
        text = f"{match['before']}{next(locant for locant in 'omp' if match[locant])}C6H4{match['behind']}"
    if match := _ALKALI.fullmatch(text):
        bonded = _smiles(f"Li{match[2]}" if match[1] else f"{match[3]}Li")
        anion = bonded and re.sub(r"\[Li\]\[([OSN])\]|\[([OSN])\]\[Li\]", r"[\1\2-]", bonded)
        return canonical(f"[{match[1] or match[4]}+].{anion}") if anion and "Li" not in anion else None
    if smiles := _smiles(text):
        return canonical(smiles)
    if (match := _HYDRIDE.fullmatch(text)) and re.search(r"\[(?:BH?|Al)H?\d?-", smiles := _smiles(match[2], -1) or ""):
        return canonical(f"[{match[1]}+].{smiles}")
    cation = _smiles(match[1], charge=1) if (match := _SALT.fullmatch(text)) else None
    return canonical(f"{cation}.{_ANIONS[match[2]]}") if match and cation and "+" in cation else None


@lru_cache(maxsize=1000)
def group_smiles(text: str) -> str | None:
    """Return the SMILES of a group from its bonded atom, as a condensed formula means it: CF3, NO2, Boc; else None."""
    smiles = read(f"{text}H") if not text.endswith("H") else None
    mol = mol_from_smiles(smiles or read(f"Me{text}") or "")
    if text in _groups() and _groups()[text][1] == 1:
        return _groups()[text][0]
    return None if mol is None else str(Chem.MolToSmiles(mol)) if smiles else None


def _smiles(text: str, charge: int = 0) -> str | None:
    """Return the SMILES of a formula whose first atom with several bonds has a charge."""
    with rdBase.BlockLogs():
        try:
            part, end = _Reader(text, charge).read(0)
            if end < len(text) or part.open():
                return None
            Chem.SanitizeMol(part.mol)
            return str(Chem.MolToSmiles(Chem.RemoveHs(part.mol)))
        except (_OpenBondError, Chem.MolSanitizeException):
            return None


class _Part:
    """Atoms, how many bonds each may still get, and the atom that is next in the chain."""

    def __init__(self) -> None:
        self.mol, self.free = Chem.RWMol(), dict[int, int]()
        self.current: int | None = None
        self.before: list[_Part] = []  # groups in front of the atom that they are bonded to

    def atom(self) -> str:
        """Return the element of a single atom; empty for several."""
        return self.mol.GetAtomWithIdx(0).GetSymbol() if self.mol.GetNumAtoms() == 1 else ""

    def open(self) -> int:
        """Count the bonds that are still to be made."""
        return sum(self.free.values()) + len(self.before)

    def insert(self, other: _Part) -> int:
        """Take the atoms of another part; return by how much their indices are raised."""
        offset = self.mol.GetNumAtoms()
        self.mol.InsertMol(other.mol)
        self.free |= {atom + offset: count for atom, count in other.free.items()}
        return offset

    def bond(self, first: int, second: int, order: int = 1) -> None:
        if min(self.free[first], self.free[second]) < order:
            raise _OpenBondError
        kinds = {1: Chem.BondType.SINGLE, 2: Chem.BondType.DOUBLE, 3: Chem.BondType.TRIPLE}
        self.mol.AddBond(first, second, kinds[order])
        self.free[first] -= order
        self.free[second] -= order

    def attach(self, group: _Part, atom: int, order: int = 1) -> None:
        """Bond a group, by its first atom with a free bond, to an atom."""
        ends = [index for index, count in group.free.items() if count]
        if not ends:
            raise _OpenBondError
        self.bond(atom, ends[0] + self.insert(group), order)

    def extend(self, group: _Part, order: int) -> None:
        """Make a group the next one of the chain: its first free atom is bonded to the chain, its last one goes on."""
        ends = [index for index, count in group.free.items() if count]
        if not ends:
            raise _OpenBondError
        offset = self.insert(group)
        if self.current is not None:
            self.bond(self.current, ends[0] + offset, order)
        for earlier in self.before:
            if group.atom() == "O" and earlier.atom() in _HALOGENS:  # PhIO is no hypoiodite
                raise _OpenBondError
            self.attach(earlier, ends[0] + offset)
        self.before = []
        self.current = ends[-1] + offset

    def hypervalent(self) -> bool:
        """Let a saturated P or S of the chain take a double bond; return whether it is one."""
        if (
            self.current is None
            or self.mol.GetAtomWithIdx(self.current).GetSymbol() not in "PS"
            or self.free[self.current]
        ):
            return False
        self.free[self.current] += 2
        return True


class _Reader:
    """Reads a formula from left to right."""

    def __init__(self, text: str, charge: int) -> None:
        self.text, self.charge = text, charge

    def read(self, start: int) -> tuple[_Part, int]:
        """Return what stands between a position and the end, or the bracket that closes, and where that is."""
        part, at, order = _Part(), start, 1
        while at < len(self.text) and self.text[at] not in ")]":
            if (sign := self.text[at]) in "-=#":
                order, at = {"-": 1, "=": 2, "#": 3}[sign], at + 1
                if sign == "=":
                    part.hypervalent()
                continue
            if sign in "([":
                group, close = self.read(at + 1)
                if close >= len(self.text):
                    raise _OpenBondError
                match = re.compile(r"(\d{0,2})").match(self.text, close + 1)
                self._add_bracket(part, group, int(match[1] or 1) if match else 1)
            else:
                match = _tokens().match(self.text, at)
                if match is None:
                    raise _OpenBondError
                self._add_token(part, match[1], int(match[2] or 1), order)
            at, order = (match.end() if match else at), 1
        if part.current is None and len(part.before) == 2:
            first, second = part.before
            if first.atom() in _HALOGENS and not (
                second.atom() in _HALOGENS or second.atom() == "H"
            ):  # IMes is a carbene
                raise _OpenBondError
            part.before, part.current = [], 0
            part.insert(first)
            part.attach(second, next(index for index, count in part.free.items() if count))
        return part, at

    def _add_bracket(self, part: _Part, group: _Part, count: int) -> None:
        if len(group.before) == 1 and group.current is None:  # a single group: (iPr)2
            group = group.before[0]
        free = sum(group.free.values())
        oxygen = group.mol.GetNumAtoms() == 1 and group.mol.GetAtomWithIdx(0).GetSymbol() == "O"
        if oxygen and part.current is not None and free == 2:  # P(O), S(O) and S(O)2
            atom = part.mol.GetAtomWithIdx(part.current)
            if atom.GetSymbol() not in "PS":
                raise _OpenBondError
            for _ in range(count):
                part.free[part.current] += 2
                part.attach(group, part.current, 2)
        elif free == 2 and not group.before:
            for _ in range(count):  # (CH2)3
                part.extend(group, 1)
        elif free == 1 and not group.before:
            self._add_group(part, group, count)
        else:
            raise _OpenBondError

    def _add_token(self, part: _Part, name: str, count: int, order: int) -> None:
        group = _group(name, 0)
        bonds = sum(group.free.values())
        if name == "O" and order == 1 and part.hypervalent():  # Ph3PO, Me2SO
            order = 2
        if name == "pin" and part.current is None:
            raise _OpenBondError
        if name == "pin":
            offset = part.insert(group)
            for end in (0, group.mol.GetNumAtoms() - 1):
                part.bond(part.current if part.current is not None else -1, end + offset)
        elif bonds == 1 and name != "Li":
            self._add_group(part, group, count)
        elif count == 1:
            charged = bonds > 1 and self.charge and (self.charge < 0 or name in "NP")
            part.extend(_group(name, self.charge) if charged else group, order)
            self.charge = 0 if charged else self.charge
        else:
            raise _OpenBondError

    @staticmethod
    def _add_group(part: _Part, group: _Part, count: int) -> None:
        """Bond groups of one bond to the atom before them, or keep them for the one behind."""
        for _ in range(count):
            if part.current is None:
                part.before.append(group)
            elif (
                group.atom() == "I" and part.mol.GetAtomWithIdx(part.current).GetSymbol() in "NOS"
            ):  # SIPr is a carbene
                raise _OpenBondError
            else:
                part.attach(group, part.current)


@cache
def _groups() -> dict[str, tuple[str, int]]:
    return {name: (smiles, int(bonds)) for name, smiles, bonds in read_asset_table(TABLE)}


@cache
def _tokens() -> re.Pattern[str]:
    names = sorted({*_groups(), *_VALENCES}, key=len, reverse=True)
    marked = (_AT_START.get(name) or f"{re.escape(name)}{_AT_END * (name in _ENDS)}" for name in names)
    return re.compile(rf"({'|'.join(marked)})(\d{{0,2}})")


def _group(name: str, charge: int) -> _Part:
    """Return an atom or group with its free bonds."""
    part = _Part()
    if name in _groups():
        smiles, bonds = _groups()[name]
        part.mol = Chem.RWMol(mol_from_smiles(smiles))
        ends = [atom.GetIdx() for atom in part.mol.GetAtoms() if atom.GetAtomMapNum()] or [0]
        for end in (ends[0], ends[-1])[:bonds]:
            part.free[end] = part.free.get(end, 0) + 1
        for atom in part.mol.GetAtoms():
            atom.SetAtomMapNum(0)
            atom.SetNumRadicalElectrons(0)
        return part
    atom = Chem.Atom(name)
    atom.SetNoImplicit(True)
    atom.SetFormalCharge(charge)
    part.free[part.mol.AddAtom(atom)] = _VALENCES[name] + (charge if name not in ("B", "Al") else -charge)
    return part
