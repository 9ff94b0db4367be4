"""Groups that do not react: what a model joins all the same, whatever the class of the step is called.

A law looks at the atom map of a step that is there anyway; what contradicts it is a sentence.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from chemspec.chem.checks.flask_parts import matches_any, matches_of
from chemspec.chem.molecules.parsing import fixed_pattern
from chemspec.chem.reactions.step_class import StepClass

_METALS = "[Pd,Ni,Cu,Co,Fe,Ru,Rh,Ir,Pt,Ag,Au,Mg,Zn,Li,Sn] [Pd+2] [Ni+2] [Cu+] [Cu+2] [Ag+]"
_STRONG_BASES = "[H-] [CX4]-[O-] [NH2-] [N-](-[CX4,Si])-[CX4,Si] [OH-] [Li]-[#6] [Na+0,K+0]"
# Without a group that takes up charge, and with one halogen: perhalogenated alkenes and enones do react.
_VINYL = (
    "[CX3;!$(C-[F,Cl,Br,I,O,N,S]-*);!$(C(-[F,Cl,Br,I])-[F,Cl,Br,I])](=[CX3;!$(C-[F,Cl,Br,I]);!$(C-[$(*=[O,N]),"
    "$(C#N),$(S=O),$([N+]),$(P=O)])])-[Cl,Br,I]"
)
_AZO = "C(=O)N=NC(=O).[PX3]"
_AMINE = (
    "[NX3;H1,H2;+0;!$(N-[C,S,P]=[O,S,N]);!$(N-[N,O,S]);!$(N-C#N);!$(N-c:n);!$(N-c:c:c:n);!$(N-c(:c-[N+]));"
    "!$(N-c:c:c:c-[N+])]"
)
_CARBINOL = "[CX4]-[OX2]"  # of the alcohol, or of the azo ester, whose alkyl groups an atom map takes as well
_ALKANE = "[CX4;$(C-[F,Cl,Br,I]);!$(C~[!#6;!#1;!F;!Cl;!Br;!I]);!$(C-[#6;!X4]);!$(C-C~[!#6;!#1])]-[Cl,Br,I]"
_RADICALS = "[OX2][OX2] N#CC(C)(C)N=N [B] [Fe,Mn,Cu,Co,Ru,Ir,W] [O;v1] O=O"
_YLIDE = "[P;X4](c)(c)(c)=[CX3]-C(=O)-O"
_ARYL_KETONE = "[CX3;!$(C-C=[O,N]);!$(C-C~F)](=O)(-c)-[#6]"
# A methyl or methylene group on a benzene ring without nitrogen or a nitro group that would make it acidic.
_TOLYL = "[CX4;!H0;!$(C-[!#6]);!$(C-C=[O,N]);!$(C-C#N);!$(C-S=O)]-[c;!$(c:[n,o,s]);!$(c:c:n);!$(c:c:c:n);!$(c:c-[N+]);\
!$(c:c:c:c-[N+])]"
_CARBONYL = "[CX3]=O"
_PERACIDS = "O=C(-O-[OH])c O=C(-O-[OH])-[CH3]"
_OTHER_PEROXIDES = "[OX2H][OX2H] [CX4]-O-[OH] [OX2]1[OX2]C1 [Mn] [Ti] [W]"
_POOR_ALKENE = "[CX3;$(C-[$(C(=O)-[O,N]),$(C#N),$([N+](=O)[O-])])]=[CX3;!$(C(-[#6])-[#6]);!$(C-[O,N,S])]"
_GIVING = "[$([OX2]),$([NX3;!$([N+])]),$([SX2]),$([CX4;!$(C(F)(F)F)]),$(c),$([O-]),$([CX3]=[CX3])]"
_STRONG_GIVING = "[$([OX2]),$([NX3;!$([N+])]),$([SX2]),$([O-])]"
_ACTIVATORS = (
    "[SX4](=O)(=O)[OH] OC(=O)C(F)(F)F [B,Al,Fe,In,Zn,Pd,Au,Ag,Hg,Bi,Sb,Li,Mg,Rh,Ir,Ru,Co,Cu,Ti,Sc] [Fe+3] [Al+3] "
    "[Ag+] [Hg+2] [Pd+2] [Cu+2] [N-] S(=O)(=O)=O [Br]F [H-] [CX4]-[O-] [I+] [Cl+] [OX2][OX2] I(=O) [Se] [I;X3]"
)
_IODINE_OXIDANTS = (
    "[N+](=O)[O-] [OH-] O=C([O-])[O-] [O-]-[#6] [NX3;!$(N-[C,S]=[O,S])] [nX2] N-[F,Cl,Br,I] [O-][Cl+,I+] OS(=O)(=O)[O-]"
)

_ELECTROPHILIC = ("Halogenation", "Nitration", "Sulfonation", "Friedel-Crafts acylation", "Formylation")
_DIRECTING = "[OX2;!$(O-C=O);!$(O-S=O);!$(O-c:[!c]);!$(O-C(F)F)](-c) [NX3;H1;!$(N-S)](-c)-C=O"
_DIALKYLAMINO = "[NX3;+0;H0;$(N(-[CX4])-[CX4])](-c)"
_AMINO = "[NX3;+0;!$(N-C=[O,S,N]);!$(N-[N,O,S])](-c)"  # strong acids protonate it
_PROTONATING = "[SX4](=O)(=O)[OH] [N+](=O)([O-])[OH] [Al,Sb,Ti] [Cl+3] OC(=O)C(F)(F)F"
_METALLATED = "[N-](-[CX4,Si])-[CX4,Si] [Li]-[#6] [Mg]-[#6] [Pd,Rh,Ir,Ru,Ni,Tl,Hg,Cu] [Pd+2] [N+]#N [Li,Mg,Na;+0] \
N=[O] B"

_NITRILE = "[CX2;!$(C-[!#6]);!$(C-[CX4](~[F,Cl])~[F,Cl]);!$(C-c:[n,o,s]);!$(C-C=[O,N]);!$(C-C#N)]#N"
_ALCOHOL = "[OX2;H1]-[#6;!$(C=O)]"
_ADDING = f"{_STRONG_BASES} {_ACTIVATORS} [F,Cl,Br,I;D0;H1] [SX4](=O)(=O)[OH] [O-]-[CX4] [Si]-[Cl,Br,I] C(=O)Cl"

_DEALKYLATING = (
    "[OX2]-[CX3](=O)-Cl N#CBr [CX3](=O)(-Cl)-Cl [Pd,Ru,Rh,Ir,Cu,Fe,Ni] c-S C[Si]I [O-][n+] [OX2][OX2] [N;v5]"
)
_TERTIARY_AMINE = "[NX3;+0](-[CX4])(-[CX4])-[CX4]"
_ETHYL_AMINE = "[NX3;+0](-[CH2,CH1]-[CH3])(-[CH2,CH1]-[CH3])-[CX4]"
_ALKYL_CHLORIDE = "[CX4;!$(C-[#6;!X4]);!$(C-[!#6;!Cl])]-Cl"
_IODIDES = "[I-] [I;D1]-[Na,K] [Ag] [Ag+]"
# Esters that nothing activates, and the amines that they do not take by themselves.
_PLAIN_ESTER = (
    "[CX3;$(C-[CX4;!$(C-[!#6]);!$(C-[#6;!X4]);!r3;!r4]),$(C-c1[c][c][c][c][c]1),$([CX3]-[CH3])](=O)-[OX2]-"
    "[CX4;!$(C-[!#6;!$(O-C=O)]);!$(C-C-[!#6])]"
)
_ACETATE = "[CX3](-[CH3])(=O)-O-[#6;R0;$([CH3]),$([CH2]-[CH3]),$([CH](-[CH3])-[CH3])]"
_ALKYL_AMINE = "[NX3;H1,H2;+0;!$(N-[!#6]);!$(N-[#6;!X4])]"
_ACYLATING = (
    f"{_STRONG_BASES} [Al,Ti,Zr,Sn,Zn,Mg,La,Sc,Fe,Hf,Nb] [Al+3] [Zn+2] [N-] [NX2]=[CX3;R]-[NX3;R] [C-]#N B n-[OH]"
)
_COOL = "ClCCl ClC(Cl)Cl CCOCC C1CCOC1"
_DEFLUORINATING = "[SX4](=O)(=O)[OH] OC(=O)C(F)(F)F [B,Al,Fe,Ti,La,Yb,Sm,In,Zn] [Al+3] [Si] [F,Cl,Br,I;D0;H1] [Li]-N"
_FLUORIDE = "[CX4;!$(C(-F)-[F,O,N,S]);!$(C-c);!$(C-C=[O,C])]-F"


def matches_at(mol: Any, smarts: str, atom: int) -> bool:
    """Return whether a pattern fits with its first atom here."""
    return any(hit[0] == atom for hit in mol.GetSubstructMatches(fixed_pattern(smarts), maxMatches=1000))


def _vinyl_halides(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    if matches_any(whole, _METALS) or matches_any(whole, _STRONG_BASES):
        return
    made = {step.origin[atom]: other for pair in step.made for atom, other in (pair, pair[::-1])}
    for carbon, _, halogen in matches_of(left, _VINYL):
        if carbon in made and halogen not in step.origin and right.GetAtomWithIdx(made[carbon]).GetSymbol() in "NOSC":
            yield "a vinyl halide does not take part in a substitution without a metal"
    for carbon, halogen in matches_of(left, "[CX4;r3;!$(C1NC1);!$(C1OC1)]-[Cl,Br,I]"):
        if carbon in made and halogen not in step.origin and right.GetAtomWithIdx(made[carbon]).GetSymbol() in "NOSC":
            yield "a cyclopropyl halide does not take part in a substitution without a metal"


def _mitsunobu_amines(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    if not matches_any(whole, _AZO):
        return
    amines = {hit[0] for hit in matches_of(left, _AMINE)}
    carbinols = {hit[0] for hit in matches_of(left, _CARBINOL)}
    for pair in step.made:
        ends = {step.origin[atom] for atom in pair}
        if ends & amines and ends & carbinols and {right.GetAtomWithIdx(a).GetSymbol() for a in pair} == {"C", "N"}:
            yield "the Mitsunobu reaction needs an acidic N-H (of an imide, a sulfonamide or an azole)"


def _moved_alkynes(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    if matches_any(whole, _STRONG_BASES):
        return
    alkynes = {atom for hit in matches_of(left, "C#C") for atom in hit}
    for hit in matches_of(right, "C#C"):
        ends = [step.origin[atom] for atom in hit]
        if min(ends) < 0 or all(end in alkynes for end in ends) or not any(end in alkynes for end in ends):
            continue
        yield "a triple bond does not move along a chain without a strong base"


def _electron_poor_alkenes(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    if "Epoxidation" not in step.name or not matches_any(whole, _PERACIDS) or matches_any(whole, _OTHER_PEROXIDES):
        return
    changed = set(step.before)
    if any(changed >= set(hit) for hit in matches_of(left, _POOR_ALKENE)):
        yield "a peracid does not epoxidise a double bond next to a carbonyl group or nitrile"


def _halogenated_rings(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    if step.name != "Halogenation" or matches_any(whole, _ACTIVATORS):
        return
    iodine = matches_any(whole, "[I][I]") and not matches_any(whole, _IODINE_OXIDANTS)
    rings = [set(ring) for ring in right.GetRingInfo().AtomRings() if len(ring) == 6]
    for pair in step.made:
        if min(step.origin[atom] for atom in pair) < 0:
            continue
        for atom, halogen in (pair, pair[::-1]):
            here, new = right.GetAtomWithIdx(atom), right.GetAtomWithIdx(halogen)
            if matches_at(right, _ALKANE, atom) and not matches_any(whole, _RADICALS):
                yield "a saturated carbon atom without a group next to it is halogenated by radicals only"
            if not here.GetIsAromatic() or not left.GetAtomWithIdx(step.origin[atom]).GetTotalNumHs():
                continue
            for ring in rings:
                if atom not in ring or any(right.GetAtomWithIdx(k).GetSymbol() != "C" for k in ring):
                    continue
                near = [n.GetIdx() for k in ring for n in right.GetAtomWithIdx(k).GetNeighbors()]
                outside = [k for k in near if k not in ring | {halogen}]
                rich, strong = (any(matches_at(right, kind, k) for k in outside) for kind in (_GIVING, _STRONG_GIVING))
                if not rich:
                    yield "such a ring needs a strong acid, a Lewis acid or a metal for a halogenation"
                elif iodine and new.GetSymbol() == "I" and not strong:
                    yield "iodine alone does not iodinate such a ring: it needs an oxidant or silver"


def _nitrated_pyridines(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    if step.name != "Nitration":
        return
    for atom in {atom for pair in step.made for atom in pair if right.GetAtomWithIdx(atom).GetIsAromatic()}:
        for ring in right.GetRingInfo().AtomRings():
            if atom in ring and len(ring) == 6 and any(matches_at(right, "[nX2]", member) for member in ring):
                near = [n.GetIdx() for k in ring for n in right.GetAtomWithIdx(k).GetNeighbors()]
                if not any(matches_at(right, _GIVING, k) for k in near if k not in ring):
                    yield "a pyridine without a group that gives electrons is not nitrated"


def _stabilised_ylides(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    if not step.name.startswith("Wittig") or not matches_any(whole, _YLIDE) or matches_any(whole, "P=O"):
        return
    changed = set(step.before)
    if any(changed >= set(hit[:2]) for hit in matches_of(left, _ARYL_KETONE)):
        yield "a ylide next to a carbonyl group does not take an aryl ketone; a phosphonate does (HWE)"


def _benzylic_carbons(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    if matches_any(whole, _METALS) or matches_any(whole, _STRONG_BASES):
        return
    methyls = {hit[0] for hit in matches_of(left, _TOLYL)}
    carbonyls = {hit[0] for hit in matches_of(left, _CARBONYL)}
    for pair in step.made:
        ends = {step.origin[atom] for atom in pair}
        if ends & methyls and ends & carbonyls:
            yield "an alkyl group on such a ring is not acidic enough to take up a carbonyl group"


def _orientation(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    """Yield where a group would enter a benzene ring meta to the groups that give most electrons."""
    if step.name not in _ELECTROPHILIC or matches_any(whole, _METALLATED):
        return
    kinds = _DIRECTING if matches_any(whole, _PROTONATING) else f"{_DIRECTING} {_AMINO}"
    for pair in step.made:
        for atom, new in (pair, pair[::-1]):
            ring = next((ring for ring in right.GetRingInfo().AtomRings() if atom in ring and len(ring) == 6), ())
            if new in ring or not all(matches_at(right, "c", member) for member in ring):
                continue
            donors = [
                k
                for k, member in enumerate(ring)
                for near in right.GetAtomWithIdx(member).GetNeighbors()
                if near.GetIdx() not in ring and any(matches_at(right, kind, near.GetIdx()) for kind in kinds.split())
            ]
            free = [k for k, member in enumerate(ring) if right.GetAtomWithIdx(member).GetTotalNumHs()]
            if not donors or not any((k - donor) % 6 in (1, 3, 5) for k in free for donor in donors):
                continue  # ortho and para are taken
            if all((ring.index(atom) - donor) % 6 in (2, 4) for donor in donors):
                yield "the new group goes ortho or para to the oxygen or nitrogen atom on the ring, not meta"
            crowded = [donor for donor in donors if matches_at(right, _DIALKYLAMINO, _outside(right, ring, donor))]
            if any((ring.index(atom) - donor) % 6 in (1, 5) and (donor + 3) % 6 in free for donor in crowded):
                yield "the new group goes para to the dialkylamino group where that place is free, not ortho"


def _outside(mol: Any, ring: Sequence[int], member: int) -> int:
    """Return the nitrogen atom that a member of a ring bears; -1 if there is none."""
    near = mol.GetAtomWithIdx(ring[member]).GetNeighbors()
    return next((k.GetIdx() for k in near if k.GetIdx() not in ring and k.GetSymbol() == "N"), -1)


def _ends_before(step: StepClass) -> Iterator[tuple[int, int]]:
    """Yield the new bonds as atoms of the reactants, both ways round."""
    for pair in step.made:
        first, second = (step.origin[atom] for atom in pair)
        if min(first, second) >= 0:
            yield first, second
            yield second, first


def _tertiary_amines(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    """Yield where a tertiary amine would lose an alkyl group to an acyl group, or triethylamine take one up."""
    after = {origin: atom for atom, origin in enumerate(step.origin) if origin >= 0}
    for nitrogen, carbon in _ends_before(step):
        if matches_at(left, _TERTIARY_AMINE, nitrogen) and not matches_any(whole, _DEALKYLATING):
            here = right.GetAtomWithIdx(after[nitrogen])
            if here.GetFormalCharge() == 0 and matches_at(right, "[$([CX3]=O),$(S(=O)=O)]", after[carbon]):
                yield "an amine without N-H does not lose an alkyl group to such a reagent"
        hindered = matches_at(left, _ETHYL_AMINE, nitrogen) and matches_at(left, _ALKYL_CHLORIDE, carbon)
        if hindered and not matches_any(whole, _IODIDES) and right.GetAtomWithIdx(after[nitrogen]).GetFormalCharge():
            yield "an alkyl chloride that nothing activates does not alkylate such a hindered amine"


def _plain_esters(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    """Yield where an amine would take an ester that needs heat or a catalyst, in a solvent that cannot be heated."""
    if "Amide formation" not in step.name or matches_any(whole, _ACYLATING):
        return
    for carbonyl, nitrogen in _ends_before(step):
        if not (matches_at(left, _PLAIN_ESTER, carbonyl) and matches_at(left, _ALKYL_AMINE, nitrogen)):
            continue
        if matches_at(left, _ACETATE, carbonyl):
            yield "an acetate that is a solvent does not acylate an amine without a strong base"
        elif any(part in _COOL.split() for part in whole):
            yield "a plain ester and an amine need heat, a strong base or a Lewis acid"


def _alkyl_fluorides(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    """Yield where fluoride would leave a saturated carbon atom in a substitution."""
    if matches_any(whole, _DEFLUORINATING):
        return
    made = dict(_ends_before(step))
    for carbon, fluorine in matches_of(left, _FLUORIDE):
        if carbon in made and fluorine not in step.origin and left.GetAtomWithIdx(made[carbon]).GetSymbol() in "NOS":
            yield "an alkyl fluoride does not take part in a substitution"


def _nitriles(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:  # noqa: ARG001
    """Yield where an alcohol or an amine would add to a nitrile that nothing activates."""
    if step.name not in ("C–O bond formation", "Amidine or guanidine formation") or matches_any(whole, _ADDING):
        return
    for carbon, other in _ends_before(step):
        if not matches_at(left, _NITRILE, carbon):
            continue
        if matches_at(left, _ALCOHOL, other):
            yield "an alcohol adds to such a nitrile with acid or alkoxide only"
        elif matches_at(left, _ALKYL_AMINE, other) and not matches_any(whole, "[S;D0] [SX2;!H0] [S-] P=S"):
            yield "an amine adds to such a nitrile with a Lewis acid, copper or a strong base only"


INERT_GROUPS = (
    _orientation,
    _vinyl_halides,
    _mitsunobu_amines,
    _moved_alkynes,
    _electron_poor_alkenes,
    _halogenated_rings,
    _nitrated_pyridines,
    _stabilised_ylides,
    _benzylic_carbons,
    _nitriles,
    _tertiary_amines,
    _plain_esters,
    _alkyl_fluorides,
)
