"""Replays as pictures: complete, safe in any page, the same in all formats, and true to the recorded runs."""

from __future__ import annotations

import re
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.small import QUERIES
from PIL import Image
from typer.testing import CliRunner

from chemspec.cli.__main__ import app
from chemspec.depict import canvas
from chemspec.replay import picture
from chemspec.replay.timing import Lane
from chemspec.replay.trace_view import TokenView

SVG = "{http://www.w3.org/2000/svg}"
STANDARD = Lane(
    "standard", tuple(TokenView(text, "own", at) for at, text in enumerate("CCO<", 1)), (10.0, 20.0, 30.0, 40.0)
)
DRAFTED = Lane(
    "speculative",
    (*[TokenView("C", "copied", 1)] * 2, TokenView("O", "own", 1), TokenView("<", "ahead", 2)),
    (12.0, 24.0),
)


def build(dark: bool = False, **changes: str) -> canvas.Picture:
    texts = {"title": "a <b> title", "query": "CCO", "answer": "CC=O", "conclusion": "identical & fast"} | changes
    return picture.build_picture([STANDARD, DRAFTED], dark=dark, **texts)


def test_items_appear_when_their_pass_ended() -> None:
    made = build()
    tokens = [(item.text, round(item.at, 3)) for item in made.items if item.mono]
    # The slowest lane takes four and a half seconds.
    assert tokens == [("C", 1.125), ("C", 2.25), ("O", 3.375), ("<", 4.5), ("CC", 1.35), ("O", 1.35), ("<", 2.7)]
    bars = [
        item for item in made.items if item.height == picture.BAR and not item.molecule and item.width != picture.BAR
    ]
    assert len(bars) == 2 * (4 + 2) and [item.at for item in bars[::2]] == [0] * 6
    drawings = {item.molecule.smiles: item.at for item in made.items if item.molecule}
    assert drawings == {"CCO": 0, "CC=O": pytest.approx(2.7)}
    assert [item.at for item in made.items if item.text == "identical & fast"] == [4.5]
    assert "standard: 4 tokens in 4 forward passes, 40.0 ms." in made.description
    assert "speculative: 4 tokens in 2 forward passes, 24.0 ms." in made.description


def test_a_token_without_a_frame_has_none_on_a_dark_page_either() -> None:
    page = picture.DARK.page
    drawn = canvas.Picture(40, 40, (canvas.Item(5, 5, 30, 30),), page)
    frame = Image.open(BytesIO(canvas.to_png(drawn)))
    assert frame.getcolors() == [(80 * 80, tuple(bytes.fromhex(page[1:])))]


def test_lanes_without_times_are_drawn_pass_by_pass() -> None:
    lanes = [lane.without_times() for lane in (STANDARD, DRAFTED)]
    made = picture.build_picture(lanes, title="t", query="C", answer="", conclusion="c")
    assert [round(item.at, 2) for item in made.items if item.mono] == [1.12, 2.25, 3.38, 4.5, 1.12, 1.12, 2.25]
    assert " ms" not in made.description + "".join(item.text for item in made.items)


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_leaves_the_picture_or_overlaps(dark: bool) -> None:
    texts = tuple(TokenView("C" * (1 + at % 7), "copied" if at % 3 else "own", 1 + at // 2) for at in range(200))
    lanes = [Lane("standard", texts, tuple(float(end) for end in range(1, 101))), DRAFTED]
    made = picture.build_picture(lanes, title="t", query="C", answer="", conclusion="c", dark=dark)
    for item in made.items:
        assert 0 <= item.left <= item.left + item.width <= made.width
        assert 0 <= item.top <= item.top + item.height <= made.height
    boxes = [(item.left, item.top, item.width) for item in made.items if item.mono]
    for (left, top, width), (other, below, _) in pairwise(boxes):
        assert below > top or other >= left + width - 1e-6
    assert "".join(item.text for item in made.items if item.mono) == "".join(
        token.text for lane in lanes for token in lane.tokens
    )


def test_an_svg_is_safe_and_repeats() -> None:
    root = ElementTree.fromstring(canvas.to_svg(build(query="C<script>", title='"><script>alert(1)</script>')))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "title", "style", "rect", "g", "path", "text", "ellipse", "polygon", "circle"
    }  # fmt: skip
    assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)
    style = root.findtext(f"{SVG}style") or ""
    names = set(re.findall(r"@keyframes (t\d+)\{", style))
    used = {element.get("class") for element in root.iter() if (element.get("class") or "").startswith("t")}
    assert used == names and len(names) > 4 and "prefers-reduced-motion" in style
    assert "url(" not in style and "@import" not in style


@pytest.mark.parametrize("kind", ["webp", "gif"])
def test_frames_are_those_of_the_changes(kind: str) -> None:
    made = build(dark=kind == "gif")
    with Image.open(BytesIO(canvas.to_frames(made, kind))) as film:
        durations = []
        for number in range(film.n_frames):
            film.seek(number)
            film.load()
            durations.append(film.info["duration"])
        assert film.size == (round(made.width), round(made.height))
        assert film.n_frames == len({item.at for item in made.items} | {0.0})  # none of them within a tenth of a second
        assert sum(durations) == pytest.approx(1e3 * made.seconds, abs=10 * len(durations))
        assert film.info.get("loop") == 0


def test_too_many_tokens_are_refused() -> None:
    lane = Lane("standard", (TokenView("C", "own", 1),) * 601, (1.0,))
    with pytest.raises(ValueError, match="601 tokens are too many for a picture"):
        picture.build_picture([lane], title="", query="C", answer="", conclusion="")


@pytest.mark.parametrize("suffix", [".svg", ".gif", ".html"])
def test_the_command_writes_a_picture(
    suffix: str, tiny_retro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tiny_retro.parent))
    out = tmp_path / f"a{suffix}"
    done = CliRunner().invoke(app, ["race", QUERIES[1], "-o", str(out), "--dark"])
    assert (done.exit_code, "identical: yes" in done.stdout) == (0, True), done.stderr
    assert out.stat().st_size > 1000
    assert CliRunner().invoke(app, ["race", "C(", "-o", str(out)]).exit_code == 1
    for words in (["-o", str(tmp_path / "a.png")], ["-o", str(out), "-n", "2"], ["--dark"]):
        assert CliRunner().invoke(app, ["race", "C", *words]).exit_code == 2
