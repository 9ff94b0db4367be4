"""Make names.bin: which molecule is meant by a name or CAS number, packed for a memory map.

`python assets/names/make.py FOLDER` with the folder chemicals/Identifiers of the package `chemicals` 1.5.2 takes about
ten minutes and prints what it left out; the package `py2opsin` and Java must be installed. Drugs are in drugs.tsv.gz.

A molecule of the tables counts if RDKit and chemspec read its SMILES and, for organic ones, its InChIKey is that of the
table. OPSIN reads every name that looks like one: where it reads the table's molecule, or another stereoisomer of it
because the table left stereo out, the name means what OPSIN reads; where it reads another molecule the name is left
out. Of the names that OPSIN cannot read, only the first few of a molecule count; if several molecules have one, it is
kept as ambiguous.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rdkit import Chem, RDLogger

from chemspec import chem
from chemspec.chem.reading.inchi import usual_form
from chemspec.chem.reading.names.opsin import Parsed, read_by_opsin
from chemspec.chem.reading.names.packed import Record, write_table
from chemspec.chem.reading.names.reagents import SYMBOLS, is_cas, normalise_name
from chemspec.chem.reading.names.spelling import with_hyphens

HERE = Path(__file__).parent
TABLES = {  # and how many names of a molecule count that OPSIN cannot read
    "chemical identifiers pubchem small.tsv": 12,
    "chemical identifiers example user db.tsv": 1,  # the others there are in alphabetical order
    "chemical identifiers pubchem large.tsv": 6,
    "Inorganic db.tsv": 4,
}
VERIFIED = 12  # most names of a molecule that OPSIN confirms
MIN_CENTRES = 3  # of a natural product
DESCRIPTORS = re.compile(r"\((?:\d*[a-z]?'*[rsez],? ?)+\)")
MAX_MEANINGS = 4  # molecules of an ambiguous name
MAX_NAME = 60  # characters of a name
MAX_SMILES = 300  # characters of a SMILES
JUNK = re.compile(
    r"(?<![a-z])(?:reagent|grade|solution|technical|standard|purum|puriss|purity|pure|powder|acs|usp|bp|nf|inn"
    r"|ban|usan|jan|dcf|ci|iso|mi|hsdb|unii|chembl|zinc\d|chebi|schembl|dtxsid|einecs|nsc|agn|pc|sbb|stk|bdbm|mls|smr"
    r"|labeled|compound|component|base|form|mixture|isomers?|polymers?|poly\(|homopolymer|resin|dimer|ion|radical|group"
    r"|oil|usaf|van|free|injection|forte)(?![a-z])"
)
CODE = re.compile(r"(?<![a-z])[a-z]{1,8}[ -]?\d{3,}|\d{4,}|\d[a-z]{2,}\d|^[a-z]{1,4}-?\d+[a-z]?$")
PLAIN = re.compile(r"[a-z0-9 ,'()\[\].+-]+")
LANGUAGE = re.compile(r"\s*\[(?:german|french|spanish|italian|dutch|czech|polish|iupac|inn|ban|chemical name)[^\]]*\]$")
STEREO = re.compile(
    r"(?:^|[^a-z])(?:\d*[rsez]|rs|[+-]|\+/-|d|l|dl|cis|trans|syn|anti|erythro|threo|endo|exo|meso|rac|racemic)(?=[-),])"
    r"|\([+-]\)|\([rsez0-9,]+\)|^[dl]-|-[dl]-|beta-d|alpha-d|levo|dextro|(?:alpha|beta)(?=-\d|-hydroxy)"
)
SALT = re.compile(
    r"(?:chloride|bromide|iodide|fluoride|hcl|hbr|sulfate|sulphate|sodium|potassium|lithium|c(?:a)?esium|calcium"
    r"|magnesium|zinc|ammonium|salt|hydrate|hydroxide|borate|phosphate|nitrate|ate|onium|inium|olium|ide|ite)\b"
    r"|(?:sodi|potass|onium|inium|olium)"
)


class Molecule:
    """A molecule of the tables: canonical SMILES, CAS number, its names in order, and those of other languages."""

    def __init__(self, smiles: str, cas: str, names: list[str], counted: int) -> None:
        self.smiles, self.cas, self.names, self.counted = smiles, cas, names, counted
        self.tagged: set[str] = set()  # marked as names by the tables, so they count wherever they stand


def read_tables(folder: Path, left_out: Counter[str]) -> list[Molecule]:
    """Return the molecules of all tables, each SMILES once."""
    molecules: dict[str, Molecule] = {}
    for table, counted in TABLES.items():
        for line in (folder / table).read_text(encoding="utf-8").splitlines():
            _, cas, formula, _, written, _, inchikey, iupac, *names = (
                cell.strip().lstrip("\ufeff") for cell in line.split("\t")
            )
            if not written and formula in SYMBOLS:
                written = f"[{formula}]"
            smiles = checked(written, inchikey, "Inorganic" not in table)
            if smiles is None:
                left_out["molecules: SMILES not read, charged, too long, or of another InChIKey"] += 1
                continue
            tagged = [LANGUAGE.sub("", name.lower()) for name in names if LANGUAGE.search(name.lower())]
            plain = (
                AXIS.sub("", LANGUAGE.sub("", re.sub(r"\.([a-z]+)\.", r"\1", name.lower()))) for name in (*names, iupac)
            )
            names = list(dict.fromkeys(filter(None, plain)))
            molecule = molecules.setdefault(smiles, Molecule(smiles, cas if is_cas(cas) else "", [], counted))
            molecule.names += [name for name in names if name not in molecule.names]
            molecule.tagged |= {*tagged}
    return list(molecules.values())


def read_drugs() -> Iterator[Molecule]:
    """Yield the molecules of drugs.tsv.gz."""
    for line in gzip.decompress((HERE / "drugs.tsv.gz").read_bytes()).decode().splitlines():
        smiles, cas, names = line.split("\t")
        yield Molecule(str(chem.canonical(smiles)), cas, names.split(" | "), 99)


def checked(written: str, inchikey: str, organic: bool) -> str | None:
    """Return the canonical SMILES of the usual tautomer; None for a molecule that cannot be used."""
    mol = Chem.MolFromSmiles(written)
    if mol is None or not mol.GetNumAtoms() or len(written) > MAX_SMILES or not chem.is_valid(written):
        return None
    radical = any(
        atom.GetNumRadicalElectrons() and atom.GetSymbol() in NONMETALS | {"Ge", "Sn"} for atom in mol.GetAtoms()
    )
    if (radical or Chem.GetFormalCharge(mol)) and mol.GetNumAtoms() > 1:
        return None
    if organic:
        inchi = Chem.MolToInchi(mol)
        if Chem.InchiToInchiKey(inchi) != inchikey:
            return None
        mol = usual_form(mol, inchi)
    return chem.canonical(Chem.MolToSmiles(mol))


@cache
def ordinary_words() -> frozenset[str]:
    """Return ordinary words that are trade names as well."""
    return frozenset(line for line in (HERE / "words.txt").read_text(encoding="utf-8").split("\n") if line[:1] != "#")


def is_likely(name: str) -> bool:
    """Return whether a text is a name that a chemist types."""
    if not 3 <= len(name) <= MAX_NAME or not PLAIN.fullmatch(name) or not re.search("[a-z]{4}|^[a-z]{3}$", name):
        return False
    if ", " in name or name.endswith("-") or JUNK.search(name) or CODE.search(name):
        return False
    if len(name) < 5 and name not in SHORT:
        return False
    if name.count("(") != name.count(")") or name.count("[") != name.count("]"):
        return False
    return not chem.is_valid(name) and not chem.is_valid(name.upper()) and name not in ordinary_words()


WORDS = re.compile(r"(?!.*(?:^|[ -])[a-z](?:[ -]|$))[a-z' -]{6,30}")
PREFIX = re.compile(r"(?:yl|oxy|[a-z]o|ium|impurity|compounds?|depot|mite|forte|ester|hydride)$")
METALS = ("[Pd", "[Rh", "[Ru", "[Ni", "[Fe")
AXIS = re.compile(r"^\([rs]\)-(?:\([+-]\)-)?(?=.*(?:1,1'-bi|binap|biphenyl))")


@cache
def has_stereo(smiles: str) -> bool:
    """Return whether a molecule has stereocentres and all are given."""
    centres = Chem.FindMolChiralCenters(Chem.MolFromSmiles(smiles), includeUnassigned=True)
    return bool(centres) and all(code != "?" for _, code in centres)


SHORT = frozenset(("tin", "zinc", "lead", "iron", "gold", "urea", "neon", "ddt"))  # other short words are abbreviations


@cache
def skeleton(smiles: str) -> str:
    """Return what of an InChIKey tells neither stereo nor most tautomers."""
    return str(Chem.MolToInchiKey(Chem.MolFromSmiles(smiles)))[:14]


@cache
def are_forms(first: str, second: str) -> bool:
    """Return whether two SMILES are one compound of a metal, with other bonds, charges or water of crystallisation."""
    counts = []
    for smiles in (first, second):
        mol = Chem.MolFromSmiles(".".join(part for part in smiles.split(".") if part != "O") or "O")
        if not any(atom.GetSymbol() not in NONMETALS for atom in mol.GetAtoms()):
            return False
        counts.append(Counter(atom.GetSymbol() for atom in mol.GetAtoms()))
    return counts[0] == counts[1]


NONMETALS = frozenset(("H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Se", "Br", "I"))


class Resolver:
    """Decides which molecules each name means."""

    def __init__(self, molecules: list[Molecule], drugs: list[Molecule], left_out: Counter[str]) -> None:
        self.left_out = left_out
        self.molecules = {molecule.smiles: molecule for molecule in molecules}
        self.drugs = {normalise_name(name): drug.smiles for drug in drugs for name in drug.names}
        self.owners: dict[str, dict[str, int]] = defaultdict(dict)  # of a name: SMILES, with its rank among the names
        for molecule in molecules:
            for rank, name in enumerate(molecule.names):
                if is_likely(name):
                    self.owners[name].setdefault(
                        molecule.smiles, -1 if name in molecule.tagged else rank - molecule.counted
                    )

        self.trusted = {normalise_name(name) for name, owners in self.owners.items() if min(owners.values()) < 0}

    def meanings(self, name: str) -> tuple[str, ...]:
        """Return the SMILES that a name means; none if it is left out, several if it is ambiguous."""
        owners = self.owners[name]
        if drug := self.drugs.get(normalise_name(name)):
            return (drug,)
        parsed = read_by_opsin(with_hyphens(name))
        if parsed is not None:
            return self._confirmed(name, parsed, owners)
        trusted = [smiles for smiles, rank in owners.items() if rank < 0]
        if not trusted and self.is_trivial(name):
            trusted = [*owners]
        trusted = [
            smiles
            for smiles in trusted
            if "." not in smiles or SALT.search(name) or any(map(smiles.__contains__, METALS))
        ]
        if not trusted:
            return self._none("names far behind others that OPSIN cannot read")
        if STEREO.search(name) and not all(map(has_stereo, trusted)):
            return self._none("names with stereo descriptors that OPSIN cannot read")
        if len({skeleton(smiles) for smiles in trusted}) == 1:
            flat = min(trusted, key=lambda smiles: (smiles.count("@") + smiles.count("/"), len(smiles)))
            return (self.natural(flat),)
        self.left_out["ambiguous names (kept as such)"] += 1
        return tuple(sorted(trusted, key=owners.__getitem__)[:MAX_MEANINGS])

    @cache  # noqa: B019
    def natural(self, smiles: str) -> str:
        """Return a flat molecule of many stereocentres with the stereo of its systematic names, if they agree."""
        molecule = self.molecules[smiles]
        centres = len(Chem.FindMolChiralCenters(Chem.MolFromSmiles(smiles), includeUnassigned=True))
        if (
            "@" in smiles
            or centres < MIN_CENTRES
            or any(re.search(r"\+[/-]{1,2}|dl-|rac", name) for name in molecule.names)
        ):
            return smiles
        written = [name for name in molecule.names if DESCRIPTORS.search(name) and len(name) < MAX_SMILES]
        parsed = filter(None, (read_by_opsin(DESCRIPTORS.sub(_upper, name)) for name in written[:6]))
        isomers = {str(chem.canonical(read.smiles)) for read in parsed if not read.is_ambiguous}
        if len(isomers) != 1 or chem.drop_stereo(isomer := isomers.pop()) != smiles:
            return smiles
        self.left_out["molecules with the stereo of their systematic names"] += 1
        return isomer

    def is_trivial(self, name: str) -> bool:
        """Return whether a name counts whatever its rank: plain words, no prefix, no class that has members."""
        if not WORDS.fullmatch(name) or PREFIX.search(name) or normalise_name(name) in self.trusted:
            return False
        return not any(f"{letter}-{name}" in self.owners for letter in ("alpha", "beta", "gamma", "o", "m", "p"))

    def _confirmed(self, name: str, parsed: Parsed, owners: dict[str, int]) -> tuple[str, ...]:
        trusted = [smiles for smiles, rank in owners.items() if rank < 0]
        if parsed.is_ambiguous:
            if len(trusted) == 1 and re.match(r"[omp]-|.*\d", name):  # 2-chloronitrobenzene: one locant is left out
                return (trusted[0],)
            return self._none("names that mean several molecules by OPSIN")
        smiles = str(chem.canonical(parsed.smiles))
        if smiles in owners:
            return (smiles,)
        alike = [owner for owner in owners if skeleton(owner) == skeleton(smiles)]
        if not alike and (forms := [owner for owner in trusted if are_forms(owner, smiles)]):
            return (smiles if forms[0].count("O.") + forms[0].startswith("O.") > smiles.count("O.") else forms[0],)
        if not alike and trusted and len(smiles) <= MAX_SMILES:
            self.left_out["names that mean another molecule by OPSIN (kept as ambiguous)"] += 1
            return (*trusted[: MAX_MEANINGS - 1], smiles)
        if not alike:
            return self._none("names far behind others that mean another molecule by OPSIN")
        flat = chem.drop_stereo(smiles)
        if flat != chem.drop_stereo(alike[0]):
            return (alike[0],)  # another tautomer or form of a salt
        if "@" not in smiles and "/" not in smiles and not STEREO.search(name) and not re.match(r".*\d", name):
            return (alike[0],)  # a trivial name implies what the table says
        self.left_out["names with the stereo that OPSIN reads"] += 1
        return (smiles,)

    def _none(self, reason: str) -> tuple[str, ...]:
        self.left_out[reason] += 1
        return ()


def without_brackets(meanings: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return names without the numbers of their bridges, if those name one molecule: 1,8-diazabicycloundec-7-ene."""
    bare: dict[str, set[str]] = defaultdict(set)
    for key, smiles in meanings.items():
        if "cyclo[" in key:
            bare[re.sub(r"(?<=cyclo)\[[^\]]*\]", "", key)].update(smiles)
    return {key: tuple(smiles) for key, smiles in bare.items() if len(smiles) == 1 and key not in meanings}


def usual_name(names: list[str]) -> str:
    """Return the first name that is neither long nor all locants."""
    return next((name for name in names if len(name) <= 40), names[0] if names else "")


def printed(name: str) -> str:
    """Return a name in lower case as it is printed: N-Boc-L-proline."""
    name = re.sub(
        r"(?<![a-z])(?:n(?=[,'-](?!(?:pro|but|pent|hex|hept|oct|non|dec)[yao]))|[dl]l?(?=-[a-z])|\d+h(?=-))",
        _upper,
        name,
    )
    name = re.sub(r"\((?:\d*[rsez],?)+\)", _upper, name)
    return re.sub(r"(?<![a-z])(?:boc|fmoc|cbz|tris)(?=[-(])", lambda match: match[0].capitalize(), name)


def _upper(match: re.Match[str]) -> str:
    return match[0].upper()


def main(folder: Path) -> None:
    """Write the table, and say what was left out."""
    RDLogger.DisableLog("rdApp.*")
    counts = Counter[str]()
    molecules, drugs = read_tables(folder, counts), list(read_drugs())
    resolver = Resolver(molecules, drugs, counts)
    meanings: dict[str, tuple[str, ...]] = {}
    names_of: dict[str, list[str]] = defaultdict(list)
    for molecule in (*drugs, *molecules):
        confirmed = 0
        for name in molecule.names:
            key = normalise_name(name)
            if key in meanings or not (name in resolver.owners or molecule in drugs):
                continue
            smiles = resolver.meanings(name)
            confirmed += bool(smiles) and not WORDS.fullmatch(name)
            if not smiles or (confirmed > VERIFIED and molecule not in drugs and not WORDS.fullmatch(name)):
                continue
            meanings[key] = smiles
            if len(smiles) == 1:
                names_of[smiles[0]].append(name)
    meanings |= without_brackets(meanings)
    numbers = {molecule.cas: molecule.smiles for molecule in (*molecules, *drugs) if molecule.cas}
    meanings |= {cas: (smiles,) for cas, smiles in numbers.items()}
    cas_of = {smiles: cas for cas, smiles in numbers.items()}
    listed = {smiles for several in meanings.values() for smiles in several}
    records = [Record(smiles, cas_of.get(smiles, ""), printed(usual_name(names_of[smiles]))) for smiles in listed]
    write_table(HERE / "names.bin", records, meanings)
    counts["names and numbers"], counts["molecules"] = len(meanings), len(records)
    for what, count in counts.items():
        print(f"{count:8,} {what}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
