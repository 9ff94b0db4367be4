"""The year of a patent of the United States, from its number."""

import re
from bisect import bisect_right

# First number of each year from 1976 on, as the patent office lists them; the last is that of 2021.
_FIRST_YEAR = 1976
_FIRSTS = [
    *(3930271, 4000520, 4065812, 4131952, 4180867, 4242757, 4308622, 4366579, 4423523, 4490855, 4562596, 4633526),
    *(4716594, 4794652, 4890335, 4980927, 5077836, 5175886, 5274846, 5377359, 5479658, 5590420, 5704062, 5855021),
    *(6009555, 6167569, 6334220, 6502244, 6671884, 6836899, 6981282, 7155746, 7313829, 7472428, 7640598, 7861317),
    *(8087094, 8341762, 8621662, 8925112, 9226437, 9532496, 9854721, 10165721, 10524402, 10881042),
]
_APPLICATION = re.compile(r"US(20[0-2]\d)\d{7}(?:A\d)?")  # its publication
_GRANT = re.compile(r"US0?(\d{7,8})(?:[AB]\d?)?")


def patent_year(number: str) -> str:
    """Return the year in which a patent was granted or an application published; empty if that is not known."""
    if match := _APPLICATION.fullmatch(number):
        return match[1]
    years = bisect_right(_FIRSTS, int(match[1])) if (match := _GRANT.fullmatch(number)) else 0
    return str(_FIRST_YEAR + years - 1) if 0 < years < len(_FIRSTS) else ""
