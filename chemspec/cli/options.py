"""Options of commands: help texts, groups of options, and functions that parse and load what they name."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial, wraps
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from chemspec import settings, tasks
from chemspec.cli import show
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, Task

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine

DEFAULT = DecodeSettings()

# Help texts of options with the same name and meaning in several commands, written like the section "Options".
SHARED = f"""
    task -t: {tasks.task_questions()}.
    model -m: model: folder, checkpoint, installed name, or id of a downloaded Hugging Face model; default: the task's.
    n -n: number of predictions per query.
    decoder: decoder: auto, {", ".join(DECODERS)}; auto: greedy for -n 1, else beam. Also file.py:NAME or module:NAME, a
        DecoderSpec.
    drafter: drafting method: {", ".join(DRAFTERS)}; does not change the output of exact decoders. Also file.py:NAME or
        module:NAME, a function that proposes drafts.
    exact --exact/--relaxed: --exact: decoders with the output or distribution of standard decoding; --relaxed: all.
    batch_size: queries decoded together.
    distinct: list distinct valid molecules other than the query; widens the search to find -n.
    max_len: maximum length of a prediction in tokens.
    dtype: precision: auto (fp32), fp32, int8, bf16 or fp16.
    device: device: auto, cpu, cuda, cuda:1, ...
    threads: CPU threads; 0: all cores.
    runtime: runtime: auto (graphs on a GPU, native on a CPU), native, torch or graphs.
    template: prompt template of an imported model, with {{query}} for the SMILES.
    column: input column with the SMILES; "a>>b" joins two columns.
    stock -s: building blocks: a file of SMILES or InChIKeys, with or without prices, or a built-in list; repeatable.
    source: folder with the reaction CSVs.
    recipe: recipe: a name (see `chemspec train --list`) or a .toml file.
    workers: number of processes.
    limit: maximum number of rows read from each file, for a trial run (0: all).
    seed: random seed for sampling queries.
    data_dir --data: folder written by `chemspec data`; default data/<task>.
    keep_numbers --keep: store the numbers in the model folder, for its card.
    allowed_host: additional host name of this server, such as a proxy's; repeatable; * allows any.
    as_json --json: print one JSON document as the last line.
"""
_DOCUMENTED = re.compile(r"^    (\w+)((?: [\w/-]+)*): (.(?:.|\n {8})*)", re.MULTILINE)
Texts = dict[str, tuple[str, str]]  # flags and help by name


def parse_duration(text: str | float) -> float:
    """Return the seconds of a duration such as 50ms, 5s or 2 (seconds)."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min)?", str(text).strip())
    seconds = float(match[1]) * {"ms": 0.001, "min": 60.0}.get(match[2] or "s", 1.0) if match else 0.0
    if not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"{text!r} is no duration; give one such as 50ms or 5s")
    return seconds


Duration = Annotated[float | None, typer.Option(parser=parse_duration, metavar="TIME")]
Source = settings.ReactionFolder


@dataclass(frozen=True)
class FieldsOf:
    """In the annotation of a dict: options for fields of a dataclass, some of them or with other defaults.

    The command builds the object from the dict, after it has changed or added values.
    """

    kind: type
    names: Sequence[str] = ()  # default: all
    defaults: Mapping[str, Any] = field(default_factory=dict)


def expand_options(function: Callable[..., Any]) -> Callable[..., None]:
    """Make a function a command of Typer: its parameters become options with the help texts of its docstring.

    Each line of the section "Options" is a name, flags if they differ from the name (upper case: an argument), and the
    text. A parameter that is a dataclass, or `FieldsOf` one, becomes one option per described field. What the function
    does not describe has the text in the section "Attributes" of a dataclass, else that in `SHARED`; with `FieldsOf`
    the other way round, since a class of the library does not speak of options. A list is a repeatable option, a tuple
    a list with commas. A function that returns a document, or an `Outcome`, gets the option --json, which prints it in
    place of the text.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters = list(signature(function).parameters.values())
    has_document = hints.get("return") is not type(None)
    if has_document:
        parameters.append(Parameter("as_json", Parameter.KEYWORD_ONLY, default=False))
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    described = _documented_texts(getdoc(function))
    options: list[Parameter] = []
    for item in parameters:
        hint = hints.get(item.name, bool)
        chosen = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, FieldsOf)), None)
        if chosen or is_dataclass(hint):
            group = chosen or FieldsOf(hint)
            of_class = _documented_texts("\n".join(getdoc(parent) or "" for parent in reversed(group.kind.__mro__)))
            texts = of_class | _SHARED_TEXTS if chosen else _SHARED_TEXTS | of_class
            added = list(_field_options(group, texts | described))
            groups[item.name] = dict if chosen else hint, [option.name for option in added]
        else:
            added = [_option(item, hint, _SHARED_TEXTS | described)]
        options += added

    @wraps(function)
    def run(**given: Any) -> None:
        as_json = has_document and given.pop("as_json")
        show.answers.quiet = as_json
        for name, (build, names) in groups.items():
            given[name] = build(**{each: given.pop(each) for each in names})
        outcome = function(**given)
        if as_json:
            show.print_json(outcome.document if isinstance(outcome, Outcome) else outcome)
        if isinstance(outcome, Outcome):
            raise typer.Exit(outcome.code)

    run.__signature__ = Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    run.__doc__ = (getdoc(function) or "").split("\n\nOptions:")[0]
    return run


@dataclass(frozen=True)
class Outcome:
    """What a command returns: a document for --json, and the exit code."""

    document: Any
    code: int = 0


def _documented_texts(text: str | None) -> Texts:
    return {name: (flags, " ".join(help_text.split())) for name, flags, help_text in _DOCUMENTED.findall(text or "")}


def _field_options(group: FieldsOf, texts: Texts) -> Iterator[Parameter]:
    hints = get_type_hints(group.kind, include_extras=True)
    every = {each.name: each.default for each in fields(group.kind)}
    for name in group.names or filter(texts.get, every):
        default = group.defaults.get(name, every[name])
        default = Parameter.empty if default is MISSING else default
        item = Parameter(name, Parameter.KEYWORD_ONLY, default=default)
        yield _option(item, hints[name], texts)


def _option(parameter: Parameter, annotation: Any, texts: Texts) -> Parameter:
    """Return a parameter with a declaration for Typer, described by the texts if the declaration has no help."""
    name = parameter.name
    metadata = getattr(annotation, "__metadata__", ())
    declared: Any = next((item for item in metadata if hasattr(item, "help")), None)
    kind, info = get_args(annotation)[0] if metadata else annotation, copy(declared) or typer.Option()
    info.envvar = info.envvar or next((item for item in metadata if isinstance(item, str)), None)
    if not info.help and name in texts:
        flags, text = texts[name]
        words = flags.split()
        if flags.isupper():
            info = typer.Argument(metavar=None if words == [name.upper()] else words[0])
        else:
            long = [] if any(word.startswith("--") for word in words) else [f"--{name.replace('_', '-')}"]
            info.param_decls = (*long, *words)
        info.help = text[0].upper() + text[1:]
    elif not declared:  # a `typer.Context`
        return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=annotation)
    if get_origin(kind) is tuple:
        info.parser, info.metavar = partial(_split_list, get_args(kind)[0]), "LIST"
        parameter = parameter.replace(default=",".join(map(str, parameter.default)))
    if get_origin(kind) in (tuple, Literal):  # the dataclass checks which words are allowed
        kind = str
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info])


def _split_list(kind: type, given: Any) -> tuple[Any, ...]:
    """Return the items of a list with commas, which Typer may have split already."""
    if isinstance(given, tuple):
        return given
    try:
        return tuple(kind(word.strip()) for word in given.split(",") if word.strip() or kind is int)
    except ValueError:
        raise typer.BadParameter(f"{given!r}; give numbers such as 5,10,25") from None


_SHARED_TEXTS = _documented_texts(SHARED)


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Where a model runs, and with which precision."""

    dtype: str = "auto"
    device: str = "auto"
    threads: int = 0

    def load(self, task: str, model: str, **options: Any) -> Engine:
        """Load a model; see `load_engine`."""
        return load_engine(task, model, **self.loading, **options)

    @property
    def loading(self) -> dict[str, Any]:
        """Options of `Engine.load`."""
        names = ("dtype", "device", "threads", "runtime", "template")
        return {name: getattr(self, name) for name in names if hasattr(self, name)}


@dataclass(frozen=True, kw_only=True)
class Runtime(Hardware):
    """Where and how a model runs."""

    runtime: str = "auto"


@dataclass(frozen=True, kw_only=True)
class ImportedRuntime(Runtime):
    """Where and how a model of any format runs."""

    template: str = ""


def build_decode_settings(decoder: str, n: int, exact: bool, drafter: str = "auto", **others: Any) -> DecodeSettings:
    """Return decoding settings; a relaxed decoder requires `exact` to be false."""
    others["drafter"] = DRAFTERS.load(drafter)
    return settings.decode_settings(DECODERS.load(decoder), n, exact=exact, remedy="add --relaxed", **others)


def load_engine(task: str, model: str, **options: Any) -> Engine:
    """Load the requested model, or the task's default."""
    from chemspec.engine.engine import Engine

    task_name = tasks.check_task(task) if task else None
    engine = Engine.load(model or task_name or tasks.check_task(task), task=task_name, **options)
    if engine.confidence_problem:
        show.print_note(f"no confidence: {engine.confidence_problem}")
    return engine


def read_texts(given: Sequence[str], column: str, task: Task | None) -> tuple[list[str], str]:
    """Return the texts given as arguments, or those of one file or of standard input ("-").

    Also returns where they come from: the file, "standard input", or an empty text for arguments.
    """
    from chemspec.io import readers

    if list(given) == ["-"]:
        return readers.read_stdin_lines(sys.stdin), "standard input"
    if len(given) == 1 and readers.looks_like_file(given[0]):
        return readers.read_queries(Path(given[0]), column, task, show.print_note), given[0]
    for text in filter(readers.looks_like_file, given):
        raise ValueError(f"{text} is a file; give one file, or SMILES, but not both")
    return list(given), ""


def check_parent_folders(*files: Path | None) -> None:
    """Raise a ValueError for output files in missing folders, before any work is done."""
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise ValueError(f"{file}: there is no folder {file.parent}; make it first")


def command_line() -> str:
    """Return the command as typed, to record how a measurement was made."""
    program = f"python {sys.argv[0]}" if sys.argv[0].endswith(".py") else "chemspec"
    return " ".join([program, *sys.argv[1:]])
