"""The Spec-Drafter: its masks, its caches, and that its drafts change no answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from helpers.compilers import skip_without_compiler
from helpers.table import run
from helpers.thinned import pairwise
from helpers.tiny import tiny_model

from chemspec.data.arrays import pad
from chemspec.decode.beam import greedy_search
from chemspec.draft.learned.network import SpecDrafter, sequential_draft
from chemspec.draft.registry import NoDrafts
from chemspec.model.runner import CompactionThreshold
from chemspec.model.runners.native.runner import NativeBackend, NativeRunner
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.spec_drafter import MaskFiller, copy_target_layers, drafter_config, fill_masks
from chemspec.model.transformer import Transformer
from chemspec.testing import naive_greedy
from chemspec.tokenizer import BOS, EOS, PAD, UNK
from chemspec.types import Prefix

K = 4
SOURCES = [(4, 5, 6, 7, 8), (9, 4, 11), (4, 5, 6, 7, 8), (10, 10, 9, 8, 7, 6, 5)]  # one twice


def drafter_model(seed: int = 3, **options: Any) -> Transformer:
    """A random drafter for targets of 12 tokens, in float64; token 12 is the mask."""
    return tiny_model(seed, 13, encoder_layers=3, **options)


def naive_fill(model: Transformer, source: Sequence[int], prefix: Prefix, k: int) -> torch.Tensor:
    """Logits (k, V + 1) of the masks, worked out without cache, batch or any code of the drafter's."""
    read = [BOS, *source, EOS] if model.config.source_specials else list(source)
    memory, _ = model.encode(torch.tensor([read]))
    ids = torch.tensor([[*prefix, *([12] * k)]])
    x = model.embed(ids, torch.arange(len(prefix) + k), target=True)
    sees = torch.ones(len(prefix) + k, len(prefix) + k, dtype=torch.bool)
    sees[: len(prefix)] = torch.tril(sees)[: len(prefix)]
    everything = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    for layer in model.decoder:
        q, key, v = layer.self_attn.project(layer.before(x, layer.norm1))
        x = layer.add(x, layer.self_attn.attend(q, key, v, sees[None, None]), layer.norm1)
        q = layer.multihead_attn.project_query(layer.before(x, layer.norm2))
        key, v = layer.multihead_attn.project_memory(memory)
        x = layer.add(x, layer.multihead_attn.attend(q, key, v, everything), layer.norm2)
        x = layer.feed(x, layer.norm3)
    return model.output(model.decoder.norm(x))[0, len(prefix) :]


@pytest.mark.parametrize("decoder_layers", [1, 2])
@torch.inference_mode()
def test_blocks_of_one_row_are_filled_as_each_would_be_alone(decoder_layers: int) -> None:
    model = drafter_model(decoder_layers=decoder_layers)
    target = pad([[BOS, 4, 5, 6, 7, EOS], [BOS, 8, 9, EOS]])
    starts = torch.tensor([[1, 3, 5], [2, 3, 1]])
    memory, real = model.encode(pad([SOURCES[0], SOURCES[1]]))
    logits = fill_masks(model, memory, real, target, starts, K)
    assert logits.shape == (2, 3, K, 12)
    for row, source in enumerate(SOURCES[:2]):
        for block, start in enumerate(starts[row].tolist()):
            prefix = tuple(target[row, :start].tolist())
            alone = naive_fill(model, source, prefix, K)[:, :12]
            torch.testing.assert_close(logits[row, block], alone)


@torch.inference_mode()
def test_masks_know_nothing_of_what_stands_where_they_are_and_right_of_them() -> None:
    model = drafter_model()
    target = torch.tensor([[BOS, 4, 5, 6, 7, EOS]])
    other = torch.tensor([[BOS, 4, 9, 9, 9, 9]])
    memory, real = model.encode(pad([SOURCES[0]]))
    starts = torch.tensor([[2]])
    one, two = (fill_masks(model, memory, real, text, starts, K) for text in (target, other))
    assert torch.equal(one, two)
    # Of each other they know: what is shown in training changes the rest, left and right of it.
    shown = torch.tensor([[[False, False, True, False]]])
    seen = fill_masks(model, memory, real, target, starts, K, shown)
    assert (seen[0, 0, [0, 1, 3]] - one[0, 0, [0, 1, 3]]).abs().amax(-1).min() > 1e-4


@pytest.mark.parametrize(
    ("runtime", "specials", "decoder_layers"), pairwise(["torch", "native"], [False, True], [1, 2])
)
@torch.inference_mode()
def test_caches_change_nothing(
    specials: bool, decoder_layers: int, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked in whatever order, in a batch from which queries vanish, as a tree that is cleared."""
    model = drafter_model(source_specials=specials, decoder_layers=decoder_layers)
    backend, within = TorchBackend(model), 1e-6
    if runtime == "native":  # computes in fp32
        skip_without_compiler()
        backend, within = NativeBackend(model, threads=2), 1e-4
        monkeypatch.setattr(NativeRunner, "compaction_threshold", CompactionThreshold(1.5, 40, 0))
    filler = MaskFiller(model, K, backend)
    rng = np.random.default_rng(0)
    texts: list[list[Prefix]] = [[(BOS,)] for _ in SOURCES]
    for step in range(30):
        alive = [query for query in range(len(SOURCES)) if step < 12 or query != 1]
        asked = []
        for query in alive:
            base = texts[query][rng.integers(max(0, len(texts[query]) - 3), len(texts[query]))]
            grown = tuple(rng.integers(EOS, 12, size=rng.integers(1, 3)).tolist())
            texts[query].append((*base, *grown))
            asked += [(SOURCES[query], prefix) for prefix in texts[query][-2:]]
        for (source, prefix), (tokens, log_probs) in zip(asked, filler.fill(asked), strict=True):
            expected = naive_fill(model, source, prefix, K)
            allowed = torch.log_softmax(expected, dim=-1)
            allowed[:, [PAD, BOS, UNK, 12]] = -torch.inf  # never drafted
            assert tokens == allowed.argmax(-1).tolist()
            assert log_probs == pytest.approx(allowed.amax(-1).tolist(), abs=within)
    assert max(len(session.trees[0].slots) for session in filler._sessions) < 120  # cleared


class Knowing:
    """Fills in what the target will write, now and then something else."""

    def __init__(self, target: Transformer, k: int) -> None:
        self.target, self.k = target, k
        self.calls: list[int] = []

    def __call__(self, asked: Sequence[tuple[Sequence[int], Prefix]]) -> list[tuple[list[int], list[float]]]:
        self.calls.append(len(asked))
        found = []
        for source, prefix in asked:
            answer = naive_greedy(self.target, source, 14).tokens[len(prefix) - 1 :][: self.k]
            tokens = [*answer, *([EOS] * (self.k - len(answer)))]
            if len(prefix) % 2:
                tokens[-1] = 4
            found.append((tokens, [-0.1] * self.k))
        return found


def test_a_good_drafter_saves_passes_with_one_call_a_pass() -> None:
    target = tiny_model(1, 12)
    plain, slow = run(lambda _: greedy_search(max_len=14), SOURCES, TorchBackend(target), NoDrafts(), max_len=14)
    knowing = Knowing(target, K)
    found, fast = run(
        lambda _: greedy_search(max_len=14), SOURCES, TorchBackend(target), SpecDrafter(knowing, masks=K), max_len=14
    )
    assert [own[0].tokens for own in found] == [own[0].tokens for own in plain]
    assert sum(map(len, fast)) < 0.5 * sum(map(len, slow))
    assert len(knowing.calls) == max(map(len, fast))  # all queries of a pass together
    drafts = [draft for own in fast for item in own for draft in item.drafts]
    assert {draft.drafter for draft in drafts} == {"spec_drafter"}
    assert all(len(draft.probabilities) == len(draft.tokens) for draft in drafts)


def test_drafts_stop_at_eos_and_where_they_are_improbable() -> None:
    assert [draft.tokens for draft in sequential_draft([4, EOS, 5], [-0.1] * 3, "x")] == [(4, EOS)]
    assert [draft.tokens for draft in sequential_draft([4, 5, 6], [-0.1, -5.0, -0.1], "x")] == [(4,)]
    assert sequential_draft([4], [-9.0], "x") == ()
    drafter = SpecDrafter(lambda asked: [([4, 5, 6], [0.0] * 3) for _ in asked], masks=3, length=2)
    drafter.prepare([((4,), (BOS,), 9), ((4,), (BOS, 5), 1), ((4,), (BOS, 4), 0)])
    assert [draft.tokens for draft in drafter.propose([4], (BOS,), 9)] == [(4, 5)]
    assert [draft.tokens for draft in drafter.propose([4], (BOS, 5), 1)] == [(4,)]
    assert drafter.propose([4], (BOS, 4), 9) == drafter.propose([4], (BOS, 6), 9) == ()  # it was not told of these
    drafter.prepare([])
    assert drafter.propose([4], (BOS,), 9) == ()


# --- beginning with the target -------------------------------------------------------------------------


@torch.inference_mode()
def test_a_drafter_begins_with_the_target_s_encoder_and_last_decoder_layers() -> None:
    target = tiny_model(0, 12, encoder_layers=2, decoder_layers=3)
    config = drafter_config(target.config, encoder=3, decoder=2)
    assert (config.vocab_size, config.encoder_layers, config.decoder_layers) == (13, 3, 2)
    model = Transformer(config).double()
    copy_target_layers(model, target)
    source = pad([SOURCES[0]])
    torch.testing.assert_close(model.encode(source)[0], target.encode(source)[0])
    mine, theirs = list(model.decoder)[-1], list(target.decoder)[-1]
    assert torch.equal(mine.linear1.weight, theirs.linear1.weight)
