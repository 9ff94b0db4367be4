"""Beams by the rules of other programs: as those write them down, densely; and drafts change nothing.

The programs themselves are compared by `python tests/programs/peers.py --rules`, where they are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.case_tables import table
from helpers.recompute import decode_single
from helpers.small import QUERIES, tiny_folder
from helpers.table import Table, run

from chemspec.decode.beam import Beam, BeamConfig, Hyp
from chemspec.decode.peer_rules import ADVANCE, peer_search
from chemspec.draft.base import NoDrafts
from chemspec.engine.engine import Engine
from chemspec.settings import RULES, DecodeSettings
from chemspec.tokenizer import BOS, EOS
from chemspec.types import Scores

SOURCE = (4, 5, 6)
Text = tuple[int, ...]  # after bos, eos included
Rows = Callable[[Sequence[Text]], np.ndarray]  # log-probs (texts, V) of what follows


def onmt(rows: Rows, width: int, most: int) -> list[Text]:
    """`BeamSearch` of OpenNMT-py 2.2: ended rows are masked, not replaced."""
    texts, totals = [()] * width, np.array([0.0] + [-np.inf] * (width - 1))
    found: list[tuple[float, Text]] = []
    led = False
    for length in range(1, most + 1):
        every = totals[:, None] + rows(texts)
        order = np.argsort(-every.ravel(), kind="stable")[:width]
        totals = every.ravel()[order]
        texts = [(*texts[place // every.shape[1]], int(place % every.shape[1])) for place in order]
        ended = [text[-1] == EOS for text in texts]
        led = led or ended[0]
        found += [
            (total, text) for total, text, over in zip(totals, texts, ended, strict=True) if over or length == most
        ]
        if led and len(found) >= width:
            break
        totals = np.where(ended, -1e10, totals)
    return [text for total, text in sorted(found, key=lambda pair: -pair[0]) if total > -1e9][:width]


def chemformer(rows: Rows, width: int, most: int) -> list[Text]:
    """`DecodeSampler.beam_decode`: of what has ended only padding can follow, at no cost."""
    texts, totals = [()], np.zeros(1)
    for _ in range(most):
        scores = rows(texts)
        for row, text in enumerate(texts):
            if EOS in text:
                scores[row] = -1e5
                scores[row, 0] = 0.0
        every = totals[:, None] + scores
        order = np.argsort(-every.ravel(), kind="stable")[:width]
        totals = every.ravel()[order]
        texts = [(*texts[place // every.shape[1]], int(place % every.shape[1])) for place in order]
        if all(EOS in text for text in texts):
            break
    return [text[: text.index(EOS) + 1] if EOS in text else text for text in texts]


def translation_transformer(rows: Rows, width: int, most: int) -> list[Text]:
    """`TranslationInferenceBeamSearch`: it looks for eos to stop, and for nothing else."""
    texts, totals = [()], np.zeros(1)
    for _ in range(most):
        every = totals[:, None] + rows(texts)
        order = np.argsort(-every.ravel(), kind="stable")[:width]
        totals = every.ravel()[order]
        texts = [(*texts[place // every.shape[1]], int(place % every.shape[1])) for place in order]
        if all(EOS in text for text in texts):
            break
    return [text[: text.index(EOS) + 1] if EOS in text else text for text in texts]


DENSE = {"onmt": onmt, "chemformer": chemformer, "translation-transformer": translation_transformer}


def table_rows(table: Table, texts: Sequence[Text]) -> np.ndarray:
    return np.array([table.log_probs(SOURCE, (BOS, *text)) for text in texts])


def searched(table: Table, rules: str, width: int, most: int) -> list[Text]:
    def score(prefixes: Sequence[Text]) -> list[Scores]:
        found = []
        for prefix in prefixes:
            log_probs = table.log_probs(SOURCE, prefix)
            order = sorted(range(len(log_probs)), key=lambda token: (-log_probs[token], token))[: width + 1]
            found.append(Scores(order, [log_probs[token] for token in order]))
        return found

    answers = decode_single(peer_search(rules=rules, width=width, max_len=most), score)
    for answer in answers:
        spelled = [
            table.log_probs(SOURCE, (BOS, *answer.tokens[:place]))[token] for place, token in enumerate(answer.tokens)
        ]
        assert answer.log_probs == pytest.approx(spelled) and (answer.ended == "eos") == (answer.tokens[-1] == EOS)
    return [answer.tokens for answer in answers]


@pytest.mark.parametrize("rules", sorted(DENSE))
def test_forty_searches_that_are_always_the_same(rules: str) -> None:
    for seed in range(40):
        width, most = 1 + seed % 5, 3 + seed % 7
        expected = DENSE[rules](partial(table_rows, Table(seed)), width, most)
        assert searched(Table(seed), rules, width, most) == expected


@pytest.mark.parametrize(
    ("rules", "seed", "sharpness", "copying", "source", "width", "expected"), table("decode/onmt_3_lists")
)
def test_the_lists_are_those_of_the_beam_search_of_onmt_3(
    rules: str, seed: int, sharpness: float, copying: float, source: Text, width: int, expected: tuple[Text, ...]
) -> None:
    """Written down by `onmt.translate.beam_search.BeamSearch` of OpenNMT-py 3.5.1 on the same tables."""
    name, _, penalty = rules.partition(" ")
    search = partial(peer_search, rules=name, width=width, length_penalty=float(penalty == "avg"), source=len(source))
    scores = Table(seed, sharpness=sharpness, copying=copying)
    ((answers,), _) = run(lambda _: search(max_len=14), [source], scores, NoDrafts(), max_len=14)
    assert tuple(answer.tokens for answer in answers) == expected


@pytest.mark.parametrize("rules", RULES[1:])
def test_drafts_and_batches_change_nothing(rules: str, tmp_path: Path) -> None:
    engine = Engine.load(tiny_folder(tmp_path / "retro"), device="cpu", threads=1)
    settings = {"n": 3, "max_len": 15, "rules": rules}
    plain = engine.predict(QUERIES, DecodeSettings(drafter="none", batch_size=1, **settings))
    for drafter in ("copy", "windows", "mixed"):
        drafted = engine.predict(QUERIES, DecodeSettings(drafter=drafter, batch_size=4, **settings))
        assert [one.hypotheses for one in drafted] == [one.hypotheses for one in plain]
        passes = [sum(len(one.trace.passes) for one in many) for many in (drafted, plain)]
        assert passes[0] <= passes[1]


def test_what_makes_no_sense_is_refused() -> None:
    assert set(ADVANCE) == set(RULES[1:])
    assert DecodeSettings(decoder="greedy", n=1, rules="onmt").rules == "onmt"
    with pytest.raises(ValueError, match="there are chemspec, onmt"):
        DecodeSettings(rules="fairseq")
    with pytest.raises(ValueError, match="length penalty of its own"):
        DecodeSettings(rules="onmt-3-defaults", length_penalty=1.0)
    with pytest.raises(ValueError, match="those of a beam, not of sample"):
        DecodeSettings(decoder="sample", rules="onmt")
    with pytest.raises(ValueError, match="ranks by log-prob alone"):
        DecodeSettings(rules="chemformer", length_penalty=1.0)


def test_the_rules_of_transformers_end_at_the_limit_whatever_has_ended_by_then() -> None:
    scores = [Scores(ids=np.array([5, 6]), log_probs=np.log(np.array([0.6, 0.4])))]
    beam = Beam((Hyp((BOS, 4), (-0.1,), -0.1),))
    config = BeamConfig(width=2, max_len=2)
    assert not ADVANCE["transformers"](beam, scores, config).live
    assert ADVANCE["transformers"](beam, scores, BeamConfig(width=2, max_len=3)).live
