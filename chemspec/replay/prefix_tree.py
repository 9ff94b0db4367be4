"""The tree of prefixes behind an answer, pass by pass, and where to draw its nodes.

A node, one token at one position, is *born* in the pass that computes it, *accepted* when the beam goes through it, and
*dies* when no live hypothesis can. Column = depth in tokens, row = line; branches share rows where they fit.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from chemspec.types import REQUESTED, Trace

MAX_DRAWN = 1500  # nodes; a drawing of more is slow and unreadable
MAX_TOKEN_CHARS = 10  # characters shown of a token
NEVER = 10**9


@dataclass(frozen=True)
class DrawnTree:
    """All recorded nodes, by number; a child has a higher number than its parent."""

    parents: Sequence[int]
    texts: Sequence[str]
    sources: Sequence[int]
    depths: Sequence[int]
    born: Sequence[int]  # the pass (from 1) after which a node is so, as `accepted` and `dies`; or `NEVER`
    accepted: Sequence[int]
    dies: Sequence[int]
    ends: Sequence[int]  # pass after which a hypothesis that ends with a node is finished
    children: Sequence[Sequence[int]]
    beams: Sequence[tuple[int, ...]]  # live hypotheses before every pass; the last is empty
    answers: Sequence[tuple[int, ...]]  # nodes of every answer, from bos on


def build_tree(trace: Trace, answers: Sequence[Sequence[str]]) -> DrawnTree | None:
    """Return the tree that a trace recorded, if it did."""
    deltas = [step.grown for step in trace.passes if step.grown is not None]
    if len(deltas) != len(trace.passes):
        return None
    parents = [parent for delta in deltas for parent in delta.parents]
    ids = [token for delta in deltas for token in delta.tokens]
    sources = [source for delta in deltas for source in delta.sources]
    born = [number for number, delta in enumerate(deltas, 1) for _ in delta.tokens]
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    texts = [trace.vocabulary[token] for token in ids]
    children: list[list[int]] = [[] for _ in ids]
    for node, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(node)
    levels = accumulate((max((depths[node] for node in delta.beam), default=0) for delta in deltas), max)
    furthest = [*levels, NEVER]  # depth that the search has reached before each pass, and after the last
    reached = [bisect_left(furthest, depth) for depth in depths]
    beams = (*(delta.beam for delta in deltas), ())
    paths = tuple(_answer_path(children, texts, answer) for answer in answers)
    accepted, dies, ends = _node_fates(parents, born, reached, beams, paths)
    return DrawnTree(parents, texts, sources, depths, born, accepted, dies, ends, children, beams, paths)


def _answer_path(children: Sequence[Sequence[int]], texts: Sequence[str], answer: Sequence[str]) -> tuple[int, ...]:
    path = [0] if texts else []
    for token in answer:
        node = next((child for child in children[path[-1]] if texts[child] == token), None)
        if node is None:
            break
        path.append(node)
    return tuple(path)


def _node_fates(
    parents: Sequence[int],
    born: Sequence[int],
    reached: Sequence[int],
    beams: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
) -> tuple[list[int], list[int], list[int]]:
    """Return of every node the passes after which it is accepted, after which it is dead, and after which it is an end.

    Hypotheses may be of different lengths (SBS), so depth alone does not show whether a node can still be needed.
    """
    nodes = range(len(parents))
    first, until = [NEVER for _ in nodes], [-1 for _ in nodes]  # first and last beam, from 0, through the node
    live = [-1 for _ in nodes]  # the last beam with the node itself
    for number, beam in enumerate(beams):
        for node in beam:
            live[node] = number
            while node >= 0 and until[node] != number:
                first[node], until[node] = min(first[node], number), number
                node = parents[node]
    in_answers = {node for path in answers for node in path}
    accepted_after, dies = [NEVER for _ in nodes], [NEVER for _ in nodes]
    reachable = list(live)  # the last beam with the node or one before it
    for node, parent in enumerate(parents):
        reachable[node] = max(live[node], reachable[parent] if parent >= 0 else -1)
        if first[node] < NEVER:
            accepted_after[node] = max(1, first[node])
        elif node in in_answers:  # its hypothesis was finished before a beam had it
            accepted_after[node] = max(born[node], reached[node], accepted_after[parent] if parent >= 0 else 1)
        if node in in_answers:
            continue
        if first[node] < NEVER:
            dies[node] = until[node] + 1
        else:
            dies[node] = min(max(born[node], reachable[node] + 1), dies[parent] if parent >= 0 else NEVER)
    return accepted_after, dies, [live[node] + 1 if live[node] >= 0 else accepted_after[node] for node in nodes]


def lay_out_tree(tree: DrawnTree, *, spare: bool = False, most: int = MAX_DRAWN) -> dict[str, Any]:
    """Lay a tree out, or the first `most` nodes of it, as JSON values for the browser.

    `widths` are the characters of every column's widest text; `nodes` are those drawn without the start, each in the
    column after its parent's; `beams` have column and row of the live hypotheses after every step; `leaves` the rank of
    an answer and the pass after which it is finished; `left_out` counts the nodes that are not drawn.
    """
    chosen = _drawn_nodes(tree, spare, most)
    ranks: list[list[int]] = [[] for _ in tree.parents]
    for rank, path in enumerate(tree.answers, 1):
        for node in path:
            ranks[node].append(rank)
    rows = _assign_rows(tree, chosen, ranks)
    widths = [1] * (max((tree.depths[node] for node in chosen), default=0) + 1)
    nodes = []
    for node in sorted(chosen - {0}):
        depth, text = tree.depths[node], tree.texts[node]
        text = text if len(text) <= MAX_TOKEN_CHARS else text[: MAX_TOKEN_CHARS - 1] + "…"
        widths[depth] = max(widths[depth], len(text))
        position = {"column": depth, "row": rows[node], "parent_row": rows[tree.parents[node]], "text": text}
        fate = {"born": tree.born[node], "accepted": tree.accepted[node], "dies": tree.dies[node]}
        ahead = tree.sources[node] != REQUESTED  # computed before it was requested
        nodes.append({**position, **fate, "ahead": ahead, "answers": ranks[node]})
    ends = [(rank, path[-1]) for rank, path in enumerate(tree.answers, 1) if path and path[-1] in chosen]
    return {
        "widths": widths,
        "rows": max(rows.values(), default=0) + 1,
        "nodes": nodes,
        "beams": [[(tree.depths[node], rows[node]) for node in beam if node in chosen] for beam in tree.beams],
        "leaves": [
            {"column": tree.depths[end], "row": rows[end], "rank": rank, "step": tree.ends[end]} for rank, end in ends
        ],
        "left_out": len(tree.parents) - len(chosen),
    }


def _drawn_nodes(tree: DrawnTree, spare: bool, most: int) -> set[int]:
    """Return which nodes to draw: those that the beam went through first; always a node's parent with it."""
    chosen: set[int] = set()
    for needed in (True, False) if spare else (True,):
        for node, parent in enumerate(tree.parents):
            fits = len(chosen) < most and (parent < 0 or parent in chosen)
            if fits and (tree.accepted[node] < NEVER or not needed):
                chosen.add(node)
    return chosen


def _assign_rows(tree: DrawnTree, chosen: set[int], ranks: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the rows of the chosen nodes.

    The chief child goes on in its parent's row; the other branches, the latest first, take the nearest row below that
    is free for as far as they go.
    """

    def merit(node: int) -> tuple[int, int, int]:
        return ranks[node][0] if ranks[node] else NEVER, -tree.dies[node], node

    rows: dict[int, int] = {}
    taken: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # occupied columns of every row: from, to
    heads = [0] if chosen else []
    while heads:
        path = [heads.pop()]
        while children := sorted((child for child in tree.children[path[-1]] if child in chosen), key=merit):
            path.append(children[0])
            heads += children[1:]
        start, end = tree.depths[path[0]] - 1, tree.depths[path[-1]]
        row = rows[tree.parents[path[0]]] + 1 if rows else 0
        while any(first <= end and start <= last for first, last in taken[row]):
            row += 1
        taken[row].append((start, end))
        rows |= dict.fromkeys(path, row)
    return rows
