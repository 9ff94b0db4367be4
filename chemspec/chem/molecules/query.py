"""Canonical SMILES and components of a molecule, or where its text is wrong, as plain values without RDKit."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdqueries
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import MAX_LENGTH as MAX_LENGTH
from chemspec.chem.molecules.parsing import mol_from_smiles, shared_mol, smiles_refusal
from chemspec.chem.molecules.smiles_syntax import Fault as Fault
from chemspec.chem.molecules.smiles_syntax import atom_spans, describe_character, syntax_fault
from chemspec.chem.molecules.traced_text import TracedText

KEPT = 5000  # results: about one answer the same few molecules are asked many times
ELEMENTS_KEPT = 100_000  # small ones, and a search for routes asks about every molecule that it meets
ARROW = ">>"  # between the sides of a reaction that is a query
NO_REACTION = "write the whole reaction, reactants>>product"
LEFT_OUT = "the agents are left out"
# An atom of no element; RDKit's own loop over the atoms is thirty times as fast as Python's.
_ANY = rdqueries.AtomNumEqualsQueryAtom(0)


@dataclass(frozen=True)
class Query:
    """A canonical SMILES ready for a model, and what was changed."""

    smiles: str
    notes: tuple[str, ...]
    typed: str  # the SMILES as it stood in the text, its molecules in that order


def is_valid(smiles: str) -> bool:
    """Return whether RDKit accepts the SMILES, which must hold at least one atom and no blanks."""
    return mol_from_smiles(smiles) is not None


@lru_cache(maxsize=KEPT)
def canonical(smiles: str) -> str | None:
    """Return the canonical SMILES with stereo, isotopes and atom maps; None where it is invalid."""
    mol = mol_from_smiles(smiles)
    return None if mol is None else _write(mol)


def canonical_parts(smiles: str) -> tuple[str, ...] | None:
    """Return the canonical SMILES of each component, sorted; None where any of them is invalid."""
    whole = canonical(smiles)
    return None if whole is None else tuple(sorted(whole.split(".")))


def same_molecules(a: str, b: str) -> bool:
    """Return whether both hold the same components equally often; an invalid SMILES equals nothing."""
    parts = canonical_parts(a)
    return parts is not None and parts == canonical_parts(b)


@lru_cache(maxsize=KEPT)
def drop_stereo(smiles: str) -> str | None:
    """Return the canonical SMILES without stereo (isotopes stay); None where it is invalid."""
    mol = mol_from_smiles(smiles)
    if mol is None:
        return None
    Chem.RemoveStereochemistry(mol)
    # Read again: an explicit [H] that only carried the geometry of a double bond can go now.
    return canonical(_write(mol))


@lru_cache(maxsize=KEPT)
def main_product(smiles: str) -> str | None:
    """Return the component with most heavy atoms, canonical; of equals the first in the alphabet."""
    parts = canonical_parts(smiles)
    return None if parts is None else min(parts, key=lambda part: (-heavy_atoms(part), part))


@lru_cache(maxsize=ELEMENTS_KEPT)
def elements(smiles: str) -> Counter[str] | None:
    """Return how many heavy atoms there are of each element, not to be changed; None where the SMILES is invalid.

    They are read off the formula, since a loop over atoms in Python is slow.
    """
    mol = shared_mol(smiles)
    counted = re.findall(r"([A-Z][a-z]?)(\d*)", str(CalcMolFormula(mol))) if mol is not None else []
    return None if mol is None else Counter({name: int(many or 1) for name, many in counted if name != "H"})


def heavy_atoms(smiles: str) -> int:
    """Return how many atoms other than hydrogen there are; 0 where the SMILES is invalid."""
    return (elements(smiles) or Counter()).total()


def formula_balance(reactants: str, products: str) -> dict[str, int] | None:
    """Return heavy atoms of the products that the reactants cannot supply, by element; None if unreadable.

    Hydrogen is left out, because reactions as written seldom balance it (work-up, reducing agents).
    """
    have, need = elements(reactants), elements(products)
    if have is None or need is None:
        return None
    return dict(sorted((need - have).items()))


def is_same_token(first: str, second: str) -> bool:
    """Return whether two tokens are equal, ring labels being interchangeable: a copy may renumber them."""
    return first == second or all(token.isdigit() or token.startswith("%") for token in (first, second))


def atom_tokens(tokens: Sequence[str]) -> tuple[int | None, ...]:
    """Return for each token the index of its first atom in `Chem.MolFromSmiles` of the joined tokens, or None.

    RDKit folds most explicit [H] into their neighbour: such a token has no atom, and the atoms behind it move up. All
    are None where the joined tokens are not valid.
    """
    smiles = "".join(tokens)
    mol = mol_from_smiles(smiles, sanitize=False)
    if mol is None or not is_valid(smiles):
        return (None,) * len(tokens)
    for atom in mol.GetAtoms():
        atom.SetIntProp("written", atom.GetIdx())
    with rdBase.BlockLogs():
        # Before sanitizing, as RDKit does it: C=[H] is valid only without its [H].
        folded = Chem.RemoveHs(mol, sanitize=False)
    index = {atom.GetIntProp("written"): atom.GetIdx() for atom in folded.GetAtoms()}
    starts = {start: index.get(k) for k, (start, _) in enumerate(atom_spans(smiles))}
    ends = list(accumulate(len(token) for token in tokens))
    spans = (range(end - len(token), end) for token, end in zip(tokens, ends, strict=True))
    return tuple(next((starts[at] for at in span if at in starts), None) for span in spans)


def _write(mol: Any) -> str:
    with rdBase.BlockLogs():
        return str(Chem.MolToSmiles(mol))


def explain(smiles: str) -> Fault | None:
    """Return the first fault of a SMILES; None exactly where `is_valid`."""
    if not smiles.strip():
        return Fault("there is no SMILES here", 0, len(smiles), "empty")
    if len(smiles) > MAX_LENGTH:
        return _too_long(len(smiles), MAX_LENGTH)
    if refusal := smiles_refusal(smiles):
        return Fault(refusal, 0, len(smiles), "length")
    if is_valid(smiles):
        return None
    unsure = Fault("RDKit cannot make a molecule of this", 0, len(smiles), "other")
    return syntax_fault(smiles) or _chemistry(smiles, atom_spans(smiles)) or unsure


def pointer(text: str, fault: Fault, *, width: int = 76) -> str:
    """Return two lines: the text around the fault, and carets below the faulty characters."""
    first = max(0, min(fault.start - width // 2, len(text) - width))
    before, blamed = text[first : fault.start], text[fault.start : min(fault.end, first + width)]
    shown = text[first : first + width]
    line = "".join(
        char if char.isprintable() else " " if char.isspace() else "\N{REPLACEMENT CHARACTER}" for char in shown
    )
    return f"{line}\n{' ' * sum(map(_columns, before))}{'^' * max(1, sum(map(_columns, blamed)))}"


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _too_long(length: int, limit: int) -> Fault:
    return Fault(f"{length} characters are too many; the limit is {limit}", limit, length, "length")


def _chemistry(smiles: str, spans: Sequence[tuple[int, int]]) -> Fault | None:
    mol = mol_from_smiles(smiles, sanitize=False)
    if mol is None or mol.GetNumAtoms() != len(spans):
        return None
    with rdBase.BlockLogs():
        try:
            # Not DetectChemistryProblems: it misses valences that are exceeded only once the rings are
            # kekulized (O=b1NCO1).
            Chem.SanitizeMol(Chem.Mol(mol))
        except Chem.MolSanitizeException as error:
            problem: Any = error.cause  # type: ignore[attr-defined]
        except (RuntimeError, ValueError):
            return None
        else:
            return None
    if problem.GetType() == "KekulizeException":
        return _kekulization(smiles, mol, set(problem.GetAtomIndices()), spans)
    if not hasattr(problem, "GetAtomIdx"):
        return None
    start, end = spans[problem.GetAtomIdx()]
    message, kind = describe_bad_atom(problem, smiles[start:end])
    return Fault(message, start, end, kind)


def describe_bad_atom(problem: Any, name: str) -> tuple[str, str]:
    """Return what RDKit's exception says about the atom of this name, and the kind of that fault."""
    if problem.GetType() == "AtomKekulizeException":
        return f"{name} is written as aromatic (lower case in a SMILES) but is in no aromatic ring", "aromaticity"
    count = re.search(r", (\d+), is greater", problem.Message())
    return f"{name} has {count[1] + ' bonds' if count else 'more bonds'}, more than it can form", "valence"


_LABELS = re.compile(r"(?:%\(\d+\)|%\d\d|\d)*")


def _kekulization(smiles: str, mol: Any, atoms: set[int], spans: Sequence[tuple[int, int]]) -> Fault:
    # RDKit names only the atoms it could not pair; a reader looks for the whole ring.
    rings = [set(ring) for ring in Chem.GetSymmSSSR(mol)]
    aromatic = {atom.GetIdx() for atom in mol.GetAtoms() if atom.GetIsAromatic()}
    blamed = atoms.union(*(ring for ring in rings if ring & atoms and ring <= aromatic))
    start, end = min(spans[k][0] for k in blamed), max(spans[k][1] for k in blamed)
    labels = _LABELS.match(smiles, end)
    message = "no pattern of single and double bonds fits this aromatic ring"
    if any(smiles[slice(*spans[k])] == "n" for k in blamed):
        message += "; perhaps a nitrogen in it carries a hydrogen: [nH]"
    return Fault(message, start, labels.end() if labels else end, "aromaticity")


_ALIKE = {chr(int(code, 16)): read for code, read, _ in read_asset_table(Path(__file__).with_name("look_alikes.tsv"))}
_QUOTES = "\"'`\u00b4\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a\u2032\u2033"
_CLEAN = re.compile(r"[!#-&(-_a-~]+")  # ASCII without blanks and quotation marks: nothing to tidy
ARROW_HEAD = re.compile(r"(?<!-)>")  # "->" is a dative bond


def read_query(text: str, *, max_chars: int = 1000) -> Query | Fault:
    """Read a typed SMILES as a canonical query with notes on every change, or say what is wrong with it."""
    limit = min(max_chars, MAX_LENGTH)
    if len(text) > 20 * limit:  # room for maps and a name, but not for a book
        return _too_long(len(text), 20 * limit)
    typed, notes = _tidy(text)
    if not typed.chars:
        return Fault("nothing to read here; enter a SMILES, such as CCO, or a name", 0, len(text), "empty")
    if len(typed.chars) > limit:
        return typed.restore(_too_long(len(typed.chars), limit))
    mol = mol_from_smiles(typed.chars)  # once: it takes as long as a pass of the model
    fault = explain(typed.chars) if mol is None else _vague(typed.chars, mol)
    if fault is not None:
        return typed.restore(fault)
    return Query(_without_maps(mol, notes), tuple(notes), typed.chars)


def _tidy(text: str) -> tuple[TracedText, list[str]]:
    """Return the part of the text that is meant as SMILES, in ASCII where that is possible."""
    if _CLEAN.fullmatch(text):
        return TracedText.of(text), []
    plain = [_plain(char) for char in text]
    positions = tuple(position for position, new in enumerate(plain) for _ in new)
    whole = TracedText("".join(plain), positions)
    begin = len(whole.chars) - len(whole.chars.lstrip(_QUOTES + " "))
    first, _, rest = whole.chars[begin:].partition(" ")
    word, rest = first.rstrip(_QUOTES), rest.strip(_QUOTES + " ")
    typed = whole[begin : begin + len(word)]
    around = whole.chars[:begin] + first[len(word) :]
    notes = {
        _swaps(text, typed): True,
        "invisible characters removed": not all(plain),
        "quotation marks removed": bool(around.strip()),
        "blanks around the text removed": whole.chars != whole.chars.strip(),
        _dropped(rest): bool(rest),
    }
    return typed, [note for note, applies in notes.items() if note and applies]


def _swaps(text: str, typed: TracedText) -> str:
    """Return a note on the look-alikes among the characters kept; empty where there are none."""
    positions = dict.fromkeys(typed.positions)
    swapped = {text[k]: _plain(text[k]) for k in positions if _plain(text[k]) != text[k]}
    pairs = [f"{unicodedata.name(old, describe_character(old)).lower()} by {new}" for old, new in swapped.items()]
    more = ", ..." if len(pairs) > 4 else ""
    return f"look-alike characters replaced: {', '.join(pairs[:4])}{more}" if pairs else ""


def _dropped(rest: str) -> str:
    shown = repr(rest if len(rest) <= 40 else rest[:40] + "...")
    if rest.startswith("|"):
        return f"CXSMILES extension dropped: {shown}"
    return f"{shown} dropped, taken for a name; a SMILES holds no blanks"


def _plain(char: str) -> str:
    """Return the ASCII that a character stands for; itself where there is none, nothing if invisible."""
    if "!" <= char <= "~":
        return char
    if char.isspace():
        return " "
    if char in _ALIKE:
        return _ALIKE[char]
    if unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f":
        return ""
    folded = unicodedata.normalize("NFKC", char)
    return folded if len(folded) == 1 and "!" <= folded <= "~" else char


def _vague(smiles: str, mol: Any) -> Fault | None:
    """Return the fault of a valid SMILES, read as `mol`, that means a pattern, not a molecule."""
    if "~" not in smiles and not len(mol.GetAtomsMatchingQuery(_ANY)):
        return None
    mol = mol_from_smiles(smiles, sanitize=False)
    atoms = zip(() if mol is None else mol.GetAtoms(), atom_spans(smiles), strict=False)
    for start, end in (span for atom, span in atoms if atom.GetAtomicNum() == 0):
        return Fault(f"{smiles[start:end]} stands for any atom; write the one that is meant", start, end, "atom")
    if (index := smiles.find("~")) >= 0:
        return Fault("~ stands for any bond; write the one that is meant", index, index + 1, "bond")
    return None


def _without_maps(mol: Any, notes: list[str]) -> str:
    smiles = _write(mol)
    if ":" not in smiles:
        return smiles
    for atom in mol.GetAtoms():
        atom.ClearProp("molAtomMapNumber")  # number 0 would still be written
    notes.append("atom maps removed")
    # Read again: RDKit folds an explicit [H] into its neighbour only once the map is gone.
    plain = _write(mol)
    return canonical(plain) or plain


MAX_COMPARED = 200_000  # pairs of atoms compared; some patterns would need all there are


def has_substructure(smiles: str, pattern: Any) -> bool | None:
    """Return whether a molecule has a substructure, an RDKit query; None if it takes more than `MAX_COMPARED` pairs."""
    mol = mol_from_smiles(smiles)
    if mol is None:
        return False
    left = MAX_COMPARED

    def compare(*_: Any) -> bool:
        nonlocal left
        left -= 1
        return left > 0  # then nothing fits any more, and the search ends

    parameters = Chem.SubstructMatchParameters()
    parameters.setExtraAtomCheckFunc(compare)
    matched = bool(mol.HasSubstructMatch(pattern, parameters))
    return matched if left > 0 else None
