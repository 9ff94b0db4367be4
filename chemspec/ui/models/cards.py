"""Model folders as plain values, harmless whatever lies there, and what the page Models shows of them."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st
from rich.filesize import decimal

from chemspec.chem.checks.flask_check import trap_score
from chemspec.engine.engine import Engine
from chemspec.engine.registry import installed_models, models_dir
from chemspec.evaluation.measurements import MEASUREMENTS_FILE
from chemspec.io import tables
from chemspec.model import checkpoint
from chemspec.model.cost import CostCurve
from chemspec.model.runtime import RuntimeConfig
from chemspec.settings import ModelConfig, Task
from chemspec.tasks import TASKS
from chemspec.ui.common.escaping import plain_text

CARD = 100_000  # characters of a card that are read
SMALL = 1_000_000  # bytes of measurements that are read
FILES = ("config.json", "vocab.json", "model.safetensors", "card.md", MEASUREMENTS_FILE)

Share = tuple[str, float, float, float]  # name; percent, and its interval


@dataclass(frozen=True)
class ModelCard:
    """A model folder."""

    name: str
    folder: Path
    task: Task | None = None
    facts: tuple[tuple[str, str], ...] = ()  # size, network and vocabulary in words; empty where unreadable
    digest: str = ""  # as `Engine.digest`; empty where they are not all there
    title: str = ""  # the card's first heading
    sections: tuple[tuple[str, str], ...] = ()  # the card's text by heading; what stands before the first has none
    accuracy: tuple[Share, ...] = ()  # the shares "top-k" in its evaluation.json
    # by reaction class, the number of test reactions and the shares "top-1" and "top-5"
    classes: tuple[tuple[str, int, tuple[Share, ...]], ...] = ()
    problem: str = ""  # why the model cannot be used; empty where nothing is wrong


def list_model_cards() -> list[ModelCard]:
    """Return all folders of installed models, usable or not, usable ones first."""
    try:
        there = {item for item in models_dir().iterdir() if item.is_dir() and not item.name.startswith((".", "_"))}
    except OSError:
        return []
    folders = sorted(there | {*installed_models()}, key=lambda folder: folder.name)
    return sorted(map(read_model_card, folders), key=lambda model: bool(model.problem))


def read_model_card(folder: Path) -> ModelCard:
    """Return one model folder; read again only when a file in it has changed."""
    files = [folder / name for name in FILES if (folder / name).is_file()]
    return _read_cached(folder, tuple((file.name, (at := file.stat()).st_size, at.st_mtime_ns) for file in files))


@lru_cache(maxsize=100)
def _read_cached(folder: Path, stamps: tuple[tuple[str, int, int], ...]) -> ModelCard:
    text = ""
    with suppress(OSError), (folder / "card.md").open(encoding="utf-8", errors="replace") as lines:
        text = lines.read(CARD)
    title, sections = split_card(text)
    accuracy, classes = read_accuracy(folder)
    size = sum(size for _, size, _ in stamps)
    card = ModelCard(folder.name, folder, title=title, sections=sections, accuracy=accuracy, classes=classes)
    try:
        loaded = checkpoint.load(folder)
        RuntimeConfig("cpu", "fp32", "auto", threads=1).backend(loaded)  # the backend is checked when it is opened
    except (ValueError, OSError, RuntimeError, MemoryError, RecursionError) as error:
        return replace(card, problem=str(error) or type(error).__name__)
    merges = len(loaded.tokenizer.merges)
    parameters = sum(tensor.size for tensor in loaded.weights.tensors.values())
    facts = (
        ("Size", f"{parameters / 1e6:.1f} M parameters, {decimal(size)} on disk"),
        ("Network", describe_architecture(loaded.config)),
        ("Vocabulary", f"{len(loaded.tokenizer)} tokens" + f", {merges} merges" * (merges > 0)),
    )
    return replace(card, task=loaded.task, facts=facts, digest=loaded.digest)


def split_card(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return title and sections of a card, without its comments."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    heading = re.search(r"^# +(.+)$", text, flags=re.MULTILINE)
    body = text[heading.end() :] if heading else text
    first, *rest = re.split(r"^## +(.+)$", body, flags=re.MULTILINE)
    parts = [("", first.strip())] if first.strip() else []
    parts += [(name.strip(), section.strip()) for name, section in zip(rest[::2], rest[1::2], strict=True)]
    return (heading[1].strip() if heading else ""), tuple(parts)


def read_accuracy(folder: Path) -> tuple[tuple[Share, ...], tuple[tuple[str, int, tuple[Share, ...]], ...]]:
    """Return the shares of right answers that a model folder keeps, and those by reaction class.

    Both are empty where they are missing or make no sense.
    """
    try:
        with (folder / MEASUREMENTS_FILE).open("rb") as file:
            measured = json.loads(file.read(SMALL))["accuracy"]
        rows = measured.get("classes", {}).items()
        classes = tuple((str(name), int(row["reactions"]), _read_shares(row["top"])) for name, row in rows)
        return _read_shares(measured["top"]), classes
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return (), ()


def _read_shares(top: Mapping[str, Any]) -> tuple[Share, ...]:
    shares: list[Share] = [
        (f"top-{rank}", 100 * float(share["value"]), 100 * float(share["low"]), 100 * float(share["high"]))
        for rank, share in top.items()
    ]
    return tuple(share for share in shares if all(0 <= number <= 100 for number in share[1:]))


NAMES = {"relu": "ReLU", "gelu": "GELU", "gelu_tanh": "GELU", "silu": "SiLU"}


def describe_architecture(config: ModelConfig) -> str:
    """Return the network in one line."""
    kind = "decoder" if config.decoder_only else "encoder-decoder"
    depth = f"{config.decoder_layers}" if config.decoder_only else f"{config.encoder_layers} + {config.decoder_layers}"
    layers = f"{depth} layers, width {config.d_model}, {config.heads} heads"
    norm = "pre-norm" if config.norm_first else "post-norm"
    feedforward = f"feed-forward {config.feedforward} ({NAMES[config.activation]})"
    return f"Transformer {kind}, {layers}, {feedforward}, {norm}, {config.max_positions} positions"


# --- the page ---------------------------------------------------------------------------------------


def show_heading(card: ModelCard) -> None:
    """Show name and task of a model."""
    task = TASKS[card.task].label if card.task else card.title
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(plain_text(card.name), anchor=False, width="content")
        st.caption(plain_text(task), width="content")
        if card.problem:
            st.badge("✕ cannot be used", color="orange")


RUNTIME = {
    "native": "chemspec's compiled code",
    "numpy": "numpy, several times slower",
    "torch": "PyTorch",
    "graphs": "PyTorch, CUDA graphs",
}


def facts_table(card: ModelCard, engine: Engine | None) -> str:
    """Return what a model is and where it runs, as a Markdown table."""
    rows = {f"Accuracy, {name}": f"{share:.1f} % ({low:.1f} to {high:.1f})" for name, share, low, high in card.accuracy}
    rows |= {**dict(card.facts), "Runs on": "loaded at first use", "Fingerprint": card.digest}
    if engine:
        threads = f", {engine.threads} threads" if engine.device == "cpu" else ""
        runtime = RUNTIME.get(engine.runtime, engine.runtime)
        rows["Runs on"] = f"{runtime}, {engine.device.upper()}{threads}, computing in {engine.dtype}"
    return tables.lines([("", ""), *((name, plain_text(text)) for name, text in rows.items() if text)])


def class_table(card: ModelCard) -> str:
    """Return the accuracy by reaction class as a Markdown table."""
    rows = [
        (plain_text(name), str(count), *(f"{share:.0f} % ({low:.0f} to {high:.0f})" for _, share, low, high in shares))
        for name, count, shares in card.classes
    ]
    return tables.lines([("Class", "Test reactions", "First answer right", "Among the first five"), *rows])


def describe_cost(curve: CostCurve) -> str:
    """Return what a measured curve says."""
    wide = min(16, curve.nodes[-1])
    return (
        f"A pass over one new token takes {1000 * curve(1):.2f} ms here, a pass over {wide} takes "
        f"{1000 * curve(wide):.2f} ms: {curve(wide) / curve(1):.1f} times as long for {wide} times the tokens. "
        "The flatter this curve, the more drafts pay."
    )


def describe_trap_score() -> str:
    """Return how the rules of the flask check do on the public trap set, as one sentence of Markdown."""
    score = trap_score()
    return (
        f"Flask check, by rules and not by the model: of {score['traps']} flasks with a fault (solvent, missing "
        f"reagent, group that would not survive, impossible product) it tells {score['told']}; of "
        f"{score['harmless']} harmless ones {score['alarms']} raise an alarm "
        f"(`tests/data/trap_flasks.tsv`, {score['date']})."
    )
