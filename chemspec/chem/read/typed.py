"""Read what was typed or pasted: molecules as SMILES, names or InChI, alone, in lists, or as a reaction."""

import html
import re
from dataclasses import dataclass, replace

import chemspec.chem as chem
import chemspec.chem.read.inchi as inchi
import chemspec.chem.read.respell as respell
from chemspec.chem import salts
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.query import ARROW_HEAD
from chemspec.chem.read.flask import TOKENS_JOINED, Flask, join_tokens, read_flask
from chemspec.chem.read.values import Input, join_sides, side_note
from chemspec.chem.smiles_syntax import Fault
from chemspec.chem.traced_text import TracedText
from chemspec.settings import Task
from chemspec.tasks import TASKS

# A retrosynthetic arrow, and one to the left: the product stands before it.
_BACK = "\u21d2\u27f9\u21e8\u21d0\u27f8\u2190\u27f5\u2b05"
_FORTH = (
    "\u2192\u27f6\u279c\u2794\u279d\u279e\u2799\u279b\u27a1\u27a4\u2b95\u2b62\u21a6\u27fc\u21fe\u21e2\u21c0\U0001f852\U0001f812"
    "\u21cc\u21c4\u21cb\u21c6"
)
_BLANK = r"(?:(?<=\s)|^)"
_END = r"(?=\s|$)"
_ARROW = re.compile(
    rf"(?P<back>[{_BACK}]\ufe0f?|{_BLANK}(?:<[-=]+|<<){_END})"
    rf"|(?P<forth>[{_FORTH}]\ufe0f?|{_BLANK}(?:<[-=]+>|[-=~]+>|=|gives|yields|affords|produces){_END}|(?<![-=])[-=]{{2,9}}>|=>|>{{3,}})"
)


@dataclass(frozen=True)
class Sides:
    """The sides of a reaction, in the order of time whatever its arrow was, and the span of its arrow."""

    reactants: TracedText
    agents: TracedText
    products: TracedText
    arrow: TracedText
    notes: tuple[str, ...] = ()


def split_reaction(text: TracedText) -> Sides | Fault | None:
    """Split a reaction at its arrow; None if the text has none."""
    chars = text.chars
    arrows = [*_ARROW.finditer(chars)] if ">" in chars or "<" in chars or not chars.isascii() or " " in chars else []
    heads = [
        head.start()
        for head in ARROW_HEAD.finditer(chars)
        if not any(a.start() <= head.start() < a.end() for a in arrows)
    ]
    if not arrows and not heads and _is_no_dative_bond(chars):
        arrows = [*re.finditer("(?P<back>(?!))|(?P<forth>->)", chars)]
    if not arrows:
        return _plain_sides(text, heads) if heads else None
    start, end = arrows[0].span()
    arrow = text[start:end]
    if len(arrows) + len(heads) > 1:
        return text[start : arrows[-1].end()].fault("these are several steps; enter one step at a time", "reaction")
    before, behind, none = text[:start].strip(), text[end:].strip(), text[:0]
    if arrows[0]["back"]:
        return Sides(behind, none, before, arrow, (f"{arrow.chars} points at the starting materials",))
    return Sides(before, none, behind, arrow)


def _plain_sides(text: TracedText, heads: list[int]) -> Sides | Fault:
    first, last = heads[0], heads[-1]
    if len(heads) != 2:
        message = f"reactants>agents>products has two >, this reaction {len(heads)}"
        return text[first : last + 1].fault(message, "reaction")
    arrow = text[first : last + 1]
    return Sides(text[:first].strip(), text[first + 1 : last].strip(), text[last + 1 :].strip(), arrow)


def _is_no_dative_bond(chars: str) -> bool:
    """Return whether -> within a word is an arrow: what it makes of the text is no molecule, or bonds to a carbon."""
    if "->" not in chars:
        return False
    mol = mol_from_smiles(chars)
    if mol is None:
        return not re.search(r"->(?:\[|B(?!r))", chars)  # whose bonds are dative ones
    return any(str(bond.GetBondType()) == "DATIVE" and bond.GetEndAtom().GetSymbol() == "C" for bond in mol.GetBonds())


LONGEST = 20 * chem.LONGEST  # characters of a text: room for maps, names and the sides of a reaction
_CLEAN = re.compile(r"[!#-%(-;=?-_a-~]+")  # ASCII without blanks, quotation marks, arrows and &
_ENTITY = re.compile(r"&(?:#\d{1,6}|#x[0-9a-fA-F]{1,5}|[A-Za-z]{2,8});")
_ESCAPED = re.compile(r"%3[eE]")
_LABEL = re.compile(
    r"\s*(?:(?:canonical |isomeric )?(?:reaction )?smiles|rxn|inchi(?=\s*:\s*InChI=)|(?:iupac )?name"
    r"|molecule|compound|target|product)"
    r"(?:\s*[:=]\s*|\s+(?=smiles\b)|(?<=smiles)\s+)(?=\S)",
    re.IGNORECASE,
)


def read_typed(text: str, task: Task, max_chars: int) -> Input | Fault:
    """Read a typed text as a query of a task."""
    whole = TASKS.lookup(task).whole
    if _CLEAN.fullmatch(text) and not whole and not text.startswith(("1S/", "InChI=")):
        read = chem.read_query(text, max_chars=max_chars)
        if isinstance(read, chem.Query) and respell.replace_abbreviations(text)[0] == text:
            return _query(read, "SMILES", read.notes)
        if isinstance(read, Fault) and read.kind == "length":
            return read
    if len(text) > LONGEST:
        return Fault(f"{len(text)} characters are too many; the limit is {LONGEST}", LONGEST, len(text), "length")
    traced, notes = _plain(TracedText.of(text))
    replaced = inchi.replace_inchis(traced)
    if isinstance(replaced, Fault):
        return replaced
    has_inchi, traced, notes = replaced[0] is not traced, replaced[0], (*notes, *replaced[1])
    if (joined := join_tokens(traced)) is not None:
        traced, notes = joined, (*notes, TOKENS_JOINED)
    sides = split_reaction(traced)
    if isinstance(sides, Fault):
        return sides
    if sides is not None:
        return _read_whole(sides, notes, max_chars) if whole else _read_side(sides, task, notes, max_chars)
    if whole:
        return Fault(chem.NO_REACTION, 0, len(text), "reaction")
    flask = read_flask(traced, task == "retro")
    if isinstance(flask, Fault):
        return flask
    kind = "InChI" if has_inchi and flask.kind == "SMILES" else flask.kind
    return _finish(replace(flask, kind=kind, notes=(*notes, *flask.notes)), traced, max_chars)


def _plain(text: TracedText) -> tuple[TracedText, tuple[str, ...]]:
    """Return a text without HTML entities and the label before it, and notes."""
    notes: tuple[str, ...] = ()
    if "&" in text.chars:
        text = text.substitute(_ENTITY, lambda match: html.unescape(match.group()))
    if "%3" in text.chars:
        text = text.substitute(_ESCAPED, lambda _: ">")
    if match := _LABEL.match(text.chars):
        notes = (f"the label {match.group().strip()!r} left out",)
        text = text[match.end() :]
    return text, notes


def _finish(flask: Flask, text: TracedText, max_chars: int) -> Input | Fault:
    short = flask.query is not None and len(flask.smiles) <= max_chars
    read = flask.query if flask.query and short else chem.read_query(flask.smiles, max_chars=max_chars)
    if isinstance(read, Fault):
        return text.fault(read.message, read.kind)
    notes = dict.fromkeys((*flask.notes, *read.notes))
    return _query(read, flask.kind, tuple(notes))


def _query(read: chem.Query, kind: str, notes: tuple[str, ...]) -> Input:
    smiles, changes = respell.respell(read.smiles)
    notes = (*notes, *changes, *lost(read.typed, read.smiles))
    return Input(smiles, kind, notes, salts.in_typed_order(read.typed, smiles))


def _read_side(sides: Sides, task: Task, notes: tuple[str, ...], max_chars: int) -> Input | Fault:
    """Read the side of a reaction that a task asks about, and the other one if it can be read."""
    query = _side(sides, task == "retro", max_chars)
    if isinstance(query, Fault):
        return query
    query = replace(query, notes=(side_note(task), *notes, *sides.notes, *query.notes))
    return query.with_other_side(_side(sides, task != "retro", max_chars))


def _side(sides: Sides, of_products: bool, max_chars: int) -> Input | Fault:
    texts = [sides.products] if of_products else [sides.reactants, sides.agents]
    flasks: list[Flask] = []
    for text in filter(None, texts):
        flask = read_flask(text, of_products)
        if isinstance(flask, Fault):
            return flask
        flasks.append(flask)
    if not flasks:
        return sides.arrow.fault(f"the reaction has no {'product' if of_products else 'reactant'}", "reaction")
    joined = ".".join(flask.smiles for flask in flasks)
    notes = tuple(dict.fromkeys(note for flask in flasks for note in flask.notes))
    query = flasks[0].query if len(flasks) == 1 else None
    return _finish(Flask(joined, "reaction SMILES", notes, query), next(filter(None, texts)), max_chars)


def _read_whole(sides: Sides, notes: tuple[str, ...], max_chars: int) -> Input | Fault:
    read: list[Input] = []
    for text, role in ((sides.reactants, "reactant"), (sides.products, "product"), (sides.agents, "")):
        if not text:
            if role:
                return sides.arrow.fault(f"the reaction has no {role}", "reaction")
            continue
        flask = read_flask(text, role == "product")
        side = flask if isinstance(flask, Fault) else _finish(flask, text, max_chars)
        if isinstance(side, Fault):
            return side
        read.append(side)
    return join_sides(read, "reaction SMILES", (*notes, *sides.notes))


_MARK = re.compile("@@?")
_RADICAL = re.compile(r"\[(?:C|CH|CH2|CH3|c)\]")
_ALLENE = re.compile(r"=\[C@@?\](?:\(?=)")
_BARE_CENTRE = re.compile(r"\[C@@?(?::\d+)?\]")


def lost(typed: str, smiles: str) -> tuple[str, ...]:
    """Return notes on what is in a typed valid SMILES but not in the canonical one of the same molecules."""
    notes = []
    bracketed = [part for part in smiles.split(".") if part != "[C]" and _RADICAL.search(part)]
    atoms = [atom for mol in filter(None, map(mol_from_smiles, bracketed)) for atom in mol.GetAtoms()]
    if any(atom.GetSymbol() == "C" and atom.GetNumRadicalElectrons() for atom in atoms):
        centre = _BARE_CENTRE.search(typed)
        meant = f"; perhaps {centre[0][:-1].split(':')[0]}H] was meant for {centre[0]}" if centre else ""
        notes.append(f"an atom in brackets without its hydrogens is read as a radical{meant}")
    if "@" in typed and len(_MARK.findall(typed)) > len(_MARK.findall(smiles)):
        if _ALLENE.search(typed):
            notes.append("the stereo of an allene is left out")
        else:
            notes.append("stereo marks left out: their atoms are no stereocentres")
    return tuple(notes)
