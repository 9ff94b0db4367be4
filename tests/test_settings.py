"""Settings and sizes of drafts beyond their limits are refused, by name and with the limits."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.case_tables import table

from chemspec.draft.registry import Copy, Mixed, Smart, Windows
from chemspec.draft.tree.edit_ngrams import COPY_ONLY
from chemspec.settings import DecodeSettings


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
