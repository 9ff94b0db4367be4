"""Compare the lists of predictions of all ways in, by their defaults: `python tests/programs/one_list.py 200`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import script

Lists = list[list[str]]


def by_library(queries: Sequence[str], task: str, n: int) -> Lists:
    """One list of queries."""
    import chemspec

    engine = chemspec.load(task, threads=1)
    return [[answer.smiles for answer in result.hypotheses] for result in engine.predict(queries, n=n)]


def by_predict(queries: Sequence[str], task: str, n: int) -> Lists:
    """The page Predict, one query after the other."""
    from helpers import verdicts

    import chemspec
    from chemspec.ui.common import queued_engine

    engine = chemspec.load(task, threads=1)
    with verdicts.visit({task: engine}):  # type: ignore[dict-item]
        results = [queued_engine.cached_prediction(engine, query, verdicts.settings(n)) for query in queries]
    return [[answer.smiles for answer in result.hypotheses] for result in results]


def by_command_line(queries: Sequence[str], task: str, n: int) -> Lists:
    """Queries as arguments."""
    from typer.testing import CliRunner

    from chemspec.cli.__main__ import app as commands

    done = CliRunner().invoke(commands, ["predict", *queries, "--task", task, "-n", str(n), "--threads", "1", "--json"])
    assert done.exit_code == 0, done.output
    documents = json.loads(done.stdout.rstrip("\n").split("\n")[-1])["results"]
    return [[answer["smiles"] for answer in document["hypotheses"]] for document in documents]


def by_file(queries: Sequence[str], task: str, n: int) -> Lists:
    """A file to a file, as Batch does."""
    from typer.testing import CliRunner

    from chemspec.cli.__main__ import app as commands

    folder = Path(tempfile.mkdtemp())
    (folder / "in.smi").write_text("\n".join(queries))
    words = ["--task", task, "-n", str(n), "--threads", "1", "-o", str(folder / "out.jsonl")]
    done = CliRunner().invoke(commands, ["predict", str(folder / "in.smi"), *words])
    assert done.exit_code == 0, done.output
    documents = map(json.loads, (folder / "out.jsonl").read_text().splitlines())
    return [[answer["smiles"] for answer in one["hypotheses"]] for one in documents if "hypotheses" in one]


def by_http(queries: Sequence[str], task: str, n: int) -> Lists:
    """One client, many requests."""
    from helpers.serving import serving

    import chemspec

    with serving({task: chemspec.load(task, threads=1)}) as service:
        results = service.client(retry_seconds=60.0).predict(queries, task=task, n=n)
    return [[answer.smiles for answer in result.answers] for result in results]


WAYS: dict[str, Callable[[Sequence[str], str, int], Lists]] = {
    "library": by_library,
    "Predict": by_predict,
    "command line": by_command_line,
    "file": by_file,
    "HTTP": by_http,
}


def main(
    limit: Annotated[int, typer.Argument(help="Built-in queries.")] = 200,
    n: Annotated[int, typer.Option("-n", help="Answers to each query.")] = 5,
    task: Annotated[str, typer.Option(help="retro or forward.")] = "retro",
) -> None:
    """Print for each way in how many lists differ from the library's."""
    os.environ["CHEMSPEC_HOME"] = tempfile.mkdtemp()
    from chemspec.asset_files import assets_folder

    queries = Path(assets_folder(), "examples", f"bench_{task}.smi").read_text().split()[:limit]
    library: Lists = []
    different = 0
    for name, way in WAYS.items():
        lists = way(queries, task, n)
        library = library or lists
        assert len(lists) == len(queries), name
        wrong = [query for query, own, other in zip(queries, lists, library, strict=True) if own != other]
        different += len(wrong)
        print(f"{name}: {len(wrong)} of {len(lists)} lists differ from the library's", flush=True)
        for query in wrong:
            print(f"  {query}")
    raise typer.Exit(int(different > 0))


app = script(main)
if __name__ == "__main__":
    app()
