"""Read simple systematic names, of `groups.tsv` with locants and a parent of `parents.tsv`; else None, never a guess.

A locant names the atom of that map number in the parent's SMILES; N is number 90, the nitrogen outside of a ring, or
its one.
"""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rdkit import Chem, rdBase

from chemspec.asset_files import read_asset_table
from chemspec.chem.parsing import mol_from_smarts, mol_from_smiles

TABLE = Path(__file__).with_name("parents.tsv")
NITROGEN = 90
LONGEST = 120  # characters of a name
_TIMES = {"": 1, "di": 2, "bis": 2, "tri": 3, "tris": 3, "tetra": 4}
_RING = {"o": "2", "ortho": "2", "m": "3", "meta": "3", "p": "4", "para": "4"}


def _groups(*kinds: str) -> dict[str, str]:
    rows = read_asset_table(Path(__file__).with_name("groups.tsv"))
    return {name: smiles for name, smiles, kind in rows if kind in kinds}


PREFIXES, ALKYL = _groups("prefix", "alkyl"), _groups("alkyl")
SUFFIXES, _ARYLS = _groups("suffix"), _groups("aryl")
_STEMS = ("meth", "eth", "prop", "but", "pent", "hex", "hept", "oct", "non", "dec", "undec", "dodec")
_LOCANTS = re.compile(r"((?:\d{1,2}|n|ortho|meta|para|[omp])(?:,(?:\d{1,2}|n))*)-")
_NAMES = "|".join(sorted(map(re.escape, PREFIXES), key=len, reverse=True))
_NAMES = _NAMES.replace("methylthio", "methylthio(?!phen)")  # methyl-thiophene and -thiophenol
_PREFIX = re.compile(f"(|bis|tetra|tri|di)({_NAMES})-?")
_GROUP = re.compile(rf"\(({'|'.join(map(re.escape, PREFIXES))})\)-?")
_COMPOSITE = re.compile(r"(|bis|tris)\(((?:[^()]|\([^()]*\))+)\)-?")
_ARYL = re.compile(rf"(.*?)({'|'.join(_ARYLS)})")
_SUFFIXED = re.compile(f"(.+)-(\\d)-?({'|'.join(SUFFIXES)})")
_LIKELY = re.compile(r"[a-z0-9,()' -]*[a-z]{3}[a-z0-9,()' -]*")


@lru_cache(maxsize=10_000)
def read(name: str) -> str | None:
    """Return the SMILES of a systematic name; None where it is none that is known here."""
    text = re.sub(r"[\u2010-\u2015]", "-", " ".join(name.lower().split()))
    if len(text) > LONGEST or not _LIKELY.fullmatch(text):
        return None
    with rdBase.BlockLogs():
        mol = _ester(text) or _substituted(text)
        return None if mol is None else str(Chem.MolToSmiles(mol))


def _ester(text: str) -> Any | None:
    """Return the ester that a name such as ethyl benzoate means."""
    alkyl, _, acid = text.partition(" ")
    if alkyl not in ALKYL or not acid.endswith("ate"):
        return None
    mol = _substituted(f"{acid[:-3]}ic acid")
    matches: Any = mol.GetSubstructMatches(mol_from_smarts("C(=O)[OX2H1]")) if mol else ()
    if len(matches) != 1:
        return None
    return _joined(mol, matches[0][2], ALKYL[alkyl])


def _substituted(text: str) -> Any | None:
    substituents: list[tuple[str, str]] = []  # locant and SMILES of a group
    rest = _GROUP.sub(r"\1-", _unprimed(text))
    rest = re.sub(r"^\(([^()]*phenyl)\)", r"\1", rest)
    while (parent := _parent(rest)) is None:
        prefixes = _first_prefixes(rest)
        if prefixes is None:
            return None
        substituents += prefixes[0]
        rest = rest[prefixes[1] :]
    smiles, alike, suffix = parent
    mol: Any = mol_from_smiles(smiles)
    benzene = alike == "ring"
    groups = sorted(substituents, key=lambda group: group[0] == "n")  # N- last
    for locant, group in (*suffix, *groups):
        number = _RING.get(locant, locant)
        if locant in _RING and (not benzene or len(substituents) > 1):
            return None
        if not number:  # one prefix, and it does not matter where
            if alike != "any" or suffix or len(substituents) > 1:
                return None
            number = str(min(atom.GetAtomMapNum() for atom in mol.GetAtoms() if atom.GetAtomMapNum()))
        atom = _nitrogen(mol) if number == "n" else _numbered(mol, int(number))
        if atom is None or not atom.GetTotalNumHs():
            return None
        mol = _joined(mol, atom.GetIdx(), group)
        if mol is None:
            return None
    return mol_from_smiles(Chem.MolToSmiles(_without_numbers(mol)))


def _without_numbers(mol: Any) -> Any:
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)
    return mol


def _unprimed(text: str) -> str:
    """Return a name with plain locants of the ring of an acetophenone, whose 2 would be its methyl group."""
    if "'" not in text:
        return text
    if not text.endswith("acetophenone") or re.search(r"\d(?![\d'])", text):
        return text
    return text.replace("'", "").replace("acetophenone", "acetylbenzene")


def _first_prefixes(text: str) -> tuple[list[tuple[str, str]], int] | None:
    """Return locant and SMILES of the first groups of a name, all alike, and where they end."""
    locants = _LOCANTS.match(text)
    start = locants.end() if locants else 0
    positions = locants[1].split(",") if locants else [""]
    if prefix := _PREFIX.match(text, start):
        times, group = prefix[1], PREFIXES[prefix[2]]
    elif (prefix := _COMPOSITE.match(text, start)) and (smiles := _radical(prefix[2])):
        times, group = prefix[1], smiles
    else:
        return None
    return ([(position, group) for position in positions], prefix.end()) if len(positions) == _TIMES[times] else None


def _radical(text: str) -> str | None:
    """Return the SMILES of a group in brackets, from the atom that is bonded: 4-chlorophenyl, pyridin-2-yl."""
    if match := re.fullmatch(r"(.+?)-(\d)-yl", text):
        parent = _parents().get(match[1]) or _parents().get(f"{match[1]}e")
        mol: Any = mol_from_smiles(parent[0]) if parent and "*" not in parent[0] else None
        atom = _numbered(mol, int(match[2])) if mol else None
        if atom is None:
            return None
        return str(Chem.MolToSmiles(_without_numbers(mol), rootedAtAtom=atom.GetIdx()))
    match = _ARYL.fullmatch(text)
    if match is None:
        return None
    rest, ring = match[1], dict.fromkeys("23456", "c")
    while rest:
        prefixes = _first_prefixes(rest)
        if prefixes is None:
            return None
        for locant, group in prefixes[0]:
            if ring.get(_RING.get(locant, locant)) != "c":
                return None
            ring[_RING.get(locant, locant)] = f"c({group.replace('1', '9')})"
        rest = rest[prefixes[1] :]
    return f"{_ARYLS[match[2]]}c1{''.join(ring.values())}1"


def _parent(text: str) -> tuple[str, str, tuple[tuple[str, str], ...]] | None:
    """Return SMILES, kind, and locant and group of a suffix, as in pyridin-3-amine."""
    if text in _parents():
        return (*_parents()[text], ())
    if (match := _SUFFIXED.fullmatch(text)) is None:
        return None
    parent = _parents().get(match[1]) or _parents().get(f"{match[1]}e")
    if parent is None or parent[1] == "ring" or match[1].endswith("benzene"):
        return None
    return (*parent, ((match[2], SUFFIXES[match[3]]),))


def _numbered(mol: Any, number: int) -> Any | None:
    return next((atom for atom in mol.GetAtoms() if atom.GetAtomMapNum() == number), None)


def _nitrogen(mol: Any) -> Any | None:
    """Return the nitrogen that N- means: that of the group, else the ring's, if all of those are alike."""
    if nitrogen := _numbered(mol, NITROGEN):
        return nitrogen
    ranks = Chem.CanonicalRankAtoms(_without_numbers(Chem.Mol(mol)), breakTies=False)
    nitrogens = [atom for atom in mol.GetAtoms() if atom.GetSymbol() == "N" and atom.GetTotalNumHs()]
    return nitrogens[0] if len({ranks[atom.GetIdx()] for atom in nitrogens}) == 1 else None


def _joined(mol: Any, index: int, group: str) -> Any | None:
    """Put a group in place of a hydrogen of an atom."""
    size = mol.GetNumAtoms()
    joined = Chem.RWMol(Chem.CombineMols(mol, mol_from_smiles(group)))
    atom = joined.GetAtomWithIdx(index)
    if atom.GetNumExplicitHs():
        atom.SetNumExplicitHs(atom.GetNumExplicitHs() - 1)
    joined.AddBond(index, size, Chem.BondType.SINGLE)
    try:
        Chem.SanitizeMol(joined)
    except Chem.MolSanitizeException:
        return None
    return joined.GetMol()


@cache
def _parents() -> dict[str, tuple[str, str]]:
    """Return SMILES and kind of each parent; "ring": a benzene with one group, "any": all positions are alike."""
    parents: dict[str, tuple[str, str]] = {}
    for smiles, names, kind, *_ in read_asset_table(TABLE):
        whole = smiles.replace("*", "[c:1]9[cH:2][cH:3][cH:4][cH:5][cH:6]9")
        parents |= dict.fromkeys(names.split(" | "), (whole, kind))
    for length, stem in enumerate(_STEMS, 1):
        tail = "".join([*(f"[CH2:{position}]" for position in range(2, length)), f"[CH3:{length}]"])
        parents[f"{stem}ane"] = (f"[CH3:1]{tail}" if length > 1 else "[CH4:1]", "any" if length < 3 else "")
        if length > 1:
            for ending, head in (
                ("anoic acid", "OC(=O)"), ("anamide", "[NH2:90]C(=O)"), ("anenitrile", "N#C"), ("anal", "O=C"),
                ("anoyl chloride", "ClC(=O)"),
            ):  # fmt: skip
                parents[stem + ending] = (head + tail, "")
            parents |= dict.fromkeys((f"1-{stem}anol", f"{stem}an-1-ol"), (f"O[CH2:1]{tail}", ""))
            parents |= dict.fromkeys((f"{stem}ylamine", f"{stem}an-1-amine"), (f"[NH2:90][CH2:1]{tail}", ""))
    return parents
