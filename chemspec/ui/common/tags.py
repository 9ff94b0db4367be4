"""HTML elements; text and attributes are escaped."""

from html import escape


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
