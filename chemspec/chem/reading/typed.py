"""Read what was typed or pasted: molecules as SMILES, names or InChI, alone, in lists, or as a reaction."""

import html
import re
from dataclasses import dataclass, replace

import chemspec.chem as chem
import chemspec.chem.reading.inchi as inchi
import chemspec.chem.reading.notations as notations
import chemspec.chem.reading.procedure as procedure
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.query import ARROW_HEAD
from chemspec.chem.molecules.smiles_syntax import Fault
from chemspec.chem.molecules.traced_text import TracedText
from chemspec.chem.reading.flask import TOKENS_JOINED, join_tokens, read_mixture
from chemspec.chem.reading.values import Molecules, Reaction
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
    r"|(?P<labelled>(?:(?<!\S)|(?=[-=\u2013\u2014]{2}))[-=\u2013\u2014]{1,9}\s*[\[({](?P<above>[^\[\](){}>]*(?:\([^()]*\)[^\[\](){}>]*)*)[\])}]"
    r"\s*[-=\u2013\u2014]{0,9}[>\u2192](?!>)"
    r"|(?<=\s)(?:[\u2013\u2014]|[-=]{2})[-=\u2013\u2014]{0,8}\s*(?P<inside>(?=[A-Za-z(]|\d[),])[^<>\u2192]{1,200}?)\s*[-=\u2013\u2014]{0,9}"
    r"[>\u2192](?!>)"
    rf"|(?:->|[{_FORTH}])\s*(?P<steps>\(?[1ia][.)]\)?\s[^>{_FORTH}]+?)\s*(?:-*->|[{_FORTH}])"
    rf"|[{_FORTH}]\s*(?:\((?P<between>[^()>{_FORTH}]*(?:\([^()]*\)[^()>{_FORTH}]*)*)\)|\[(?P<listed>[^\[\]>]*,[^\[\]>]*)\])\s*[{_FORTH}]"
    rf"|(?:(?<=\s)->|[{_FORTH}])(?:\[(?P<tex>[^\[\]>]*(?:\]\[[^\[\]>]+)?)\]|(?P<gap>\s)?\((?(gap)(?![RSEZ\d,+-]+\)))"
    r"(?P<round>[^()]*(?(gap)[A-Z][^()]*[A-Z\d][^()]*))\)(?=\s)))"
    rf"|(?P<forth>[{_FORTH}]\ufe0f?|{_BLANK}(?:<[-=]+>|[-=~\u2013\u2014]+>|=|gives|yields|affords|produces){_END}|(?<![-=])[-=]{{2,9}}>|=>|>{{3,}})"
)
_OVER = ("above", "inside", "tex", "round", "between", "listed", "steps")  # what stands over or in an arrow
_BELOW = re.compile(r"\]\[")  # the arrow: ->[MeMgBr][THF]


@dataclass(frozen=True)
class Sides:
    """The texts of a reaction by role, in the order of time whatever its arrow was, and its arrow."""

    texts: dict[str, TracedText]
    arrow: TracedText
    notes: tuple[str, ...] = ()


def split_reaction(text: TracedText) -> Sides | Fault | None:
    """Split a reaction at its arrow; None if the text has none."""
    chars = text.chars
    tried = ">" in chars or "<" in chars or not chars.isascii() or " " in chars
    arrows = [arrow for arrow in _ARROW.finditer(chars) if not _is_of_condition(chars, arrow)] if tried else []
    heads = [
        head.start()
        for head in ARROW_HEAD.finditer(chars)
        if not any(a.start() <= head.start() < a.end() for a in arrows) and not _is_of_condition(chars, head)
    ]
    if not arrows and not heads and _is_no_dative_bond(chars):
        arrows = [*re.finditer("(?P<back>(?!))|(?P<labelled>(?!))|(?P<forth>->)", chars)]
    if not arrows:
        return _plain_sides(text, heads) if heads else None
    start, end = arrows[0].span()
    arrow = text[start:end]
    if len(arrows) + len(heads) > 1:
        return text[start : arrows[-1].end()].fault("these are several steps; enter one step at a time", "reaction")
    before, behind = text[:start].strip(), text[end:].strip()
    if arrows[0]["labelled"]:
        group = next(name for name in _OVER if arrows[0][name] is not None)
        over = text[arrows[0].start(group) : arrows[0].end(group)].substitute(_BELOW, lambda _: "; ").strip()
        return Sides({"reactant": before, "product": behind, "agent": over}, arrow)
    if arrows[0]["back"]:
        notes = (f"{arrow.chars} points at the starting materials",)
        return Sides({"reactant": behind, "product": before}, arrow, notes)
    return Sides({"reactant": before, "product": behind}, arrow)


MAX_QUANTITY = 40  # characters
_DEGREE = r"(?:[°º˚]|\u2103|[CK]\b)"
_QUANTITY = re.compile(
    rf"(?i:\d\s*(?:{_DEGREE}\s*C?)?|r\.?t\.?|\b(?:[de]\.?[re]\.?|t|t_?r|time|temp|y|yields?|conv(?:ersion|\.)?|ee|purity|\u03bb|lambda|pH))\s*$"
)
_LIMIT = re.compile(r"[<>]\s?\d+(?:\.\d+)?\s?(?:%|:\d)")  # no SMILES begins with a digit
_VALUE = re.compile(
    rf"(?i:\s*(?:\d+\s?[:%]|[-+\u2212\u2013]?\d+\s*(?:{_DEGREE}|(?:nm|min|h|s)\b)|r\.?t\b|reflux|room))"
)


def _is_of_condition(chars: str, arrow: re.Match[str]) -> bool:
    """Return whether an arrow or equals sign is between quantities: -78 -> -20 °C, t = 6 h, > 500 nm."""
    start, end = arrow.span()
    before, behind = chars[max(0, start - MAX_QUANTITY) : start], chars[end : end + MAX_QUANTITY]
    return bool(_QUANTITY.search(before) and _VALUE.match(behind)) or bool(_LIMIT.match(chars, start))


def _plain_sides(text: TracedText, heads: list[int]) -> Sides | Fault:
    first, last = heads[0], heads[-1]
    if len(heads) != 2:
        message = f"reactants>agents>products has two >, this reaction {len(heads)}"
        if len(heads) % 2 == 0:
            message = "these are more than one step; enter one step at a time"
        return text[first : last + 1].fault(message, "reaction")
    sides = {"reactant": text[:first], "product": text[last + 1 :], "agent": text[first + 1 : last]}
    return Sides({role: side.strip() for role, side in sides.items()}, text[first : last + 1])


def _is_no_dative_bond(chars: str) -> bool:
    """Return whether -> within a word is an arrow: what it makes of the text is no molecule, or bonds to a carbon."""
    if "->" not in chars:
        return False
    mol = mol_from_smiles(chars)
    if mol is None:
        return not re.search(r"->(?:\[|B(?!r))", chars)  # such arrows are dative bonds
    return any(str(bond.GetBondType()) == "DATIVE" and bond.GetEndAtom().GetSymbol() == "C" for bond in mol.GetBonds())


MAX_CHARS = 20 * chem.MAX_LENGTH  # characters of a text: room for maps, names and the sides of a reaction
_ENTITY = re.compile(r"&(?:#\d{1,6}|#x[0-9a-fA-F]{1,5}|[A-Za-z]{2,8});")
_ESCAPED = re.compile(r"%3[eE]")
_COMMENT = re.compile(
    r"(?<!\s)\s+#\s+(?=.*[A-Za-z0-9]{4}).*$|(?:\\[nrt])+$|\s+(?i:output|answer|response|prediction)s?\s*:\s*$"
)  # behind a SMILES: a remark, a line end
_LABEL = re.compile(
    r"\s*(?:(?:(?:canonical|isomeric|target|product|molecule) )?(?:reaction )?smiles|rxn|inchi(?=\s*:\s*InChI=)"
    r"|(?:iupac )?name|(?:target |product )?(?:molecule|compound)|target|product|input|query"
    r"|(?:reagents (?:and|&) )?conditions|(?:please )?(?:predict|propose|suggest|give|find)[a-z ]{0,40})"
    r"(?:\s*[:=]\s*|\s+(?=smiles\b)|(?<=smiles)\s+|(?<=\bof|\bto)\s+)(?=\S)",
    re.IGNORECASE,
)


def read_typed(text: str, task: Task) -> Molecules | Reaction | Fault:
    """Read a typed text; where the task is about whole reactions, it must be one."""
    whole = TASKS.lookup(task).whole
    if len(text) > MAX_CHARS:
        return Fault(f"{len(text)} characters are too many; the limit is {MAX_CHARS}", MAX_CHARS, len(text), "length")
    translated = notations.translate(TracedText.of(text))
    if isinstance(translated, Fault):
        return translated
    traced, notes = _plain(translated[0])
    notes = (*translated[1], *notes)
    replaced = inchi.replace_inchis(traced)
    if isinstance(replaced, Fault):
        return replaced
    has_inchi, traced, notes = replaced[0] is not traced, replaced[0], (*notes, *replaced[1])
    if not whole and procedure.is_paragraph(traced.chars):
        return _read_paragraph(traced, task)
    if (joined := join_tokens(traced)) is not None:
        traced, notes = joined, (*notes, TOKENS_JOINED)
    if sections := notations.split_sections(traced):
        labelled: dict[str, Molecules | Fault] = {
            role: _read(sections[role], role == "product")
            for role in ("reactant", "product", "agent")
            if role in sections
        }
        return Reaction(labelled, (*notes, "read by the labels in the text"), traced.span)
    sides = split_reaction(traced)
    if isinstance(sides, Fault):
        return sides
    if sides is not None:
        over, steps = _first_step(sides.texts["agent"], task) if sides.texts.get("agent") else (None, ())
        texts = {**sides.texts, "agent": over} if over else sides.texts
        read = {role: _read(side, role == "product") for role, side in texts.items() if side}
        if isinstance(agents := read.get("agent"), Molecules):
            read["agent"] = replace(agents, steps=_without_workup(steps))
        return Reaction(read, (*notes, *sides.notes, *(_step_notes(steps) if steps else ())), sides.arrow.span)
    if whole:
        return Fault(chem.NO_REACTION, 0, len(text), "reaction")
    traced, steps = _first_step(traced, task)
    flask = read_mixture(traced, task == "retro")
    if steps and isinstance(flask, Molecules):
        notes_of_steps = (*_step_notes(steps), *flask.notes)
        flask = replace(flask, notes=notes_of_steps, steps=_without_workup(steps), span=traced.span)
    if isinstance(flask, Fault) or traced.chars == text:
        return flask
    kind = "InChI" if has_inchi and flask.kind == "SMILES" else flask.kind
    return replace(flask, kind=kind, notes=(*notes, *flask.notes), span=traced.span)


def _first_step(text: TracedText, task: Task) -> tuple[TracedText, tuple[str, ...]]:
    """Return the first of several steps in a flask, and the texts of the others; bullets of a list are no steps."""
    if task == "retro" or "\n" in text.chars.strip():
        return text, ()
    steps = procedure.split_steps(text)
    return steps[0], tuple(step.chars for step in steps[1:])


def _without_workup(steps: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(step for step in steps if not procedure.is_workup(step))


def _step_notes(steps: tuple[str, ...]) -> tuple[str, ...]:
    rest = _without_workup(steps)
    left = f"left out: the workup ({'; '.join(step for step in steps if step not in rest)})"
    several = f"several steps: the first is read; next with its product: {'; then '.join(rest)}"
    return (several,) * bool(rest) + (f"several steps: {left}",) * (len(rest) < len(steps))


def _read_paragraph(text: TracedText, task: Task) -> Molecules | Reaction | Fault:
    """Read the compounds of a paragraph of an experimental section, those with amounts in brackets."""
    used, workup, unread, product = procedure.compounds(text.chars)
    names = [product] if task == "retro" else used
    if not any(names):
        what = "product" if task == "retro" else "reactants"
        return text.fault(f"no {what} found in this paragraph: name them with amounts in brackets, or list them")
    flask = read_mixture(TracedText("; ".join(names), (0,) * len("; ".join(names))), task == "retro")
    if isinstance(flask, Fault):
        return text.fault(flask.message)
    notes = [f"read from a paragraph: {', '.join(names)}", *flask.notes]
    notes += [f"left out as workup: {', '.join(workup)}"] * bool(workup and task != "retro")
    notes += [f"not known, so left out: {', '.join(unread)}"] * bool(unread and task != "retro")
    return replace(flask, notes=tuple(notes), kind="name", span=text.span)


def _read(text: TracedText, is_target: bool) -> Molecules | Fault:
    read = read_mixture(text, is_target)
    return read if isinstance(read, Fault) else replace(read, span=text.span)


def _plain(text: TracedText) -> tuple[TracedText, tuple[str, ...]]:
    """Return a text without HTML entities and the label before it, and notes."""
    notes: tuple[str, ...] = ()
    if "&" in text.chars:
        text = text.substitute(_ENTITY, lambda match: html.unescape(match.group()))
    if "%3" in text.chars:
        text = text.substitute(_ESCAPED, lambda _: ">")
    if match := _COMMENT.search(text.chars):
        notes = (f"left out: {match[0].strip()}"[:120],)
        text = text[: match.start()]
    if match := _LABEL.match(text.chars):
        notes = (*notes, f"the label {match.group().strip()!r} left out")
        text = text[match.end() :]
    return text, notes


_MARK = re.compile("@@?")
_RADICAL = re.compile(r"\[\d*(?:C|CH|CH2|CH3|c)\]")
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
