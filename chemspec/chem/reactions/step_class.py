"""Classify a reaction by guessed atom maps and hand-written SMARTS patterns: a reading aid, not a measurement."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any

from rdkit import Chem, rdBase

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules import pattern_screen
from chemspec.chem.molecules.parsing import check_smarts, fixed_pattern, mol_from_smiles
from chemspec.chem.reactions import stereo_laws as laws
from chemspec.chem.reactions.atom_maps import AtomMap, map_atoms
from chemspec.chem.reactions.insertions import map_addition, map_insertion, map_metathesis
from chemspec.chem.reactions.leaving_groups import connected_groups, describe_leaving_groups
from chemspec.chem.reactions.mol_graph import read_graph
from chemspec.chem.reactions.stereo import (
    changed_centres,
    flipped_double_bonds,
    has_mitsunobu_reagents,
    take_oxygen_of_acid,
)
from chemspec.system.lab_files import read_lab_table

FOLDER = Path(__file__).parent  # the folder of the tables
SECONDS = 0.5  # processor time of one atom map, which takes 0.01: a garbage collection alone may take 0.2
NO_CLASS = "No known class"  # where atoms cannot come from where they seem to
OPENED = "an aromatic ring would have to open"
# Families that may break carbon-carbon bonds or open an aromatic ring, and are looked for before rings that close.
_REBUILD = {"annulation", "cleavage", "cycloaddition", "metathesis", "rearrangement", "ritter"}
# Families that may make any carbon-carbon bond: several at once, or nothing is known of them.
_ANY_CARBON_BOND = {"bond", "other", "ring", "click", "strecker", "mannich", "ugi", "carbonylation"}
# Canonical SMILES of solvents, bases and ligands, which seldom give atoms; alcohols do where that is cheapest.
BYSTANDERS = frozenset((FOLDER / "bystanders.txt").read_text(encoding="utf-8").split())
_ALCOHOLS = frozenset(("CO", "CCO", "CC(C)O", "CC(C)(C)O", "C[O-]", "CC[O-]", "CC(C)[O-]"))


@dataclass(frozen=True)
class Rule:
    """A line of the table."""

    family: str
    name: str
    sentence: str
    product: Any
    reactants: tuple[Any, ...]
    reagents: str


@dataclass(frozen=True)
class StepClass:
    """What a reaction does."""

    key: tuple[Any, ...]  # equal for answers to one question that make the same bonds in the same kind of way
    name: str  # the class, such as "Amide formation"; of a step that does two things, both
    sentence: str  # what that is
    made: tuple[tuple[int, int], ...]  # bonds of the product that are made, as pairs of atoms in order
    leaving: str  # what the reactants lose, in words
    reagents: str  # SMILES of what is usually added; empty if unknown
    # Atoms and double bonds of the product that take no part and change all the same: stereocentres of the other hand
    # than before; stereocentres that were none; what was a centre and could be one; E that were Z, or the reverse.
    inverted_centres: tuple[int, ...]
    new_centres: tuple[int, ...]
    lost_centres: tuple[int, ...]
    flipped_bonds: tuple[tuple[int, int], ...]
    origin: tuple[int, ...]  # the atom of the reactants that each atom of the product comes from, or -1
    after: tuple[int, ...]  # atoms of the product that changed
    before: tuple[int, ...]  # atoms that change or leave, of the reactants that give atoms to the product
    breaks_carbon_bond: bool = False  # a C-C bond of atoms that stay is broken, as in 2 of 1,000 recorded reactions
    # a carbon atom that loses nothing gets the bond, as next to the halide of a coupling; 1 of 1,500 recorded reactions
    bond_next_to_leaving_group: bool = False
    # what the carbon skeleton would have to do, in words, as 22 of 3,000 recorded reactions seem to; empty if nothing
    unlikely_change: str = ""
    unlawful: tuple[int, ...] = ()  # stereocentres of the product that are against the law of the reaction
    law: str = ""  # what the law says, in words; empty where nothing is against it
    lawful: str = ""  # canonical SMILES of the isomer that the law gives
    from_open: tuple[int, ...] = ()  # stereocentres of the product that the reactants leave open
    left_open: str = ""  # law on centres that the product leaves open; empty where there is none
    completed: str = ""  # canonical SMILES of the isomer that this law gives; empty if the reactants leave it open, too

    @property
    def rearranges_carbon(self) -> bool:
        """Whether a carbon atom would have to move, or to be bound next to the place that a group leaves."""
        return self.breaks_carbon_bond or self.bond_next_to_leaving_group


@dataclass(frozen=True)
class _Hits:
    """Matches of patterns: numbered bonds, or else atoms, of the product; numbered atoms and ends of the reactants."""

    in_product: dict[Any, set[frozenset[Any]]]
    in_reactants: dict[Any, set[tuple[frozenset[int], frozenset[int]]]]


@dataclass(frozen=True)
class Change:
    """What a step, or a part of it, does to bonds and atoms."""

    left: Any
    right: Any
    made: set[frozenset[int]]  # bonds that are made, as atoms of the product
    broken: set[frozenset[int]]  # bonds that are broken, as atoms of the reactants
    touched: set[int]  # atoms of the product that change
    changed: set[int]  # atoms of the reactants that change or leave
    hits: _Hits  # matches of patterns in both sides so far
    left_types: Sequence[int]  # kinds of the atoms of the reactants, see `pattern_screen`
    right_types: Sequence[int]

    def fitting(self, families: Collection[str] = ()) -> Iterator[Rule]:
        """Yield the classes that fit, all or of some families, in the order of the table."""
        types = self.right_types
        made = frozenset((types[a], types[b]) for pair in self.made for a, b in permutations(pair))
        touched = frozenset() if made else frozenset(types[atom] for atom in self.touched)
        changed = frozenset(self.left_types[atom] for atom in self.changed)
        for rule in _rules_that_may_fit(made, touched, changed):
            in_families = not families or rule.family in families
            if in_families and self.fits_product(rule.product) and all(map(self._fits_reactants, rule.reactants)):
                yield rule

    def fits_product(self, pattern: Any) -> bool:
        """Return whether a pattern fits where atoms change, and all the bonds that it numbers (1-2, 3-4) are made."""
        hits = self._find_in_product(pattern)  # most patterns have none
        if not hits or bool(self.made) != bool(pattern_screen.numbered_bonds(pattern)):
            return False
        return any(pairs <= self.made for pairs in hits) if self.made else not all(map(self.touched.isdisjoint, hits))

    def _find_in_product(self, pattern: Any) -> set[frozenset[Any]]:
        """Return the numbered bonds of a pattern wherever the product holds it, or else the numbered atoms."""
        if (hits := self.hits.in_product.get(pattern)) is None:
            bonds = pattern_screen.numbered_bonds(pattern)
            may_match = pattern_screen.may_match(pattern, self.right_types)
            matches = self.right.GetSubstructMatches(pattern, uniquify=False, maxMatches=200) if may_match else ()
            if bonds:
                hits = {frozenset(frozenset((match[a], match[b])) for a, b in bonds) for match in matches}
            else:
                atoms = {number: atom for atom, number in pattern_screen.numbered_atoms(pattern)}.values()
                hits = {frozenset(match[atom] for atom in atoms) or frozenset(match) for match in matches}
            self.hits.in_product[pattern] = hits
        return hits

    def _fits_reactants(self, pattern: Any) -> bool:
        """Return whether atoms numbered 1 or 2 in a pattern change, and a bond between atoms numbered 2 is broken."""
        if (hits := self.hits.in_reactants.get(pattern)) is None:
            numbered = pattern_screen.numbered_atoms(pattern)
            ends = [atom for atom, number in numbered if number == 2]
            hits = self.hits.in_reactants[pattern] = {
                (frozenset(match[atom] for atom, _ in numbered), frozenset(match[atom] for atom in ends))
                for match in self.left.GetSubstructMatches(pattern, uniquify=False, maxMatches=100)
            }
        return any(atoms <= self.changed and (not ends or ends in self.broken) for atoms, ends in hits)


@lru_cache(maxsize=4000)
def classify_step(reactants: str, product: str) -> StepClass | None:
    """Return what a reaction (canonical SMILES, one product) does; None if unreadable, or mapping takes too long."""
    match = _map(reactants, product)
    if match is None:
        return None
    with rdBase.BlockLogs():
        left, right = mol_from_smiles(reactants), mol_from_smiles(product)
        if _carbon_moves(match, _broken(match)):
            match = map_insertion(match, left, right) or map_addition(match, left, right) or match
        match = map_metathesis(match, left, right) or match
        _keep_carbonyl_of_acid(match, left, right)
        ranks = list(Chem.CanonicalRankAtoms(right, breakTies=False, includeChirality=False))
        if (mitsunobu := has_mitsunobu_reagents(left)) or ("@" in product and all(match.given)):
            take_oxygen_of_acid(match, right, None if mitsunobu else changed_centres(match, left, right)[0])
        made = tuple(pair for pair in match.made_bonds() if all(match.right.kinds[atom][0] > 1 for atom in pair))
        touched = [atom for atom in range(len(match.origin)) if match.changes(atom)]
        changed = {match.origin[atom] for atom in touched} - {-1} | set(match.lost)
        broken = _broken(match)
        bonds = set(map(frozenset, made)), set(map(frozenset, broken))
        hits = _Hits(_product_hits(product), _reactant_hits(reactants))
        types = match.left.atom_types, match.right.atom_types
        change = Change(left, right, *bonds, set(touched), changed, hits, *types)
        rule = next(change.fitting(_REBUILD), None)
        moves = rule is None and _carbon_moves(match, broken)
        rule = rule or (None if moves else _ring(match, right, made)) or _classify(change)
        if rule.family == "O-deprotection" and all(right.GetAtomWithIdx(atom).GetSymbol() != "O" for atom in touched):
            rule = replace(rule, family="N-deprotection")  # as of benzyl groups, which both may carry
        rules = dict.fromkeys([rule, *_apart(match, change)])
        unlikely = _unlikely(match, change, rules)
        is_set = "@" in product or "@" in reactants
        inverted, unset, lost = changed_centres(match, left, right) if is_set else ((), (), ())
        names = [each.name for each in rules]
        mitsunobu = mitsunobu or "(Mitsunobu)" in rule.name
        breach = laws.breach_of_law(match, left, right, names, mitsunobu=mitsunobu) if is_set else None
        relation = laws.left_open_by_product(match, left, right, names)
        where = [tuple(sorted((ranks[a], ranks[b]))) for a, b in made] or [(ranks[atom],) for atom in touched]
        return StepClass(
            (rule.family, *sorted(set(where))),
            NO_CLASS if moves or unlikely == OPENED else " + ".join(dict.fromkeys(rule.name for rule in rules)),
            " ".join(rule.sentence for rule in rules),
            made,
            describe_leaving_groups(match, reactants),
            rule.reagents,
            inverted,
            unset,
            lost,
            flipped_double_bonds(match, left, right) if "/" in product or "\\" in product else (),
            tuple(match.origin),
            tuple(touched),
            tuple(sorted(changed)),
            moves,
            not rule.family.startswith(("allylation", "rearrangement", "ring")) and _bond_shifted(match, made, broken),
            unlikely,
            breach.atoms if breach else (),
            breach.sentence if breach else "",
            breach.lawful if breach else laws.isomer_by_law(right, inverted) if inverted else "",
            laws.set_from_open(match, left, right) if "@" in product else (),
            relation.sentence if relation else laws.inversion_of_open_centre(match, left, right, mitsunobu=mitsunobu),
            relation.lawful if relation else "",
        )


def _map(reactants: str, product: str) -> AtomMap | None:
    """Map, without alcohols where that is cheaper, or they give a piece or keep their oxygen; None if too slow."""
    match = _map_core(reactants, product, BYSTANDERS) or map_atoms(reactants, product, seconds=SECONDS)
    if match is None or _ALCOHOLS.isdisjoint(reactants.split(".")):
        return match
    cores = [_map_core(reactants, product, without) for without in (BYSTANDERS | _ALCOHOLS, _ALCOHOLS)]
    kinds = match.right.kinds
    aside = {number for number, part in enumerate(reactants.split(".")) if part in _ALCOHOLS or "[BH" in part}

    def effort(core: AtomMap) -> tuple[int, int, int, float]:
        made = core.made_bonds()
        carbon_bonds = sum(kinds[atom][0] == kinds[near][0] == 6 for atom, near in made)
        split = {core.left.molecules[atom] for atom in core.lost} & aside
        carbons = (core.origin[atom] for pair in made for atom in pair if kinds[atom][0] == 6)
        improbable = sum(core.left.molecules[atom] in aside - split for atom in carbons if atom >= 0)
        return improbable, carbon_bonds, len(split), core.cost()

    return min([match, *filter(None, cores)], key=effort)


def _keep_carbonyl_of_acid(match: AtomMap, left: Any, right: Any) -> None:
    """Map the carbonyl group of an amide to that of the acid; the map may have that of a formamide, as cheap."""
    acids = {hit[0]: hit[1:3] for hit in left.GetSubstructMatches(fixed_pattern("[#6]-[CX3](=O)-[O,Cl]"))}
    formyl = {hit[0] for hit in left.GetSubstructMatches(fixed_pattern("[CX3H1](=O)-[NX3]"))}
    for rest, carbon, oxygen, _ in right.GetSubstructMatches(fixed_pattern("[#6]-[CX3](=O)-[NX3]")):
        carbonyl = acids.get(match.origin[rest], ())
        if match.origin[carbon] in formyl and carbonyl and match.target[carbonyl[0]] < 0:
            match.pair(carbon, carbonyl[0])
            match.pair(oxygen, carbonyl[1])


def _map_core(reactants: str, product: str, aside: frozenset[str]) -> AtomMap | None:
    """Map without some molecules (toluene may seem to give a tolyl group); None if that changes or leaves out atoms."""
    parts = reactants.split(".")
    core = [number for number, part in enumerate(parts) if part not in aside]
    if not 0 < len(core) < len(parts):
        return None
    match = map_atoms(".".join(parts[number] for number in core), product, seconds=SECONDS)
    left = read_graph(reactants)
    if match is None or left is None:
        return None
    without = {match.right.kinds[atom][0] for atom, origin in enumerate(match.origin) if origin < 0}
    if without and not (
        without == {8} and ("C#N" in reactants or "N#C" in reactants) and ("[Mg" in reactants or "[Li" in reactants)
    ):
        return None  # but the oxygen of a ketone made from a nitrile is that of the work-up
    whole = AtomMap(left, match.right)
    atoms = [atom for atom, molecule in enumerate(left.molecules) if molecule in core]
    for atom, origin in enumerate(match.origin):
        if origin >= 0:
            whole.pair(atom, atoms[origin])
    return whole


@cache
def families() -> dict[str, str]:
    """Return the kinds of steps that are told apart, each with a word for it; "ring" stands for all that close one."""
    names = dict.fromkeys(["ring", *(rule.family for rule in load_rules())])
    return {name: f"{name[0].upper()}{name[1:]}" for name in names}


def family_of(step: StepClass) -> str:
    """Return which of `families` a step is of; another text where no class of the list fits."""
    family = str(step.key[0])
    return "ring" if family.startswith("ring") else family


def _ring(match: AtomMap, right: Any, made: tuple[tuple[int, int], ...]) -> Rule | None:
    """Return the class of a step that closes a ring: two bonds of it, or one between atoms of one molecule."""
    for ring in right.GetRingInfo().AtomRings():
        inside = [pair for pair in made if set(pair) <= set(ring)]
        origins = [match.origin[atom] for atom in inside[0]] if inside else [-1]
        same_molecule = min(origins) >= 0 and len({match.left.molecules[origin] for origin in origins}) == 1
        if len(inside) >= 2 or same_molecule:
            for name, patterns in _closed_rings():
                for pattern in patterns.split():
                    if any(set(ring) <= set(hit) for hit in right.GetSubstructMatches(fixed_pattern(pattern))):
                        sentence = f"The {name} ring is made, {len(inside)} bond{'s' * (len(inside) > 1)} at once."
                        return Rule(f"ring {name}", f"{name.capitalize()} synthesis", sentence, None, (), "")
            if len(inside) >= 2 and all(right.GetAtomWithIdx(atom).GetIsAromatic() for atom in ring):
                return Rule("ring", "Ring synthesis", "An aromatic ring is made.", None, (), "")
            if len(inside) == 1:
                return Rule("ring closure", "Ring closure", "One molecule closes a ring.", None, (), "")
    return None


def _carbon_moves(match: AtomMap, broken: Iterable[tuple[int, int]]) -> bool:
    kinds = match.left.kinds
    return any(kinds[atom][0] == kinds[near][0] == 6 and match.target[near] >= 0 for atom, near in broken)


def _unlikely(match: AtomMap, change: Change, rules: Iterable[Rule]) -> str:
    """Return what the carbon skeleton would have to do and seldom does, in words; empty if nothing."""
    kinds, bonds = match.left.kinds, match.left.bonds
    families = {rule.family.split()[0] for rule in rules}
    if families & _REBUILD:
        return ""
    if any(change.left.GetBondBetweenAtoms(*pair).GetIsAromatic() for pair in change.broken):
        return OPENED
    groups = connected_groups(bonds, match.lost)
    hydrocarbon = {atom for group in groups if all(kinds[far][0] == 6 for far in group) for atom in group}
    for pair in change.broken:
        first, second = pair
        if bonds[first][second] == 1 and kinds[first][0] == kinds[second][0] == 6 and pair & hydrocarbon:
            return "a carbon chain would have to break"
    if families & _ANY_CARBON_BOND:
        return ""
    carbons = [pair for pair in change.made if all(match.right.kinds[atom][0] == 6 for atom in pair)]
    if any(not any(replace(change, made={pair}).fits_product(rule.product) for rule in rules) for pair in carbons):
        return "a carbon-carbon bond is made that does not belong to this reaction"
    return ""


def _broken(match: AtomMap) -> list[tuple[int, int]]:
    """Return bonds of the precursors that the product lacks, of which the first atom stays."""
    return [
        (atom, near)
        for atom in match.origin
        if atom >= 0
        for near in match.left.bonds[atom]
        if match.target[near] < 0 or match.target[near] not in match.right.bonds[match.target[atom]]
    ]


def _bond_shifted(match: AtomMap, made: Iterable[tuple[int, int]], broken: Iterable[tuple[int, int]]) -> bool:
    """Return whether a group leaves one carbon atom and the new bond is made at another, which loses nothing."""
    carbons = {origin for origin in match.origin if origin >= 0 and match.left.kinds[origin][0] == 6}
    gaining = {match.origin[atom] for pair in made for atom in pair}
    left_by = {atom for atom, near in broken if match.target[near] < 0}
    return bool(carbons & left_by - gaining) and bool(carbons & gaining - {atom for atom, _ in broken})


def _classify(change: Change) -> Rule:
    """Return the first class that fits, or else one that tells which elements are joined."""
    if rule := next(change.fitting(), None):
        return rule
    if change.made:
        pairs = (sorted(change.right.GetAtomWithIdx(atom).GetSymbol() for atom in pair) for pair in change.made)
        ends = " and ".join(sorted({"–".join(pair) for pair in pairs}))
        return Rule("bond " + ends, f"{ends} bond formation", "No class of the built-in list fits.", None, (), "")
    return Rule("other", "Functional group change", "No class of the built-in list fits.", None, (), "")


def _apart(match: AtomMap, change: Change) -> Iterator[Rule]:
    """Yield the classes of changes in regions that no bond joins, after or before: an opened epoxide is one change."""
    before = [
        {match.target[near] for near in match.left.bonds[origin]} if origin >= 0 else set() for origin in match.origin
    ]
    joined = [old.union(new) for old, new in zip(before, match.right.bonds, strict=True)]
    regions = connected_groups(joined, sorted(change.touched))
    if len(regions) < 2:
        return
    leaving = connected_groups(match.left.bonds, match.lost)
    for region in regions:
        here = {match.origin[atom] for atom in region} - {-1}
        for piece in leaving:
            if any(near in here for atom in piece for near in match.left.bonds[atom]):
                here |= set(piece)
        made = {pair for pair in change.made if pair <= set(region)}
        rule = _classify(replace(change, made=made, touched=set(region), changed=here))
        if rule.product is not None:
            yield rule


@lru_cache(maxsize=64)  # the answers for a query have its product
def _product_hits(product: str) -> dict[Any, Any]:  # noqa: ARG001 (cache key)
    return {}


@lru_cache(maxsize=64)  # or its reactants
def _reactant_hits(reactants: str) -> dict[Any, Any]:  # noqa: ARG001 (cache key)
    return {}


@cache
def _rules_that_bind(make_bonds: bool) -> tuple[Rule, ...]:
    """Return the rules that number bonds of the product, or those that do not."""
    return tuple(rule for rule in load_rules() if bool(pattern_screen.numbered_bonds(rule.product)) == make_bonds)


@lru_cache(maxsize=4000)
def _rules_that_may_fit(
    made: frozenset[tuple[int, int]], touched: frozenset[int], changed: frozenset[int]
) -> tuple[Rule, ...]:
    """Return the rules whose patterns allow the types of the atoms: of bonds made, or else touched, and changed."""
    return tuple(
        rule for rule in _rules_for_product(made, touched) if pattern_screen.has_types(_numbered_types(rule), changed)
    )


@lru_cache(maxsize=4000)
def _rules_for_product(made: frozenset[tuple[int, int]], touched: frozenset[int]) -> tuple[Rule, ...]:
    return tuple(rule for rule in _rules_that_bind(bool(made)) if _may_be_made(rule.product, made, touched))


@cache
def _numbered_types(rule: Rule) -> tuple[frozenset[int], ...]:
    """Return the types that each numbered atom of a rule's reactants may have, where it may not have any."""
    types = (
        pattern_screen.allowed_types(pattern)[atom]
        for pattern in rule.reactants
        for atom, _ in pattern_screen.numbered_atoms(pattern)
    )
    return tuple(dict.fromkeys(each for each in types if each is not None))


def _may_be_made(pattern: Any, made: frozenset[tuple[int, int]], touched: frozenset[int]) -> bool:
    allowed = pattern_screen.allowed_types(pattern)
    if made:
        ends = [(allowed[a], allowed[b]) for a, b in pattern_screen.numbered_bonds(pattern)]
        return all(any((x is None or a in x) and (y is None or b in y) for a, b in made) for x, y in ends)
    numbered = [allowed[atom] for atom, _ in pattern_screen.numbered_atoms(pattern)] or allowed
    return any(types is None or not types.isdisjoint(touched) for types in numbered)


@cache
def _closed_rings() -> list[list[str]]:
    return read_asset_table(FOLDER / "rings.tsv")


@cache
def load_rules() -> tuple[Rule, ...]:
    """Return the rules of all reaction classes, those of the lab first."""
    rules = []
    of_lab = read_lab_table("classes", range(5, 7), lambda row: check_smarts(row[3], *row[4].split(" + ")))
    for family, name, sentence, product, reactants, *reagents in (
        *of_lab,
        *read_asset_table(FOLDER / "reaction_classes.tsv"),
    ):
        patterns = tuple(fixed_pattern(part) for part in reactants.split(" + "))
        rules.append(Rule(family, name, sentence, fixed_pattern(product), patterns, reagents[0] if reagents else ""))
    return tuple(rules)
