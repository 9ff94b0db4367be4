"""Where the model and its Spec-Drafter look in the query, as two heat maps (X, figure 3).

    python tests/programs/attention.py --out assets/docs/charts/attention.svg

Above the model: a row per token of the answer, the weights of the last decoder layer over the query, mean of its heads.
Below the drafter: the same of its masks, of which each block of `--block` is filled at once after the tokens before it.
The share of the answer's tokens whose largest weight lies at the same token of the query is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from chemspec import load
from chemspec.engine.engine import Engine
from chemspec.model.checkpoint import drafter_folder, load_drafter
from chemspec.model.spec_drafter import fill_masks
from chemspec.model.transformer import Layer, Transformer
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import BOS, EOS

Weights = NDArray[np.float32]
FAINT = 0.04  # weights that are not drawn


@torch.inference_mode()
def drafter_attention(model: Transformer, source: list[int], answer: list[int], block: int) -> Weights:
    """Return the weights (answer tokens, query tokens) of a drafter's masks, filled in blocks after true tokens."""
    memory, real = model.encode(torch.tensor([source]))
    last: Layer = list(model.decoder)[-1]
    keys, _ = last.multihead_attn.project_memory(memory)
    rows: list[Weights] = []
    plain = last.cross

    def watched(x: torch.Tensor, *others: Any) -> torch.Tensor:
        queries = last.multihead_attn.project_query(last.before(x, last.norm2))
        scores = queries @ keys.mT * queries.shape[-1] ** -0.5
        rows.append(scores.softmax(-1).mean(1)[0].numpy())
        return plain(x, *others)

    last.cross = watched  # type: ignore[method-assign]
    for start in range(0, len(answer), block):
        length = min(block, len(answer) - start)
        prefix = torch.tensor([[BOS, *answer[:start]]])
        fill_masks(model, memory, real, prefix, torch.tensor([[start + 1]]), length)
    return np.concatenate(rows)


def measure(engine: Engine, query: str, block: int) -> tuple[list[str], list[str], Weights, Weights]:
    """Return the tokens of the query and of its answer, and the weights of model and drafter."""
    answer = engine.predict(query, DecodeSettings(decoder="greedy", n=1)).hypotheses[0].smiles
    seen = engine.attention(query, answer)
    target = engine.tokenizer
    network = load_drafter(drafter_folder(engine.folder, "spec_drafter"), tokenizer=target, target=engine.digest)  # type: ignore[arg-type]
    source = list(network.model.config.encoder_ids(target.encode(query)))  # type: ignore[union-attr]
    tokens = [*target.encode_answer(answer), EOS]
    drafted = drafter_attention(network.model, source, tokens, block)  # type: ignore[arg-type]
    return list(seen.query_tokens), list(seen.answer_tokens), seen.weights, drafted


def draw(query: list[str], answer: list[str], maps: dict[str, Weights], file: Path) -> None:
    """Draw heat maps below each other as SVG."""
    import altair as alt
    from charts import COLORS, _themed, svg

    parts = []
    for title, weights in maps.items():
        cells = [
            {"read": f"{column:02d} {query[column]}", "write": f"{row:02d} {answer[row]}", "weight": float(weight)}
            for (row, column), weight in np.ndenumerate(weights.round(2))
            if weight > FAINT or row == column == 0
        ]
        base = alt.Chart(alt.Data(values=cells)).mark_rect()
        columns, rows = ([f"{place:02d} {text}" for place, text in enumerate(texts)] for texts in (query, answer))
        names = {"labelExpr": "substring(datum.value, 3)", "labelAngle": 0, "labelFontSize": 10, "labelOverlap": False}
        parts.append(
            base.encode(
                x=alt.X("read:O", title="query").axis(**names).scale(domain=columns),
                y=alt.Y("write:O", title="answer").axis(**names).scale(domain=rows),
                color=alt.Color("weight:Q", legend=None).scale(range=["#80808010", COLORS[0]]),
            ).properties(title=title, width=alt.Step(15), height=alt.Step(13))
        )
    file.write_text(svg(_themed(alt.vconcat(*parts, spacing=14))), encoding="utf-8")


def main() -> None:
    """Compare the two, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", default="O=C(NCc1ccccc1)c1ccccc1")
    parser.add_argument("--block", type=int, default=10, help="masks filled at once")
    parser.add_argument("--out", type=Path, default=Path("runs/attention.svg"))
    options = parser.parse_args()
    query, answer, model, drafter = measure(load("retro", threads=1), options.query, options.block)
    agree = float((model.argmax(-1) == drafter.argmax(-1)).mean())
    print(f"{options.query}: {len(answer)} tokens, {agree:.0%} look at the same token of the query most")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    draw(query, answer, {"The model": model, f"Spec-Drafter, {options.block} masks at once": drafter}, options.out)


if __name__ == "__main__":
    main()
