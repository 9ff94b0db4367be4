"""A query unlike the training data has a note that says so; a file of other weights says nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.small import tiny_folder
from hypothesis import given
from hypothesis import strategies as st

from chemspec.engine import familiarity
from chemspec.engine.engine import Engine
from chemspec.engine.familiarity import Familiarity, ProductFingerprints
from chemspec.precedents.index_file import product_fingerprint
from chemspec.settings import DecodeSettings

KNOWN = ["CC(=O)Nc1ccccc1", "CCO", "c1ccc(-c2ccncc2)cc1", "CCN(CC)CC(=O)Nc1c(C)cccc1C"]
SEEN = Familiarity("d", {"[Si]": 3}, 9, 0.3, "")


@given(st.sampled_from([*KNOWN, "CCCCCCCCCC", "O=C(O)c1ccccc1"]), st.integers(1, len(KNOWN)))
def test_likeness_is_the_greatest_tanimoto_similarity(smiles: str, count: int) -> None:
    prints = np.stack([product_fingerprint(one, 256) for one in KNOWN[:count]])
    one = np.unpackbits(product_fingerprint(smiles, 256))
    expected = max((one & own).sum() / (one | own).sum() for own in np.unpackbits(prints, axis=1))
    assert ProductFingerprints(prints).nearest_similarity(smiles) == pytest.approx(expected)
    assert (ProductFingerprints(prints).nearest_similarity(smiles) == 1) == (smiles in KNOWN[:count])


def test_what_is_unlike_is_said_in_words() -> None:
    assert SEEN.unfamiliarity_notes(["C"] * 9, 0.3) == ()
    (told,) = SEEN.unfamiliarity_notes(["C"] * 8 + ["[Si]", "[Si]"], 0.25)
    assert "[Si] (in 3 training queries)" in told and "10 tokens" in told and "25% alike" in told
    assert SEEN.unfamiliarity_notes(["C"], None) == ()
    salts = replace(SEEN, rare={".": 0, "[Na+]": 2})
    (told,) = salts.unfamiliarity_notes(["[Na+]", ".", "[Na+]", ".", "C"], None)
    assert "it has [Na+] (in 2 training queries), several molecules (in no training queries); for a salt" in told


def test_an_engine_notes_what_is_unlike(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "retro")
    how = DecodeSettings(n=2, max_len=8)
    engine = Engine.load(folder, threads=1)
    before = engine.predict("CCCCO", how)
    Familiarity(engine.digest, {"O": 2}, 400, 0.999, "").save(folder)
    engine = Engine.load(folder, threads=1)
    after = engine.predict("CCCCO", how)
    assert any("O (in 2 training queries)" in note and "alike" in note for note in after.notes)
    assert not any("queries" in note for note in before.notes)
    assert after.hypotheses == before.hypotheses
    replace(engine.familiarity or SEEN, digest="other").save(folder)
    assert Engine.load(folder, threads=1).familiarity is None
    (folder / familiarity.FILE).write_text("{")
    assert Engine.load(folder, threads=1).familiarity is None
