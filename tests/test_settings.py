"""Settings and sizes of drafts beyond their limits are refused, by name and with the limits."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.case_tables import table

from chemspec.decode.registry import build_decoder, required_top_k
from chemspec.draft.base import NoDrafts
from chemspec.draft.inputs import DrafterInputs
from chemspec.draft.registry import Copy, Mixed, Smart, Windows, build_drafter
from chemspec.draft.tree.edit_ngrams import COPY_ONLY
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, DraftSettings, SearchSettings


@pytest.mark.parametrize(("name", "values", "says"), table("settings_out_of_range"))
def test_settings_out_of_range_are_refused_by_name(name: str, values: tuple[Any, ...], says: str) -> None:
    for value in values:
        with pytest.raises(ValueError, match=f"{name} is .*{says}"):
            DecodeSettings(**{name: value})


@pytest.mark.parametrize("make", [Windows, Smart, Copy, lambda **size: Mixed(COPY_ONLY, **size)])
def test_drafters_refuse_drafts_of_no_length_and_no_drafts(make: Any) -> None:
    """In the settings 0 leaves the size to the drafter; a drafter that is told 0 says what to do instead."""
    with pytest.raises(ValueError, match="draft length 0; it must be at least 1"):
        make(length=0)
    with pytest.raises(ValueError, match=r"0 drafts; .* choose the drafter none"):
        make(count=0)


def test_a_decoder_reads_the_search_alone() -> None:
    for name, spec in DECODERS.items():
        search = SearchSettings(decoder=name, n=3)
        assert build_decoder((5, 6), search, NoDrafts()) is not None and required_top_k(search, 50) >= 2
        assert spec.hypotheses(search) in (0, 1, 3)


def test_a_drafter_reads_the_search_and_the_drafts_alone() -> None:
    inputs = DrafterInputs(cost=lambda: None, tokens=["<pad>", "<unk>", "<bos>", "<eos>", "C"])  # type: ignore[arg-type,return-value]
    for name in (name for name, spec in DRAFTERS.items() if not spec.companions):
        assert build_drafter(DraftSettings(drafter=name), inputs) is not None
