"""Laws on the atom that takes a new bond: ends of double bonds, sides of an epoxide, rings that do not react.

A law looks at the atom map of a step that is there anyway; what contradicts it is a sentence.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rdkit import Chem

from chemspec.chem.checks.flask_inert import INERT_GROUPS, matches_at
from chemspec.chem.checks.flask_parts import matches_any, matches_of
from chemspec.chem.molecules.parsing import fixed_pattern
from chemspec.chem.reactions.step_class import StepClass

_COUPLED = ("Suzuki coupling", "Stille coupling", "Negishi coupling", "Sonogashira coupling", "Heck coupling")
_BORANES = "[BX3;!H0] [BH3] [BH4-].B(F)(F)F"
_MERCURY = "[Hg] [Hg+2] [Hg+]"
_HALIDES = {"Cl", "Br", "I"}
_HYDROGEN_HALIDE = "[Cl,Br,I;D0;H1] [I-].[PX4](=O)[OH] [Br-].[SX4](=O)(=O)[OH]"
_RADICALS = "[OX2][OX2] N#CC(C)(C)N=N O=O"  # peroxides, azo compounds and oxygen turn the addition of hydrogen bromide
_AZOLE = "[c;$(c1nc[s,o][cH]1)]-c"  # arylated at carbon 4 while carbon 5 is free
_MIGRATED = "[CX4]-[OX2]-[CX3](=O)-[CX4]"
_STRONG_ACIDS = "[SX4](=O)(=O)[OH] [F,Cl,Br,I;D0;H1] OC(=O)C(F)(F)F B(F)(F)F [B-](F)(F)(F)F.[H+] [Cl+3](=O)[OH] \
Cl(=O)(=O)(=O)[OH] [Al](Cl)(Cl)Cl [Sn](Cl)(Cl)(Cl)Cl"
_LEWIS_ACIDS = (
    "[B,Al,Ti,Sn,Zn,Sc,Yb,Bi,In,Ce,La,Zr,Fe,Mg,Li,Cu,Er,Ru,Co,Cr] [Li+] [Mg+2] [Zn+2] [Cl+3] [Ce+3] Cl(=O)(=O)(=O)"
)
_ANY_ACID = f"{_STRONG_ACIDS} {_LEWIS_ACIDS}"
_BASES = "[NX3;!$(N-[C,S,P]=[O,S]);!$(N-C#N);!$(N-[c]);!$(N=*)] [O-;!$([O-][N+]);!$([O-][Cl,S])] [OH-] [S-] [C-]#N \
[H-] [N-]=[N+]=[N-] [N-]"
# Carbon atoms next to groups that choose the site by their electrons.
_STABLE = "[$(C-[c]),$(C-C=C),$(C-C=[O,N]),$(C-C#[N,C]),$(C-[O,N,S;!r3]),$(C-[Si]),$(C-C(F)(F)F)]"
_CATION_SITE = "[$(C-[c]),$(C-C=C)]"
_EPOXIDE = "[CX4;r3:1]1-[OX2;r3]-[CX4;r3:2]1"
_TERTIARY = (
    "[CX4;D4;!x3;!$(C-c);!$(C-C=[C,O,N]);!$(C-C#[C,N]);!$(C-[!#6;!Cl;!Br;!I;!$(OS(=O)=O)])]-[Cl,Br,I,$(OS(=O)=O)]"
)
# What takes a tertiary halide along another path: acids, silver, metals and radicals.
_CATIONS = "[Ag] [Ag+] [Al,Zn,Ti,Sn,Fe,Cu,Ni,Co,Pd,Ir,Ru,Mn,In,Mg,Li,B,Bi,Sb,Hg] [Zn+2] [Fe+3] [Cu+2] [H+] \
[SX4](=O)(=O)[OH] [Cl,Br,I;D0;H1] OC(=O)C(F)(F)F [OX2][OX2] [#6]-N=N-[#6]"
_BRIDGEHEAD = "[CX4;D4;x3;!$(C-c);!$(C-C=[C,O,N]);!$(C-[!#6;!Cl;!Br;!I])]-[Cl,Br,I]"
_SECONDARY = "[CX4;D3;!$(C-[#6;!X4]);!$(C-[!#6;!Cl;!Br;!I])]-[Cl,Br,I]"
_BUTOXIDE = "[OX2]-[CX4](-[CH3])(-[CH3])-[CH3]"
_TERTIARY_ALCOHOL = "[CX4;D4;!$(C-c);!$(C-C=C);!$(C-C#C);$(C(-[#6])(-[#6])-[#6])]-[OH]"
_AZO = "C(=O)N=NC(=O).[PX3]"
_DEACTIVATED_END = "[$(C-C=[O,N]),$(C-C#N),$(C-C(F)(F)F),$(C-[Si]),$(C-C=C),$(C-S=O),$(C-[N+])]"
_POISONS = "n1ccccc1 [Pb] [Ba] [Ca] [Zn] [Hg] [Ag] [S;X2] [OH-] NCCN [Pb+2] [Ba+2] [Ca+2] [Zn+2]"  # Lindlar's and kin
_COPPER, _RUTHENIUM = "[Cu] [Cu+] [Cu+2]", "[Ru] [Ru+2]"
_CLICKS = (
    (_COPPER, _RUTHENIUM, "[c;!H0]1nnn(-[#6])c1-[#6]", "copper gives the 1,4-disubstituted triazole"),
    (_RUTHENIUM, _COPPER, "[c;!H0]1n(-[#6])nnc1-[#6]", "ruthenium gives the 1,5-disubstituted triazole"),
)
_INNER_ALKYNE = "[CX2;H0;!r8;!$(C-[Br,I,Si])]#[CX2;H0;!$(C-[Br,I,Si])]"
_UNACTIVATED = {
    "[CX4;!$(C-c);!$(C-C=C);!$(C-C=O);!$(C-C#*);!$(C-[!#6;!Cl])]-Cl": "an unactivated alkyl chloride",
    "[CX4;H0,H1;!$(C-c);!$(C-C=C);!$(C-C=O);!$(C-C#*);!$(C-[!#6;!Br])]-Br": "a secondary or tertiary alkyl bromide",
}
_BENZENE = "[c;$(c1[c][c][c][c][c]1)]"  # no nitrogen, in whose rings the position counts as well
_LEAVING_ORDER = (f"{_BENZENE}-I", f"{_BENZENE}-Br", f"{_BENZENE}-O-S(=O)(=O)C(F)(F)F", f"{_BENZENE}-Cl")
_BETWEEN = "[CX4;!H0;$(C(-C(=O)-[#6])-C(=O)-[#6,O])]"
_ACYL = "[CX3;!$(C-C-F);!$(C-[N,n]);!$(C-C=O);!$(C-O-c)](=O)-[$([OX2]-[CX4]),Cl,Br]"
_WITHDRAWING = "[$([N+](=O)[O-]),$(C#N),$(C(F)(F)F),$(S(=O)=O),$([CX3]=O),$([N+;X4])]"
_GIVING = "[$([OX2]),$([NX3;!$([N+])]),$([SX2]),$([CX4;!$(C(F)(F)F)]),$(c),$([O-])]"


def opened_double_bonds(step: StepClass, left: Any, right: Any) -> Iterator[tuple[int, int]]:
    """Yield the C=C bonds that become single, as atoms of the product."""
    after = [atom for atom in step.after if step.origin[atom] >= 0 and right.GetAtomWithIdx(atom).GetSymbol() == "C"]
    for k, atom in enumerate(after):
        for other in after[:k]:
            bond = right.GetBondBetweenAtoms(atom, other)
            before = left.GetBondBetweenAtoms(step.origin[atom], step.origin[other])
            if bond and before and before.GetBondTypeAsDouble() == 2 and bond.GetBondTypeAsDouble() == 1:
                yield other, atom


def site_conflicts(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    """Yield where a new bond is at a site that the reaction does not choose."""
    names = step.name.split(" + ")
    for name, find in _LAWS.items():
        if name in names:
            yield from find(step, left, right, whole)
    for law in (_tertiary_halides, *INERT_GROUPS):
        yield from law(step, left, right, whole)


def _azoles(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    for hit in matches_of(right, _AZOLE):
        if any(set(pair) == set(hit[:2]) for pair in step.made):
            yield "direct arylation of such an azole takes the carbon atom next to sulfur or oxygen"


def _migrations(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    for moved, _, carbonyl, _, stays in matches_of(right, _MIGRATED):
        ends = [step.origin[atom] for atom in (moved, carbonyl, stays)]
        if min(ends) < 0 or left.GetBondBetweenAtoms(ends[0], ends[1]) is None:
            continue
        if left.GetAtomWithIdx(ends[0]).GetTotalNumHs() > left.GetAtomWithIdx(ends[2]).GetTotalNumHs():
            yield "in the Baeyer-Villiger oxidation the more substituted carbon atom moves"


def _hydrations(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    for here, there, _ in _added(step, left, right, {"O"}):
        if here < there and matches_any(whole, _BORANES):
            yield "hydroboration puts the hydroxyl group at the end of the double bond with more hydrogen"
        if here > there and matches_any(whole, _MERCURY):
            yield "oxymercuration puts the hydroxyl group at the end of the double bond with less hydrogen"
        elif here > there and not matches_any(whole, _BORANES) and matches_any(whole, _STRONG_ACIDS):
            yield "acid puts the hydroxyl group at the end of the double bond with less hydrogen"


def _hydrohalogenations(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    if not matches_any(whole, _HYDROGEN_HALIDE) or matches_any(whole, _RADICALS):
        return
    for here, there, atoms in _added(step, left, right, _HALIDES):
        stable, poor = matches_at(left, _STABLE, atoms[0]), matches_at(left, _DEACTIVATED_END, atoms[1])
        if here > there and not stable and not poor:
            yield "a hydrogen halide puts the halogen at the end of the double bond with less hydrogen"


def _added(step: StepClass, left: Any, right: Any, symbols: set[str]) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Yield, of a double bond that gets one atom of these elements, the hydrogens there and at the other end before."""
    pairs = [pair for pair in step.made if any(right.GetAtomWithIdx(atom).GetSymbol() in symbols for atom in pair)]
    ends = {atom for pair in pairs for atom in pair if right.GetAtomWithIdx(atom).GetSymbol() == "C"}
    if len(ends) != 1:
        return
    for first, second in opened_double_bonds(step, left, right):
        for atom, other in ((first, second), (second, first)):
            if atom in ends:
                origins = (step.origin[atom], step.origin[other])
                here, there = (left.GetAtomWithIdx(origin).GetTotalNumHs() for origin in origins)
                yield here, there, origins


def _epoxides(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    made = {step.origin[atom]: other for pair in step.made for atom, other in (pair, pair[::-1])}
    for first, oxygen, second in matches_of(left, _EPOXIDE):
        attacked = [atom for atom in (first, second) if atom in made and not _still_bound(step, right, atom, oxygen)]
        if len(attacked) != 1:
            continue
        here = attacked[0]
        if matches_at(right, "[OH]", made[here]):
            continue  # the diol, whichever side takes the water
        there = second if here == first else first
        hydrogens = [left.GetAtomWithIdx(atom).GetTotalNumHs() for atom in (here, there)]
        stable = [matches_at(left, _STABLE, atom) for atom in (here, there)]
        cation = hydrogens[1] == 0 or matches_at(left, _CATION_SITE, there)
        if (
            hydrogens[0] > hydrogens[1]
            and cation
            and matches_any(whole, _STRONG_ACIDS)
            and not matches_any(whole, _BASES)
        ):
            yield "acid opens an epoxide at its tertiary or benzylic carbon atom"
        elif (
            hydrogens[0] < hydrogens[1]
            and not stable[0]
            and matches_any(whole, _BASES)
            and not matches_any(whole, _ANY_ACID)
        ):
            yield "a nucleophile without acid opens an epoxide at its less substituted carbon atom"


def _still_bound(step: StepClass, right: Any, carbon: int, oxygen: int) -> bool:
    after = {origin: atom for atom, origin in enumerate(step.origin) if origin >= 0}
    ends = after.get(carbon), after.get(oxygen)
    return None not in ends and right.GetBondBetweenAtoms(*ends) is not None


def _tertiary_halides(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    """Yield where a base or an anion would take the place of a tertiary halide, which loses hydrogen halide instead."""
    if not step.name.endswith(("lkylation", "(Williamson)", "Cyanation", "(Mitsunobu)", "exchange")):
        return
    if matches_any(whole, _CATIONS) or not matches_any(whole, _BASES):
        return
    made = {step.origin[atom]: other for pair in step.made for atom, other in (pair, pair[::-1])}
    after = {origin: atom for atom, origin in enumerate(step.origin) if origin >= 0}
    for carbon, leaving, *_ in matches_of(left, _TERTIARY):
        if carbon in made and leaving not in after and right.GetAtomWithIdx(made[carbon]).GetSymbol() in "NOSC":
            yield "a tertiary halide or sulfonate eliminates with a base or an anion"
    for carbon, leaving in matches_of(left, _BRIDGEHEAD):
        if carbon in made and leaving not in after and right.GetAtomWithIdx(made[carbon]).GetSymbol() in "NOSC":
            yield "a halide where rings meet cannot be attacked from behind"
    if step.name.endswith("(Williamson)"):
        for carbon, leaving in matches_of(left, _SECONDARY):
            if carbon in made and leaving not in after and matches_at(right, _BUTOXIDE, made[carbon]):
                yield "tert-butoxide takes hydrogen halide from a secondary halide"


def _deactivated_rings(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    if matches_any(whole, "[N-](-[CX4,Si])-[CX4,Si] [Li]-[#6] [Mg]-[#6]"):
        return  # the ring is metallated
    rings = [set(ring) for ring in right.GetRingInfo().AtomRings() if len(ring) == 6]
    for pair in step.made:
        for atom, other in (pair, pair[::-1]):
            if not right.GetAtomWithIdx(atom).GetIsAromatic() or right.GetAtomWithIdx(other).GetIsAromatic():
                continue
            for ring in (ring for ring in rings if atom in ring):
                outside = [
                    near.GetIdx()
                    for member in ring
                    for near in right.GetAtomWithIdx(member).GetNeighbors()
                    if near.GetIdx() not in ring | {other}
                ]
                groups = [[matches_at(right, kind, near) for near in outside] for kind in (_WITHDRAWING, _GIVING)]
                if any(groups[0]) and not any(groups[1]):
                    yield "a ring with such an electron-poor group does not take part in a Friedel-Crafts reaction"
                elif any(matches_at(right, "[nX2]", member) for member in ring) and not any(groups[1]):
                    yield "a pyridine does not take part in a Friedel-Crafts reaction"


def _couplings(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    """Yield where palladium would take an unactivated alkyl halide, or leave the better leaving group of a ring."""
    made = {step.origin[atom] for pair in step.made for atom in pair}
    after = {origin: atom for atom, origin in enumerate(step.origin) if origin >= 0}
    for pattern, words in _UNACTIVATED.items():
        for carbon, leaving in matches_of(left, pattern):
            if carbon in made and leaving not in after and not matches_any(whole, "[Ni] [Ni+2] [Fe] [Co] [Ir]"):
                yield f"{words} does not take part in such a coupling with palladium"
    yield from _leaving_groups(step, left, right, whole)


def _leaving_groups(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    """Yield where a metal would leave the better leaving group of a benzene ring."""
    made = {step.origin[atom] for pair in step.made for atom in pair}
    after = {origin: atom for atom, origin in enumerate(step.origin) if origin >= 0}
    leaving_rank: dict[int, int] = {}  # rank of what leaves, by molecule
    remaining: dict[int, int] = {}
    for rank, pattern in enumerate(_LEAVING_ORDER):
        for carbon, leaving, *_ in matches_of(left, pattern):
            molecule = _molecule_of(left, carbon)
            if carbon in made and leaving not in after:
                leaving_rank[molecule] = max(rank, leaving_rank.get(molecule, -1))
            elif carbon in after and leaving in after:
                remaining[molecule] = min(rank, remaining.get(molecule, len(_LEAVING_ORDER)))
    if any(remaining.get(molecule, rank) < rank for molecule, rank in leaving_rank.items()):
        yield "the metal takes the better leaving group (iodide, bromide, triflate, chloride in this order)"


def _fluorides(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    """Yield where boron or tin and an aryl fluoride would couple."""
    made = {step.origin[atom]: step.origin[other] for pair in step.made for atom, other in (pair, pair[::-1])}
    for carbon, fluorine in matches_of(left, "c-F"):
        other = made.get(carbon, -1)
        if other < 0 or fluorine in step.origin:
            continue
        if matches_any(whole, "[Pd] [Pd+2]") and matches_at(left, "[$([CX2;H1]#[CX2]),$([CX3;H2]=[CX3])]", other):
            yield "an aryl fluoride does not take part in such a coupling"
        if matches_any(whole, "[Mg;D0;+0]"):
            yield "magnesium does not insert into an aryl fluoride"
        if any(near.GetSymbol() in ("B", "Sn", "Zn") for near in left.GetAtomWithIdx(other).GetNeighbors()):
            yield "an aryl fluoride does not take part in such a coupling"


def _ketones(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    """Yield where a lithium or Grignard reagent would stop at the ketone of an ester or acid chloride."""
    made = {step.origin[atom]: step.origin[other] for pair in step.made for atom, other in (pair, pair[::-1])}
    for carbonyl, _, leaving in matches_of(left, _ACYL):
        reagent = made.get(carbonyl, -1)
        if (
            reagent < 0
            or leaving in step.origin
            or matches_any(whole, "[Cu] [Cu+] [Zn] [Zn+2] [Fe] [Ce] [Mn] [Mn+2] [Ni] [Pd]")
        ):
            continue
        atom = left.GetAtomWithIdx(reagent)
        if any(near.GetSymbol() in ("Li", "Mg") for near in atom.GetNeighbors()) and atom.GetSymbol() == "C":
            yield "a lithium or Grignard reagent adds twice to an ester or acid halide, to the tertiary alcohol"


def _molecule_of(mol: Any, atom: int) -> int:
    return next(number for number, atoms in enumerate(Chem.GetMolFrags(mol)) if atom in atoms)


def _tertiary_alcohols(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    """Yield where a tertiary alcohol would take part in a Mitsunobu reaction, whose phosphonium ion is too crowded."""
    if not matches_any(whole, _AZO):
        return
    made = {step.origin[atom]: other for pair in step.made for atom, other in (pair, pair[::-1])}
    for carbon, oxygen in matches_of(left, _TERTIARY_ALCOHOL):
        if carbon in made and oxygen not in step.origin and right.GetAtomWithIdx(made[carbon]).GetSymbol() in "NOS":
            yield "a tertiary alcohol does not take part in the Mitsunobu reaction"


def _triazoles(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    """Yield the isomer that the metal does not give."""
    ends = [atom for atom in map(left.GetAtomWithIdx, step.before) if atom.GetDegree() == 1]
    if not any(atom.GetTotalNumHs() for atom in ends):
        changed = set(step.before)
        inner = any(changed >= set(hit) for hit in matches_of(left, _INNER_ALKYNE))
        if inner and matches_any(whole, _COPPER) and not matches_any(whole, _RUTHENIUM):
            yield "copper needs a terminal alkyne"
        return
    for metal, other, pattern, sentence in _CLICKS:
        if (
            matches_any(whole, metal)
            and not matches_any(whole, other)
            and right.HasSubstructMatch(fixed_pattern(pattern))
        ):
            yield sentence


def _sandmeyer_halides(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    """Yield where another halide than that of the copper salt would take the place of the diazonium group."""
    if not matches_any(whole, "[Cu]-Br [Cu]-Cl"):
        return
    new = {right.GetAtomWithIdx(atom).GetSymbol() for pair in step.made for atom in pair} & _HALIDES
    if new and not any(matches_any(whole, f"[Cu]-{symbol}") for symbol in new):
        yield "in the Sandmeyer reaction the halide of the copper salt is taken up"


def _active_methylenes(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    """Yield where a halogen would enter at one carbonyl group instead of between two."""
    if matches_any(whole, "[N-](-[CX4,Si])-[CX4,Si] [Li]-[#6]"):
        return
    made = {step.origin[atom] for pair in step.made for atom in pair}
    between = {atom for (atom,) in matches_of(left, _BETWEEN)}
    single = {atom for (atom,) in matches_of(left, "[CX4;!H0;$(C-C=O)]")} - between
    for atom in made & single:
        if any(_molecule_of(left, other) == _molecule_of(left, atom) for other in between):
            yield "the halogen goes to the carbon atom between two carbonyl groups"


def _stannylations(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    """Yield where tin hydride would put tin in the place of a halogen, which a distannane and palladium do."""
    if matches_any(whole, "[Sn]-[Sn] [Pd] [Li] [Mg] [Sn]-[Cl,Br]") or not matches_any(whole, "[SnH]"):
        return
    made = {step.origin[atom] for pair in step.made for atom in pair}
    if any(carbon in made and halogen not in step.origin for carbon, halogen in matches_of(left, "[#6]-[Cl,Br,I]")):
        yield "tin hydride takes the halogen off (to a radical, which may close a ring), and leaves no tin there"


def _fischer_indoles(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    """Yield where a methyl ketone would close through its methyl group."""
    if not matches_any(whole, "c-[NX3]-[NX3;H2]"):
        return
    for end, _, chain, _ in matches_of(right, "[cH]c(-[CX4;!H0;!$(C-[!#6])])n"):
        first, second = step.origin[end], step.origin[chain]
        if min(first, second) < 0 or not matches_at(left, "[CH3]-[CX3]=O", first):
            continue
        if matches_at(left, "[CX4;$(C-[#6;!$(C=O)])]-[CX3](=O)-[CH3]", second):
            yield "under acid the Fischer synthesis closes at the more substituted carbon atom of the ketone"


def _alkynes(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    """Yield where hydrogen over palladium would stop at the alkene, though nothing slows the catalyst down."""
    if not matches_any(whole, "[H][H].[Pd]") or matches_any(whole, _POISONS):
        return
    alkynes = {frozenset(hit) for hit in matches_of(left, "C#C")}
    for first, second in matches_of(right, "[CX3]=[CX3]"):
        if frozenset((step.origin[first], step.origin[second])) in alkynes:
            yield "hydrogen over palladium goes on to the alkane, unless lead, barium or quinoline slows it down"


_Law = Callable[[StepClass, Any, Any, Sequence[str]], Iterator[str]]
_LAWS: dict[str, _Law] = {
    "Direct arylation": _azoles,
    "Baeyer-Villiger oxidation": _migrations,
    "Hydration of an alkene": _hydrations,
    "Addition of a halogen": _hydrohalogenations,
    "Epoxide opening": _epoxides,
    "Friedel-Crafts acylation": _deactivated_rings,
    "Friedel-Crafts alkylation": _deactivated_rings,
    "Alkylation with an alcohol (Mitsunobu)": _tertiary_alcohols,
    "Alkylation with an alcohol": _tertiary_alcohols,
    "Ester alkylation": _tertiary_alcohols,
    "1,2,3-triazole synthesis": _triazoles,
    "C–C bond formation": _fluorides,
    "Addition of an organometallic reagent": _leaving_groups,
    "Sandmeyer reaction": _sandmeyer_halides,
    "Hydrogenation": _alkynes,
    "Halogenation": _active_methylenes,
    "Stannylation": _stannylations,
    "Indole synthesis": _fischer_indoles,
    "Ketone from an acid derivative": _ketones,
    **dict.fromkeys((*_COUPLED, "Buchwald-Hartwig amination"), _couplings),
}
