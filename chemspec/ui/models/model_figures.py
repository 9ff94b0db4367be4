"""The parts of the page Models that are HTML: pure functions of cards, engines and the machine."""

from __future__ import annotations

from html import escape

from chemspec.engine.engine import Engine
from chemspec.model.cost import CostCurve
from chemspec.ui.common.machine import Machine
from chemspec.ui.models.cards import Card, architecture, size

CSS = """
.cm-head {display: flex; flex-wrap: wrap; align-items: baseline; gap: .3rem .8rem}
.cm-head h3 {margin: 0; padding: 0; font-size: 1.5rem; overflow-wrap: anywhere}
.cm-head .what {opacity: .8; overflow-wrap: anywhere}
.cm-pill {font-size: .78rem; border: 1px solid color-mix(in srgb, currentColor 30%, transparent); border-radius: 99px; padding: .08rem .65rem; white-space: nowrap}
.cm-pill.on {background: color-mix(in srgb, #0f9d7a 22%, transparent); border-color: #0f9d7a}
.cm-pill.bad {background: color-mix(in srgb, #D55E00 22%, transparent); border-color: #D55E00}
.cm-sum {display: flex; flex-wrap: wrap; gap: .9rem 2.2rem; margin: .1rem 0 .3rem}
.cm-sum div b {display: block; font-size: 1.25rem; font-weight: 600; line-height: 1.3}
.cm-sum div span {font-size: .8rem; opacity: .75}
.cm-facts {display: grid; grid-template-columns: minmax(6.5rem, max-content) 1fr; gap: .32rem 1rem; margin: 0 !important; padding: 0 !important; font-size: .92rem}
.cm-facts dt {opacity: .72; margin: 0; padding: 0}
.cm-facts dd {margin: 0 !important; padding: 0; overflow-wrap: anywhere}
"""

ADDING = """
A model is a folder with three files, and a fourth that says what it is:

| file | holds |
|---|---|
| `config.json` | the task (`forward` or `retro`) and the architecture in full |
| `model.safetensors` | the weights; never a pickle, so loading cannot run code |
| `vocab.json` | the list of tokens |
| `card.md` | data, licence, accuracy and the command that measured it, known failures; shown here |

1. Train one: `chemspec data --recipe retro-50k --source FOLDER`, then `chemspec train --recipe retro-50k`. The result lies in `runs/retro-50k/model`.
2. Put the folder beside the others, or point the variable `CHEMSPEC_MODELS` to a folder of your own and start the app again.
3. It appears here and in every choice of models. `chemspec evaluate --model FOLDER --task retro --source FOLDER` measures its accuracy.
"""


def heading(card: Card, state: str) -> str:
    """Name, task and state of a model."""
    kind = {"in memory": "on", "cannot be used": "bad"}.get(state, "")
    sign = {"on": "●", "bad": "✕"}.get(kind, "○")
    task = {"forward": "reactants → product", "retro": "product → reactants"}.get(card.task or "")
    parts = [f"<h3>{escape(card.name)}</h3>"]
    what = task or card.title
    parts += [f'<span class="what">{escape(what)}</span>'] if what else []
    parts.append(f'<span class="cm-pill {kind}">{sign} {state}</span>')
    return f'<div class="cm-head">{"".join(parts)}</div>'


def summary(here: Machine, installed: int, loaded: int) -> str:
    """What the process uses."""
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


def facts(card: Card, engine: Engine | None) -> str:
    """What a model is and where it runs, as a list of terms."""
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
    """What a measured curve says."""
    one, wide = curve(1), min(16, curve.nodes[-1])
    times = curve(wide) / one
    return (
        f"A pass over one new token takes {1000 * one:.2f} ms here, a pass over {wide} takes {1000 * curve(wide):.2f} ms: "
        f"{times:.1f} times as long for {wide} times the tokens. The flatter this curve, the more drafts pay."
    )
