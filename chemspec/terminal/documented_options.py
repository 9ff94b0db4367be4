"""Options of a command line from documented functions and dataclasses, for Typer.

A section "Options" of a docstring, or "Attributes" of a dataclass, has lines such as `out -o: result file.`: a name,
flags if they differ from the name (upper case: an argument), and the help text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, getdoc, signature
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from chemspec.terminal import console

_DOCUMENTED = re.compile(r"^    (\w+)((?: [\w/-]+)*): (.(?:.|\n {8})*)", re.MULTILINE)
Texts = dict[str, tuple[str, str]]  # flags and help by name


@dataclass(frozen=True)
class FieldsOf:
    """In the annotation of a dict: options for fields of a dataclass, some of them or with other defaults.

    The command builds the object from the dict, after it has changed or added values.
    """

    kind: type
    names: Sequence[str] = ()  # default: all
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a command returns: a document for --json, and the exit code."""

    document: Any
    code: int = 0


def expand_options(function: Callable[..., Any], shared: Texts) -> Callable[..., None]:
    """Make a function a command of Typer.

    A parameter that is a dataclass, or `FieldsOf` one, becomes one option per described field. What the function does
    not describe has the text of the dataclass, else the shared one; with `FieldsOf` the other way round, since a class
    of the library does not speak of options. A list is a repeatable option, a tuple a list with commas. A function that
    returns a document, or an `Outcome`, gets the option --json, which prints it in place of the text.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters = [*signature(function).parameters.values()]
    if has_document := hints.pop("return", None) is not type(None):
        parameters.append(Parameter("as_json", Parameter.KEYWORD_ONLY, default=False))
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}  # what builds a parameter, and of which options
    described = documented_texts(getdoc(function))
    options: list[Parameter] = []
    for item in parameters:
        hint = hints.get(item.name, bool)
        chosen = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, FieldsOf)), None)
        if chosen or is_dataclass(hint):
            group = chosen or FieldsOf(hint)
            of_class = documented_texts("\n".join(getdoc(parent) or "" for parent in reversed(group.kind.__mro__)))
            texts = of_class | shared if chosen else shared | of_class
            panel = _panel_title(group.kind if chosen else _extended(group.kind))
            added = list(_field_options(group, texts | described, panel))
            groups[item.name] = dict if chosen else hint, [option.name for option in added]
        else:
            added = [_option(item, hint, shared | described)]
        options += added

    @wraps(function)
    def run(**given: Any) -> None:
        console.answers.quiet = as_json = has_document and given.pop("as_json")
        for name, (build, names) in groups.items():
            given[name] = build(**{each: given.pop(each) for each in names})
        outcome = function(**given)
        if as_json:
            console.print_json(outcome.document if isinstance(outcome, Outcome) else outcome)
        if isinstance(outcome, Outcome):
            raise typer.Exit(outcome.code)

    run.__signature__ = Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    run.__doc__ = (getdoc(function) or "").split("\n\nOptions:")[0]
    return run


def documented_texts(text: str | None) -> Texts:
    """Return flags and help texts by name of a text with such lines."""
    return {name: (flags, " ".join(help_text.split())) for name, flags, help_text in _DOCUMENTED.findall(text or "")}


def _field_options(group: FieldsOf, texts: Texts, panel: str) -> Iterator[Parameter]:
    hints = get_type_hints(group.kind, include_extras=True)
    every = {each.name: each.default for each in fields(group.kind)}
    for name in group.names or filter(texts.get, every):
        default = group.defaults.get(name, every[name])
        default = Parameter.empty if default is MISSING else default
        item = Parameter(name, Parameter.KEYWORD_ONLY, default=default)
        yield _option(item, hints[name], texts, panel)


def _extended(kind: type) -> type:
    """Return the dataclass that one of a command's own extends, or itself: their options stand together in the help."""
    *_, base = (parent for parent in kind.__mro__ if is_dataclass(parent))
    return base


def _panel_title(kind: type) -> str:
    """Return the heading of a dataclass's options in the help: the words of its name."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).capitalize()


def _option(parameter: Parameter, annotation: Any, texts: Texts, panel: str | None = None) -> Parameter:
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
    if isinstance(info, OptionInfo):
        info.rich_help_panel = info.rich_help_panel or panel
    if get_origin(kind) is tuple:
        info.parser, info.metavar = _list_parser(get_args(kind)[0]), "LIST"
        parameter = parameter.replace(default=",".join(map(str, parameter.default)))
    if get_origin(kind) in (tuple, Literal):  # the dataclass checks which words are allowed
        kind = str
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info])


def _list_parser(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that splits a list with commas, which Typer may have split already."""

    def split_list(given: Any) -> tuple[Any, ...]:
        if isinstance(given, tuple):
            return given
        try:
            return tuple(kind(word.strip()) for word in given.split(",") if word.strip() or kind is int)
        except ValueError:
            raise typer.BadParameter(f"{given!r}; give numbers such as 5,10,25") from None

    return split_list  # not a `partial`, which has no name for older versions of Typer
