"""Spellings of one name: Greek letters, primes, dashes, dots of adducts, British and American forms."""

from __future__ import annotations

import re
from collections.abc import Iterator

_GREEK = {
    "alpha": "\u03b1\u0391", "beta": "\u03b2\u0392\u00df", "gamma": "\u03b3\u0393", "delta": "\u03b4\u0394\u2206",
    "epsilon": "\u03b5\u03f5\u0395", "zeta": "\u03b6", "eta": "\u03b7", "theta": "\u03b8", "kappa": "\u03ba",
    "lambda": "\u03bb", "mu": "\u03bc\u00b5", "pi": "\u03c0", "sigma": "\u03c3", "tau": "\u03c4", "phi": "\u03c6",
    "psi": "\u03c8", "omega": "\u03c9\u03a9",
}  # fmt: skip
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u00ad\u02d7\ufe63\uff0d"
PRIMES = "\u2018\u2019\u201b\u2032\u02b9\u02bc`\u00b4\uff07"
DOTS = "\u00b7\u2022\u2219\u22c5\u30fb\u2027"  # of adducts
_SIGNS = {
    **{sign: name for name, signs in _GREEK.items() for sign in signs},
    **dict.fromkeys(DASHES, "-"),
    **dict.fromkeys(PRIMES, "'"),
    **dict.fromkeys(DOTS, "."),
    "\u2033": "''",
    "\u00a0": " ",
    "\u00b1": "+-",
    "\u00fc": "u",
    "\u00f6": "o",
    "\u00e9": "e",
    **{chr(0x2080 + digit): str(digit) for digit in range(10)},
}
_TABLE = str.maketrans(_SIGNS)
_DOTTED_GREEK = re.compile(rf"\.({'|'.join(_GREEK)})\.", re.IGNORECASE)
_LOCANT = r"(?<![A-Za-z0-9])((?:\d{1,2}|[NnOoSs])'*)"
_COMMA = re.compile(_LOCANT + r"\s*,\s*(?=(?:\d{1,2}|[NnOoSs])'*\s*[-,])")
_HYPHEN = re.compile(_LOCANT + r"(?:\s+-\s*|-\s+)(?=[A-Za-z(\[])")
_OTHER_FORMS = (
    (r"sulph", "sulf"),
    (r"\baluminum", "aluminium"),
    (r"\bcesium", "caesium"),
    (r"\bt-(?=bu)", "tert-"),
    (r"\bn-(?=[a-z]{4})", ""),
    (r"(?<=[a-z]an)es\b", "e"),  # hexanes
    (r"\bisopropanol\b", "2-propanol"),
)


def plain_name(name: str) -> str:
    """Return a name in ASCII, without blanks around locants: beta-alanine, N,N-dimethylformamide."""
    text = _DOTTED_GREEK.sub(r"\1", name.strip().translate(_TABLE))
    return join_locants(" ".join(text.split()))


def join_locants(text: str) -> str:
    """Remove the blanks within the locants of a name, as in N, N-dimethylformamide."""
    if "," not in text and "-" not in text:
        return text
    return _HYPHEN.sub(r"\1-", _COMMA.sub(r"\1,", text))


def other_forms(name: str) -> Iterator[str]:
    """Yield other spellings of a plain name, such as sulfonyl for sulphonyl."""
    changed = name
    for pattern, form in _OTHER_FORMS:
        changed = re.sub(pattern, form, changed, flags=re.IGNORECASE)
    if changed != name:
        yield changed
    if "." in name:
        yield name.replace(".", " ")
