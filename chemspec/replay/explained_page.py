"""An explained answer as one HTML file that works anywhere, and its race as a film of six seconds.

The file needs no server and no network, and its policy forbids both.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from html import escape
from typing import Any

from chemspec.asset_files import assets_folder
from chemspec.depict.colors import SPANS
from chemspec.replay import picture
from chemspec.replay.picture import SlowPass
from chemspec.replay.timing import Lane
from chemspec.types import DecodeResult

PAGE_STYLE = """
html {background: light-dark(#f6f8f7, #0e1514); color-scheme: light dark}
body {margin: 0; padding: 28px clamp(14px, 4vw, 40px) 80px}
"""
MAX_SHOWN = 24  # tokens of a draft in slow motion
START = 'explain({data: JSON.parse(document.getElementById("data").textContent), parentElement: document.body});\n'


def explanation_page(explained: Mapping[str, Any]) -> str:
    """Return a page of its own for what `explain_answer` returns."""
    data = {**explained, "colors": SPANS, "level": 1}
    folder = assets_folder() / "web"
    style = (folder / "explain.css").read_text(encoding="utf-8") + PAGE_STYLE
    script = (folder / "explain.js").read_text(encoding="utf-8") + START
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    values = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    title = f"{explained['answer']['smiles']}: {len(explained['passes'])} passes"
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n"
        '<main id="explain"></main>\n'
        f'<script type="application/json" id="data">{values}</script>\n'
        f'<script type="module">{script}</script>\n</html>\n'
    )


def explanation_film(result: DecodeResult, explained: Mapping[str, Any], kind: str, *, dark: bool = False) -> bytes:
    """Return the race of a greedy answer and one of its passes in slow motion as a picture: "svg", "webp" or "gif"."""
    drafted = Lane.from_result("With drafts", result).without_times()
    alone = tuple(replace(token, origin="own", pass_number=k) for k, token in enumerate(drafted.tokens, 1))
    standard = Lane("One token a pass", alone, tuple(map(float, range(1, len(alone) + 1))), timed=False)
    drawn = picture.build_picture(
        [standard, drafted],
        title=f"{len(drafted.ends)} passes instead of {len(alone)}",
        query=result.smiles,
        answer=result.hypotheses[0].canonical,
        conclusion=explained["lead"],
        dark=dark,
        slow_pass=choose_slow_pass(explained),
    )
    return picture.replay_bytes(drawn, kind)


def choose_slow_pass(explained: Mapping[str, Any]) -> SlowPass | None:
    """Return the pass that accepts most of a draft, but not all of it; None without one."""
    cut = [(row["accepted"], -number) for number, row in enumerate(explained["passes"])
           if len(row["draft"]) > row["accepted"]]  # fmt: skip
    if not cut:
        return None
    number = -max(cut)[1]
    row = explained["passes"][number]
    draft, accepted = row["draft"][:MAX_SHOWN], row["accepted"]
    if accepted >= len(draft):
        return None
    return SlowPass(number + 1, draft, accepted, explained["answer"]["tokens"][row["done"] + accepted]["text"])


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
