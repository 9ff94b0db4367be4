"""Make names.tsv.gz: which molecule is meant by a name or CAS number, from tables of chemicals and of drugs.

`python assets/names/make.py FOLDER VOCABULARY STRUCTURES`, with the folder chemicals/Identifiers of the package
`chemicals` 1.5.2, DrugBank's open vocabulary (CSV: names and InChIKeys), and a list of SMILES, in which the molecules
with those InChIKeys are looked for. What is kept: the drugs that are found, and of the tables molecules that are on a
PaRoutes list of stock, or that have many names there, with the names that pass every check below.
A name that could mean two molecules is left out. Of a molecule's names only the first few
count, those most in use: of 2,365 first ones that the rules of `nomenclature` or the tables by hand know, none was
another molecule's, of those in places 7 to 12 one in eighty.
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rdkit import Chem, RDLogger
from rdkit.Chem import rdMolDescriptors
from rdkit.Chem.MolStandardize import rdMolStandardize

from chemspec import chem
from chemspec.asset_files import assets_folder
from chemspec.chem.names import nomenclature, reagents
from chemspec.chem.names.reagents import is_cas, normalise_name

PLACES = 6  # names of a molecule that are looked at
TABLES = {  # and how many of their names count
    "chemical identifiers pubchem small.tsv": PLACES,
    "chemical identifiers pubchem large.tsv": PLACES,
    "chemical identifiers example user db.tsv": 1,  # the others there are in alphabetical order
}
FEWEST = 4  # synonyms of a molecule that is in stock
KNOWN = 27  # synonyms of one that is not, and
ATOMS = 50  # its most heavy atoms
LONGEST_ION = 6  # characters: [Na+], [OH-], Cl
OPEN = 2  # most stereocentres that are left open
NAMES = 4  # most that are kept
LONGEST = 48  # characters of a name
ELEMENTS = frozenset(("H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Se", "Br", "I"))
METALS = frozenset(("Li", "Na", "K", "Cs", "Mg", "Ca", "Zn"))  # of salts
SALT = re.compile(
    r"\b(?:(?:mono|di|tri|hydro)*(?:chloride|bromide|iodide|fluoride)|hydro(?:chloride|bromide|iodide)|hcl|hbr|sulfates?"
    r"|sodium|potassium|lithium|caesium|cesium|calcium|magnesium|zinc|ammonium|salt|\w*hydrate|hydroxide|tetrafluoroborate"
    r"|hexafluorophosphate|nitrate|maleate|tartrate|citrate|mesylate|tosylate)\b|sodi|potass|onium|inium|olium"
)
FREE = re.compile(r"hydro(?:chloride|bromide|iodide)|\bhcl\b|\bhbr\b|sodium|potassium|lithium|\bsalt\b|hydrate\b")
JUNK = re.compile(
    r"(?<![a-z])(?:reagent|grade|solution|anhydrous|technical|standard|purum|puriss|purity|pure|powder|acs|usp|bp|nf|inn"
    r"|ban|usan|jan|dcf|ci|iso|mi|hsdb|unii|chembl|zinc\d|chebi|schembl|dtxsid|einecs|nsc|agn|pc|sbb|stk|bdbm|mls|smr"
    r"|labeled|compound|component|base|form|mixture|isomers?|polymers?|poly\(|homopolymer|resin|dimer|ion|radical|group|oil|usaf|van|free|injection|forte)(?![a-z])"
)
CODE = re.compile(r"(?<![a-z])[a-z]{1,8}[ -]?\d{3,}|\d{4,}|\d[a-z]{2,}\d|^[a-z]{1,4}-?\d+[a-z]?$")
PLAIN = re.compile(r"[a-z0-9 ,'()\[\]+-]+")
STEREO = re.compile(
    r"(?:^|[^a-z])(?:\d*[rsez]|rs|[+-]|\+/-|d|l|dl|cis|trans|syn|anti|erythro|threo|endo|exo|meso|rac|racemic)(?=[-),])"
    r"|\([+-]\)|\([rsez0-9,]+\)|^[dl]-|-[dl]-|beta-d|alpha-d|levo|dextro|(?:alpha|beta)(?=-\d|-hydroxy)"
)
MIXED = re.compile(r"(?:^|[^a-z])(?:rs|dl|rac|racemic)(?=[-),])|\+/-")
ENDINGS = {2: "di|bis", 3: "tri|tris", 4: "tetra", 5: "penta", 6: "hexa"}
GROUPS = {
    "Cl": "chlor", "Br": "brom", "F": "fluor", "I": "iod", "N": "nitr|cyan|amin|amid|azin|pyrid|azol|azid",
    "S": "thio|sulf|mercapt", "P": "phosph",
    "B": "boron|borol|borat", "Si": "silyl|silan|silox", "Se": "selen", "O": "hydroxy|oxy|acid|nitro",
}  # fmt: skip


@dataclass
class Row:
    """A molecule as the tables have it."""

    cas: str
    formula: str
    smiles: str
    inchi: str
    inchikey: str
    names: list[str]  # in lower case, the common one first, IUPAC's last
    places: int  # of names that are looked at

    @property
    def elements(self) -> Counter[str]:
        """Count the atoms of each element."""
        return Counter({sign: int(n or 1) for sign, n in re.findall(r"([A-Z][a-z]?)(\d*)", self.formula)})


def read(folder: Path) -> list[Row]:
    """Return the rows of all tables, each InChIKey once."""
    found: dict[str, Row] = {}
    for table, places in TABLES.items():
        for line in (folder / table).read_text(encoding="utf-8").splitlines():
            _, cas, formula, _, smiles, inchi, inchikey, *names = line.split("\t")
            cleaned = [re.sub(r"\.([a-z]+)\.", r"\1", name.strip().lower()) for name in names]
            ordered = list(dict.fromkeys(filter(None, (*cleaned[1:], cleaned[0]))))
            found.setdefault(inchikey, Row(cas, formula, smiles, inchi, inchikey, ordered, places))
    return list(found.values())


@dataclass
class Line:
    """What the list says of a molecule."""

    cas: str  # or nothing
    names: list[str]
    left: int  # open stereo elements


@cache
def by_hand() -> dict[str, str]:
    """Return the names in the tables made by hand, of InChIKeys."""
    found: dict[str, str] = {}
    for table in (reagents.TABLE, reagents.NAMES):
        for line in table.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                smiles, names, *_ = line.split("\t")
                found[str(Chem.MolToInchiKey(Chem.MolFromSmiles(smiles)))] = names.split(" | ")[0]
    return found


def wanted(row: Row, stock: set[str]) -> bool:
    """Whether a molecule is one that is bought, or that many know, of elements that models know."""
    elements = row.elements
    if row.inchikey in by_hand():
        return True
    salt = "." in row.smiles
    if "C" not in elements or not set(elements) <= ELEMENTS | (METALS if salt else frozenset()):
        return False
    if (salt and max(map(len, ions := sorted(row.smiles.split("."), key=len)[:-1])) > LONGEST_ION) or (
        salt and len(ions) > 3
    ):
        return False
    heavy = sum(elements.values()) - elements["H"]
    if row.inchikey in stock:
        return len(row.names) >= FEWEST
    return len(row.names) >= KNOWN and heavy <= ATOMS


def checked(row: Row) -> tuple[str, int, int] | None:
    """Return canonical SMILES and numbers of set and open stereo elements, if SMILES, InChI and formula agree."""
    mol = Chem.MolFromSmiles(row.smiles)
    if (
        mol is None
        or Chem.GetFormalCharge(mol)
        or any(atom.GetIsotope() or atom.GetNumRadicalElectrons() for atom in mol.GetAtoms())
    ):
        return None
    agree = (
        Chem.MolToInchi(mol) == f"InChI=1S/{row.inchi}"
        and Chem.MolToInchiKey(mol) == row.inchikey
        and rdMolDescriptors.CalcMolFormula(mol) == row.formula
    )
    if not agree or not is_cas(row.cas):
        return None
    left = open_stereo(mol)
    smiles = chem.canonical(row.smiles)
    return (str(smiles), len(stereo_of(mol)) - left, left) if smiles and left <= OPEN else None


def stereo_of(mol: Any) -> list[Any]:
    """Return the stereo elements of a molecule."""
    return list(Chem.FindPotentialStereo(mol, cleanIt=True))


def open_stereo(mol: Any) -> int:
    """Count the stereo elements that are left open."""
    return sum(one.specified != Chem.StereoSpecified.Specified for one in stereo_of(mol))


def likely(name: str, row: Row, fixed: int, left: int) -> bool:
    """Whether a text is a name that a chemist types, and fits to the molecule."""
    if not 4 <= len(name) <= LONGEST or not PLAIN.fullmatch(name) or not re.search("[a-z]{4}", name):
        return False
    if ", " in name or name.endswith("-") or JUNK.search(name) or CODE.search(name) or re.search(r"anyl(?!in)", name):
        return False
    if re.search(r"\[[^\]]*[a-z]{3}", name) or name.count("(") != name.count(")") or name.count("[") != name.count("]"):
        return False
    salt = "." in row.smiles
    if bool(SALT.search(name)) < salt or (FREE.search(name) and not salt):
        return False
    if STEREO.search(name) and (left if not MIXED.search(name) else fixed):
        return False
    if STEREO.search(name) and not MIXED.search(name) and not fixed:
        return False
    return fits(name, row.elements) and not chem.is_valid(name) and not chem.is_valid(name.upper())


def fits(name: str, elements: Counter[str]) -> bool:
    """Whether the groups in a name can come of these elements, as many as it says."""
    for sign, group in GROUPS.items():
        if re.search(group, name) and not elements[sign]:
            return False
    for count, prefix in ENDINGS.items():
        for sign, group in (("Cl", "chloro"), ("Br", "bromo"), ("F", "fluoro"), ("I", "iodo"), ("N", "nitro")):
            if re.search(f"(?:{prefix}){group}", name) and elements[sign] < count:
                return False
    return True


def handed(name: str, smiles: str, fixed: int) -> bool:
    """Whether the rotation in a name, if it tells one centre's, is that of the molecule."""
    told = re.findall(r"\((?:\d+)?([rs])\)", name)
    if len(told) != 1 or fixed != 1:
        return True
    centres = Chem.FindMolChiralCenters(Chem.MolFromSmiles(smiles), useLegacyImplementation=False)
    return len(centres) != 1 or centres[0][1].lower() == told[0]


def printed(name: str) -> str:
    """Return a name in lower case as it is printed: N-Boc-L-proline."""
    name = re.sub(
        r"(?<![a-z])(?:n(?=[,'-](?!(?:pro|but|pent|hex|hept|oct|non|dec)[yao]))|[dl]l?(?=-[a-z])|\d+h(?=-))",
        _upper,
        name,
    )
    name = re.sub(r"\((?:\d*[rsez],?)+\)", _upper, name)
    return re.sub(r"(?<![a-z])(?:boc|fmoc|cbz|tris)(?=[-(])", lambda found: found[0].capitalize(), name)


def _upper(found: re.Match[str]) -> str:
    return found[0].upper()


def skeleton(smiles: str) -> str:
    """Return what of an InChIKey tells neither stereo nor tautomers."""
    return str(Chem.MolToInchiKey(Chem.MolFromSmiles(smiles)))[:14]


def of_tables(folder: Path, told: Counter[str]) -> dict[str, Line]:
    """Return what the tables of chemicals say, by canonical SMILES."""
    rows = read(folder)
    owners: dict[str, set[str]] = defaultdict(set)  # of a name: InChIKeys
    for row in rows:
        salt = "." in row.smiles
        for name in row.names:
            if not salt or SALT.search(name):  # a salt often has its parent's names
                owners[normalise_name(name)].add(row.inchikey)
    lists = (assets_folder() / "stock").glob("*.gz")
    stock = {line for path in lists for line in gzip.decompress(path.read_bytes()).decode().split()}
    lines: dict[str, Line] = {}
    for row in rows:
        if not wanted(row, stock):
            continue
        told["wanted"] += 1
        if (found := checked(row)) is None:
            told["not verified, charged or with open stereocentres"] += 1
            continue
        smiles, fixed, left = found
        names = []
        for name in row.names[: row.places]:
            if not likely(name, row, fixed, left) or not handed(name, smiles, fixed) or reagents.find_isomers(name):
                continue
            elsewhere = owners[normalise_name(name)] - {row.inchikey}
            if elsewhere and (fixed or any(other[:14] != row.inchikey[:14] for other in elsewhere)):
                told["ambiguous names"] += 1
                continue  # an open name of several stereoisomers means none of them in particular
            known = reagents.find_in_tables(name) or nomenclature.read(name)
            if known and skeleton(known) != row.inchikey[:14]:
                told["names that a rule or the tables by hand read otherwise"] += 1
                continue
            told["names confirmed by a rule or by hand"] += bool(known)
            names.append(name)
        if own := by_hand().get(row.inchikey):
            names = [own, *names]
        different: dict[str, str] = {}
        for name in names:
            different.setdefault(normalise_name(name), name)
        if different and smiles not in lines:
            first, *others = list(different.values())[:NAMES]
            lines[smiles] = Line(row.cas, [own or printed(first), *others], left)
    return lines


def add_drugs(lines: dict[str, Line], vocabulary: Path, structures: Path, told: Counter[str]) -> None:
    """Add drugs to the lines; a name that means another molecule there is the drug's, unless that is told better.

    Told better is what a rule or the tables by hand say, or a stereoisomer with no more open stereocentres.
    """
    smiles_of = {}
    uncharger = rdMolStandardize.Uncharger()
    for mol in map(Chem.MolFromSmiles, structures.read_text().split()):
        plain = uncharger.uncharge(mol)  # an amino acid's zwitterion has the InChIKey of the acid
        inchikey = Chem.MolToInchiKey(mol)
        mol = plain if Chem.MolToInchiKey(plain) == inchikey else mol
        if not Chem.GetFormalCharge(mol):
            smiles_of[inchikey] = Chem.MolToSmiles(mol)
    owners = {normalise_name(name): smiles for smiles, line in lines.items() for name in line.names}
    numbers = {line.cas for line in lines.values()}
    with vocabulary.open(encoding="utf-8", newline="") as file:
        for drug in csv.DictReader(file):
            name = drug["Common name"].strip().lower()
            found = smiles_of.get(drug["Standard InChI Key"])
            if found is None or not PLAIN.fullmatch(name) or not re.search("[a-z]{4}", name) or len(name) > LONGEST:
                continue
            smiles, left = str(chem.canonical(found)), open_stereo(Chem.MolFromSmiles(found))
            elements = {atom.GetSymbol() for atom in Chem.MolFromSmiles(found).GetAtoms()}
            if left > OPEN or not elements <= ELEMENTS or ", " in name or "." in smiles or chem.is_valid(name):
                continue
            known = reagents.find_in_tables(name) or nomenclature.read(name)
            other = owners.get(normalise_name(name))
            if known:
                told["drugs that a rule or the tables by hand know"] += 1
                continue
            if other and other != smiles:
                if skeleton(other) == skeleton(smiles) and (
                    lines[other].left <= left or "EXPT" in drug["Accession Numbers"]
                ):
                    continue
                lines[other].names.remove(
                    next(one for one in lines[other].names if normalise_name(one) == normalise_name(name))
                )
                told["names that meant another molecule"] += 1
            if smiles not in lines:
                cas = drug["CAS"] if is_cas(drug["CAS"]) and drug["CAS"] not in numbers else ""
                numbers.add(cas)
                lines[smiles] = Line(cas, [], left)
            if normalise_name(name) not in map(normalise_name, lines[smiles].names):
                lines[smiles].names.insert(0, printed(name))
            owners[normalise_name(name)] = smiles
            told["drugs"] += 1
            for more in drug["Synonyms"].lower().split(" | "):
                word = re.fullmatch("[a-z]{5,20}", more) and not more.endswith(("um", "o", "a"))
                if word and more not in owners and len(lines[smiles].names) < NAMES and not chem.is_valid(more):
                    owners[more] = smiles
                    lines[smiles].names.append(more)


def main(folder: Path, vocabulary: Path, structures: Path) -> None:
    """Write the list, and say what was left out."""
    RDLogger.DisableLog("rdApp.*")
    told = Counter[str]()
    lines = of_tables(folder, told)
    add_drugs(lines, vocabulary, structures, told)
    written = {smiles: line for smiles, line in lines.items() if line.names}
    text = "".join(f"{smiles}\t{line.cas}\t{' | '.join(line.names)}\n" for smiles, line in sorted(written.items()))
    (assets_folder() / "names" / "names.tsv.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    told["names"] = sum(len(line.names) for line in written.values())
    told["molecules"], told["characters"] = len(written), len(text)
    for what, count in told.items():
        print(f"{count:8,} {what}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
