"""Short names of solvents, bases, catalysts and reagents, as chemists write them over a reaction arrow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache

from chemspec import chem
from chemspec.chem.formats import reagents

# Out of the table of reagents; what is often a reactant itself (Boc2O, Ac2O, MeI, amines ...) is left out: it gets
# drawn.
NAMES = """
H2O MeOH EtOH iPrOH tBuOH HFIP TFE DMF DMAc DMSO NMP THF MeTHF dioxane Et2O MTBE DME CPME DCM CHCl3 CCl4 DCE MeCN acetone
EtOAc benzene toluene hexane heptane cyclohexane HMPA Et3N DIPEA pyridine lutidine DMAP NMM DBU DABCO imidazole
NH4OH NH4Cl NaOH KOH LiOH K2CO3 Na2CO3 Cs2CO3 NaHCO3 K3PO4 NaOAc KOAc CsF KF NaI KI NaH KOtBu NaOtBu NaOMe NaOEt
nBuLi tBuLi LDA LiHMDS NaHMDS KHMDS NaBH4 LiBH4 NaBH3CN NaBH(OAc)3 LiAlH4 DIBAL Et3SiH H2 HCl HBr HF H2SO4 HNO3 H3PO4
AcOH TFA TsOH MsOH TfOH PPTS BF3 BF3.OEt2 BBr3 AlCl3 TiCl4 (COCl)2 SOCl2 POCl3 TBAF TBAB HATU HBTU TBTU EDC EDC.HCl DCC HOBt
HOAt CDI T3P PyBOP mCPBA H2O2 TBHP MnO2 KMnO4 PCC TEMPO DDQ AIBN PPh3 DEAD DIAD Pd Pd(OAc)2 Pd(PPh3)4 PdCl2(PPh3)2 CuI CuBr
iron zinc
"""
MORE = {
    "Pt": "[Pt]",
    "BINAP": "c1ccc(P(c2ccccc2)c2ccc3ccccc3c2-c2c(P(c3ccccc3)c3ccccc3)ccc3ccccc23)cc1",
    "NaCl": "[Na+].[Cl-]",
    "LiCl": "[Li+].[Cl-]",
    "KHCO3": "[K+].O=C([O-])O",
}
_LOWER = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def set_apart(parts: Sequence[str], keep: Collection[str] = ()) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Which parts of a flask to draw, and short names of the others.

    Args:
        parts: canonical SMILES, each without dots.
        keep: parts to draw though they have a name.

    Returns:
        places of the parts to draw (all, if every one has a name); names, salts first.
    """
    left = Counter(part for part in parts if part not in keep)
    names = []
    for name, needed in _book():
        if all(left[part] >= count for part, count in needed.items()):
            names.append(name)
            for part in needed:  # a second helping of the same is not written twice
                left[part] -= needed[part] * (left[part] // needed[part])
    drawn = []
    for place, part in enumerate(parts):
        if part in keep or left[part] > 0:
            drawn.append(place)
            left[part] -= 1
    return (tuple(drawn), tuple(names)) if drawn else (tuple(range(len(parts))), ())


@cache
def _book() -> tuple[tuple[str, Counter[str]], ...]:
    """Names as they are printed with their canonical parts; those of most parts first."""
    table = dict(MORE)
    for name in NAMES.split():
        if found := reagents.find(name):
            table[name] = found[0]
    pairs = [(printed(name), Counter(chem.canonical_parts(smiles) or ("?",))) for name, smiles in table.items()]
    return tuple(sorted(pairs, key=lambda pair: -pair[1].total()))


def printed(name: str) -> str:
    """A name with its numbers below the line: K₂CO₃."""
    return re.sub(r"(?<=[A-Za-z)])\d+", lambda number: number[0].translate(_LOWER), name)
