"""What a stranger writes into an address stays text, pages hardly shift, and reach no other host."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from helpers.thinned import every


@pytest.mark.parametrize("address", every(3, ["/", "/step", "/speed"]))
def test_a_hostile_query_is_text_wherever_it_is_shown(address: str, app: Any) -> None:
    """Markdown in a message would fetch an image from another host; `new_page` notices."""
    hostile = "C![x](http://192.0.2.1/x.png)<img src=http://192.0.2.1/y.png onerror=window.hit=1>(("
    page = app.open(f"{address}?task=retro&smi={quote(hostile)}")
    page.wait_for_timeout(1000)
    assert page.evaluate("window.hit") is None
    assert page.locator("[data-testid=stException]").count() == 0
    assert page.locator("img[src*='192.0.2.1']").count() == 0


SHIFTS = """
window.shifted = 0;
const add = one => {if (!one.hadRecentInput) window.shifted += one.value};
new PerformanceObserver(list => list.getEntries().forEach(add))
  .observe({type: "layout-shift", buffered: true});
"""


@pytest.mark.parametrize(
    ("address", "width", "height", "last"),
    [
        ("/", 390, 844, "More examples"),
        pytest.param("/", 1280, 800, "More examples", marks=pytest.mark.nightly),
        pytest.param("/models", 390, 844, "retro", marks=pytest.mark.nightly),
    ],
)
def test_the_first_load_hardly_shifts(address: str, width: int, height: int, last: str, app: Any, browser: Any) -> None:
    context = browser.new_context()  # in which no file of the page is known
    page = app.new_page(context, {"width": width, "height": height})
    page.add_init_script(SHIFTS)
    page.goto(f"{app.url}{address}")
    app.settle(page)
    page.get_by_role("heading", name=last, exact=True).wait_for()
    page.wait_for_function("!document.querySelector('[data-testid=stSkeleton]')")
    assert page.evaluate("window.shifted") < 0.05
    context.close()


def test_a_page_reaches_no_other_host_whatever_runs_in_it(server: Any, browser: Any) -> None:
    """All other browser tests run behind the same policy, and none of its pages may complain of it."""
    context = browser.new_context()
    page = context.new_page()
    response = page.goto(f"{server.url}/collections")
    assert response.headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'self'" in response.headers["content-security-policy"]
    stopped = page.evaluate(
        """async () => {
            const told = []
            document.addEventListener("securitypolicyviolation", event => told.push(event.effectiveDirective))
            await fetch("http://192.0.2.1/x").catch(() => 0)
            for (const [tag, name] of [["img", "src"], ["script", "src"], ["iframe", "src"]]) {
                const part = document.createElement(tag)
                part[name] = "http://192.0.2.1/x"
                document.body.append(part)
            }
            while (told.length < 4) await new Promise(done => setTimeout(done, 20))
            return told.sort()
        }"""
    )
    assert stopped == ["connect-src", "frame-src", "img-src", "script-src-elem"]
    context.close()
