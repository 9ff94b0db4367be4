"""What bounds the speed of decoding on a machine."""

from __future__ import annotations

from math import isclose

from chemspec.bench import roofline
from chemspec.bench.roofline import Machine
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig

CONFIG = ModelConfig(vocab_size=50, d_model=32, heads=4, feedforward=64, encoder_layers=2, decoder_layers=3)


def test_every_matrix_is_counted_once() -> None:
    """The decoder's own and the query's are all there are, besides norms, biases and embeddings."""
    matrices = sum(weight.numel() for name, weight in Transformer(CONFIG).named_parameters() if weight.ndim == 2)
    assert roofline.decoder_weights(CONFIG) + roofline.query_weights(CONFIG) == matrices


def test_few_nodes_are_bound_by_reading_and_many_by_arithmetic() -> None:
    machine = Machine(read=1e9, operations={"fp32": 1e12})
    weights = roofline.decoder_weights(CONFIG)

    def bound(passes: float, nodes: float, batch: int = 1) -> float:
        found = roofline.bound(machine, CONFIG, dtype="fp32", passes=passes, nodes=nodes, source=0, batch=batch)
        assert found is not None
        return found - 1e3 * roofline.BYTES["fp32"] * roofline.query_weights(CONFIG) / batch / 1e9

    assert isclose(bound(10, 10), 1e3 * 10 * weights * roofline.BYTES["fp32"] / 1e9)
    assert isclose(bound(10, 10, batch=5), bound(10, 10) / 5)
    assert isclose(bound(1, 1e6), 1e3 * 2e6 * weights / 1e12)
    assert roofline.bound(machine, CONFIG, dtype="bf16", passes=1, nodes=1, source=1, batch=1) is None


def test_this_machine_has_a_roof() -> None:
    machine = roofline.measure(100_000, threads=1)
    assert machine.read > 1e8 and min(machine.operations.values()) > 1e8
