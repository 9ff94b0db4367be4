"""A question as one line of text, such as `chemspec:plan?smi=CCO&depth=3`, which needs no server to be asked again.

The app takes it in the box of any page, the command line as the argument of `predict` or `plan`, a QR code holds it.
Fields have the names of the app's addresses and of the options; blanks and line breaks within a text do not count.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

MARK = "chemspec:"
MAX_CHARS = 50_000  # characters
FIELDS = {
    "predict": ("task", "smi", "model", "guide", "n", "decoder", "drafter", "max_len", "augment"),
    "plan": (
        *("smi", "use", "drop", "keep", "through", "avoid", "stock", "order", "model", "n", "check"),
        *("seconds", "within", "expansions", "depth", "routes"),
    ),
}  # keyed by page, which is also the command
_SEVERAL = frozenset(("use", "drop", "keep", "avoid", "stock"))
_NAMES = frozenset(("task", "model", "decoder", "drafter", "stock", "order"))  # no paths: anyone may have written it
_NAME = re.compile(r"[\w][\w.+ -]{0,99}")
# What stays as it is: shells (in single quotes) and chat programs do not change it.
_SAFE = "()[]=@/:,;.-_!?$|{}^~*"


@dataclass(frozen=True)
class QuestionText:
    """A question: the page that answers it, and its fields, some of which can have several values."""

    page: str
    fields: Mapping[str, tuple[str, ...]]

    def __str__(self) -> str:
        pairs = [f"{name}={quote(value, safe=_SAFE)}" for name, values in self.fields.items() for value in values]
        return f"{MARK}{self.page}?{'&'.join(pairs)}"

    def first(self, name: str) -> str:
        """Return the first value of a field; empty where it has none."""
        return next(iter(self.fields.get(name, ())), "")


def make_question(page: str, fields: Mapping[str, object]) -> QuestionText:
    """Return a question; fields without a value are left out, and lists have several."""
    texts = {name: tuple(map(str, _listed(value))) for name, value in fields.items() if value not in ("", None)}
    return QuestionText(page, {name: values for name, values in texts.items() if values})


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else (value,)


def is_question(text: str) -> bool:
    """Return whether a text claims to be a question."""
    return text.lstrip("\ufeff \t\r\n'\"<`").startswith(MARK)


def is_name(text: str) -> bool:
    """Return whether a text is a name, as of a model or list, and no path."""
    return bool(_NAME.fullmatch(text))


def read_question(text: str) -> QuestionText:
    """Parse a question; ValueError, with the reason, for a text that is none."""
    if len(text) > MAX_CHARS:
        raise ValueError(f"{len(text)} characters are too many for a {MARK} text")
    head, _, rest = "".join(text.split()).strip("\ufeff'\"<>`").removeprefix(MARK).partition("?")
    if head not in FIELDS:
        raise ValueError(f"a text of chemspec begins with {' or '.join(f'{MARK}{page}?' for page in FIELDS)}")
    fields: dict[str, tuple[str, ...]] = {}
    for pair in filter(None, rest.split("&")):
        name, _, quoted = pair.partition("=")
        value = unquote(quoted)
        if name not in FIELDS[head]:
            raise ValueError(f"this version reads no {name[:40]!r} in a text that begins with {MARK}{head}")
        if name in fields and name not in _SEVERAL:
            raise ValueError(f"the text has {name!r} twice")
        if name in _NAMES and not is_name(value):
            raise ValueError(f"{name} is {value[:40]!r}; a {MARK} text has names there, no paths or code")
        fields[name] = (*fields.get(name, ()), value)
    if not fields.get("smi", ("",))[0].strip():
        raise ValueError(f"the text has no molecule; it goes on like {MARK}{head}?smi=CCO")
    return QuestionText(head, fields)


def read_number(question: QuestionText, name: str, kind: type[float]) -> float | None:
    """Return the number of a field; None where it has none, ValueError where it is none."""
    if not (text := question.first(name)):
        return None
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name} is {text[:40]!r} in the {MARK} text; it must be a number") from None
