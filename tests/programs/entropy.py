"""Entropy of the model's next token against tokens a pass, query by query (A, section 4, and X on low entropy).

    python tests/programs/entropy.py --out assets/docs/raw/entropy.csv --chart assets/docs/charts/entropy.svg

The entropy of a query is the mean over its answer's tokens, end included, of the entropy of the distribution that each
was chosen from, in nats, by torch in fp32. Tokens a pass are those of greedy decoding with fixed drafting.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from chemspec import load
from chemspec.asset_files import bench_queries
from chemspec.engine.engine import Engine
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import BOS

DRAFTERS = ("copy", "mixed", "ar")


@torch.inference_mode()
def mean_entropy(model: Transformer, source: Sequence[int], answer: Sequence[int]) -> float:
    """Return the mean entropy, in nats, of the distributions of an answer's tokens, eos included."""
    memory, real = model.encode(torch.tensor([model.config.encoder_ids(source)]))
    log_probs = model.decode(torch.tensor([[BOS, *answer[:-1]]]), memory, real)[0].log_softmax(-1)
    return float(-(log_probs.exp() * log_probs).sum(-1).mean())


def measure(task: str, queries: int) -> list[dict[str, Any]]:
    """Return a row per query: its entropy, and tokens a pass of every drafter."""
    engine: Engine = load(task, threads=1)
    model = checkpoint.load(engine.folder).model
    texts = [text for text in bench_queries(task) if not engine.prepare(text).refusal][:queries]
    rows: list[dict[str, Any]] = [{"task": task, "query": text} for text in texts]
    for drafter in DRAFTERS:
        length = 7 if drafter == "ar" else 0
        how = DecodeSettings(decoder="greedy", n=1, drafter=drafter, drafting="fixed", draft_length=length)
        for row, result in zip(rows, engine.predict(texts, how), strict=True):
            tokens = engine.tokenizer.encode_answer(result.hypotheses[0].smiles)
            row["tokens"] = len(tokens) + 1
            row[drafter] = round(row["tokens"] / len(result.trace.passes), 3)
            if "entropy" not in row:
                source = engine.tokenizer.encode(result.query)
                row["entropy"] = round(mean_entropy(model, source, [*tokens, 2]), 5)
    return rows


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's correlation of two series."""
    ranks = [np.argsort(np.argsort(np.asarray(series))) for series in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return lines of a table: mean tokens a pass by quarter of the queries, the surest first, and the correlation."""
    ordered = sorted(rows, key=lambda row: row["entropy"])
    quarters = [ordered[len(ordered) * i // 4 : len(ordered) * (i + 1) // 4] for i in range(4)]
    lines = [" | ".join(("entropy", *(f"{fmean(row['entropy'] for row in part):.3f}" for part in quarters), "rank r"))]
    for drafter in DRAFTERS:
        means = (f"{fmean(row[drafter] for row in part):.2f}" for part in quarters)
        tied = rank_correlation([row["entropy"] for row in rows], [row[drafter] for row in rows])
        lines.append(" | ".join((drafter, *means, f"{tied:.2f}")))
    return lines


def draw(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """Draw tokens a pass of `mixed` against entropy as SVG, a point per query."""
    import altair as alt
    from charts import INK, _color, _themed, svg

    values = [{"task": row["task"], "x": max(row["entropy"], 1e-3), "y": row["mixed"]} for row in rows]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_point(filled=True, opacity=0.7, size=40, stroke=INK, strokeWidth=0.3)
        .encode(
            x=alt.X("x:Q", title="mean entropy of a token, nats").scale(type="log"),
            y=alt.Y("y:Q", title="tokens a pass, mixed"),
            color=_color("task", [row["task"] for row in rows]),
        )
        .properties(title="Sure answers take fewer passes", width=620, height=260)
    )
    file.write_text(svg(_themed(chart)), encoding="utf-8")


def main() -> None:
    """Measure both tasks, and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("runs/entropy.csv"))
    parser.add_argument("--chart", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    every: list[dict[str, Any]] = []
    for task in ("retro", "forward"):
        rows = measure(task, options.queries)
        print(task, *summary(rows), sep="\n", flush=True)
        every += rows
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["task", "query", "tokens", "entropy", *DRAFTERS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(every)
    if options.chart:
        draw(every, options.chart)


if __name__ == "__main__":
    main()
