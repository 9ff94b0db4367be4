"""Layout of a replay as a picture: texts, boxes and molecules with the times at which they appear.

The picture has a title, query and answer as drawings, and for each lane a bar of its passes and the tokens that they
emitted. Lengths are in pixels.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from chemspec.depict import canvas
from chemspec.depict.canvas import Item, Picture
from chemspec.depict.molecules import Depiction
from chemspec.replay.timing import LEGEND, Lane

WIDTH = 960
MARGIN = 28
CELL, LINE = 9.0, 26.0  # width of a character, height of a line of tokens
GAP, PADDING = 6.0, 2.5  # of two passes; of a framed token to its frame
MIN_CHARS = 8  # characters of the shortest run that is broken
BAR = 16.0  # height of a pass in the bar of passes
DRAWING = (400.0, 160.0)
PLAY_SECONDS, HOLD_SECONDS = 4.5, 1.5  # seconds of the slowest lane, and of the complete picture
RACE_SECONDS, TICK_SECONDS = 2.4, 0.15  # seconds of the slowest lane before a slow pass, and of each of its tokens
MAX_TOKENS = 600  # tokens of all lanes together
FORMATS = (".svg", ".webp", ".gif")


class Palette(NamedTuple):
    """Colours of a replay."""

    page: str
    text: str
    faint: str
    pending: str
    accent: str
    copied: str
    drafted: str


class SlowPass(NamedTuple):
    """A pass that is shown in slow motion."""

    number: int  # of the pass, from 1
    draft: Sequence[str]  # its tokens
    accepted: int  # how many of them are, fewer than all
    own: str  # the model's token in place of the first rejected one


LIGHT = Palette("#ffffff", "#12201e", "#5a6b68", "#dfe7e5", "#0b6b63", "#bfe5de", "#cfdff7")
DARK = Palette("#0e1514", "#e6efed", "#9aaba8", "#26322f", "#5fd4c4", "#1d544d", "#24406b")


def build_picture(
    lanes: Sequence[Lane],
    *,
    title: str,
    query: str,
    answer: str,
    conclusion: str,
    dark: bool = False,
    slow_pass: SlowPass | None = None,
) -> Picture:
    """Lay out a replay; ValueError if the lanes have more than `MAX_TOKENS` tokens.

    The query is drawn on the left, the answer (SMILES, or empty) on the right when the fastest lane is done, the
    conclusion below the lanes when all are. With a `slow_pass` the lanes take less of the time, then it is drawn.
    """
    count = sum(len(lane.tokens) for lane in lanes)
    if count > MAX_TOKENS:
        raise ValueError(f"{count} tokens are too many for a picture; the limit is {MAX_TOKENS}")
    palette = DARK if dark else LIGHT
    play = RACE_SECONDS if slow_pass else PLAY_SECONDS
    scale = play / max(lane.milliseconds for lane in lanes)
    first_done = scale * min(lane.milliseconds for lane in lanes)
    items = [Item(MARGIN, 18, WIDTH - 2 * MARGIN, 28, text=title, size=19, bold=True, fill=palette.text)]
    items += _draw_question(query, answer, first_done, palette)
    top = 66 + DRAWING[1]
    for lane in lanes:
        drawn = list(_draw_lane(lane, top, scale, play, palette))
        items += drawn
        top = max(item.top + item.height for item in drawn) + 22
    items += _draw_legend(lanes, top, palette)
    if slow_pass:
        drawn = list(draw_slow_pass(slow_pass, top + 40, play, palette))
        items += drawn
        top = max(item.top + item.height for item in drawn)
    closing = Item(
        MARGIN,
        top + 30,
        WIDTH - 2 * MARGIN,
        24,
        max(item.at for item in items),
        conclusion,
        15,
        True,
        fill=palette.accent,
    )
    description = f"{title}. " + " ".join(f"{lane.name}: {_lane_result(lane)}." for lane in lanes) + f" {conclusion}"
    items.append(closing)
    return Picture(WIDTH, top + 68, tuple(items), palette.page, PLAY_SECONDS + HOLD_SECONDS, description)


def _draw_question(query: str, answer: str, at: float, palette: Palette) -> Iterator[Item]:
    wide, high = DRAWING

    def molecule(smiles: str) -> Depiction:
        return Depiction(smiles, int(wide), int(high), dark=palette == DARK)

    middle = WIDTH / 2
    yield Item(middle - wide - 30, 52, wide, high, molecule=molecule(query))
    yield Item(middle - 18, 52 + high / 2 - 1, 28, 2, fill=palette.faint)
    yield Item(middle + 3, 52 + high / 2 - 15, 14, 29, text=">", size=20, fill=palette.faint)
    if answer:
        yield Item(middle + 30, 52, wide, high, at, molecule=molecule(answer))


def _lane_result(lane: Lane) -> str:
    count = len(lane.ends)
    time = f", {lane.milliseconds:.1f} ms" if lane.timed else ""
    return f"{len(lane.tokens)} tokens in {count} forward pass{'es' * (count != 1)}{time}"


def _draw_lane(lane: Lane, top: float, scale: float, play: float, palette: Palette) -> Iterator[Item]:
    inner = WIDTH - 2 * MARGIN
    done = scale * lane.milliseconds
    yield Item(MARGIN, top, inner / 2, 24, text=lane.name, size=16, bold=True, fill=palette.text)
    yield Item(MARGIN, top, inner, 24, done, _lane_result(lane), 15, True, anchor="end", fill=palette.accent)
    top += 30
    for start, end in pairwise((0.0, *lane.ends)):
        left, width = (inner * scale * time / play for time in (start, end - start))
        box = (MARGIN + left, top, max(1.0, width - 1.5), BAR)
        yield Item(*box, fill=palette.pending)
        yield Item(*box, at=scale * end, fill=palette.accent)
    yield from _draw_tokens(lane, top + BAR + 10, scale, palette)


def _draw_tokens(lane: Lane, top: float, scale: float, palette: Palette) -> Iterator[Item]:
    """Draw runs of tokens of one pass and one origin; a token of the model's own is outlined if others are drafted."""
    drafted = any(token.origin != "own" for token in lane.tokens)
    left, before = float(MARGIN), 1
    for (number, origin), run in groupby(lane.tokens, key=lambda token: (token.pass_number, token.origin)):
        text = "".join(token.text for token in run)
        gap, padding = GAP * (number != before), PADDING * (drafted and origin == "own")
        while text:
            room = int((WIDTH - MARGIN - left - gap) / CELL)
            if room < min(len(text), MIN_CHARS):
                left, top, gap = float(MARGIN), top + LINE + 4, 0.0
                continue
            part, text = text[:room], text[room:]
            box = (left + gap, top, CELL * len(part) + 2 * padding, LINE)
            at = scale * lane.ends[number - 1]
            fill, stroke = _origin_colors(origin, palette)
            yield Item(*box, at, fill=fill, stroke=stroke if drafted else "")
            yield Item(box[0] + padding, top, CELL * len(part), LINE, at, part, 15, mono=True, fill=palette.text)
            left, before, gap = left + gap + box[2], number, 0.0


def _origin_colors(origin: str, palette: Palette) -> tuple[str, str]:
    return {"own": ("", palette.accent), "copied": (palette.copied, ""), "ahead": (palette.drafted, "")}[origin]


def draw_slow_pass(shown: SlowPass, top: float, start: float, palette: Palette) -> Iterator[Item]:
    """Draw a pass: its draft, a tick below each accepted token, a cross below the first other one, the model's own."""
    title = f"Pass {shown.number} in slow motion: one call of the model checks the whole draft"
    yield Item(MARGIN, top, WIDTH - 2 * MARGIN, 24, text=title, size=16, bold=True, fill=palette.text)
    for row, name in enumerate(("draft", "right?", "kept")):
        yield Item(MARGIN, top + 32 + row * LINE, 60, LINE, start, name, 13, fill=palette.faint)
    left, at = MARGIN + 60.0, start + 3 * TICK_SECONDS
    for number, token in enumerate(shown.draft):
        width, accepted = CELL * len(token) + 12, number < shown.accepted
        fill = palette.copied if number <= shown.accepted else palette.pending
        yield Item(left, top + 32, width, LINE, start, fill=fill)
        yield Item(left + 6, top + 32, width - 12, LINE, start, token, 15, mono=True, fill=palette.text)
        if number <= shown.accepted:
            at += TICK_SECONDS
            middle = left + width / 2, top + 32 + 1.5 * LINE
            yield Item(0, 0, 0, 0, at, corners=_tick(*middle) if accepted else _cross(*middle), fill=palette.accent)
        if accepted:
            yield Item(left, top + 32 + 2 * LINE, width, LINE, at, fill=palette.copied)
            yield Item(left + 6, top + 32 + 2 * LINE, width - 12, LINE, at, token, 15, mono=True, fill=palette.text)
        if number == shown.accepted:
            corner, at = (left, top + 32 + 2 * LINE), at + 3 * TICK_SECONDS
            width = CELL * len(shown.own) + 12
            yield Item(*corner, width, LINE, at, stroke=palette.accent)
            yield Item(left + 6, corner[1], width - 12, LINE, at, shown.own, 15, mono=True, fill=palette.text)
            words = "the model's own token"
            yield Item(left + width + 10, corner[1], 200, LINE, at, words, 13, fill=palette.faint)
        left += width + 4


def _tick(x: float, y: float) -> tuple[tuple[float, float], ...]:
    return ((x - 6, y), (x - 4, y - 2), (x - 1, y + 1), (x + 5, y - 6), (x + 7, y - 4), (x - 1, y + 5))


def _cross(x: float, y: float) -> tuple[tuple[float, float], ...]:
    arms = ((0, -1.5), (4.5, -6), (6, -4.5), (1.5, 0), (6, 4.5), (4.5, 6), (0, 1.5), (-4.5, 6), (-6, 4.5), (-1.5, 0))
    return tuple((x + dx, y + dy) for dx, dy in (*arms, (-6, -4.5), (-4.5, -6)))


def _draw_legend(lanes: Sequence[Lane], top: float, palette: Palette) -> Iterator[Item]:
    left, origins = float(MARGIN), {token.origin for lane in lanes for token in lane.tokens}
    for origin in (origin for origin in LEGEND if origin in origins):
        fill, stroke = _origin_colors(origin, palette)
        yield Item(left, top + 3, 16, 16, fill=fill, stroke=stroke)
        yield Item(left + 24, top, 200, 22, text=LEGEND[origin], size=13, fill=palette.faint)
        left += 40 + 7.0 * len(LEGEND[origin])
    text = "a gap separates two forward passes"
    yield Item(left, top, 300, 22, text=text, size=13, fill=palette.faint)


def replay_bytes(picture: Picture, kind: str) -> bytes:
    """Return a replay as a file of a kind: "svg", "webp" or "gif"."""
    return canvas.to_svg(picture).encode() if kind == "svg" else canvas.to_frames(picture, kind)
