"""Doors for structures, and a process that throws graphs that RDKit does not survive at one of them.

Started as `python -m programs.fuzzing.doors SECONDS STEP DOOR...`, with the seconds that a case may take, and 1 for all
cases or more for each of so many; it prints a line of JSON a case, which `test_hostile_structures.py` judges.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from programs.fuzzing import graphs

STRUCTURES = {
    "K25,25": lambda: graphs.multipartite(25, 25),
    "K60": lambda: graphs.complete(60),
    "K14,14,14": lambda: graphs.multipartite(14, 14, 14),
    "K2,100": lambda: graphs.multipartite(2, 100),  # 99 rings
    "K11,11": lambda: graphs.multipartite(11, 11),  # 100 rings
    "3-regular": lambda: graphs.regular(2000, 3, Random(0)),
    "chain": lambda: graphs.chain(61_000),  # more characters than any door reads
    "K25,25 of *": lambda: graphs.multipartite(25, 25, element="*"),
    "50 fused rings of P": lambda: graphs.grid(101, 2, "P", bricks=True),
    "many K4,4": lambda: graphs.several(graphs.multipartite(4, 4), 60),
}
FORMATS = ("smi", "mol", "sdf", "rxn", "rxn3", "rdf", "cdxml", "inchi", "ket")
TASKS = ("retro", "forward", "reagents")


@cache
def built(structure: str) -> graphs.Graph:
    """The graph of a structure."""
    return STRUCTURES[structure]()


@cache
def written(structure: str, name: str) -> str:
    """The text of a structure in a format."""
    return graphs.FORMATS[name](built(structure), graphs.PLAIN, Random(0))


# Each door takes a text and the name of its format, and is made in the child once.


def box(_: Any) -> Callable[[str, str], object]:
    from chemspec.chem import formats

    return lambda text, _: [formats.read_input(text, task=task) for task in TASKS]


def names(_: Any) -> Callable[[str, str], object]:
    from chemspec.chem import formats

    return lambda text, _: [formats.read_input(f"water, {text}; toluene", task=task) for task in TASKS]


def stock(_: Any) -> Callable[[str, str], object]:
    from chemspec.stock import lists, offers

    return lambda text, name: (offers.inchikey(text), refused(lambda: lists.parse_stock(text.encode(), f"x.{name}")))


def upload(_: Any) -> Callable[[str, str], object]:
    from chemspec.jobs import uploads

    return lambda text, name: refused(lambda: uploads.read_upload(text.encode(), f"x.{name}"))


def file(tools: Any) -> Callable[[str, str], object]:
    from chemspec.io import readers

    def read(text: str, name: str) -> None:
        path = tools.work / f"x.{name.rstrip('3')}"
        path.write_text(text)
        for query in readers.read_queries(path):
            tools.engine.predict(query, n=1, max_len=4)

    return read


def link(tools: Any) -> Callable[[str, str], object]:
    from programs.fuzzing import kept

    def read(text: str, name: str) -> None:
        text = text[:60_000]  # a server takes no longer address
        kept.open_page(json.dumps({"page": "predict", "asked": {"task": "retro", "smi": text}}).encode(), tools)

    return read


def http(tools: Any) -> Callable[[str, str], object]:
    from programs.fuzzing import http as requests

    headers = {"content-type": "application/json", "x-api-key": requests.KEY}

    def read(text: str, name: str) -> None:
        body = json.dumps({"queries": [text] * (8 if len(text) < 12_000 else 1), "task": "retro", "n": 1})
        case = {"method": "POST", "target": "/v1/predict", "headers": headers, "parts": [body], "leaves": False}
        requests.answer(json.dumps(case).encode(), tools)

    return read


def collection(_: Any) -> Callable[[str, str], object]:
    from chemspec.ui.collect.answers import SavedAnswer, find_matching

    kept = SavedAnswer("q", "retro", "m", graphs.smiles(graphs.grid(10, 10)), "CCO", "", 0.5, "", "idea", 1.0)
    endless = "[!#1]" + "~[!#1]" * 40 + "~[!#1]1~[!#1]~[!#1]~1"

    def read(text: str, _: str) -> None:
        for pattern in (text, endless, f"[$({endless})]") if text == written("K25,25", "smi") else (text,):
            refused(lambda pattern=pattern: find_matching([kept], structure=pattern))  # type: ignore[misc]

    return read


def drawing(_: Any) -> Callable[[str, str], object]:
    from chemspec.chem.reactions import step_class
    from chemspec.depict.molecules import Depiction
    from chemspec.ui.predict import sketcher, view3d

    def read(text: str, name: str) -> None:
        for show in (lambda smiles: Depiction(smiles).svg, sketcher.kekulized):
            show(text)
        refused(lambda: view3d.conformer_block(text))
        step_class.classify_step(text, text)

    return read


def trace(tools: Any) -> Callable[[str, str], object]:
    from chemspec.depict import schemes
    from chemspec.replay import trace_view
    from chemspec.types import result_from_json, to_json

    result = tools.engine.predict("CCO", n=1, max_len=4, record=True)

    def read(text: str, _: str) -> None:
        answers = [replace(answer, smiles=text, canonical=text, valid=True) for answer in result.hypotheses]
        raw = to_json(replace(result, query=text, hypotheses=tuple(answers)))
        schemes.scheme_sides(text, text, None)
        refused(lambda: trace_view.view_trace(result_from_json(raw)))

    return read


QUICK = {one.__name__: one for one in (box, names, stock)}
DOORS = QUICK | {one.__name__: one for one in (collection, drawing, upload, file, link, http, trace)}
SMILES_ONLY = {"names", "stock", "collection", "drawing", "trace"}


def formats_of(door: str) -> tuple[str, ...]:
    """The formats that a door takes."""
    return ("smi",) if door in SMILES_ONLY else ("smi", "mol", "cdxml") if door == "link" else FORMATS


def cases_of(door: str, step: int) -> list[tuple[str, str]]:
    """Structures that are thrown at a door, and the formats they come in; each of so many."""
    return [*product(STRUCTURES, formats_of(door))][::step]


def refused(reading: Callable[[], object]) -> None:
    """Read something that may be refused with a sentence."""
    with suppress(ValueError):
        reading()


# Of the process as the kernel counts it: `ru_maxrss` never falls, and begins with that of the process that started it.
def memory_kb(field: str) -> int:
    """Return the memory that this process takes (VmRSS), or the most since `forget_peak` (VmHWM), in kB."""
    match = re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    assert match
    return int(match[1])


def forget_peak() -> None:
    """Let VmHWM begin anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def attack(door: str, seconds: float, step: int) -> None:
    """Throw structures at a door and print what each took; a case that takes too long ends this process."""
    from programs.fuzzing.tools import Tools

    with tempfile.TemporaryDirectory() as home:
        reading = DOORS[door](Tools(Path(home)) if door in ("file", "link", "http", "trace") else None)
        reading("CCO", "smi")  # what is imported when it is needed first
        for structure, name in cases_of(door, step):
            text = written(structure, name)
            forget_peak()
            before, began = memory_kb("VmRSS"), time.process_time()
            signal.setitimer(signal.ITIMER_VIRTUAL, 4 * seconds)  # also out of C++, which no exception ends
            reading(text, name)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            took = time.process_time() - began
            line = {"what": f"{door} {structure} {name}", "seconds": took, "kb": memory_kb("VmHWM") - before}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    for name in sys.argv[3:]:
        attack(name, float(sys.argv[1]), int(sys.argv[2]))
