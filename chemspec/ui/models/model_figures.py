"""The parts of the page Models that are HTML: pure functions of cards, engines and the machine."""

from __future__ import annotations

from html import escape

from chemspec.engine.engine import Engine
from chemspec.model.cost import CostCurve
from chemspec.ui.common.machine import Machine
from chemspec.ui.models.cards import ModelCard, architecture, size


def heading(card: ModelCard, state: str) -> str:
    """Return name, task and state of a model."""
    kind = {"in memory": "on", "cannot be used": "bad"}.get(state, "")
    sign = {"on": "●", "bad": "✕"}.get(kind, "○")
    task = {"forward": "reactants → product", "retro": "product → reactants"}.get(card.task or "")
    parts = [f"<h3>{escape(card.name)}</h3>"]
    what = task or card.title
    parts += [f'<span class="what">{escape(what)}</span>'] if what else []
    parts.append(f'<span class="cm-pill {kind}">{sign} {state}</span>')
    return f'<div class="cm-head">{"".join(parts)}</div>'


def summary(here: Machine, installed: int, loaded: int) -> str:
    """Return what the process uses."""
    now = size(here.memory) if here.memory else "not told"
    peak = f"memory in use (peak {size(here.peak)})" if here.peak else "memory in use"
    what = here.gpu or f"{here.cores} CPU cores"
    parts = ((f"{loaded} of {installed}", "models in memory"), (now, peak), (what, here.versions))
    cells = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for value, name in parts)
    return f'<div class="cm-sum">{cells}</div>'


PRECISION = {
    "F16": "half precision (fp16)",
    "BF16": "bfloat16",
    "BF16, F32": "bfloat16 (vectors in fp32)",
    "F32": "single precision (fp32)",
}
RUNTIME = {
    "native": "chemspec's own CPU code",
    "onnx": "ONNX Runtime",
    "torch": "PyTorch",
    "graphs": "PyTorch, CUDA graphs",
}


def facts(card: ModelCard, engine: Engine | None) -> str:
    """Return what a model is and where it runs, as a list of terms."""
    stored = PRECISION.get(card.stored, card.stored)
    rows = {
        "Size": f"{size(card.parameters, '')} parameters, {size(card.bytes)} on disk in {stored}",
        "Network": architecture(card.config) if card.config else "",
        "Vocabulary": f"{card.vocabulary} tokens",
        "Runs on": "loaded at first use",
        "Fingerprint": card.digest,
    }
    if engine:
        threads = f", {engine.threads} threads" if engine.device == "cpu" else ""
        runtime = RUNTIME.get(engine.runtime, engine.runtime)
        rows["Runs on"] = f"{runtime}, {engine.device.upper()}{threads}, computing in {engine.dtype}"
    items = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in rows.items() if text)
    return f'<dl class="cm-facts">{items}</dl>'


def cost_words(curve: CostCurve) -> str:
    """Return what a measured curve says."""
    one, wide = curve(1), min(16, curve.nodes[-1])
    times = curve(wide) / one
    return (
        f"A pass over one new token takes {1000 * one:.2f} ms here, a pass over {wide} takes "
        f"{1000 * curve(wide):.2f} ms: {times:.1f} times as long for {wide} times the tokens. "
        "The flatter this curve, the more drafts pay."
    )
