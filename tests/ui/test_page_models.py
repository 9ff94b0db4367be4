"""Model folders as cards: right about good ones, plain about broken ones, harmed by none."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from helpers import pages
from helpers.paths import ROOT, TESTS

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.engine.engine import installed_models
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig
from chemspec.system import gpu
from chemspec.tokenizer import SPECIALS, Tokenizer
from chemspec.ui.common import escaping, nav, queued_engine
from chemspec.ui.models import cards

TOKENS = Tokenizer((*SPECIALS, "C", "O", "N", "(", ")", "=", "1", "."))
CARD = """# tiny: a test

Made of nothing.

## Accuracy

| top-9 | 99% |

## Known failures

![a picture](http://evil.example/a.png) and <script>alert(1)</script>
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models folder with one good model, `tiny`."""
    config = ModelConfig(
        vocab_size=len(TOKENS), d_model=16, heads=2, feedforward=24, encoder_layers=1, decoder_layers=1
    )
    checkpoint.save(tmp_path / "tiny", Transformer(config), TOKENS, task="retro")
    (tmp_path / "tiny" / "card.md").write_text(CARD)
    shutil.copy(TESTS / "ui" / "evaluation.json", tmp_path / "tiny")
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path))
    return tmp_path


def test_a_good_folder_is_told_as_it_is(home: Path) -> None:
    (card,) = cards.list_model_cards()
    loaded = checkpoint.load(home / "tiny")
    assert (card.name, card.task, card.problem) == ("tiny", "retro", "")
    assert card.digest == loaded.digest
    size = sum(file.stat().st_size for file in (home / "tiny").iterdir())
    parameters = sum(one.numel() for one in loaded.model.parameters())
    assert card.facts[0] == ("Size", f"{parameters / 1e6:.1f} M parameters, {size / 1000:.1f} kB on disk")
    assert card.facts[2] == ("Vocabulary", f"{len(TOKENS)} tokens")
    assert card.title == "tiny: a test"
    assert [name for name, _ in card.sections] == ["", "Accuracy", "Known failures"]
    assert card.accuracy == (("top-1", 48.5, 45.4, 51.6), ("top-5", 74.0, 74.0, 74.0))
    assert card.classes == (("Ring <b>closure", 40, (("top-1", 50.0, 35.0, 65.0), ("top-5", 90.0, 77.0, 96.0))),)
    assert "| Ring \\<b\\>closure | 40 | 50 % (35 to 65) | 90 % (77 to 96) |" in cards.class_table(card)
    assert "1 + 1 layers, width 16" in cards.describe_architecture(loaded.model.config)
    facts = cards.facts_table(card, None)
    assert facts.index("| Accuracy, top-1 |") < facts.index("| Size |") < facts.index("| Fingerprint |")


FAULTS: list[tuple[str, bytes | dict[str, Any] | None, str]] = [  # a file, what it holds instead, and what is told
    ("config.json", None, "config.json is missing"),
    ("config.json", b"{", "config.json"),
    ("model.safetensors", b"nonsense", "cannot be read"),
    ("model.safetensors", struct.pack("<Q", 2**62) + b"{}", "cannot be read"),
    ("vocab.json", json.dumps([*SPECIALS, "C"]).encode(), "vocab"),
    ("config.json", {"task": "sing"}, "task 'sing'"),
    ("config.json", {"d_model": 32}, "shape"),
    ("config.json", {"encoder_layers": 10**9}, "between 0 and 256"),
    ("config.json", {"colour": "red"}, "colour"),
]


@pytest.mark.parametrize(("name", "held", "words"), FAULTS, ids=[words for *_, words in FAULTS])
def test_a_broken_folder_says_what_is_wrong_and_harms_no_other(home: Path, name: str, held: Any, words: str) -> None:
    shutil.copytree(home / "tiny", home / "a_broken_one")
    file = home / "a_broken_one" / name
    if held is None:
        file.unlink()
    elif isinstance(held, dict):
        file.write_text(json.dumps(json.loads(file.read_text()) | held))
    else:
        file.write_bytes(held)
    good, broken = cards.list_model_cards()  # the usable ones first
    assert (good.name, good.problem) == ("tiny", "")
    assert broken.name == "a_broken_one"
    assert words in broken.problem
    assert broken.title == "tiny: a test"  # what can be read is told


def test_a_folder_is_read_again_when_it_changed(home: Path) -> None:
    assert cards.list_model_cards()[0].problem == ""
    (home / "tiny" / "model.safetensors").write_bytes(b"nonsense")
    assert cards.list_model_cards()[0].problem
    shutil.rmtree(home / "tiny")
    assert cards.list_model_cards() == []


@pytest.mark.parametrize(
    "text",
    ["![x](http://a.b/c.png)", "!![x](http://a.b/c.png)", "a ![x][y]\n\n[y]: http://a.b/c.png", "!!![![x](u)](v)"],
)
def test_no_image_is_left_in_a_card(text: str) -> None:
    assert "![" not in escaping.without_images(text)


def test_headings_stand_below_those_of_the_page() -> None:
    assert escaping.without_images("# one\n\n### two\n#three", under=3) == "#### one\n\n###### two\n#three"


# --- the page -------------------------------------------------------------------------------------


@pytest.mark.ui
def test_the_page_shows_good_and_broken(home: Path) -> None:
    hostile = "<img src=x onerror=alert(1)> ![x](y)"
    shutil.copytree(home / "tiny", home / hostile)
    (home / hostile / "model.safetensors").write_bytes(b"nonsense")
    app = pages.open_page("models")
    words = " ".join(item.value for item in app.markdown)
    assert "cannot be used" in words and "loaded at first use" in words
    assert any("cannot be read" in item.value for item in app.code)
    assert not any("![" in item.value for item in (*app.markdown, *app.subheader))
    assert escaping.plain_text(hostile) in [item.value for item in app.subheader]
    queued_engine.load_engine("tiny")
    app.run()
    words = " ".join(item.value for item in app.markdown)
    assert "computing in fp32" in words and "A pass over one new token takes" in words


@pytest.mark.ui
def test_without_models_the_page_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path / "nothing"))
    app = pages.open_page("models")
    assert "chemspec train" in app.info[0].value


@pytest.mark.ui
@pytest.mark.weights
def test_the_shipped_models_are_whole() -> None:
    if not installed_models():
        pytest.skip("no model in assets/models")
    for folder in installed_models():
        card = cards.read_model_card(folder)
        assert not card.problem
        assert len(card.accuracy) >= 3
        assert any(name.startswith("Known failures") for name, _ in card.sections)


@pytest.mark.ui
def test_a_gpu_without_torch_is_shown_once_by_the_app_and_always_by_the_page(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(gpu, "device_count", lambda: 1)
    monkeypatch.setattr(gpu, "gpu_count", lambda: 0)
    monkeypatch.setattr("chemspec.system.extras.is_installed", lambda name: name != "torch")
    nav.unseen_notices.clear()
    shown = []
    for _ in range(2):
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=240).run()
        assert not app.exception
        shown.append([item.value.replace("\\", "") for item in app.toast])
    nav.unseen_notices.clear()  # as after a new start of the app
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=240).run()
    assert len(shown[0]) == 1 and "chemspec-smiles[torch]" in shown[0][0] and "GPU" in shown[0][0]
    assert not shown[1] and not app.toast
    for _ in range(2):
        assert "chemspec-smiles[torch]" in pages.words(pages.open_page("models"))
    monkeypatch.setattr(gpu, "gpu_count", lambda: 1)
    assert "chemspec-smiles[torch]" not in pages.words(pages.open_page("models"))
