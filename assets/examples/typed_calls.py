"""Every call of the library and of the client, once, for type checkers: `mypy` checks this file in strict mode."""

import asyncio
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import chemspec
from chemspec.client import AsyncClient, Client, Result, Reviewed

QUERY, ANSWER = "CC(=O)Nc1ccc(O)cc1", "CC(=O)OC(C)=O.Nc1ccc(O)cc1"


def predict(folder: Path) -> list[str]:
    """One query, several, and what a result holds."""
    with chemspec.load("retro", device="cpu", threads=1) as engine:
        single: chemspec.DecodeResult = engine.predict(QUERY, n=5, prefix="CC(=O)", within=2.0)
        many: list[chemspec.DecodeResult] = engine.predict(["CCO", None], decoder="greedy", n=1, progress=print)
        best: chemspec.Hypothesis = single.hypotheses[0]
        probability: float = best.probability
        passes: list[chemspec.Pass] = [event for event in engine.stream(QUERY) if isinstance(event, chemspec.Pass)]
    other = chemspec.load(folder, task="forward", template="{query}>>", runtime="native", dtype="int8")
    settings = chemspec.DecodeSettings(n=3, drafter="copy", distinct=True)
    texts = [answer.smiles for answer in other.predict(QUERY, settings).hypotheses]
    return [*texts, best.canonical, f"{probability:.2f}", *(result.status for result in many), str(len(passes))]


def look_inside(engine: chemspec.Engine) -> NDArray[np.float32]:
    """Scores, embeddings and attention."""
    scored = engine.score(QUERY, ANSWER)
    several = engine.score([QUERY, QUERY], [ANSWER, "CCO"])
    total: float = scored.log_prob + sum(each.log_prob for each in several)
    vectors: NDArray[np.float32] = engine.embed(QUERY).mean + np.float32(total)
    looks: NDArray[np.float32] = engine.attention(QUERY, ANSWER).weights
    return np.concatenate((vectors, looks.ravel()))


def constrain(engine: chemspec.Engine) -> chemspec.DecodeResult:
    """A constraint of one's own."""

    def shorter(_: tuple[int, ...], written: tuple[int, ...], log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
        log_probs[chemspec.EOS] = 0.0 if len(written) > 20 else log_probs[chemspec.EOS]
        return log_probs

    spec: chemspec.DecoderSpec = chemspec.constrained_decoder("shorter", shorter, search="beam")
    chemspec.DECODERS.register(spec)
    return engine.predict(QUERY, decoder="shorter", n=3)


def ask(url: str) -> list[str]:
    """The service."""
    client = Client(url, key="secret")
    single: Result = client.predict(QUERY, task="retro", n=5)
    many: list[Result] = client.predict([QUERY, "CCO"], task="retro", decoder="greedy", n=1)
    reviewed: Reviewed = client.review(QUERY, task="retro", n=10, stock=["ours"])
    names = [str(model["name"]) for model in client.models()]
    return [*names, single.status, *(result.message for result in many), reviewed.warning]


async def ask_async(url: str) -> list[Result]:
    """The same in asyncio."""
    async with AsyncClient(url) as client:
        single, many = await asyncio.gather(
            client.predict(QUERY, task="retro"), client.predict([QUERY, "CCO"], task="forward")
        )
        return [single, *many]
