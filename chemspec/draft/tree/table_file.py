"""Save and load edit tables as packed arrays in safetensors files, and translate them to other vocabularies."""

import json
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from chemspec.draft.tree.edit_ngrams import COPY, EditNgramTable
from chemspec.system.files import write_bytes_atomic
from chemspec.system.untrusted import parse_untrusted_json
from chemspec.tokenizer import BOS, EOS, PAD

Ints = NDArray[np.int64]
COLUMNS = ("children", "entries", "steps", "tokens", "thousandths")
MAX_NODES = 1 << 26  # maximum number of nodes or steps; the shipped tables have 50,000 and 150,000
MAX_ENTRIES = 1 << 20  # larger than any entry
MATCH_LEVEL = 2  # depth at which the context entry is a match class, not a token: see `edit_ngrams.edit_context`
MATCH_CLASSES = 5
GONE = -2  # id of tokens that the other vocabulary does not have


def save_shared_table(file: Path, table: EditNgramTable, tokens: Sequence[str], *, deepest: int, made: str) -> None:
    """Save a table for use with other vocabularies, without contexts of over `deepest` entries; see `save_table`."""
    save_table(file, _translate_table(table, np.arange(len(tokens)), deepest), tokens=tokens, made=made)


def save_table(file: Path, table: EditNgramTable, *, tokens: Sequence[str] = (), made: str = "") -> None:
    """Save a table: numbers of children and steps and the entry of every node, and all steps, in narrow integers.

    The file is replaced atomically. `tokens` are the text of every token of the vocabulary, for a table to be used with
    other vocabularies; `made` the command and data it was made with, for people.
    """
    counts = np.diff(table.children), np.array(table.entries), np.diff(table.starts)
    columns = *counts, np.array(table.tokens), np.array(table.thousandths)
    metadata = {"about": json.dumps({"made": made, "vocabulary": list(tokens)})}  # one key has one order
    packed = {name: _narrow_integers(values) for name, values in zip(COLUMNS, columns, strict=True)}
    write_bytes_atomic(file, save(packed, metadata))


def _narrow_integers(values: Any) -> Any:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    kinds = (np.uint8, np.int16, np.uint16, np.int32)
    return values.astype(next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max))


def load_table(file: Path, vocab_size: int) -> EditNgramTable:
    """Load a table of the model's own vocabulary; raises ValueError for a damaged file or another vocabulary."""
    return _read_table(file, vocab_size)[0]


def load_shared_table(file: Path, tokens: Sequence[str]) -> EditNgramTable | None:
    """Load a table with the text of its tokens, for a vocabulary with other ids; raises ValueError for a damaged file.

    Tokens without a counterpart are left out; returns None if less than half of the table remains.
    """
    table, vocabulary = _read_table(file)
    ids = {text: number for number, text in enumerate(tokens)}
    new_ids = np.array([ids.get(text, GONE) for text in vocabulary], dtype=np.int64)
    new_ids[[PAD, BOS, EOS]] = PAD, BOS, EOS
    carried = _translate_table(table, new_ids)
    return carried if 2 * carried.node_count >= table.node_count else None


def _translate_table(table: EditNgramTable, new_ids: Ints, deepest: int = MAX_NODES) -> EditNgramTable:
    """Return a table with other token ids, without contexts that contain `GONE` or have over `deepest` entries."""
    children, entries, starts = (np.array(column) for column in (table.children, table.entries, table.starts))
    parents = np.repeat(np.arange(table.node_count), np.diff(children))  # parents of nodes 1, 2, ...
    numbers = np.full(table.node_count, -1)  # old -> new, in the order of the new entries
    numbers[0] = 0
    order = [np.zeros(1, dtype=np.int64)]
    first, end, count = 0, 1, 1
    for depth in range(1, deepest + 1):  # nodes of a level are adjacent
        first, end = end, int(children[end])
        if first == end:
            break
        if depth != MATCH_LEVEL:
            entries[first:end] = new_ids[entries[first:end]]
        keys = numbers[parents[first - 1 : end - 1]] * MAX_ENTRIES + entries[first:end]
        usable = np.flatnonzero((numbers[parents[first - 1 : end - 1]] >= 0) & (entries[first:end] >= 0))
        level = first + usable[np.argsort(keys[usable])]
        numbers[level] = np.arange(count, count + len(level))
        order.append(level)
        count += len(level)
    old_numbers = np.concatenate(order)
    child_counts = np.bincount(numbers[parents[old_numbers[1:] - 1]], minlength=len(old_numbers))
    tokens = np.array(table.tokens)
    tokens = np.where(tokens == COPY, COPY, new_ids[tokens])
    lengths = np.diff(starts)[old_numbers]
    steps = np.repeat(starts[:-1][old_numbers] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    usable = (tokens[steps] == COPY) | (tokens[steps] > BOS)
    step_counts = np.bincount(np.repeat(np.arange(len(old_numbers)), lengths)[usable], minlength=len(old_numbers))
    steps = steps[usable]
    return _build_table(
        child_counts, entries[old_numbers], step_counts, tokens[steps], np.array(table.thousandths)[steps]
    )


def _read_table(file: Path, vocab_size: int = 0) -> tuple[EditNgramTable, tuple[str, ...]]:
    """Return a table and the text of its tokens, which is required if no vocabulary size is given."""
    try:
        with safe_open(file, framework="numpy") as opened:
            if set(opened.keys()) != set(COLUMNS):
                raise ValueError(f"it holds {', '.join(sorted(opened.keys())) or 'nothing'}, not a table of edits")
            columns = [_read_column(opened, name) for name in COLUMNS]
            vocabulary = _parse_vocabulary((opened.metadata() or {}).get("about", "")) if not vocab_size else ()
    except (SafetensorError, TypeError) as error:
        raise ValueError(f"it is no safetensors file, or a damaged one: {error}") from error
    _check_columns(columns, vocab_size or len(vocabulary))
    return _build_table(*columns), vocabulary


def _read_column(opened: Any, name: str) -> Any:
    shape = opened.get_slice(name).get_shape()
    if len(shape) != 1 or shape[0] > MAX_NODES:
        raise ValueError(f"{name} has the shape {shape}")
    values = opened.get_tensor(name)
    if values.dtype.kind not in "iu":
        raise ValueError(f"{name} holds no whole numbers")
    return values.astype(np.int64)


def _parse_vocabulary(text: str) -> tuple[str, ...]:
    about = parse_untrusted_json(text)
    texts = about.get("vocabulary") if isinstance(about, dict) else None
    if not isinstance(texts, list) or len(texts) < MATCH_CLASSES or not all(isinstance(text, str) for text in texts):
        raise ValueError("it holds no texts of tokens")
    return tuple(texts)


def _check_columns(columns: Iterable[Any], vocab_size: int) -> None:
    """Raise ValueError for a table that is unsafe for compiled code."""
    children, entries, steps, tokens, thousandths = columns
    nodes = len(entries)
    if nodes < 1 or len(children) != nodes or len(steps) != nodes or len(tokens) != len(thousandths):
        raise ValueError("nodes and steps do not fit together")
    if children.min() < 0 or steps.min() < 0 or max(children.max(), steps.max()) > MAX_NODES:
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


def _build_table(child_counts: Any, entries: Any, step_counts: Any, tokens: Any, thousandths: Any) -> EditNgramTable:
    children: Any = 1 + np.concatenate(([0], np.cumsum(child_counts)))
    starts: Any = np.concatenate(([0], np.cumsum(step_counts)))
    packed = (array("i", values.astype(np.int32).tobytes()) for values in (children, entries, starts, tokens))
    children, entries, starts, tokens = packed
    return EditNgramTable(children, entries, starts, tokens, array("H", thousandths.astype(np.uint16).tobytes()))
