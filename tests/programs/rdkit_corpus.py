"""Read every structure file below a folder as chemspec and as RDKit's own parsers do, and count what is the same.

    python tests/programs/rdkit_corpus.py rdkit-Release_2022_09_3 --show 5

The folder is the source archive of Debian's package `rdkit` (`apt-get source --download-only rdkit`), unpacked: its
test data hold molfiles, SDF, RXN, RDF, CDXML and SMILES files, many of them made to be hard or wrong.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rdkit import Chem, rdBase
from rdkit.Chem import rdChemReactions

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.molecules import parsing
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS
from chemspec.chem.reading import reaction_files
from chemspec.chem.reading.molfile import split_lines as numbered_lines
from chemspec.io.readers import decode_text, read_text
from chemspec.stock.offers import inchikey

KINDS = {
    ".mol": "molfile",
    ".sdf": "SDF",
    ".sd": "SDF",
    ".rxn": "RXN",
    ".rdf": "RDF",
    ".cdxml": "CDXML",
    ".smi": "SMILES",
    ".smiles": "SMILES",
}
HOLDERS = ("fragment", "group")
FLASK = ("ReactionStepReactants", "ReactionStepObjectsAboveArrow", "ReactionStepObjectsBelowArrow")
PRODUCTS = ("ReactionStepProducts",)
SHOWN = ("and names of agents", "read by chemspec alone", "different")
Sides = tuple[str, ...]  # what is read: a molecule, or flask and product
Read = Callable[[str], Sides | None]


def main() -> None:
    """Count, and print a table and the reasons of refusals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=200, help="most records of a file")
    parser.add_argument("--show", type=int, default=0, help="records to name of each kind that differ")
    asked = parser.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    shown: Counter[str] = Counter()
    for path in sorted(asked.folder.rglob("*")):
        kind = KINDS.get(path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix)
        if kind is None or not path.is_file():
            continue
        counts[kind]["files"] += 1
        for number, record in enumerate(records(path, kind), 1):
            if number > asked.records:
                break
            outcome, told = compare(record, kind)
            counts[kind]["records"] += 1
            counts[kind][outcome] += 1
            if outcome == "refused":
                reasons[kind][in_short(told)] += 1
            if (
                outcome in ("different", "and names of agents", "read by chemspec alone")
                and shown[kind + outcome] < asked.show
            ):
                shown[kind + outcome] += 1
                print(f"{outcome}: {path.relative_to(asked.folder)}, record {number}: {told}")
    columns = (
        "files",
        "records",
        "same",
        "and names of agents",
        "refused",
        "neither reads",
        "read by chemspec alone",
        "different",
    )
    print(f"| kind | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for kind, count in counts.items():
        print(f"| {kind} | {' | '.join(str(count[column]) for column in columns)} |")
    for kind, messages in reasons.items():
        print(f"\nrefused {kind}:")
        for message, times in messages.most_common():
            print(f"{times:6}  {message}")


def records(path: Path, kind: str) -> Iterator[str]:
    """Yield the records of a file as texts."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = decode_text(raw)
    if kind == "SDF":
        parts = re.split(r"^\$\$\$\$.*\n?", text.replace("\r\n", "\n").replace("\r", "\n"), flags=re.MULTILINE)
        yield from (part for part in parts if part.strip())
    elif kind == "RDF":
        for record in reaction_files.split_records(numbered_lines(text)):
            yield "\n".join(line.text for line in record)
    elif kind == "SMILES":
        yield from (line for line in read_text(text, path) if line.strip())
    else:
        yield text


def compare(text: str, kind: str) -> tuple[str, str]:
    """Return whether chemspec and RDKit read the same, and what chemspec says."""
    reaction = kind in ("RXN", "RDF") or (kind == "CDXML" and "<step" in text)
    found = [formats.read_input(text, task=task) for task in (("forward", "retro") if reaction else ("retro",))]
    faults = [read.message for read in found if isinstance(read, chem.Fault)]
    ours = tuple(read.smiles for read in found if not isinstance(read, chem.Fault))
    with rdBase.BlockLogs():
        try:
            theirs = READ[kind](text)
        except RDKIT_ERRORS:
            theirs = None
    if faults:
        # What RDKit reads, but not as molecules, it hands back with dummy atoms and queries.
        return ("neither reads" if theirs is None else "refused"), faults[0]
    if theirs is None:
        return "read by chemspec alone", ".".join(ours)
    told = f"{' / '.join(ours)} instead of {' / '.join(theirs)}"
    pairs = [(mine.split("."), other.split(".")) for mine, other in zip(ours, theirs, strict=True)]
    if all(map(alike, ours, theirs)):
        return "same", told
    # The names over an arrow, which RDKit does not read: a label alone is carbon to it, or leaves an open end.
    more = all(set(Counter(other) - Counter(mine)) <= {"*", "C"} for mine, other in pairs)
    return ("and names of agents" if kind == "CDXML" and more else "different"), told


def alike(first: str, second: str) -> bool:
    """Return whether two canonical SMILES are one molecule; for some RDKit's spelling changes when it is read again."""
    return first == second or inchikey(first) == inchikey(second) != ""


def canonical(mols: list[Any]) -> str:
    """Return RDKit's molecules in the spelling of queries."""
    written = ".".join(Chem.MolToSmiles(mol) for mol in mols)
    read = chem.read_query(written)
    return read.smiles if isinstance(read, chem.Query) else written


def by_molfile(text: str) -> Sides | None:
    """Return what RDKit reads in a molfile."""
    if parsing.molblock_refusal(text):
        return None
    mol = Chem.MolFromMolBlock(text)
    return None if mol is None or not mol.GetNumAtoms() else (canonical([mol]),)


def by_rxn(text: str) -> Sides | None:
    """Return flask and product that RDKit reads in an RXN file."""
    reaction = parsing.reaction_from_rxnblock(text)
    if reaction is None:
        return None
    sides = [[*reaction.GetReactants(), *reaction.GetAgents()], [*reaction.GetProducts()]]
    if not all(sides):
        return None
    for mol in (mol for side in sides for mol in side):
        Chem.SanitizeMol(mol)
        Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    rdChemReactions.SanitizeRxn(reaction)
    return canonical([Chem.RemoveHs(mol) for mol in sides[0]]), canonical([Chem.RemoveHs(mol) for mol in sides[1]])


def by_cdxml(text: str) -> Sides | None:
    """Return what RDKit reads in a CDXML file: flask and product of its first step, or all molecules."""
    try:
        root = ElementTree.fromstring(re.sub(r"<!DOCTYPE[^>]*>", "", text))
    except ElementTree.ParseError:
        return None
    mols = [mol for mol in parsing.mols_from_cdxml(root) if mol.GetNumAtoms()]
    if not mols:
        return None
    steps = [
        step for step in root.iter("step") if step.get("ReactionStepReactants") or step.get("ReactionStepProducts")
    ]
    if not steps:
        return (canonical(mols),) * (2 if "<step" in text else 1)
    # RDKit's own roles are lost where a molecule stands in two steps, or after a group.
    within = {element.get("id"): [*element.iter("fragment")] for element in root.iter() if element.tag in HOLDERS}
    sides = []
    for names in (
        ("ReactionStepReactants", "ReactionStepObjectsAboveArrow", "ReactionStepObjectsBelowArrow"),
        PRODUCTS,
    ):
        ids = [number for name in names for number in steps[0].get(name, "").split()]
        drawn = {fragment.get("id") for number in ids for fragment in within.get(number, ())}
        sides.append(canonical([mol for mol in mols if str(mol.GetIntProp("CDX_FRAG_ID")) in drawn]))
    return tuple(sides)


def by_smiles(text: str) -> Sides | None:
    """Return what RDKit reads in the first word of a line."""
    word = text.split()[0]
    if ">" in word or parsing.smiles_refusal(word):
        return None
    mol = Chem.MolFromSmiles(word)
    return None if mol is None else (canonical([mol]),)


READ: dict[str, Read] = {
    "molfile": by_molfile,
    "SDF": by_molfile,
    "RXN": by_rxn,
    "RDF": by_rxn,
    "CDXML": by_cdxml,
    "SMILES": by_smiles,
}


def in_short(message: str) -> str:
    """Return a message without what differs from file to file."""
    bare = re.sub(r"^line \d+: ", "", message)
    bare = re.sub(r"'[^']*'|\b(?:atom|bond|atoms) \[?\d[\d, ]*\]?|\b\d[\d,.]*", "...", bare)
    return bare[:110]


if __name__ == "__main__":
    main()
