"""Store tables of edits as packed arrays in a safetensors file, and carry them over to another vocabulary."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chemspec.draft.tree.edit_ngrams import CHILD_BASE, COPY, EditNgramTable
from chemspec.tokenizer import BOS, EOS, PAD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

COLUMNS = ("children", "entries", "steps", "tokens", "thousandths")
LARGEST = 1 << 26  # nodes or steps of a table; the shipped ones have 50,000 and 150,000
MATCH_LEVEL = 2  # nodes at this depth were reached by the class of a match, not by a token: see `edit_ngrams.context`
MATCH_CLASSES = 5
GONE = -2  # in place of the id of a token that the other vocabulary does not have


def save_shared_table(file: Path, table: EditNgramTable, tokens: Sequence[str], *, deepest: int, made: str) -> None:
    """Write the contexts of at most `deepest` entries of a table, with the texts of its tokens by id.

    Args:
        file: see `save_table`.
        table: what to write.
        tokens: the texts of the vocabulary.
        deepest: entries of the longest contexts that are kept.
        made: the command and the data that made it, for people.
    """
    import numpy as np

    save_table(file, _carried_over(table, np.arange(len(tokens)), deepest), tokens=tokens, made=made)


def save_table(file: Path, table: EditNgramTable, *, tokens: Sequence[str] = (), made: str = "") -> None:
    """Write a table: how many children and steps every node has, its entry, and all steps, in the narrowest integers.

    Args:
        file: replaced once the new one is whole.
        table: what to write.
        tokens: the texts of the vocabulary, for a table that other vocabularies are to use.
        made: the command and the data that made it, for people.
    """
    import numpy as np
    from safetensors.numpy import save

    columns = (
        np.diff(table.children),
        np.array(table.entries),
        np.diff(table.starts),
        np.array(table.tokens),
        np.array(table.thousandths),
    )
    metadata = {"about": json.dumps({"made": made, "vocabulary": list(tokens)})}  # of several, the order would vary
    partial = file.with_name(f"{file.name}.partial")
    try:
        packed = {name: _narrow(values) for name, values in zip(COLUMNS, columns, strict=True)}
        partial.write_bytes(save(packed, metadata))
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def _narrow(values: Any) -> Any:
    import numpy as np

    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    kinds = (np.uint8, np.int16, np.uint16, np.int32)
    return values.astype(next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max))


def load_table(file: Path, vocab_size: int) -> EditNgramTable:
    """Read a table of the model's own vocabulary.

    Raises:
        ValueError: for a file that is damaged, or of another vocabulary.
        OSError: for one that cannot be read.
    """
    return _read(file, vocab_size)[0]


def load_shared_table(file: Path, tokens: Sequence[str]) -> EditNgramTable | None:
    """Read a table that holds the texts of its tokens, for a vocabulary with other ids.

    What has no counterpart is left out.

    Args:
        file: with a vocabulary.
        tokens: the texts of the vocabulary by id.

    Returns:
        The table, or None where the vocabulary shares less than half of it.

    Raises:
        ValueError: for a file that is damaged.
        OSError: for one that cannot be read.
    """
    import numpy as np

    table, vocabulary = _read(file)
    ids = {text: number for number, text in enumerate(tokens)}
    new_ids = np.array([ids.get(text, GONE) for text in vocabulary], dtype=np.int64)
    new_ids[[PAD, BOS, EOS]] = PAD, BOS, EOS
    carried = _carried_over(table, new_ids)
    return carried if 2 * carried.nodes >= table.nodes else None


def _carried_over(table: EditNgramTable, new_ids: Ints, deepest: int = LARGEST) -> EditNgramTable:
    """Return a table with other token ids; `GONE` among them leaves out what hangs on that token.

    Contexts of more than `deepest` entries are left out, too.
    """
    import numpy as np

    children, entries, starts = (np.array(column) for column in (table.children, table.entries, table.starts))
    parents = np.repeat(np.arange(table.nodes), np.diff(children))  # of nodes 1, 2, ...
    numbers = np.full(table.nodes, -1)  # old -> new, in the order of the new entries
    numbers[0] = 0
    order = [np.zeros(1, dtype=np.int64)]
    first, end, count = 0, 1, 1
    for depth in range(1, deepest + 1):  # nodes of a level lie side by side
        first, end = end, int(children[end])
        if first == end:
            break
        if depth != MATCH_LEVEL:
            entries[first:end] = new_ids[entries[first:end]]
        keys = numbers[parents[first - 1 : end - 1]] * CHILD_BASE + entries[first:end]
        usable = np.flatnonzero((numbers[parents[first - 1 : end - 1]] >= 0) & (entries[first:end] >= 0))
        level = first + usable[np.argsort(keys[usable])]
        numbers[level] = np.arange(count, count + len(level))
        order.append(level)
        count += len(level)
    kept = np.concatenate(order)
    child_counts = np.bincount(numbers[parents[kept[1:] - 1]], minlength=len(kept))
    tokens = np.array(table.tokens)
    tokens = np.where(tokens == COPY, COPY, new_ids[tokens])
    lengths = np.diff(starts)[kept]
    steps = np.repeat(starts[:-1][kept] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    usable = (tokens[steps] == COPY) | (tokens[steps] > BOS)
    step_counts = np.bincount(np.repeat(np.arange(len(kept)), lengths)[usable], minlength=len(kept))
    steps = steps[usable]
    return _table(child_counts, entries[kept], step_counts, tokens[steps], np.array(table.thousandths)[steps])


def _read(file: Path, vocab_size: int = 0) -> tuple[EditNgramTable, tuple[str, ...]]:
    """Return a table and the texts of its tokens; without a size of the vocabulary, these must be there."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as opened:
            if set(opened.keys()) != set(COLUMNS):
                raise ValueError(f"it holds {', '.join(sorted(opened.keys())) or 'nothing'}, not a table of edits")
            columns = [_column(opened, name) for name in COLUMNS]
            vocabulary = _vocabulary((opened.metadata() or {}).get("about", "")) if not vocab_size else ()
    except (SafetensorError, TypeError) as error:
        raise ValueError(f"it is no safetensors file, or a damaged one: {error}") from error
    _check(columns, vocab_size or len(vocabulary))
    return _table(*columns), vocabulary


def _column(opened: Any, name: str) -> Any:
    import numpy as np

    shape = opened.get_slice(name).get_shape()
    if len(shape) != 1 or shape[0] > LARGEST:
        raise ValueError(f"{name} has the shape {shape}")
    values = opened.get_tensor(name)
    if values.dtype.kind not in "iu":
        raise ValueError(f"{name} holds no whole numbers")
    return values.astype(np.int64)


def _vocabulary(text: str) -> tuple[str, ...]:
    from chemspec.system.untrusted import parse_untrusted_json

    about = parse_untrusted_json(text)
    texts = about.get("vocabulary") if isinstance(about, dict) else None
    if not isinstance(texts, list) or len(texts) < MATCH_CLASSES or not all(isinstance(one, str) for one in texts):
        raise ValueError("it holds no texts of tokens")
    return tuple(texts)


def _check(columns: Iterable[Any], vocab_size: int) -> None:
    """Refuse a table that compiled code could not walk through safely.

    Raises:
        ValueError: naming what is wrong.
    """
    import numpy as np

    children, entries, steps, tokens, thousandths = columns
    nodes = len(entries)
    if nodes < 1 or len(children) != nodes or len(steps) != nodes or len(tokens) != len(thousandths):
        raise ValueError("nodes and steps do not fit together")
    if children.min() < 0 or steps.min() < 0 or max(children.max(), steps.max()) > LARGEST:
        raise ValueError("a node has fewer than no children or steps, or too many")
    firsts = 1 + np.cumsum(children) - children
    if children.sum() != nodes - 1 or steps.sum() != len(tokens) or (firsts <= np.arange(nodes)).any():
        raise ValueError("nodes and steps do not fit together")
    if entries.min() < 0 or entries.max() >= max(vocab_size, MATCH_CLASSES):
        raise ValueError("the contexts are of another vocabulary")
    same_parent = np.diff(np.repeat(np.arange(nodes), children)) == 0
    if (np.diff(entries[1:])[same_parent] <= 0).any():
        raise ValueError("the contexts of a node are not in order")
    if not len(tokens):
        return
    if tokens.max() >= vocab_size or thousandths.max() > 1000 or thousandths.min() < 0:
        raise ValueError("the steps are of another vocabulary, or their probabilities are none")
    if tokens.min() < COPY or np.isin(tokens, (PAD, BOS)).any():
        raise ValueError("it holds a token that no answer has")


def _table(child_counts: Any, entries: Any, step_counts: Any, tokens: Any, thousandths: Any) -> EditNgramTable:
    import numpy as np

    children: Any = 1 + np.concatenate(([0], np.cumsum(child_counts)))
    starts: Any = np.concatenate(([0], np.cumsum(step_counts)))
    packed = (array("i", values.astype(np.int32).tobytes()) for values in (children, entries, starts, tokens))
    children, entries, starts, tokens = packed
    return EditNgramTable(children, entries, starts, tokens, array("H", thousandths.astype(np.uint16).tobytes()))
