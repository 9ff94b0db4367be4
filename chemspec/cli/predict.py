"""The command `predict`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from chemspec import tasks as questions
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.cli.options import DEFAULT
from chemspec.metrics import NO_SAVINGS, Savings
from chemspec.question_text import QuestionText, read_number
from chemspec.replay.savings import describe_file, sum_savings
from chemspec.settings import DecodeSettings, ineffective_fields, lists_distinct
from chemspec.system import extras
from chemspec.terminal import console
from chemspec.terminal.documented_options import FieldsOf, Outcome
from chemspec.types import DecodeResult

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine
    from chemspec.review import Review, Reviewer

DECODING = [item.name for item in fields(DecodeSettings) if item.name != "record"]


@dataclass(frozen=True, kw_only=True)
class QuerySource:
    """Queries, and the model that predicts them.

    Attributes:
        smiles SMILES: SMILES, one file (.csv .smi .parquet ...), - for stdin, or a chemspec: text.
    """

    smiles: list[str] | None = None
    task: str = ""
    model: str = ""
    column: str = ""
    question: QuestionText | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if question := opt.read_question(self.smiles, "predict"):
            object.__setattr__(self, "question", question)
            object.__setattr__(self, "smiles", [question.first("smi")])
            object.__setattr__(self, "task", self.task or question.first("task"))
            object.__setattr__(self, "model", self.model or question.first("model"))
        opt.require_model(self.task, self.model)

    def add_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return options of decoding with those of a `chemspec:` text, where the command line has the default."""
        if self.question is None:
            return given
        options: dict[str, Any] = {"decoder": self.question.first("decoder"), "drafter": self.question.first("drafter")}
        options |= {name: read_number(self.question, name, int) for name in ("n", "max_len", "augment")}
        options["guide"] = self.question.first("guide")
        return given | {
            name: value for name, value in options.items() if value and given[name] in (getattr(DEFAULT, name), "auto")
        }

    def read(self) -> tuple[list[str], bool]:
        """Return the queries, and whether they are many enough for a progress bar."""
        from chemspec.engine.registry import task_of_model
        from chemspec.io.readers import read_given_texts

        if not self.smiles and sys.stdin.isatty():
            raise ValueError('nothing to predict; give a SMILES, a file or "-" for standard input')
        task = questions.check_task(self.task) if self.task else task_of_model(self.model)
        queries, source = read_given_texts(self.smiles or ["-"], self.column, task, console.print_note)
        if not queries:
            raise ValueError(f"nothing to predict: there is no query in {source}")
        return queries, bool(source) or len(queries) > 8


@dataclass(frozen=True, kw_only=True)
class OutputFiles:
    """Destinations of the predictions: files if given, else standard output, as text or JSON.

    Attributes:
        out -o: result file: .csv, .jsonl or .parquet; resumable. - for standard output: a line of JSON per query.
        trace: file for full results with traces, one JSON document per line.
        receipts: add to every row of a .jsonl what `chemspec verify` needs to decode it again.
        review: review the answers: strategies, problems, forward check, reagents, patent precedents and stock; also
            with --json and in a .csv or .jsonl.
    """

    out: Path | None = None
    trace: Path | None = None
    receipts: bool = False
    review: bool = False
    stock: list[str] | None = None

    def __post_init__(self) -> None:
        if self.out is not None and self.trace is not None:
            raise ValueError("--trace is for answers on the screen; leave out --out")
        if self.stock and not self.review:
            raise ValueError("--stock goes with --review")
        if self.receipts and (self.out is None or self.out.suffix.lower() != ".jsonl"):
            raise ValueError("--receipts go into a .jsonl file; give one with --out")

    @property
    def streamed(self) -> bool:
        """Whether rows go to standard output, as they are done."""
        return str(self.out) == "-"

    def load_reviewer(self, engine: Engine, runtime: opt.Runtime) -> Reviewer:
        """Load what a review of the model's predictions needs."""
        from chemspec import precedents
        from chemspec.evaluation.loading import COMPANIONS, load_engines
        from chemspec.review.review import Reviewer
        from chemspec.stock.lists import load_chosen_stock

        companions = COMPANIONS if engine.task == "retro" else ()
        engines = load_engines(companions, device=runtime.device, dtype=runtime.dtype, threads=runtime.threads)
        return Reviewer(engine.task, engines, load_chosen_stock(self.stock or ()), precedents.installed())


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Engines on a Ray cluster.

    Attributes:
        ray: predict on a Ray cluster: local, auto or HOST:PORT; --out is then a folder (extra ray).
        engines: with --ray: maximum number of engines; 0: all cores / --threads, or all GPUs.
        shard_rows: with --ray: rows per output file and per work item; default: 1,000, or fewer for a short input, so
            that every engine gets some.
    """

    ray: str = ""
    engines: int = 0
    shard_rows: int | None = None

    def __post_init__(self) -> None:
        if not self.ray and (self.engines or self.shard_rows is not None):
            raise ValueError("--engines and --shard-rows go with --ray")
        if self.engines < 0:
            raise ValueError(f"--engines is {self.engines}; give a number, or 0 for as many as fit")

    def predict(
        self, source: QuerySource, settings: DecodeSettings, runtime: opt.ImportedRuntime, files: OutputFiles
    ) -> Outcome:
        """Predict a file, or a folder of files, into a folder."""
        out, given = files.out, source.smiles or []
        if out is None or out.suffix in (".csv", ".jsonl", ".parquet"):
            raise ValueError("--ray writes a folder of Parquet files; give one with --out")
        if len(given) != 1 or not Path(given[0]).exists():
            raise ValueError("--ray reads one file, or a folder of files; give its path")
        extras.require_packages("ray", "pyarrow", what="--ray")
        from chemspec.cluster import job

        with console.progress_bar("predicting") as report:
            done = job.predict_file(
                Path(given[0]),
                out,
                settings,
                opt.chosen_model(source.task, source.model) or source.task,
                address=self.ray,
                progress=report,
                note=console.print_note,
                task=questions.check_task(source.task) if source.task else None,
                column=source.column,
                shard_rows=self.shard_rows,
                most=self.engines,
                **runtime.loading,
            )
        console.print_note(f"{out}: {_format_counts(done.counts)}; {done.summary}")
        return _outcome({"settings": asdict(settings), "out": str(out), **asdict(done)})


@command("predict", "Answers")
def predict(
    *,
    source: QuerySource,
    exact: bool = True,
    decoding: Annotated[dict[str, Any], FieldsOf(DecodeSettings, DECODING, {"decoder": "auto", "distinct": None})],
    runtime: opt.ImportedRuntime,
    within: opt.Duration = None,
    files: OutputFiles,
    cluster: Cluster,
) -> Outcome:
    """Predict products, reactants or reagents of SMILES.

    Options:
        distinct --distinct/--no-distinct: list distinct valid molecules other than the query, and widen the search
            until there are -n; --no-distinct lists the plain beam. Default: --distinct for beams without --rules and
            --length-penalty.
        seed: random seed of the decoders that draw samples, and of --augment.
        within: time per query, such as 50ms: the greedy answer, then the widest exact beam up to -n that fits. Each
            list states its width.
    """
    if within is not None and (files.out or files.trace or cluster.ray or files.review):
        raise ValueError("--within is for answers on the screen; leave out --out, --trace, --review and --ray")
    decoding = source.add_options(decoding)
    if cluster.ray:
        if files.receipts or files.review:
            raise ValueError("--receipts and --review do not go with --ray")
        if ":" in decoding["drafter"] + decoding["decoder"]:
            raise ValueError("--ray takes drafters and decoders of installed packages, not of a file or by module:NAME")
        return cluster.predict(source, _decode_settings(exact, **decoding), runtime, files)
    settings = _decode_settings(exact, **decoding)
    if files.streamed and console.answers.quiet:
        raise ValueError("rows on standard output are lines of JSON; leave out --json")
    opt.check_parent_folders(files.out, files.trace)
    if files.out is not None and not files.streamed:  # before anything is read or loaded
        from chemspec.io.writers import check_output

        check_output(files.out, receipts=files.receipts, review=files.review)
    queries, many = source.read()
    if files.trace is not None:
        files.trace.touch()  # fails before the work rather than after it
    engine = runtime.load(source.task, source.model)
    document = {"model": engine.name, "settings": asdict(settings)}
    reviewer = files.load_reviewer(engine, runtime) if files.review else None
    if files.out is not None:
        write = _print_rows if files.streamed else _write_predictions
        counts = write(engine, queries, settings, files, reviewer)
        return _outcome(document | {"out": str(files.out), "counts": counts})
    if within is not None:  # the first prediction of a process is slow
        engine.predict("CCO", replace(settings, max_len=8), within=60.0)
    with console.progress_bar("predicting", quiet=not many) as report:
        results = engine.predict(queries, settings, progress=lambda done: report(done, len(queries)), within=within)
    failed = any(result.status != "ok" for result in results)
    return Outcome(document | {"results": _print_predictions(results, files.trace, reviewer)}, int(failed))


def _decode_settings(exact: bool, *, distinct: bool | None, **given: Any) -> DecodeSettings:
    """Return the settings; by default a beam lists distinct molecules if merging would not undo its ranking."""
    if distinct is None:
        distinct = lists_distinct(given)
    settings = opt.build_decode_settings(exact=exact, distinct=distinct, **given)
    unread = ineffective_fields(settings)
    if settings.n != given["n"] != DEFAULT.n:
        unread["n"] = f"the decoder {settings.decoder}"
    for name, cause in unread.items():
        console.print_note(f"note: --{name.replace('_', '-')} has no effect with {cause}")
    return settings


def _print_predictions(
    results: Sequence[DecodeResult], trace: Path | None, reviewer: Reviewer | None
) -> list[dict[str, Any]]:
    """Print results and their reviews, write the traces, and return all as documents."""
    if trace is not None:
        from chemspec.io import writers

        writers.write_traces(results, trace)
    show.print_results(results)
    documents = []
    for document, review in _reviewed_documents(results, reviewer):
        if review is not None:
            show.print_review(review)
        documents.append(document)
    return documents


def _reviewed_documents(
    results: Sequence[DecodeResult], reviewer: Reviewer | None
) -> Iterator[tuple[dict[str, Any], Review | None]]:
    """Yield each result as a document, which holds its review, and the review."""
    from chemspec.io import writers

    if reviewer is None:
        yield from ((writers.result_document(result), None) for result in results)
        return
    from chemspec.review.rows import review_document

    for result, review in zip(results, reviewer.review(results), strict=True):
        more = {"review": review_document(review)} if review is not None else {}
        yield writers.result_document(result) | more, review


def _write_predictions(
    engine: Engine, queries: Sequence[str], settings: DecodeSettings, files: OutputFiles, reviewer: Reviewer | None
) -> dict[str, int]:
    """Write predictions to a file, print a summary, and return the number of queries by status."""
    from chemspec.io import writers

    assert files.out
    written: list[Savings] = []
    options: dict[str, Any] = {"receipts": files.receipts, "written": lambda done: written.append(sum_savings(done))}
    if reviewer:
        from chemspec.review.rows import ANSWER_COLUMNS, review_rows

        options["review"] = writers.RowReview(ANSWER_COLUMNS, lambda done: review_rows(reviewer.review(done)))
    with console.progress_bar("predicting") as report:
        counts = writers.predict_file(engine, queries, files.out, settings, progress=report, **options)
    summary = [describe_file(sum(written, NO_SAVINGS), settings, len(queries))] if written else []
    console.print_note(f"{files.out}: {'; '.join((_format_counts(counts), *summary))}")
    return counts


def _print_rows(
    engine: Engine, queries: Sequence[str], settings: DecodeSettings, _: OutputFiles, reviewer: Reviewer | None
) -> dict[str, int]:
    """Print a line of JSON per query, in order, as soon as a few batches are done; returns the number by status."""
    from chemspec.io import writers
    from chemspec.io.readers import QueryList

    counts: Counter[str] = Counter()
    size = settings.batch_size * writers.BATCHES
    names, cells = (queries.columns, queries.cells) if isinstance(queries, QueryList) else ((), ())
    for start in range(0, len(queries), size):
        results = writers.predict_isolating_failures(engine, queries[start : start + size], settings)
        for number, (row, _review) in enumerate(_reviewed_documents(results, reviewer), start):
            row |= {"columns": dict(zip(names, cells[number], strict=True))} if names else {}
            sys.stdout.write(json.dumps(row) + "\n")
            counts[row["status"]] += 1
        sys.stdout.flush()
    console.print_note(_format_counts(counts))
    return dict(counts)


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def _outcome(document: dict[str, Any]) -> Outcome:
    """Return the outcome of a document with counts by status: exit code 1 if some query failed."""
    return Outcome(document, 0 if set(document["counts"]) <= {"ok"} else 1)
