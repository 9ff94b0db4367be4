"""Every page opens by its address, and axe finds nothing serious there; and on a phone the menu gets out of the way.

axe-core comes with the sketcher from npm, see hatch_build.py; or name its axe.min.js in CHEMSPEC_AXE.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import ROOT
from helpers.thinned import every

from chemspec.ui import launch
from chemspec.ui.common import nav

AXE = Path(os.environ.get("CHEMSPEC_AXE", ROOT / "assets/vendor/axe/axe.min.js"))
PATIENCE = 20  # seconds until what axe finds is there to stay
SERIOUS = """async () => (await axe.run({resultTypes: ["violations"]})).violations
  .filter(found => ["serious", "critical"].includes(found.impact))
  .map(found => found.id + ": " + found.nodes.map(node => node.html.slice(0, 200)).join(" | "))"""
PAGES = ("/?task=retro&smi=CC(%3DO)Nc1ccccc1", "/", *(f"/{name}" for name, _ in nav.PAGES[1:]))
DEPTHS = tuple(f"/learn?depth={name}" for name in launch.DEPTHS)


@pytest.mark.parametrize("address", every(2, PAGES + DEPTHS))
def test_a_page_opens_by_its_address_and_axe_finds_nothing_serious(address: str, app: Any) -> None:
    """Nor where the scheme changes while the page is open, as systems do in the evening."""
    page = app.open(address, color_scheme="light")
    assert page.locator("[data-testid=stException]").count() == 0
    name = address.partition("?")[0].strip("/") or nav.PAGES[0][0]
    assert page.title() == "chemspec" or dict(nav.PAGES)[name] in page.title()
    for _, title in nav.PAGES:
        assert page.get_by_role("link", name=title, exact=True).count() >= 1
    if not AXE.is_file():
        pytest.skip("no axe-core here: python hatch_build.py")
    page.wait_for_load_state("networkidle")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert serious(page) == []
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.documentElement.style.colorScheme === 'dark'")
    app.settle(page)
    assert serious(page) == []


def serious(page: Any) -> list[str]:
    ends = time.monotonic() + PATIENCE
    while (found := page.evaluate(SERIOUS)) and time.monotonic() < ends:
        page.wait_for_timeout(500)  # a part that fades in has no contrast yet
    return list(found)


def test_on_a_phone_the_menu_closes_when_a_page_is_chosen(app: Any) -> None:
    page = app.open(viewport={"width": 390, "height": 844})
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_role("link", name="How it works").click()
    page.wait_for_url("**/learn*")
    gone = "() => document.querySelector('[data-testid=stSidebar]')?.getBoundingClientRect().right ?? 0"
    page.wait_for_function(f"() => ({gone})() <= 0")
    page.reload()
    page.wait_for_selector("h1")
    page.wait_for_function(f"() => ({gone})() <= 0")
