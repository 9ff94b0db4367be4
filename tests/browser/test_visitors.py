"""Ten visitors at once: everybody gets the answer to the own question."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from chemspec.engine.engine import Engine, installed_models
from chemspec.settings import DecodeSettings

# Amides of benzylamine with ten acids: each answer names its own acid and nobody else's.
ACIDS = ["C", "CC", "CCC", "C1CC1", "c1ccccc1", "c1ccc(F)cc1", "c1ccc(Cl)cc1", "c1ccc(OC)cc1", "c1ccncc1", "c1ccsc1"]
QUERIES = [f"O=C(NCc2ccc(Br)cc2){acid}" for acid in ACIDS]


def visit(app: Any, pages: list[Any]) -> list[tuple[str, float]]:
    """All pages ask at once, each its own question; first answers, and seconds from the call to the drawn answer."""
    began = time.time()
    for page, query in zip(pages, QUERIES, strict=True):
        page.goto(f"{app.url}/?task=retro&smi={quote(query)}", wait_until="commit")
    found = []
    for page in pages:
        first = page.locator("[data-testid=stCode]").first
        first.wait_for(timeout=300_000)
        seconds = time.time() - began
        app.settle(page)  # cards need not appear in their order
        found.append((first.inner_text().strip(), seconds))
        assert page.locator("[data-testid=stException]").count() == 0
    return found


@pytest.mark.weights
@pytest.mark.skipif("retro" not in {path.name for path in installed_models()}, reason="no retro model")
def test_ten_visitors_get_their_own_answers(capsys: pytest.CaptureFixture[str], app: Any) -> None:
    """Ten browser contexts in one browser: ten browsers would measure the machine, not the server."""
    pages = [app.new_page() for _ in QUERIES]
    found = visit(app, pages)
    engine = Engine.load("retro")
    results = engine.predict(QUERIES, DecodeSettings(n=5))
    expected = [result.hypotheses[0].canonical for result in results]
    assert len(set(expected)) == len(QUERIES)
    assert [answer for answer, _ in found] == expected
    status = Path(f"/proc/{app.server.process.pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    last = max(seconds for _, seconds in found)
    with capsys.disabled():  # figures to read, not to assert: they depend on the machine
        sys.stdout.write(f"\nten visitors: all drawn after {last:.1f} s; {peak:.0f} MB\n")
    assert peak < 3000
