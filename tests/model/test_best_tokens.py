"""The best tokens of a large vocabulary are those of a full sort, ties by id, wherever the tie is."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from chemspec.model.runners.torch_runner import LARGE_VOCABULARY, best_tokens, sorted_tokens  # noqa: E402


@pytest.mark.parametrize("tied", ["none", "first", "middle", "last", "last of many", "all"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_ties_of_a_large_vocabulary_go_by_id(tied: str, count: int) -> None:
    generator = torch.Generator().manual_seed(count)
    for _ in range(20):
        size = LARGE_VOCABULARY * count + 200
        logits = torch.randperm(size, generator=generator).float()[None] / 10
        ranks = logits[0].argsort(descending=True)
        last = {"none": [], "first": [0, 1], "middle": [count // 2, count // 2 + 1], "last": [count - 1, count]}
        same = last.get(tied, range(count - 1, 60) if tied == "last of many" else range(size))
        for rank in same:
            logits[0, ranks[rank]] = logits[0, ranks[same[0]]]
        ids, log_probs = best_tokens(logits, count)
        wanted = sorted_tokens(logits, count)
        assert ids.tolist() == wanted[0].long().tolist()
        assert log_probs.tolist() == wanted[1].tolist()
