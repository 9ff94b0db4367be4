"""The parts of the page Models: pure functions of cards, engines and the machine, and what draws them."""

from __future__ import annotations

import platform

import streamlit as st
import torch

from chemspec.engine.engine import Engine
from chemspec.model.cost import CostCurve
from chemspec.system.threads import usable_cores
from chemspec.tasks import TASKS
from chemspec.ui.common import widgets
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.models.cards import ModelCard, describe_architecture, format_size

STATES = {"in memory": ("green", "●"), "not loaded": ("gray", "○"), "cannot be used": ("orange", "✕")}


def show_heading(card: ModelCard, state: str) -> None:
    """Show name, task and state of a model."""
    color, sign = STATES[state]
    task = TASKS[card.task].label if card.task else card.title
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(plain_text(card.name), anchor=False, width="content")
        st.caption(plain_text(task), width="content")
        st.badge(f"{sign} {state}", color=color)  # type: ignore[arg-type]


def show_summary(installed: int, loaded: int) -> None:
    """Show how many models are loaded, and what they run on."""
    computing = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{usable_cores()} CPU cores"
    widgets.show_figures(
        [
            (f"{loaded} of {installed}", "models in memory"),
            (computing, f"Python {platform.python_version()}, torch {torch.__version__}"),
        ]
    )


PRECISION = {
    "F16": "half precision (fp16)",
    "BF16": "bfloat16",
    "BF16, F32": "bfloat16 (vectors in fp32)",
    "F32": "single precision (fp32)",
}
RUNTIME = {"native": "chemspec's own CPU code", "torch": "PyTorch", "graphs": "PyTorch, CUDA graphs"}


def facts_table(card: ModelCard, engine: Engine | None) -> str:
    """Return what a model is and where it runs, as a Markdown table."""
    stored = PRECISION.get(card.stored, card.stored)
    rows = {
        "Size": f"{format_size(card.parameters, '')} parameters, {format_size(card.bytes)} on disk in {stored}",
        "Network": describe_architecture(card.config) if card.config else "",
        "Vocabulary": f"{card.vocabulary} tokens",
        "Runs on": "loaded at first use",
        "Fingerprint": card.digest,
    }
    if engine:
        threads = f", {engine.threads} threads" if engine.device == "cpu" else ""
        runtime = RUNTIME.get(engine.runtime, engine.runtime)
        rows["Runs on"] = f"{runtime}, {engine.device.upper()}{threads}, computing in {engine.dtype}"
    rows |= {
        f"Accuracy, {name}": f"{share:.1f} % ({low:.1f} to {high:.1f})" for name, share, low, high in card.accuracy
    }
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {plain_text(text)} |" for name, text in rows.items() if text)


def class_table(card: ModelCard) -> str:
    """Return the accuracy by reaction class as a Markdown table."""
    rows = [
        f"| {plain_text(name)} | {count} | "
        + "".join(f"{share:.0f} % ({low:.0f} to {high:.0f}) | " for _, share, low, high in shares).rstrip()
        for name, count, shares in card.classes
    ]
    return "\n".join(
        ["| Class | Test reactions | First answer right | Among the first five |", "|---|---|---|---|", *rows]
    )


def describe_cost(curve: CostCurve) -> str:
    """Return what a measured curve says."""
    single_token, wide = curve(1), min(16, curve.nodes[-1])
    times = curve(wide) / single_token
    return (
        f"A pass over one new token takes {1000 * single_token:.2f} ms here, a pass over {wide} takes "
        f"{1000 * curve(wide):.2f} ms: {times:.1f} times as long for {wide} times the tokens. "
        "The flatter this curve, the more drafts pay."
    )
