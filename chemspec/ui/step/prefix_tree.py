"""The tree of prefixes behind an answer, pass by pass, and where to draw its nodes.

A node is one token in one place. It is *born* in the pass that computes it, *kept* when the beam has gone through it,
and it *dies* when no live hypothesis can come through it any more. These three passes say all about a node at any time.

Coordinates: column = depth of the node in tokens, row = line of the drawing. Branches share rows where they fit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from chemspec.types import ASKED, Trace, TreeDelta

MOST_DRAWN = 1500  # nodes; a drawing of more is slow and tells nothing
WIDEST = 10  # characters shown of a token
NEVER = 10**9


@dataclass(frozen=True)
class PrefixTree:
    """All recorded nodes, by number; a child has a higher number than its parent.

    Attributes:
        reached: of every depth, the pass after which the search is at least there.
        born, kept, dies: of every node, the pass (from 1) after which it is so; `NEVER` if it never is.
        beams: for every pass the live hypotheses before it; the last entry, after all passes, is empty.
        answers: for every answer its nodes from bos on.
    """

    parents: tuple[int, ...]
    texts: tuple[str, ...]
    sources: tuple[int, ...]
    depths: tuple[int, ...]
    reached: tuple[int, ...]
    born: tuple[int, ...]
    kept: tuple[int, ...]
    dies: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    beams: tuple[tuple[int, ...], ...]
    answers: tuple[tuple[int, ...], ...]


def build_tree(trace: Trace, answers: Sequence[Sequence[str]]) -> PrefixTree | None:
    """Return the tree that a trace recorded; None where it recorded none.

    Args:
        trace: with the nodes of every pass.
        answers: the tokens of every answer, without end-of-sequence.

    Raises:
        ValueError: if the numbers in it do not fit together, as in a file that was tampered with.
    """
    deltas = [step.grown for step in trace.passes if step.grown is not None]
    if not deltas or len(deltas) != len(trace.passes):
        return None
    parents, ids, sources, born, depths = _nodes(deltas)
    if not all(0 <= token < len(trace.vocabulary) for token in ids):
        raise ValueError("a token of the tree is not in the vocabulary")
    texts = [trace.vocabulary[token] for token in ids]
    children: list[list[int]] = [[] for _ in ids]
    for node, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(node)
    levels = accumulate((max((depths[node] for node in delta.beam), default=0) for delta in deltas), max)
    furthest = [*levels, NEVER]  # depth that the search has reached before each pass, and after the last
    reached = [bisect_left(furthest, depth) for depth in range(max(depths, default=0) + 2)]
    beams = (*(delta.beam for delta in deltas), ())
    paths = tuple(_path(children, texts, answer) for answer in answers)
    kept, dies = _fates(parents, depths, beams, reached, paths)
    return PrefixTree(
        parents=tuple(parents),
        texts=tuple(texts),
        sources=tuple(sources),
        depths=tuple(depths),
        reached=tuple(reached),
        born=tuple(born),
        kept=tuple(kept),
        dies=tuple(dies),
        children=tuple(map(tuple, children)),
        beams=beams,
        answers=paths,
    )


def _nodes(deltas: Sequence[TreeDelta]) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Return parents, token ids, sources, birth and depth of all nodes."""
    parents: list[int] = []
    ids: list[int] = []
    sources: list[int] = []
    born: list[int] = []
    depths: list[int] = []
    for number, delta in enumerate(deltas, 1):
        if not len(delta.parents) == len(delta.tokens) == len(delta.sources):
            raise ValueError("a pass lists its nodes unevenly")
        for parent in delta.parents:
            if not (0 <= parent < len(parents) or (parent == -1 and not parents)):
                raise ValueError("a node of the tree comes before its parent")
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
            parents.append(parent)
        ids += delta.tokens
        sources += delta.sources
        born += [number] * len(delta.tokens)
        if not all(0 <= node < len(parents) for node in delta.beam):
            raise ValueError("a pass asks for a node that does not exist")
    return parents, ids, sources, born, depths


def _path(children: Sequence[Sequence[int]], texts: Sequence[str], answer: Sequence[str]) -> tuple[int, ...]:
    """Return the nodes of an answer from bos on, as far as they were computed."""
    path = [0] if texts else []
    for token in answer:
        node = next((child for child in children[path[-1]] if texts[child] == token), None)
        if node is None:
            break
        path.append(node)
    return tuple(path)


def _fates(
    parents: Sequence[int],
    depths: Sequence[int],
    beams: Sequence[Sequence[int]],
    reached: Sequence[int],
    answers: Sequence[Sequence[int]],
) -> tuple[list[int], list[int]]:
    """Return for every node the pass after which it is kept and the one after which it is dead."""
    until = [-1] * len(parents)  # the last beam, by its pass from 0, that goes through the node
    for number, beam in enumerate(beams):
        for node in beam:
            while node >= 0 and until[node] != number:
                until[node] = number
                node = parents[node]
    for path in answers:
        for node in path:
            until[node] = NEVER
    kept, dies = [NEVER] * len(parents), [NEVER] * len(parents)
    for node, parent in enumerate(parents):
        if until[node] >= 0:
            kept[node] = max(1, reached[depths[node]])
            dies[node] = min(NEVER, until[node] + 1)
        else:  # it dies when the beam has passed its depth, if not together with its parent
            dies[node] = min(reached[depths[node]], dies[parent] if parent >= 0 else NEVER)
    return kept, dies


# Drawing -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """A run of single children with one fate, as one edge.

    Attributes:
        start, end: columns; the edge begins at the parent's column.
        row, parent_row: lines; the parent's is -1 for the first segment.
        texts: of every token its column and (shortened) text.
        ahead: computed before it was asked for.
        answers: ranks, from 1, of the answers that go through it.
    """

    start: int
    end: int
    row: int
    parent_row: int
    texts: tuple[tuple[int, str], ...]
    ahead: bool
    born: int
    kept: int
    dies: int
    answers: tuple[int, ...]


@dataclass(frozen=True)
class Leaf:
    """Where an answer ends, its rank, and the pass after which it is finished."""

    column: int
    row: int
    rank: int
    step: int


@dataclass(frozen=True)
class TreeLayout:
    """What the browser draws.

    Attributes:
        widths: characters of every column's widest text.
        rows: lines in all.
        beams: for every step from 0 on, column and row of the live hypotheses after it.
        nodes, left_out: nodes drawn, and nodes that are not.
    """

    widths: tuple[int, ...]
    rows: int
    segments: tuple[Segment, ...]
    beams: tuple[tuple[tuple[int, int], ...], ...]
    leaves: tuple[Leaf, ...]
    nodes: int
    left_out: int


def lay_out(tree: PrefixTree, *, spare: bool = False, most: int = MOST_DRAWN) -> TreeLayout:
    """Lay a tree out, or the first `most` nodes of it.

    Args:
        tree: to lay out.
        most: nodes to draw; those that the search went through come first.
        spare: with the nodes that were computed ahead and never needed.
    """
    shown = _chosen(tree, spare, most)
    children = [[child for child in siblings if shown[child]] for siblings in tree.children]
    ranks: list[list[int]] = [[] for _ in tree.parents]
    for rank, path in enumerate(tree.answers, 1):
        for node in path:
            ranks[node].append(rank)
    rows = _rows(tree, children, ranks, shown)
    widths = [1] * (max((d for d, on in zip(tree.depths, shown, strict=True) if on), default=0) + 1)
    for node, depth in enumerate(tree.depths):
        if shown[node] and node:
            widths[depth] = max(widths[depth], min(len(tree.texts[node]), WIDEST))
    beams = tuple(tuple((tree.depths[node], rows[node]) for node in beam if shown[node]) for beam in tree.beams)
    leaves = tuple(
        Leaf(tree.depths[path[-1]], rows[path[-1]], rank, tree.reached[tree.depths[path[-1]] + 1])
        for rank, path in enumerate(tree.answers, 1)
        if path and shown[path[-1]]
    )
    return TreeLayout(
        tuple(widths),
        max((row for row, on in zip(rows, shown, strict=True) if on), default=0) + 1,
        tuple(_segments(tree, children, ranks, rows, shown)),
        beams,
        leaves,
        sum(shown),
        len(shown) - sum(shown),
    )


def _chosen(tree: PrefixTree, spare: bool, most: int) -> list[bool]:
    """Return which nodes to draw: those that the beam went through first; always a node's parent with it."""
    shown = [False] * len(tree.parents)
    left = most
    for needed in (True, False) if spare else (True,):
        for node, parent in enumerate(tree.parents):
            fits = not shown[node] and (parent < 0 or shown[parent])
            if left and fits and (tree.kept[node] < NEVER or not needed):
                shown[node] = True
                left -= 1
    return shown


def _rows(
    tree: PrefixTree, children: Sequence[Sequence[int]], ranks: Sequence[Sequence[int]], shown: Sequence[bool]
) -> list[int]:
    """Return the rows of all nodes.

    The chief child goes on in its parent's row; the other branches, the latest first, take the nearest row below in
    which they meet nobody.
    """
    deepest = list(tree.depths)
    for node in range(len(tree.parents) - 1, 0, -1):
        if shown[node]:
            parent = tree.parents[node]
            deepest[parent] = max(deepest[parent], deepest[node])

    def merit(node: int) -> tuple[int, int, int, int]:
        first = ranks[node][0] if ranks[node] else NEVER
        return first, -min(tree.dies[node], NEVER - 1), -deepest[node], node

    ordered = [sorted(siblings, key=merit) for siblings in children]
    heads = [0] if tree.parents else []
    heads += [node for siblings in ordered for node in siblings[1:]]
    offsets: dict[int, int] = {}
    blocks: dict[int, list[list[tuple[int, int]]]] = {}  # head -> occupied columns by row
    for head in sorted(heads, reverse=True):  # what hangs on a branch has higher numbers
        path = [head]
        while ordered[path[-1]]:
            path.append(ordered[path[-1]][0])
        rows: list[list[tuple[int, int]]] = [[(tree.depths[head] - 1, tree.depths[path[-1]])]]
        for node in reversed(path):
            for branch in ordered[node][1:]:
                offsets[branch] = _place(rows, blocks.pop(branch))
        blocks[head] = rows
    result = [0] * len(tree.parents)
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            result[node] = result[parent] + offsets.get(node, 0)
    return result


def _place(rows: list[list[tuple[int, int]]], block: list[list[tuple[int, int]]]) -> int:
    """Put a block into the first rows, from 1 on, where it overlaps nothing; returns the row."""
    offset = 1
    while any(
        a <= d and c <= b
        for own, others in zip(block, rows[offset : offset + len(block)], strict=False)
        for a, b in own
        for c, d in others
    ):
        offset += 1
    rows.extend([] for _ in range(offset + len(block) - len(rows)))
    for number, own in enumerate(block):
        rows[offset + number].extend(own)
    return offset


def _segments(
    tree: PrefixTree,
    children: Sequence[Sequence[int]],
    ranks: Sequence[Sequence[int]],
    rows: Sequence[int],
    shown: Sequence[bool],
) -> list[Segment]:
    """Return runs of single children with one fate."""

    def fate(node: int) -> tuple[object, ...]:
        ahead = tree.sources[node] != ASKED
        return tree.born[node], tree.kept[node], tree.dies[node], ahead, tuple(ranks[node])

    segments = []
    for node, parent in enumerate(tree.parents):
        if not shown[node] or parent < 0:
            continue
        goes_on = parent > 0 and len(children[parent]) == 1 and fate(parent) == fate(node)
        if goes_on:
            continue
        run = [node]
        while len(children[run[-1]]) == 1 and fate(children[run[-1]][0]) == fate(node):
            run.append(children[run[-1]][0])
        segments.append(
            Segment(
                start=tree.depths[parent],
                end=tree.depths[run[-1]],
                row=rows[node],
                parent_row=rows[parent],
                texts=tuple((tree.depths[one], _short(tree.texts[one])) for one in run),
                ahead=tree.sources[node] != ASKED,
                born=tree.born[node],
                kept=tree.kept[node],
                dies=tree.dies[node],
                answers=tuple(ranks[node]),
            )
        )
    return segments


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
