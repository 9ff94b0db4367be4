"""The visitor's own answer on the page Predict: drawn beside the model's, and scored."""

from __future__ import annotations

import re

from helpers import pages
from helpers.pages import html, weights

FLASK = "C=CCBr.Oc1ccccc1.CN(C)C=O.O=C([O-])[O-].[K+].[K+]"
DRAWN = 'class="cs-argue"'


@weights
def test_an_own_product_is_argued_with_beside_an_answer() -> None:
    page = pages.open_page("predict", {"task": "forward", "smi": FLASK})
    control = next(item for item in page.segmented_control if "I think …" in item.options)
    control.select("I think …").run()
    (field,) = [item for item in page.text_input if item.label == "I think the product is"]
    assert DRAWN not in html(page)

    field.set_value("2-allylphenol").run()
    assert not page.exception
    text, words = html(page), pages.words(page)
    assert text.count("<figcaption><b>Yours</b>") == 1 and text.count("<figcaption><b>The model&#x27;s</b>") == 1
    assert text.count('cs-token cs-leaves"') == 1 and "the model chose" in words
    assert len(re.findall("<tr>", text.partition('class="cs-flips"')[2])) == 5
    assert "Records of yours" in words and "Records of the model's" in words

    field.set_value("C=CCOc1ccccc1").run()
    assert "Yours, and the model&#x27;s" in html(page) and "own first answer" in pages.words(page)
    field.set_value("CC(").run()
    assert not page.exception and "cs-fault" in html(page) and DRAWN not in html(page)
    field.set_value("[Og]").run()
    assert not page.exception and any("cannot be scored" in warning.value for warning in page.warning)
