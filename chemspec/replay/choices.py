"""What a model chose itself while the rest of an answer was accepted from drafts, in a chemist's words."""

from collections import Counter
from collections.abc import Sequence

from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.reactions.step_class import StepClass, classify_step
from chemspec.replay.trace_view import END, TraceView

REACTING, LEAVING, REST = "where the reaction takes place", "of the leaving group", "elsewhere"
MAX_ATOMS = 4  # atoms of one kind that are named; more are counted


def describe_choices(view: TraceView, task: str) -> str:
    """Return which tokens of the first answer the model chose itself, such as "Cl of the leaving group"; may be empty.

    Empty for tasks without a product, where nothing was accepted from drafts, and where the atoms cannot be compared.
    """
    answer = view.answers[0]
    chosen = [token for token in answer.tokens if token.origin == "own"]
    if not (atoms := _chosen_atoms(view, task)):
        return ""
    parts = [f"{_name_atoms(names)} {role}" for role, names in atoms.items() if names and role != REST]
    others = len(atoms[REST])
    parts += [f"{others} other atom{'s' * (others > 1)}"] if others else []
    parts += _name_marks([token.text for token in chosen if token.atom is None])
    listed = f"{', '.join(parts[:-1])}, and {parts[-1]}" if len(parts) > 1 else "".join(parts)
    count, drafted = len(answer.tokens), len(answer.tokens) - len(chosen)
    rest = f"the other {drafted} were drafted, and it agreed" if drafted > 1 else "the other one was drafted"
    return f"The model chose {len(chosen)} of {count} tokens itself: {listed}; {rest}"


def name_reacting_choices(view: TraceView, task: str) -> str:
    """Return in one short sentence which atoms of the reaction the model chose itself; may be empty.

    Such as "The model chose 4 of 62 tokens itself, among them the leaving group (Cl) and N where ...".
    """
    atoms, tokens = _chosen_atoms(view, task), view.answers[0].tokens
    parts = [f"the leaving group ({_name_atoms(names)})"] if (names := atoms.get(LEAVING)) else []
    parts += [f"{_name_atoms(names)} {REACTING}"] if (names := atoms.get(REACTING)) else []
    chosen = sum(token.origin == "own" for token in tokens)
    return f"The model chose {chosen} of {len(tokens)} tokens itself, among them {' and '.join(parts)}" if parts else ""


def _chosen_atoms(view: TraceView, task: str) -> dict[str, list[str]]:
    """Return the elements of the atoms that the model chose itself by their role; empty where that says nothing."""
    answer, roles = view.answers[0], token_roles(view, task)
    if all(token.origin == "own" for token in answer.tokens) or not any(roles):
        return {}
    symbols = [atom.GetSymbol() for atom in mol_from_smiles(answer.smiles).GetAtoms()]
    atoms: dict[str, list[str]] = {REACTING: [], LEAVING: [], REST: []}
    for token, role in zip(answer.tokens, roles, strict=True):
        if token.origin == "own" and token.atom is not None:
            atoms[role].append(symbols[token.atom])
    return atoms


def token_roles(view: TraceView, task: str) -> list[str]:
    """Return what the atom of each token of the first answer is in the reaction; empty texts where that is unknown."""
    answer, query = view.answers[0], "".join(view.query)
    step = None
    if task in ("forward", "retro"):
        step = classify_step(query, answer.smiles) if task == "forward" else classify_step(answer.smiles, query)
    if step is None:
        return [""] * len(answer.tokens)
    return ["" if token.atom is None else _role(token.atom, step, task) for token in answer.tokens]


def _role(atom: int, step: StepClass, task: str) -> str:
    if task == "forward":
        return REACTING if atom in step.after else REST
    if atom not in step.origin:
        return LEAVING
    return REACTING if atom in step.before else REST


def _name_atoms(symbols: list[str]) -> str:
    """Return the elements of atoms: "C, C, N", or of many their numbers."""
    if len(symbols) <= MAX_ATOMS:
        return ", ".join(symbols)
    return ", ".join(f"{count} {symbol}" for symbol, count in Counter(symbols).items())


def _name_marks(texts: Sequence[str]) -> list[str]:
    """Return what tokens without an atom mean: molecules, bonds, branches and rings, the end."""
    dots, ends = texts.count("."), texts.count(END)
    marks = len(texts) - dots - ends
    return [
        *(["where a molecule begins"] if dots else []),
        *([f"{marks} mark{'s' * (marks > 1)} of bonds, branches or rings"] if marks else []),
        *(["the end"] if ends else []),
    ]
