"""The texts of the page How it works, its worked examples, and their pictures in the frames of the trace player.

The examples are traces recorded from the shipped models, never made up; assets/learn/README.md has the commands.
"""

import re
from functools import cache

from chemspec.asset_files import assets_folder
from chemspec.replay.trace_view import view_trace
from chemspec.types import DecodeResult, result_from_json
from chemspec.ui.step.trace_player import Frame, show_figure

MAX_GAMMA = 24  # longest draft considered; the drafter `auto` goes no further


@cache
def recorded_example(name: str) -> DecodeResult:
    """Return a recorded answer from assets/examples/learn."""
    text = (assets_folder() / "examples" / "learn" / f"{name}.json").read_text(encoding="utf-8")
    return result_from_json(text)


@cache
def text_sections(name: str) -> tuple[tuple[str, str], ...]:
    """Return the sections of a text in assets/learn as (title, Markdown)."""
    parts = re.split(r"^## +(.+)$", read_text(name), flags=re.MULTILINE)[1:]
    return tuple(zip(parts[::2], (body.strip() for body in parts[1::2]), strict=True))


@cache
def read_text(name: str) -> str:
    """Return a text in assets/learn that has no sections."""
    return (assets_folder() / "learn" / f"{name}.md").read_text(encoding="utf-8")


# --- pictures --------------------------------------------------------------------------------------


def draw_certainty() -> None:
    """Draw a query, its answer, and how sure the model was of every token."""
    result = recorded_example("boc-copy")
    query, answer = "".join(result.trace.query), result.hypotheses[0].smiles
    alt = f"The query {query} becomes {answer}; a bar over each of its tokens shows the model's probability."
    show_figure([result], [Frame(("pictures", "certainty"), style="wide plain")], alt=alt, key="learn_certainty")


def draw_race() -> None:
    """Draw the same answer pass by pass, without drafts and with them."""
    results = [recorded_example("boc-none"), recorded_example("boc-copy")]
    standard, drafted = (len(result.trace.passes) for result in results)
    alt = f"Standard decoding writes one token in each of {standard} passes; with drafts {drafted} passes suffice."
    lanes = [
        Frame(("lane",), scene=scene, title=title, style="wide lanes")
        for scene, title in enumerate(("Standard", "With drafts"))
    ]
    below = Frame(("legend", "replay"), scene=1, style="wide", whole=True)
    show_figure(results, [*lanes, below], alt=alt, key="learn_race")


def draw_origins() -> None:
    """Draw which pieces of the query the answer was copied from."""
    result = recorded_example("boc-copy")
    tokens = view_trace(result).answers[0].tokens
    copied = [token for token in tokens if token.origin == "copied"]
    runs = len({token.run for token in copied})
    alt = f"{len(copied)} of the answer's {len(tokens)} tokens are copied from the query, in {runs} fragments."
    parts = ("pictures", "query", "answer", "hint", "legend")
    show_figure([result], [Frame(parts, style="wide", whole=True)], alt=alt, key="learn_origins")


def draw_storyboard() -> None:
    """Draw every pass of a greedy answer: the draft, lit in the query, and what became of it."""
    result = recorded_example("boc-copy")
    passes = view_trace(result).passes
    parts = ("summary", "picture", "drafts", "answer")
    cards = [Frame(parts, step=number, style="card") for number in range(1, len(passes) + 1)]
    alt = " ".join(step.summary for step in passes)
    show_figure([result], [*cards, Frame(("legend",), style="wide")], alt=alt, key="learn_storyboard")


def draw_beams() -> None:
    """Draw the tree of a beam search to play through."""
    standard = recorded_example("amide-beam-none")
    answers = "; ".join(f"{rank}: {answer.smiles}" for rank, answer in enumerate(standard.hypotheses, 1))
    parts = ("controls", "summary", "tree")
    show_figure([standard], [Frame(parts, style="wide")], alt=f"Tree of the answers: {answers}", key="learn_beams")


# One for every section of assets/learn/idea.md, in its order; where there is none, the text has a table.
IDEA = (draw_certainty, draw_race, draw_origins, draw_storyboard, None, draw_beams, None, None)
