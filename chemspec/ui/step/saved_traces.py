"""Read saved traces from untrusted files; what passes here can neither be huge nor fail when it is drawn."""

import msgspec

from chemspec.types import DecodeResult, result_from_json

MAX_BYTES = 5_000_000
MAX_TEXT = 4000  # characters
MAX_DRAFTED = 200_000  # tokens of all drafts together
MAX_NODES = 20_000  # of the tree
MAX_NUMBER = 10**9
PLACES = 6000  # of a query

# By the name of a field: the most entries, and the most characters of each, where they are few.
SIZES = {"passes": 1000, "query": 3000, "tokens": 3000, "vocabulary": 10_000, "hypotheses": 100, "spellings": 100}
SHORT = {"query": 60, "tokens": 60, "vocabulary": 60, "drafter": 60}
# By the name of a field: the least and the largest number.
COUNT, PLACE = (0, MAX_NUMBER), (0, PLACES)
RANGES = {
    "probability": (0, 1.001),
    "width": (1, MAX_NUMBER),
    "start": PLACE,
    "length": PLACE,
    "span": PLACE,
    "places": (-1, PLACES),
    **dict.fromkeys(("asked", "computed", "drafted", "emitted", "accepted"), COUNT),
    **dict.fromkeys(("seconds", "draft_seconds", "model_seconds"), COUNT),
}


class SavedError(ValueError):
    """A file that cannot be opened; the message quotes nothing of the file."""


def read_trace(raw: bytes) -> DecodeResult:
    """Return the result that a saved file holds; raises SavedError if it is too large or makes no sense."""
    if len(raw) > MAX_BYTES:
        raise SavedError(f"The file has {len(raw) / 1e6:.1f} MB; a saved trace may have {MAX_BYTES // 1_000_000}.")
    try:
        result = result_from_json(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        raise SavedError(
            "This is not a trace saved by chemspec. Open a .json file that this page, or “Download JSON” on the page "
            "Predict, has written."
        ) from None
    for trace in (result.trace, *(spelling.trace for spelling in result.spellings)):
        drafted = sum(len(draft.tokens) + 1 for step in trace.passes for draft in step.drafts)
        grown = sum(len(step.grown.parents) + len(step.grown.beam) / 5 for step in trace.passes if step.grown)
        if drafted > MAX_DRAFTED or grown > MAX_NODES:
            raise SavedError(f"The file has more than {MAX_DRAFTED:,} drafted tokens or {MAX_NODES:,} nodes.")
        if not all(isinstance(value, str | int | float | None) for value in trace.settings.values()):
            raise SavedError("The file holds settings of a wrong kind.")
    if any(spelling.spellings for spelling in result.spellings):
        raise SavedError("The file holds spellings of spellings.")
    _check_ranges(msgspec.to_builtins(result), "")
    return result


def _check_ranges(value: object, name: str, *, entry: bool = False) -> None:
    """Check sizes and ranges of a value and all that it holds, by the names of the fields.

    Raises:
        SavedError: saying what is out of bounds, but for texts of the file.
    """
    if isinstance(value, dict):
        for key, part in value.items():
            _check_ranges(key, "", entry=True)
            _check_ranges(part, key)
    elif isinstance(value, list | tuple):
        if len(value) > SIZES.get(name, MAX_DRAFTED):
            raise SavedError(f"The file has {len(value):,} {name}; {SIZES.get(name, MAX_DRAFTED):,} can be shown.")
        for part in value:
            _check_ranges(part, name, entry=True)
    elif isinstance(value, str):
        if len(value) > (SHORT.get(name, MAX_TEXT) if entry or name == "drafter" else MAX_TEXT):
            raise SavedError("The file holds a text of more characters than can be shown.")
    elif isinstance(value, int | float):
        least, most = RANGES.get(name, (-MAX_NUMBER, MAX_NUMBER))
        if not least <= value <= most:  # which NaN is not
            raise SavedError("The file has a number that is out of its range.")
