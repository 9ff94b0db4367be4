"""Exact match of greedy decoding on token level: a validation metric that needs no RDKit."""

from __future__ import annotations

from chemspec.data.arrays import Pairs
from chemspec.decode.generate import open_decoding
from chemspec.decode.greedy import greedy_search
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.transformer import Transformer
from chemspec.tokenizer import EOS

BATCH = 32


def exact_match(model: Transformer, pairs: Pairs) -> float:
    """Return the share of pairs whose greedy decode equals the target token for token.

    The model is decoded on its device in evaluation mode, which is reset afterwards.
    """
    if not len(pairs):
        raise ValueError("no pairs to decode")
    sources, targets = pairs.sources, pairs.targets
    order = sorted(range(len(pairs)), key=lambda index: (len(targets[index]), len(sources[index])))
    was_training = model.training
    model.eval()
    try:
        backend = TorchBackend(model)
        right = 0
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            expected = [(*targets[index].tolist(), EOS) for index in chosen]
            # At most as long as the targets.
            decoders = [greedy_search(max_len=len(target)) for target in expected]
            encoded = [sources[index].tolist() for index in chosen]
            run = open_decoding(backend, encoded, decoders, top_k=1, max_len=max(map(len, expected)))
            answers = [finished[0] for finished in run.run_to_end()]
            right += sum(answer.tokens == target for answer, target in zip(answers, expected, strict=True))
    finally:
        model.train(was_training)
    return right / len(pairs)
