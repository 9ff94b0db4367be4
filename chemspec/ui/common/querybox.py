"""The box a query is typed or pasted into: tells of every pause in typing and of Enter, and marks the characters at
fault.

Streamlit's own text boxes drop the line ends of a pasted molfile and cannot tell "typed so far" from "asked".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

MOST_CHARS = 100_000  # of a paste; the longest files that read_any takes are shorter

_HTML = """
<div class="box">
  <label for="text"></label>
  <div class="field">
    <div class="marks" aria-hidden="true"></div>
    <textarea id="text" rows="1" spellcheck="false" autocapitalize="off" autocomplete="off" autocorrect="off"></textarea>
    <button type="button" class="clear" aria-label="Clear the box" title="Clear">×</button>
  </div>
</div>
"""

_CSS = """
.box {font-family: var(--st-font); color: var(--st-text-color)}
label {display: block; font-size: .875rem; margin-bottom: .35rem}
.field {position: relative; border: 1px solid var(--st-border-color, rgba(128, 128, 128, .4)); border-radius: .6rem;
  background: var(--st-secondary-background-color); transition: border-color .15s}
.field:focus-within {border-color: var(--st-primary-color); box-shadow: 0 0 0 1px var(--st-primary-color)}
.field.bad:not(:focus-within) {border-color: var(--st-red-color, #c2410c)}
textarea, .marks {box-sizing: border-box; width: 100%; margin: 0; padding: .8rem 2.6rem .8rem .9rem; border: 0;
  font: 1rem/1.5 var(--st-code-font, ui-monospace, monospace); letter-spacing: 0; white-space: pre-wrap;
  overflow-wrap: anywhere; word-break: break-all; tab-size: 4}
textarea {position: relative; display: block; resize: none; outline: 0; background: transparent; color: inherit;
  max-height: 16rem; overflow-y: auto}
textarea::placeholder {color: var(--st-text-color); opacity: .55}
.marks {position: absolute; inset: 0; color: transparent; overflow: hidden; pointer-events: none}
mark {color: transparent; background: rgba(234, 88, 12, .22); border-radius: 2px;
  text-decoration: underline wavy #ea580c 2px; text-underline-offset: 4px; text-decoration-skip-ink: none}
.clear {position: absolute; top: .45rem; right: .45rem; width: 2.2rem; height: 2.2rem; border: 0; border-radius: .4rem;
  background: transparent; color: inherit; opacity: .6; font-size: 1.25rem; line-height: 1; cursor: pointer}
.clear:hover, .clear:focus-visible {opacity: 1; background: rgba(128, 128, 128, .18)}
.clear[hidden] {display: none}
"""

# `sent` is what Python knows; a timer is running while the box holds something else.
_JS = """
const PAUSE = 300
export default function ({data, parentElement, setStateValue, setTriggerValue}) {
  const find = (name) => parentElement.querySelector(name)
  const box = find("textarea"), field = find(".field"), marks = find(".marks"), clear = find(".clear")
  const own = box.chemspec ??= {revision: null, sent: "", timer: 0, stop: () => {}}
  own.stop()

  const fit = () => {
    box.style.height = "auto"
    box.style.height = box.scrollHeight + "px"
    clear.hidden = box.value === ""
    marks.scrollTop = box.scrollTop
  }
  const mark = (span) => {
    marks.replaceChildren()
    field.classList.toggle("bad", Boolean(span))
    box.setAttribute("aria-invalid", span ? "true" : "false")
    if (!span) return
    const blamed = document.createElement("mark")
    blamed.textContent = box.value.slice(span[0], Math.max(span[1], span[0] + 1)) || " "
    marks.append(box.value.slice(0, span[0]), blamed, box.value.slice(span[1]))
    marks.scrollTop = box.scrollTop
  }
  const send = () => {
    clearTimeout(own.timer)
    if (box.value === own.sent) return
    own.sent = box.value
    setStateValue("text", box.value)
  }
  const ask = () => {
    clearTimeout(own.timer)
    own.sent = box.value
    setTriggerValue("ask", box.value)
  }

  find("label").textContent = data.label
  box.placeholder = data.placeholder
  box.maxLength = data.longest
  if (own.revision !== data.revision) {
    clearTimeout(own.timer)
    own.revision = data.revision
    own.sent = box.value = data.text
  }
  fit()
  mark(data.span && data.text === box.value ? data.span : null)

  box.oninput = () => {
    fit()
    mark(null)
    clearTimeout(own.timer)
    own.timer = setTimeout(send, PAUSE)
  }
  box.onscroll = () => { marks.scrollTop = box.scrollTop }
  box.onblur = send
  box.onkeydown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return
    event.preventDefault()
    event.stopPropagation() // the page's button has the same shortcut
    ask()
  }
  clear.onclick = () => {
    box.value = ""
    fit()
    mark(null)
    send()
    box.focus()
  }
  const resized = new ResizeObserver(fit)
  resized.observe(field)
  const moved = () => setTriggerValue("moved", location.search)
  window.addEventListener("popstate", moved)
  own.stop = () => {
    resized.disconnect()
    window.removeEventListener("popstate", moved)
  }
  return own.stop
}
"""


@dataclass(frozen=True)
class Shown:
    """What the box shows.

    Attributes:
        revision: goes up when the program, not the visitor, changes the text; only then the box takes it over.
        span: characters [start, end) of `text` to mark.
    """

    label: str
    placeholder: str
    text: str
    revision: int
    span: tuple[int, int] | None = None


def querybox(
    shown: Shown,
    *,
    key: str,
    typed: Callable[[str], None],
    asked: Callable[[str], None],
    moved: Callable[[], None] = lambda: None,
) -> None:
    """Put the box on the page.

    Args:
        typed: gets the text after a pause in typing.
        asked: gets the text when Enter is pressed.
        moved: called when the visitor has gone back or forward. The query parameters alone do not tell: a click may be
            on its way with the old ones while the script sets new ones.
    """

    def value(name: str) -> str:
        text = (st.session_state.get(key) or {}).get(name) or ""
        return str(text)[:MOST_CHARS]

    _component()(
        key=key,
        data={
            "label": shown.label,
            "placeholder": shown.placeholder,
            "text": shown.text,
            "revision": shown.revision,
            "span": shown.span,
            "longest": MOST_CHARS,
        },
        on_text_change=lambda: typed(value("text")),
        on_ask_change=lambda: asked(value("ask")),
        on_moved_change=moved,
    )


@st.cache_resource(show_spinner=False)
def _component():  # type: ignore[no-untyped-def]
    """Registered once a server."""
    return st.components.v2.component("chemspec_querybox", html=_HTML, css=_CSS, js=_JS)
