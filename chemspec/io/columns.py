"""Find the query column of a table by its usual names in data sets and vendors' lists (`TaskSpec.named`).

An arrow separates the columns of the two sides of a reaction, "|" alternative names of one column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from chemspec.asset_files import read_asset_table
from chemspec.chem import ARROW, is_valid
from chemspec.settings import Task
from chemspec.tasks import TASKS

MAX_HEADING_CHARS = 200  # characters; a longer cell is text or data
MAX_OTHERS = 8  # columns that are named as not read
FIRST = ("smiles", "query")  # these have priority
MOLECULES = (
    *("canonical", "isomeric", "isosmiles", "iso", "canonicalsmiles", "cansmiles", "isomericsmiles", "absolute"),
    *("connectivity", "connectivitysmiles", "pubchem_openeye_iso", "pubchem_openeye_can", "pubchem", "openeye"),
    *("pubchem_connectivity", "cxsmiles", "structure", "structures", "smi", "molecule_structure"),
)
SIDES = ("source|src>>target|tgt", "input>>output")  # headings of parallel files, for tasks about whole reactions
LAST = ("source", "src", "input")  # last resort: "source" may also mean a patent
EMPTY = {  # not Na, which is sodium
    "", "-", "--", "NA", "na", "N/A", "n/a", "n.a.", "N.A.", "#N/A", "#NA", "<NA>", "NaN", "nan", "NAN", "None", "none",
    "NONE", "null", "Null", "NULL", "nil", "NaT", "#VALUE!", "#REF!", "#NAME?",
}  # fmt: skip


# A molecule per column, as reactant_000, Solvent_1_SMILES, electrophile: the side of a reaction that it stands on.
_ROLES = {
    "reactant": r"reactants?|sms?|starting_materials?|substrates?|electrophiles?|nucleophiles?|precursors?"
    r"|coupling_partners?|components?|educts?|(?:(?:het)?aryl_|alkyl_)?(?:halide|bromide|chloride|iodide|triflate)s?|boron(?:ic)?(?:_acid|_ester|ate)?s?|a(?:cid|cyl)_chlorides?|amines?|acids?|alcohols?|aldehydes?|ketones?|alkenes?|alkynes?"
    r"|raw_materials?|rcts?|ar_?(?:x|br|cl|i)|a(?:zide|niline|rene)s?|dien(?:e|ophile)s?|en(?:one|amine)s?|epoxides?|esters?|hydrazines?|imines?"
    r"|iso(?:cyan(?:ate|ide)|thiocyanate)s?|ketoesters?|michael_(?:acceptor|donor)s?|nitriles?|olefins?|phenols?|thiols?",
    "agent": r"agents?|reagents?|solvents?|co_?solvents?|catalysts?|pre_?catalysts?|ligands?|bases?|additives?"
    r"|metals?|activators?|oxidants?|reductants?|cats?|ligs?|l|promoters?|initiators?|(?:co|photo)_?catalysts?|(?:pd|ni|cu|metal)_(?:source|salt)s?"
    r"|(?:coupling|activating|reducing|oxidi[sz]ing)_(?:re)?agents?",
    "product": r"(?:main_|desired_|target_)?prod(?:uct)?s?|targets?|target_molecules?",
}
_ROLE = {role: re.compile(rf"(?:{names})(?:_?\d{{1,3}}|_[a-d])?") for role, names in _ROLES.items()}


class QueryColumns(tuple[int, ...]):
    """Indices of columns that together are a reaction: of its reactants, agents and product."""

    sides: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, sides: Mapping[str, Sequence[int]]) -> QueryColumns:
        """Return the columns of these sides."""
        columns = cls(index for side in sides.values() for index in side)
        columns.sides = {role: tuple(side) for role, side in sides.items()}
        return columns


def _columns_by_role(names: Sequence[str], task: Task | None) -> QueryColumns | None:
    """Return the columns of a table with a molecule per column; None unless a side has several, or agents are apart."""
    keys = [_normalise_name(name) for name in names]
    sides = {
        role: [index for index, key in enumerate(keys) if pattern.fullmatch(key)] for role, pattern in _ROLE.items()
    }
    if task == "retro" and not sides["product"]:
        return None
    several = len(sides["reactant"]) > 1 or (sides["reactant"] and sides["agent"]) or len(sides["product"]) > 1
    return QueryColumns.of(sides) if several and sides["reactant"] else None


def find_query_columns(names: Sequence[str], task: Task | None = None) -> tuple[int, ...]:
    """Return the index of the query column for a task (or for any task); empty if there is none.

    Two indices are the sides of a reaction, for tasks on whole reactions if no column has whole reactions; of a table
    with a reactant, reagent, solvent or product per column they are `QueryColumns`.
    """
    index_of_key = {_normalise_name(name): index for index, name in reversed([*enumerate(names)])}
    task_names = [name for spec in TASKS.values() if task in (None, spec.name) for name in spec.named]
    sides = SIDES if task is not None and TASKS[task].whole else ()
    # With whole reactions, from which every task takes its side.
    reactions = [name for spec in TASKS.values() if spec.whole for name in spec.named if ARROW not in name]
    whole = [index_of_key[name] for name in (*FIRST, *reactions) if name in index_of_key]
    if not whole and (by_role := _columns_by_role(names, task)):
        return by_role
    for name in (*FIRST, *task_names, *reactions, *MOLECULES, *sides, *LAST):
        indices = [
            next((index_of_key[alternative] for alternative in side.split("|") if alternative in index_of_key), None)
            for side in name.split(ARROW)
        ]
        if None not in indices:
            return tuple(index for index in indices if index is not None)
    written = [index for index, name in enumerate(names) if "smiles" in name.lower()]
    return tuple(written) if len(written) == 1 else ()


def find_header(rows: Sequence[Sequence[str]], column: str = "") -> int:
    """Return which of the first rows of a table holds the names of its columns: `column`, or else usual ones.

    Comments, titles and pairs such as a date may stand above it: rows that begin with `#`, have other words, or fill
    fewer cells, even if they are usual headings themselves.
    """
    first = next((at for at, row in enumerate(rows) if not is_comment(row[0] if row else "")), 0)
    best, most = first, 0
    for at, row in enumerate(rows[first:], first):
        filled = sum(bool(cell.strip()) for cell in row)
        is_header = columns_by_name(row, column) if column else find_query_columns(row)
        widest = max((sum(bool(cell.strip()) for cell in above) for above in rows[first:at]), default=0)
        # Pairs above the header, such as a project and its number, fill as many cells: then its heading must be sure.
        sure = any("smiles" in cell.lower() or _normalise_name(cell) in (*FIRST, *MOLECULES) for cell in row)
        is_sure = filled > widest or (not most and (sure or column in row))
        if filled > most and is_header and is_sure and not is_comment(row[0]):
            best, most = at, filled
    return best


def columns_by_name(names: Sequence[str], column: str) -> tuple[int, ...]:
    """Return the index of a column by its name, or of two by "a>>b"; empty if there is none."""
    sides = [column] if column in names else column.split(ARROW)
    return tuple(map(names.index, sides)) if set(sides) <= set(names) else ()


def is_comment(line: str) -> bool:
    """Return whether a line is a comment: no SMILES and no name begins with `#`."""
    return line.lstrip('\ufeff \t"').startswith("#")


def ambiguity_note(names: Sequence[str], indices: Sequence[int]) -> str:
    """Return a note on which columns are read if other columns have usual names too; else empty."""
    usual_keys = {
        alternative for spec in TASKS.values() for name in spec.named for alternative in re.split(r">>|\|", name)
    } | {*FIRST}
    others = [
        name
        for index, name in enumerate(names)
        if index not in indices and (isinstance(indices, QueryColumns) or _normalise_name(name) in usual_keys)
    ]
    if not others and len(indices) == 1:
        return ""
    columns_read = (" + " if isinstance(indices, QueryColumns) else ARROW).join(names[index] for index in indices)
    if len(others) > MAX_OTHERS:
        others = [*others[:MAX_OTHERS], f"{len(others) - MAX_OTHERS} more"]
    return f"the queries are read from {columns_read}" + (f", not from {', '.join(others)}" if others else "")


def query_of_row(row: Sequence[str], indices: Sequence[int]) -> str:
    """Return the query of a row, empty for an empty row, or where a cell says that there is none (NaN, N/A)."""
    if isinstance(indices, QueryColumns):
        sides = {role: _joined([row[index] for index in side]) for role, side in indices.sides.items()}
        left = _joined([sides["reactant"], sides["agent"]])
        return ARROW.join((left, sides["product"])) if indices.sides["product"] and left else left
    cells = ["" if row[index].strip() in EMPTY else row[index] for index in indices]
    return ARROW.join(cells) if any(cells) else ""


def _joined(cells: Sequence[str]) -> str:
    """Return the molecules of several cells as one text: SMILES with dots, names as a list."""
    filled = [cell.strip() for cell in cells if cell.strip() not in EMPTY]
    return (".".join if all(map(is_valid, filled)) else "; ".join)(filled)


@cache
def _meanings() -> Mapping[str, str]:
    rows = read_asset_table(Path(__file__).with_name("headings.tsv"))
    return {heading: meaning for headings, meaning in rows for heading in headings.split(" | ")}


def _plain_heading(name: str) -> str:
    return " ".join(name.strip().strip("\ufeff\"'").casefold().split())


def in_english(name: str) -> str:
    """Return a heading of another language in English, in lower case."""
    plain = _plain_heading(name)
    if len(plain) > MAX_HEADING_CHARS:
        return plain
    bare = re.sub(r"[\s_(\[-]*smiles\)?\]?$", "", plain)
    bare = re.sub(r"[\s_]*\(?(?:s|en|n|es)\)$", "", bare)
    return _meanings().get(plain) or _meanings().get(bare) or _by_stem(plain) or plain


@cache
def _stems() -> list[tuple[re.Pattern[str], str]]:
    rows = read_asset_table(Path(__file__).with_name("heading_stems.tsv"))
    return [(re.compile(stems), meaning) for stems, meaning in rows]


def _by_stem(plain: str) -> str:
    """Return the meaning of a heading by a stem in it, with its number, amount and currency; empty if it has none."""
    meaning = next((meaning for pattern, meaning in _stems() if pattern.search(plain)), "")
    if meaning != "price":
        number = re.search(r"(?<=[^\d])[\s_-]?(\d{1,2})$", plain)
        return f"{meaning}_{number[1]}" if number and meaning else meaning
    signs = with_unit_signs(plain)
    match = _PER.search(signs)
    per = f" per {match[1] or match[2]}" if match else ""
    rest = re.findall(rf"\d[\d.,]*\s?{_UNIT}|[€$£¥元円]|\b(?:eur|usd|chf|gbp|jpy|cny|rmb)\b", signs)
    return f"{meaning}{per} {' '.join(rest)}".strip()


_UNIT = r"(?:[mkµ]?g|[mµ]?[lL]|m?mol)(?![a-zA-Z])"
_PER = re.compile(
    rf"(?:/|每|\b(?:per|pro|je|für|par|pour|por|al?|au|le|el)\b)\s*((?:\d[\d.,]*)?\s*{_UNIT})"
    rf"|((?:\d[\d.,]*)?\s*{_UNIT})\s*(?:あたり|当たり|当り)"
)


def with_unit_signs(text: str) -> str:
    """Return a text with units of amounts by their signs: price per kg for price per kilogram."""
    for pattern, sign in _units():
        text = pattern.sub(sign, text)
    return text


@cache
def _units() -> list[tuple[re.Pattern[str], str]]:
    rows = read_asset_table(Path(__file__).with_name("units.tsv"))
    return [(re.compile(rf"(?<![a-z])(?:{words})(?![a-z])", re.IGNORECASE), sign) for words, sign in rows]


def _normalise_name(name: str) -> str:
    return _normalise_heading(name) if len(name) <= MAX_HEADING_CHARS else name


@lru_cache(maxsize=20_000)  # the first rows of a table are tried as headings with each separator
def _normalise_heading(name: str) -> str:
    parted = re.sub(r"(?<=[a-z])(?=[A-Z][a-z]|SMILES)", "_", name.strip().strip("\ufeff\"'"))  # ReactionSmiles
    meaning = in_english(name)
    parted = parted if meaning == _plain_heading(name) else meaning
    plain = re.sub(r"[\s().:/-]+", "_", parted.lower()).strip("_")
    plain = re.sub("^smiles_(?=react|reag|prod|solv|cat|start|agent|base|lig)", "", plain)
    return re.sub(r"(?<=.)(?:_string|_str)$|(?<=.)_smiles(?=(?:_?\d{1,3})?$)", "", plain)
