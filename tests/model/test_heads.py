"""Heads on the target's last hidden state: what they read, what they draft, and that it changes no answer."""

from __future__ import annotations

from math import log
from typing import Any

import pytest
import torch
from helpers.table import run
from helpers.tiny import tiny_model

from chemspec.decode.beam import greedy_search
from chemspec.draft.learned.network import Blockwise, HeadDrafts, Medusa
from chemspec.model.heads import Heads, HeadsConfig
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.session import Session
from chemspec.testing import naive_greedy
from chemspec.tokenizer import BOS, EOS, PAD

SOURCES = [(4, 5, 6, 7, 8), (9, 4, 11), (10, 10, 9, 8, 7, 6, 5)]
KINDS: dict[str, type[HeadDrafts]] = {"blockwise": Blockwise, "medusa": Medusa}


def heads(style: Any, seed: int = 0, count: int = 3) -> Heads:
    """Random heads for the tiny model, in float64."""
    found = Heads(HeadsConfig(vocab_size=12, d_model=16, style=style, heads=count, feedforward=8)).double()
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in found.parameters():
            weight.copy_(0.6 * torch.randn(weight.shape, generator=random, dtype=torch.float64))
    return found.requires_grad_(False)


@pytest.mark.parametrize("style", KINDS)
def test_heads_compute_their_formula(style: Any) -> None:
    own = heads(style)
    states = torch.randn(4, 16, dtype=torch.float64)
    for head in range(3):
        inner = states @ own.wide[head].T + own.wide_bias[head]
        if style == "medusa":
            moved = states + inner * torch.sigmoid(inner)
            expected = moved @ own.output[head].T + own.output_bias[head]
        else:
            moved = states + inner.clamp(min=0) @ own.narrow[head].T + own.narrow_bias[head]
            expected = moved @ own.output.T + own.output_bias
        torch.testing.assert_close(own(states)[:, head], expected)
    ids, log_probs = own.best(list(states), 2)
    assert ids == own(states).topk(2).indices.tolist()
    assert log_probs[0][0][0] == pytest.approx(float(torch.log_softmax(own(states), -1)[0, 0].max()))


@pytest.mark.parametrize("style", KINDS)
def test_heads_that_know_save_passes(style: Any) -> None:
    """Given states that say where they are, drafts are right, and the first pass has none."""
    target = tiny_model(2, 12)
    answers = {source: naive_greedy(target, source, 14).tokens for source in SOURCES}

    def foretell(states: Any, count: int) -> Any:
        ids, log_probs = [], []
        for source, prefix in states:
            after = answers[source][len(prefix) : len(prefix) + 3]
            after = (*after, EOS, EOS, EOS)[:3]
            ids.append([[token, PAD, 4][:count] for token in after])
            log_probs.append([[-0.1, -2.0, -3.0][:count]] * 3)
        return ids, log_probs

    drafter = KINDS[style](foretell, heads=3)
    told: list[Any] = []
    kept = Session.hidden_state

    def state(self: Session, source: Any, prefix: Any) -> Any:
        real = kept(self, source, prefix)
        told.append(prefix)
        return None if real is None else (source, prefix)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "hidden_state", state)
        found, passes = run(lambda _: greedy_search(max_len=14), SOURCES, TorchBackend(target), drafter, max_len=14)
    assert [own[0].tokens for own in found] == [answers[source] for source in SOURCES]
    for source, own in zip(SOURCES, passes, strict=True):
        assert own[0].drafted == 0  # nothing was computed yet
        rest = len(answers[source]) - 1
        assert len(own) - 1 == -(-rest // 4)  # three drafted, one the target's own
    for own in passes:
        for item in own:
            assert all(PAD not in draft.tokens for draft in item.drafts)


def test_medusa_s_tree_holds_the_likeliest_combinations() -> None:
    shares = [[0.6, 0.3, 0.1], [0.7, 0.2, 0.1]]
    drafter = Medusa(
        lambda *_: ([[[4, 5, 6], [7, EOS, 8]]], [[[log(s) for s in head] for head in shares]]), heads=2, nodes=5
    )
    drafter.read_state = lambda *_: object()
    drafter.prepare([((4,), (BOS, 9), 9)])
    drafts = drafter.propose((4,), (BOS, 9), 9)
    # 4: 0.6, 4 7: 0.42, 5: 0.3, 5 7: 0.21, 4 eos: 0.12
    assert sorted(draft.tokens for draft in drafts) == [(4, EOS), (4, 7), (5, 7)]
    assert drafts[0].tokens == (4, 7)
    assert drafts[0].probabilities == pytest.approx((0.6, 0.7))
    drafter.prepare([((4,), (BOS, 9), 1)])
    assert [draft.tokens for draft in drafter.propose((4,), (BOS, 9), 1)] == [(4,), (5,), (6,)]


def test_a_config_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="style 'x'"):
        HeadsConfig(vocab_size=12, d_model=16, style="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="heads is 0"):
        HeadsConfig(vocab_size=12, d_model=16, heads=0)
    with pytest.raises(ValueError, match="does not know: legs"):
        HeadsConfig.from_json({"vocab_size": 12, "d_model": 16, "legs": 2})
