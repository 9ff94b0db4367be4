"""HTML elements with escaped text and attributes, and untrusted text in Streamlit's Markdown."""

import re
from html import escape

# A full stop between digits means nothing in Markdown; one after a number at the beginning makes it a list.
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-!|$~:&=^\"']|(?<![0-9])\.|\.(?![0-9]))")
_HEADING = re.compile(r"^ {0,3}(#{1,6})(?=[ \t])", flags=re.MULTILINE)


class Html(str):
    """HTML, which is not escaped again."""


def join(*parts: str) -> Html:
    """Return parts one after the other; those that are no `Html` are escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def tag(name: str, *children: str, **attributes: str) -> Html:
    """Return an element.

    Args:
        name: such as "span", maybe with classes: "span.cs-ok".
        children: elements and text.
        attributes: with _ for a hyphen; empty ones are left out.
    """
    name, *classes = name.split(".")
    named = {"class": " ".join(classes), **attributes}
    written = "".join(f' {key.replace("_", "-")}="{escape(value)}"' for key, value in named.items() if value)
    return Html(f"<{name}{written}>" + ("" if name in ("br", "img", "wbr") else f"{join(*children)}</{name}>"))


def plain_text(text: str) -> str:
    """Return text as one line in which all Markdown is escaped."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def without_images(text: str, *, under: int = 0) -> str:
    """Return Markdown with images turned into links, so that no browser fetches them."""
    text = re.sub(r"!+(?=\[)", "", text)
    return _HEADING.sub(lambda match: "#" * min(6, len(match[1]) + under), text)
