"""Write reactions of kinds that a forward model misses, by rules from recorded reactants, for its training.

    python assets/docs/recipes/rare_kinds.py forward_stereo_train.csv.gz OUT --exclude TEST_FILE ...

writes `rare_kinds_train.csv.gz` and `rare_kinds_test.csv` (columns as in the source file, the kind in `id`). Patents
hold few of these reactions, or without their stereochemistry. The molecule that changes is a recorded reactant,
sometimes with a group put on first (a mesylate of an alcohol); it is in no file of `--exclude`, and one in twelve of
these molecules, chosen by its text, is for the test alone. Where two answers are right, the test has both, parted by
`|`. Patterns and reagents are in `rare_kinds.toml`.
"""

from __future__ import annotations

import random
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rdkit import Chem
from textbook_reactions import react, read_arguments, write, write_file

from chemspec import chem
from chemspec.chem.reading.precatalysts import split_precatalysts
from chemspec.data.shards import read_rows

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TRAIN, TEST, PARTS = 1500, 40, 12  # flasks of each kind for training and test; one substrate in PARTS is for the test
POOL = 4000  # molecules of a pool, at most
SMALLEST, LARGEST = 6, 24  # heavy atoms of a recorded reactant
FLAT_SHARE = 0.85  # of the flasks for training whose kind teaches no configuration
UNSET = Chem.ChiralType.CHI_UNSPECIFIED
TAGS = (Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW)
Made = tuple[str, str, str]  # the molecule that changes, all reactants, products parted by |


class Recorded:
    """Recorded reactants by pool, in random order, and a random choice of them and of reagents."""

    def __init__(
        self, molecules: Sequence[str], excluded: frozenset[str], rng: random.Random, tables: Mapping[str, Any] = TABLES
    ) -> None:
        """Sort molecules into pools; `excluded` are SMILES without stereochemistry that do not change in a flask."""
        self.excluded, self.rng, self.tables = excluded, rng, tables
        self.pools: dict[str, list[str]] = {name: [] for name in tables["pools"]}
        groups = {name: list(map(Chem.MolFromSmarts, text.split())) for name, text in tables["groups"].items()}
        reactive = tables["groups"]["reactive"].split()
        for text in molecules:
            mol = Chem.MolFromSmiles(text)
            if mol is None or not SMALLEST <= mol.GetNumHeavyAtoms() <= LARGEST:
                continue
            has = {name: any(map(mol.HasSubstructMatch, ones)) for name, ones in groups.items() if name != "reactive"}
            reactive_groups = {
                name
                for name, pattern in zip(reactive, groups["reactive"], strict=True)
                if mol.HasSubstructMatch(pattern)
            }
            for name, (smarts, lacking, *allowed) in tables["pools"].items():
                fits = reactive_groups <= set(allowed) and not any(has[group] for group in lacking.split())
                if fits and len(mol.GetSubstructMatches(Chem.MolFromSmarts(smarts))) == 1:
                    self.pools[name] += [text] * (len(self.pools[name]) < POOL)

    def all(self, name: str) -> list[str]:
        """Return the common molecules of a pool and the recorded ones."""
        return [*self.tables["common"].get(name, "").split(), *self.pools[name]]

    def pick(self, name: str) -> str:
        """Return a random molecule of a pool; one in four is a common one."""
        common = self.tables["common"].get(name, "").split()
        return self.rng.choice(common if common and self.rng.random() < 0.25 else self.all(name))

    def reagents(self, name: str) -> str:
        """Return one of some reagents."""
        return str(self.rng.choice(self.tables["reagents"][name]))

    def with_configuration(self, molecules: Sequence[str], smarts: str, index: int) -> Iterator[str]:
        """Yield molecules with a configuration at the matched atom, a random one where none is recorded."""
        pattern = Chem.MolFromSmarts(smarts)
        for text in molecules:
            mol = Chem.MolFromSmiles(text)
            match = mol.GetSubstructMatch(pattern)
            if match and (atom := mol.GetAtomWithIdx(match[index])).GetChiralTag() == UNSET:
                atom.SetChiralTag(self.rng.choice(TAGS))
                Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
            if match and mol.GetAtomWithIdx(match[index]).GetChiralTag() != UNSET:
                yield Chem.MolToSmiles(mol)

    def usable(self, smiles: str) -> bool:
        """Return whether a molecule is in no excluded file."""
        return (chem.drop_stereo(smiles) or smiles) not in self.excluded


# --- editing --------------------------------------------------------------------------------------


def substitute(mol: Any, centre: int, leaving: int, group: str, *, invert: bool = True) -> str | None:
    """Put a group, bound by its first atom, on a carbon in place of an atom with what hangs on it.

    An atom that leaves in a ring keeps its other bond (epoxides). `invert`: the configuration turns over.
    """
    edited = Chem.RWMol(mol)
    in_ring = edited.GetBondBetweenAtoms(centre, leaving).IsInRing()
    first = edited.GetNumAtoms()
    edited.InsertMol(Chem.MolFromSmiles(group))
    _rebind(edited, centre, leaving, first, invert=invert)
    if not in_ring:
        fragment = next(part for part in Chem.GetMolFrags(edited) if centre in part)
        for index in sorted(set(range(edited.GetNumAtoms())) - set(fragment), reverse=True):
            edited.RemoveAtom(index)
    return _written(edited)


def insert(mol: Any, carbonyl: int, migrating: int, symbol: str) -> str | None:
    """Put an atom between two carbons; the one that migrates keeps its configuration."""
    edited = Chem.RWMol(mol)
    new = edited.AddAtom(Chem.Atom(symbol))
    _rebind(edited, migrating, carbonyl, new, invert=False)
    edited.AddBond(new, carbonyl, Chem.BondType.SINGLE)
    return _written(edited)


def _rebind(mol: Any, centre: int, old: int, new: int, *, invert: bool) -> None:
    """Exchange a neighbour of an atom; `invert`: the new one comes from the other side."""
    atom = mol.GetAtomWithIdx(centre)
    bonds = [bond.GetIdx() for bond in atom.GetBonds()]
    # A configuration is told by the order of the bonds, and the new one is the last.
    moves = len(bonds) - 1 - bonds.index(mol.GetBondBetweenAtoms(centre, old).GetIdx())
    mol.RemoveBond(centre, old)
    mol.AddBond(centre, new, Chem.BondType.SINGLE)
    if atom.GetChiralTag() != UNSET and (moves + invert) % 2:
        atom.InvertChirality()


def _written(mol: Any) -> str | None:
    made = mol.GetMol()
    return chem.canonical(Chem.MolToSmiles(made)) if not Chem.SanitizeMol(made, catchErrors=True) else None


def rooted(smiles: str, pool: str) -> str:
    """Return a molecule of a pool written from the atom that it is bound by: the last of its pattern, or the first."""
    mol = Chem.MolFromSmiles(smiles)
    match = mol.GetSubstructMatch(Chem.MolFromSmarts(TABLES["pools"][pool][0]))
    return str(Chem.MolToSmiles(mol, rootedAtAtom=match[0 if pool in ("amine", "thiol") else -1]))


# --- the kinds ------------------------------------------------------------------------------------

_CARBINOL = Chem.MolFromSmarts("[CX4;H1]([#6])([#6])[OX2H]")
_EPOXIDE = "[CX4;r3]1[OX2;r3][CX4;r3]1"


def _alcohols(recorded: Recorded) -> Iterator[tuple[str, Any, int, int]]:
    """Yield secondary alcohols of one configuration, with their carbon and oxygen."""
    for alcohol in recorded.with_configuration(recorded.pools["alcohol"], TABLES["pools"]["alcohol"][0], 0):
        mol = Chem.MolFromSmiles(alcohol)
        match = mol.GetSubstructMatch(_CARBINOL)
        yield alcohol, mol, match[0], match[3]


def sulfonates(recorded: Recorded) -> Iterator[Made]:
    """Secondary sulfonates of one configuration and nucleophiles, with inversion."""
    for alcohol, mol, carbon, oxygen in _alcohols(recorded):
        sulfonate = substitute(mol, carbon, oxygen, recorded.reagents("sulfonates"), invert=False)
        for _ in range(3):
            if recorded.rng.random() < 0.5:
                nucleophile, group = recorded.rng.choice(list(TABLES["nucleophiles"].items()))
                rest = recorded.reagents("polar")
            else:
                pool = recorded.rng.choice(("phenol", "thiol", "amine"))
                nucleophile = recorded.pick(pool)
                group, rest = rooted(nucleophile, pool), f"{recorded.reagents('bases')}.{recorded.reagents('polar')}"
            if sulfonate and (made := substitute(mol, carbon, oxygen, group)):
                yield alcohol, f"{sulfonate}.{nucleophile}.{rest}", made


def activated_alcohols(recorded: Recorded) -> Iterator[Made]:
    """Secondary alcohols of one configuration with DAST, in Mitsunobu and Appel reactions, with inversion."""
    for alcohol, mol, carbon, oxygen in _alcohols(recorded):
        for group, ways in recorded.rng.sample(list(TABLES["alcohols"].items()), 3):
            partner = recorded.pick(group) if group in recorded.pools else ""
            bound = rooted(partner, group) if partner else group
            mitsunobu = f"c1ccc(P(c2ccccc2)c2ccccc2)cc1.{recorded.reagents('mitsunobu')}"
            rest = recorded.rng.choice(ways).replace("*", mitsunobu)
            if made := substitute(mol, carbon, oxygen, bound):
                yield alcohol, ".".join(filter(None, (alcohol, partner, rest))), made


def _opener(recorded: Recorded) -> tuple[str, str]:
    """Return a nucleophile that opens an epoxide with its reagents, and the group that it becomes."""
    if recorded.rng.random() < 0.4:
        return f"[N-]=[N+]=[N-].[Na+].{recorded.reagents('azide')}", "N=[N+]=[N-]"
    pool = recorded.rng.choice(list(TABLES["openers"]))
    text = recorded.pick(pool)
    return f"{text}.{recorded.rng.choice(TABLES['openers'][pool])}", rooted(text, pool)


def inner_epoxides(recorded: Recorded) -> Iterator[Made]:
    """Epoxides of rings whose ends are alike, to trans products."""
    small = ["C1CC[C@@H]2O[C@@H]2C1", "C1C[C@@H]2O[C@@H]2C1", "C1CCC[C@@H]2O[C@@H]2C1", "C1OC[C@H]2O[C@@H]12"]
    rings = [*small, "C1=CC[C@@H]2O[C@@H]2C1"]
    for acyl in [*recorded.pools["acyl"], *recorded.pools["sulfonyl"]]:
        rings.append(react("[C,S:1](=[O:2])[Cl].[NH:3]>>[C,S:1](=[O:2])[N:3]", acyl, "C1NC[C@H]2O[C@@H]12") or "")
    for amine in recorded.pools["amine"][:300]:
        acid = "ClC(=O)[C@H]1C[C@@H]2O[C@@H]2C1"
        rings.append(react("[NX3;H2,H1;!$(N[C,S]=[O,S,N]):1].[C:2][Cl]>>[N:1][C:2]", amine, acid) or "")
    for ring in filter(None, rings):
        mol = Chem.MolFromSmiles(chem.canonical(ring))
        match = mol.GetSubstructMatch(Chem.MolFromSmarts(_EPOXIDE))
        for _ in range(40 if ring in small else 3):
            rest, group = _opener(recorded)
            made = [substitute(mol, match[end], match[1], group) for end in (0, 2)]
            recorded.rng.shuffle(made)
            if all(made):
                # Of a common ring it is the nucleophile that is new in the test.
                yield rest if ring in small else ring, f"{ring}.{rest}", "|".join(dict.fromkeys(map(str, made)))


def terminal_epoxides(recorded: Recorded) -> Iterator[Made]:
    """Terminal epoxides of one configuration, opened at the end; by acid at a tertiary carbon."""
    smarts, pattern = "[CH2:1]=[CX3;H1;$(C[CX4]):2]>>[C:1]1O[C:2]1", "[CX4;H2;r3]1[OX2;r3][CX4;H1;r3]1"
    opened = [made for text in recorded.pools["terminal"] if (made := react(smarts, text))]
    for epoxide in recorded.with_configuration([*recorded.pools["epoxide"], *opened], pattern, 2):
        mol = Chem.MolFromSmiles(epoxide)
        match = mol.GetSubstructMatch(Chem.MolFromSmarts(pattern))
        for _ in range(4):
            rest, group = _opener(recorded)
            if made := substitute(mol, match[0], match[1], group):
                yield epoxide, f"{epoxide}.{rest}", made
    for alkene in recorded.pools["terminal"]:
        tertiary = react("[CH2:1]=[CX3;H0;$(C([CX4])[CX4]):2]>>[C:1]1O[C:2]1", alkene)
        mol = Chem.MolFromSmiles(tertiary or "")
        if match := mol.GetSubstructMatch(Chem.MolFromSmarts("[CX4;H0;r3]1[OX2;r3][CX4;H2;r3]1")):
            group, ways = recorded.rng.choice(list(TABLES["acids"].items()))
            if made := substitute(mol, match[0], match[1], group):
                yield alkene, f"{tertiary}.{recorded.rng.choice(ways)}", made


def glycosides(recorded: Recorded) -> Iterator[Made]:
    """Glycosyl donors with a participating group, and alcohols: the new bond is trans to it."""
    rng = recorded.rng
    acceptors = [(text, name) for name in ("any_alcohol", "phenol") for text in recorded.pools[name]]
    rng.shuffle(acceptors)
    for acceptor, pool in acceptors:
        template, cis = rng.choice(list(TABLES["donors"].items()))
        leaving, ways = rng.choice(list(TABLES["promoters"].items()))
        acyl, start = rng.choice((("OC(C)=O", "CC(=O)O"), ("OC(C)=O", "CC(=O)O"), ("OC(=O)c9ccccc9", "c9ccccc9C(=O)O")))
        filled = (start + template[2:] if template.startswith("AO") else template).replace("OA", acyl)
        # X becomes an atom that the leaving group or the alcohol takes the place of.
        mol = Chem.MolFromSmiles(filled.replace("X", "[Xe]"))
        atom = next(atom for atom in mol.GetAtoms() if atom.GetSymbol() == "Xe")
        carbon = atom.GetNeighbors()[0].GetIdx()
        donor = substitute(mol, carbon, atom.GetIdx(), leaving, invert=False)
        if made := substitute(mol, carbon, atom.GetIdx(), rooted(acceptor, pool), invert=cis):
            yield acceptor, f"{donor}.{acceptor}.{rng.choice(ways)}", made


def hydroborations(recorded: Recorded) -> Iterator[Made]:
    """Alkenes, then borane and hydrogen peroxide: the oxygen comes to the end with more hydrogen."""
    for pool, end in (("terminal", "H2"), ("inner", "H1"), ("styrene", "H2")):
        for alkene in recorded.pools[pool]:
            made = react(f"[CX3;{end}:1]=[CX3;{'H0' if end == 'H1' else 'H1,H0'}:2]>>[O][C:1][C:2]", alkene)
            for _ in range(2 if made else 0):
                yield alkene, f"{alkene}.{recorded.reagents('boranes')}.{recorded.reagents('peroxide')}", str(made)


def dihydroxylations(recorded: Recorded) -> Iterator[Made]:
    """Alkenes and osmium tetroxide to diols."""
    for pool in ("terminal", "inner", "styrene", "allylic"):
        for alkene in recorded.all(pool):
            made = react("[CX3:1]=[CX3;!$(C=O):2]>>[O][C:1][C:2][O]", chem.drop_stereo(alkene) or alkene)
            if made:
                yield alkene, f"{alkene}.{recorded.reagents('osmium')}.{recorded.reagents('aqueous')}", made


def ring_closing_metatheses(recorded: Recorded) -> Iterator[Made]:
    """Two alkenes in one molecule to a ring of five to eight atoms."""
    rng, halves = recorded.rng, ("CC=C", "CC(C)=C", "CCC=C", "CCCC=C", "C(C)C=C")
    rules = {
        "amide": ("[NX3;H1:1]>>[N:1]{0}", 3),
        "sulfonyl": ("[S:1](=[O:2])[Cl]>>[S:1](=[O:2])N({0}){1}", 3),
        "acyl": ("[C:1](=[O:2])[Cl]>>[C:1](=[O:2])N({0}){1}", 2),
        "any_alcohol": ("[OX2;H1:1][CX4:2]>>C=CC[O:1][C:2]", 1),
        "ketone": ("[#6:1][CX3:2](=[O:3])[#6:4]>>[#6:1][C:2]([O:3]CC=C)([#6:4])C{0}", 1),
    }
    for pool, (rule, count) in rules.items():
        for start in recorded.pools[pool]:
            for _ in range(count):
                diene = react(rule.format(rng.choice(halves), rng.choice(halves)), start)
                ring = close_ring(diene) if diene else None
                if ring:
                    yield start, f"{diene}.{recorded.reagents('metathesis')}", ring


def close_ring(diene: str) -> str | None:
    """Return the cycloalkene that metathesis makes of a diene, if its ring has five to eight atoms."""
    mol = Chem.MolFromSmiles(diene)
    ends = mol.GetSubstructMatches(Chem.MolFromSmarts("[CX3;H2]=[CX3;!$(C=C[#7,#8])]"))
    if len(ends) != 2 or not 5 <= len(Chem.GetShortestPath(mol, ends[0][1], ends[1][1])) <= 8:
        return None
    edited = Chem.RWMol(mol)
    edited.AddBond(ends[0][1], ends[1][1], Chem.BondType.DOUBLE)
    for atom in sorted((ends[0][0], ends[1][0]), reverse=True):
        edited.RemoveAtom(atom)
    return _written(edited)


def _migrations(recorded: Recorded, symbol: str, aryl: int) -> Iterator[tuple[str, str]]:
    """Yield ketones with what they become when an atom is put next to the carbon that migrates more readily.

    `aryl`: how readily aryl migrates; methyl 1, primary 2, secondary 4, tertiary 6. Where two carbons are equally
    ready but not alike, there is no product.
    """
    for ketone in recorded.all("ketone"):
        mol = Chem.MolFromSmiles(ketone)
        first, carbonyl, _, second = mol.GetSubstructMatch(Chem.MolFromSmarts(TABLES["pools"]["ketone"][0]))
        ranks = Chem.CanonicalRankAtoms(mol, breakTies=False)
        ready = [_readiness(mol.GetAtomWithIdx(end), aryl) for end in (first, second)]
        if min(ready) and (ready[0] != ready[1] or ranks[first] == ranks[second]):
            made = insert(mol, carbonyl, first if ready[0] >= ready[1] else second, symbol)
            if made:
                yield ketone, made


def _readiness(atom: Any, aryl: int) -> int:
    if atom.GetIsAromatic():
        return aryl
    plain = atom.GetHybridization() == Chem.HybridizationType.SP3
    plain = plain and all(neighbour.GetSymbol() == "C" for neighbour in atom.GetNeighbors())
    return {1: 1, 2: 2, 3: 4, 4: 6}[atom.GetDegree()] if plain else 0


def baeyer_villiger(recorded: Recorded) -> Iterator[Made]:
    """Ketones and peracids to esters and lactones."""
    for ketone, made in _migrations(recorded, "O", 3):
        for _ in range(2):
            yield ketone, f"{ketone}.{recorded.reagents('peracids')}", made


def beckmann(recorded: Recorded) -> Iterator[Made]:
    """Oximes of ketones and acids to amides."""
    for ketone, made in _migrations(recorded, "N", 5):
        oxime = react("[#6:1][CX3:2](=O)[#6:3]>>[#6:1][C:2](=NO)[#6:3]", ketone)
        for _ in range(2 if oxime else 0):
            yield ketone, f"{oxime}.{recorded.reagents('beckmann')}", made


def ugi(recorded: Recorded) -> Iterator[Made]:
    """Aldehydes, primary amines, acids and isocyanides to bisamides; without an amine to esters (Passerini)."""
    acid_and_isocyanide = "[#6:3][CX3:4](=[O:5])[OX2H].[C-]#[N+:6][#6:7]>>[#6:3][C:4](=[O:5])"
    four = f"[#6,#1:1][CX3;H1,H2]=O.[NX3;H2:2].{acid_and_isocyanide}[N:2][C]([*:1])C(=O)[NH+0:6][#6:7]"
    three = f"[#6:1][CX3;H1]=O.{acid_and_isocyanide}O[C]([#6:1])C(=O)[NH+0:6][#6:7]"
    for _ in range(3 * TRAIN):
        aldehyde, amine, acid = (recorded.pick(name) for name in ("aldehyde", "primary_amine", "acid"))
        isocyanide = recorded.reagents("isocyanides")
        parts = (aldehyde, amine, acid, isocyanide) if recorded.rng.random() < 0.75 else (aldehyde, acid, isocyanide)
        made = react(four if amine in parts else three, *parts)
        if made:
            common = aldehyde in TABLES["common"]["aldehyde"].split()
            solvent = recorded.reagents("ugi" if amine in parts else "passerini")
            yield acid if common else aldehyde, f"{'.'.join(parts)}.{solvent}", made


def photoredox(recorded: Recorded) -> Iterator[Made]:
    """Aryl halides with amino acids, trifluoroborates or alkyl bromides, by nickel, a photocatalyst and light."""
    silane = "C[Si](C)(C)[SiH]([Si](C)(C)C)[Si](C)(C)C"
    for _ in range(3 * TRAIN):
        aryl, share = recorded.pick("aryl_halide"), recorded.rng.random()
        rest = ".".join(map(recorded.reagents, ("photocatalysts", "nickel", "bases", "polar")))
        if share < 0.5:
            partner, leaving = recorded.pick("amino_acid"), "C(=O)[OX2H]"
        elif share < 0.75:
            partner, leaving = recorded.reagents("trifluoroborates"), "[B-](F)(F)F"
        else:
            partner, leaving, rest = recorded.pick("alkyl_bromide"), "Br", f"{silane}.{rest}"
        made = react(f"[c:1][Br,I].[CX4:2]{leaving}>>[c:1][C:2]", aryl, partner.split(".")[0])
        if made:
            yield aryl, f"{aryl}.{partner}.CC(C)(C)c1ccnc(-c2cc(C(C)(C)C)ccn2)c1.{rest}", made


def sharpless(recorded: Recorded) -> Iterator[Made]:
    """Allylic alcohols to 2,3-epoxides, of the configuration that the tartrate gives."""
    extend = "[#6:1][CX3;H1:2]=O>>[#6:1]/[C:2]=C/CO"
    longer = [made for text in recorded.pools["aldehyde"] if (made := react(extend, text))]
    for alcohol in [*recorded.all("allylic"), *longer]:
        for hand in "LD":
            rest = f"{recorded.reagents(f'tartrate_{hand}')}.{recorded.reagents('titanium')}.CC(C)(C)OO.ClCCl"
            if made := asymmetric_epoxide(alcohol, hand):
                yield alcohol, f"{alcohol}.{rest}", made


def asymmetric_epoxide(alcohol: str, hand: str) -> str | None:
    """Return the epoxide by Sharpless's rule, or None if the alkene's geometry is not set."""
    mol = Chem.RWMol(Chem.AddHs(Chem.MolFromSmiles(alcohol)))
    _, first, second, third = mol.GetSubstructMatch(Chem.MolFromSmarts(TABLES["pools"]["allylic"][0]))
    bond = mol.GetBondBetweenAtoms(second, third)
    near = next(atom for atom in _neighbours(mol, second) if atom not in (first, third))
    far = [atom for atom in _neighbours(mol, third) if atom != second]
    ranks = Chem.CanonicalRankAtoms(mol, breakTies=False)
    if bond.IsInRing():  # which holds its own two ends cis
        ring = {atom for ring in mol.GetRingInfo().AtomRings() if {second, third} <= set(ring) for atom in ring}
        far.sort(key=lambda atom: (atom in ring) != (first in ring))
    elif ranks[far[0]] != ranks[far[1]]:
        if bond.GetStereo() not in (Chem.BondStereo.STEREOE, Chem.BondStereo.STEREOZ):
            return None
        ends = sorted(bond.GetStereoAtoms(), key=lambda atom: atom not in (first, near))
        together = (ends[0] == first) == (bond.GetStereo() == Chem.BondStereo.STEREOZ)
        far.sort(key=lambda atom: (atom == ends[1]) != together)
    oxygen = mol.AddAtom(Chem.Atom("O"))
    bond.SetStereo(Chem.BondStereo.STEREONONE)
    bond.SetBondType(Chem.BondType.SINGLE)
    for end in (second, third):
        mol.AddBond(end, oxygen, Chem.BondType.SINGLE)
    _turn(mol, second, (oxygen, third, first, near), anticlockwise=hand == "L")
    _turn(mol, third, (oxygen, second, far[1], far[0]), anticlockwise=hand == "L")  # far[0] is cis to the alcohol
    made = Chem.RemoveHs(mol.GetMol())
    Chem.AssignStereochemistry(made, cleanIt=True, force=True)
    return chem.canonical(Chem.MolToSmiles(made))


def _neighbours(mol: Any, index: int) -> list[int]:
    return [neighbour.GetIdx() for neighbour in mol.GetAtomWithIdx(index).GetNeighbors()]


def _turn(mol: Any, centre: int, order: Sequence[int], *, anticlockwise: bool) -> None:
    """Set a configuration: seen from the first neighbour the others turn anticlockwise, or clockwise."""
    positions = [_neighbours(mol, centre).index(neighbour) for neighbour in order]
    odd = sum(a > b for i, a in enumerate(positions) for b in positions[i + 1 :]) % 2
    mol.GetAtomWithIdx(centre).SetChiralTag(TAGS[bool(odd) != anticlockwise])


# --- files ----------------------------------------------------------------------------------------

STEREO = (sulfonates, activated_alcohols, inner_epoxides, terminal_epoxides, glycosides, sharpless)
FLAT = (hydroborations, dihydroxylations, ring_closing_metatheses, baeyer_villiger, beckmann, ugi, photoredox)


def draw(
    kind: Callable[[Recorded], Iterator[Made]], recorded: Recorded, counts: tuple[int, int]
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Return random flasks of a kind for training and test, whose changing molecules differ."""
    seen, train, test = set[str](), list[tuple[str, str, str]](), list[tuple[str, str, str]]()
    made = list(kind(recorded))
    recorded.rng.shuffle(made)
    for substrate, reactants, products in made:
        if (len(train), len(test)) == counts:
            break
        flask = split_precatalysts(chem.canonical(reactants) or "")[0]
        if not flask or flask in seen or not all(map(recorded.usable, (substrate, *products.split("|")))):
            continue
        seen.add(flask)
        held = is_held(substrate)
        if kind in FLAT and (held or recorded.rng.random() < FLAT_SHARE):
            flask, products = chem.drop_stereo(flask) or flask, chem.drop_stereo(products) or products
        if held and len(test) < counts[1]:
            test.append((kind.__name__, flask, products))
        elif not held and len(train) < counts[0]:
            train.append((kind.__name__, flask, products.split("|")[0]))
    return train, test


def is_held(smiles: str) -> bool:
    """Return whether a molecule is for the test alone."""
    return zlib.crc32((chem.drop_stereo(smiles) or smiles).encode()) % PARTS == 0


def molecules(file: Path) -> Iterator[str]:
    """Yield all molecules of a file of reactions without stereochemistry."""
    for row in read_rows(file):
        for column in ("reactants_and_reagents", "reactants", "product"):
            for part in (row.get(column) or "").split("."):
                yield (chem.drop_stereo(part) or part) if set("@/") & set(part) else part


def main() -> None:
    """Write both files."""
    args, rng = read_arguments(__doc__, "forward_stereo_train.csv.gz", "molecules", most=60_000)
    excluded = frozenset(text for file in args.exclude for text in molecules(file))
    every = sorted({part for row in read_rows(args.source) for part in row["core_reactants"].split(".")} - {""})
    recorded = Recorded(rng.sample(every, min(args.most, len(every))), excluded, rng)
    train, test = [], []
    for kind in (*STEREO, *FLAT):
        for whole, part in zip((train, test), draw(kind, recorded, (TRAIN, TEST)), strict=True):
            whole += part
        print(f"{kind.__name__}: {len(train)} and {len(test)} so far", flush=True)
    write_file(args.out / "rare_kinds_train.csv.gz", write, train)
    write_file(args.out / "rare_kinds_test.csv", write, test)


if __name__ == "__main__":
    main()
