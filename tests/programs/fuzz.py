"""Fuzz every input: queries, files, model folders, HTTP, links, saved data. `python tests/programs/fuzz.py --help`.

A case may take 5 s of processor time and 1 GB, and may end with a documented error. Anything else is a defect: it is
printed, its bytes are saved, and the exit code is 1. Cases run in processes of their own, in rounds; one that dies or
hangs costs its round and nothing else. Hypothesis draws the cases; a number is the seed of all.
"""

from __future__ import annotations

import faulthandler
import json
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import script
from programs.fuzzing.tools import Tools, Way
from programs.fuzzing.ways import ways

PATIENCE = 120  # of a case, on the clock: the machine may be busy
ROUND = 500


def names() -> tuple[str, ...]:
    """Return the names of all ways in."""
    return tuple(way.name for way in ways())


def campaign(
    cases: int,
    *,
    seed: int = 0,
    only: Sequence[str] = (),
    out: Path,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Run so many cases, shared out among the ways in; called again with the same folder, it goes on.

    Args:
        cases: how many.
        seed: the same seed gives the same cases.
        only: ways to take; all without.
        out: a folder for cases that are defects.
        progress: is told how many cases of how many are done.

    Returns:
        `{"seed", "cases", "by_way", "seconds", "defects"}`; a defect has way, what happened, where, and its file.

    Raises:
        ValueError: for a way that there is not.
    """
    if unknown := set(only) - set(names()):
        raise ValueError(f"no way in called {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    chosen = [way for way in ways() if way.name in (only or names())]
    total = sum(way.share for way in chosen)
    wanted = {way.name: cases * way.share // total for way in chosen}
    wanted[chosen[0].name] += cases - sum(wanted.values())
    done, defects, began = Counter[str](), list[dict[str, Any]](), time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    journal = out / f"rounds-{seed}.jsonl"
    earlier = {
        line["seed"]: line for line in (json.loads(text) for text in _text(journal).splitlines() if text.endswith("}"))
    }
    for number, (way, count) in enumerate(_rounds(wanted)):
        own = seed * 1_000_003 + number
        told = {"seed": own, "way": way, "cases": count}
        kept = earlier.get(own, {})
        if kept.items() >= told.items():
            ran, found = kept["ran"], kept["defects"]
        else:
            ran, found = _round(way, count, own, out)
            with journal.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({**told, "ran": ran, "defects": found}) + "\n")
        done[way] += ran
        defects += found
        progress(done.total(), cases)
    return {
        "seed": seed,
        "cases": done.total(),
        "by_way": dict(done),
        "seconds": round(time.monotonic() - began, 1),
        "defects": defects,
    }


def _rounds(wanted: dict[str, int]) -> list[tuple[str, int]]:
    parts = [(way, min(ROUND, count - start)) for way, count in wanted.items() for start in range(0, count, ROUND)]
    Random(0).shuffle(parts)  # so that a campaign that is ended early has tried every way
    return parts


def _round(way: str, count: int, seed: int, out: Path) -> tuple[int, list[dict[str, Any]]]:
    """Run a round in a process; returns how many cases it ran and the defects."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        words = [sys.executable, "-W", "ignore", __file__, "--worker", way, str(count), str(seed), home]
        ended = subprocess.run(words, capture_output=True, text=True)
        lines = [json.loads(line) for line in _text(Path(home) / "found.jsonl").splitlines() if line.endswith("}")]
        current = Path(home) / "current"
        ran = int(_text(Path(home) / "ran") or 0)
        if ended.returncode:
            what = "hangs" if "Timeout" in ended.stderr else f"the process ends with {ended.returncode}"
            place = " | ".join(ended.stderr.strip().splitlines()[-6:])
            lines.append(
                {
                    "way": way,
                    "what": what,
                    "where": place,
                    "case": current.read_bytes().hex() if current.is_file() else "",
                }
            )
        for line in lines:
            case = bytes.fromhex(line.pop("case"))
            file = out / f"{way}-{seed}-{len(list(out.glob('*')))}.case"
            file.write_bytes(case)
            line["file"] = str(file)
    return ran, lines


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def again(way: str, case: bytes) -> dict[str, Any] | None:
    """Run one case here; returns the defect, if it is one."""
    if way not in names():
        raise ValueError(f"no way in called {way!r}; there are {', '.join(names())}")
    with tempfile.TemporaryDirectory() as home:
        return try_case(next(one for one in ways() if one.name == way), case, Tools(Path(home)))


def try_case(way: Way, case: bytes, tools: Tools) -> dict[str, Any] | None:
    """Run one case; returns the defect, if it is one."""
    began, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    what = where = ""
    try:
        way.run(case, tools)
    except way.documented:
        pass
    except BaseException as error:
        what = f"{type(error).__name__}: {str(error)[:300]}"
        where = " | ".join(
            f"{Path(at.filename).name}:{at.lineno} {at.name}" for at in traceback.extract_tb(error.__traceback__)[-5:]
        )
    spent, grown = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    if not what and spent > way.seconds:
        what = f"takes {spent:.1f} s"
    if not what and grown > way.most_kb:
        what = f"takes {grown / 1e6:.1f} GB"
    return {"way": way.name, "what": what, "where": where, "case": case.hex()} if what else None


def _work(name: str, count: int, seed: int, home: Path) -> None:
    """Run a round here; what is found goes to files, for this process may not live to tell."""
    import hypothesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    way = next(one for one in ways() if one.name == name)
    tools = Tools(home)
    soft = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, soft))
    ran, current = 0, home / "current"

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**63))
    def one(number: int) -> None:
        nonlocal ran
        case = way.make(Random(number))
        current.write_bytes(case)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        defect = try_case(way, case, tools)
        faulthandler.cancel_dump_traceback_later()
        ran += 1
        if defect:
            with (home / "found.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(defect) + "\n")
        (home / "ran").write_text(str(ran))

    one()


def main(
    cases: Annotated[int, typer.Option(help="Number of cases; a night is 100,000.")] = 2000,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same cases.")] = 0,
    way: Annotated[list[str] | None, typer.Option(help="Input to fuzz, may be repeated; default: all.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for cases that are defects.")] = Path("runs/fuzz"),
    case: Annotated[Path | None, typer.Option(help="Try one saved case again (with --way), and nothing else.")] = None,
) -> None:
    """Fuzz every input; the same command resumes a campaign that was interrupted."""
    if case is not None:
        defect = again((way or [""])[0], case.read_bytes())
        report: dict[str, Any] = {"defects": [defect] if defect else []}
    else:
        report = campaign(cases, seed=seed, only=way or (), out=out, progress=_tell)
    for defect in report["defects"][:20]:
        print(f"{defect['way']}: {defect['what']} ({defect['where']}) {defect.get('file', '')}", file=sys.stderr)
    print(json.dumps(report))
    raise typer.Exit(1 if report["defects"] else 0)


def _tell(done: int, total: int) -> None:
    print(f"\r{done} of {total} cases", end="\n" if done == total else "", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        _work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
    else:
        script(main)()
