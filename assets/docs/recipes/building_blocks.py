"""Add families of everyday building blocks to the list `common` of `assets/stock`.

    python assets/docs/recipes/building_blocks.py

The families are written from general knowledge of what the large catalogues of building blocks sell in every pattern of
substitution (halides, boronic acids, amines, acids, aldehydes, nitriles and phenols of benzene, pyridine and the usual
heterocycles; saturated amines with the usual protecting groups; alkyl chains). They were not looked up one by one.
"""

import gzip
from collections.abc import Iterable, Iterator
from itertools import combinations, permutations, product
from pathlib import Path

from rdkit import Chem, RDLogger

STOCK = Path(__file__).parents[2] / "stock" / "common.txt.gz"
SINGLES = Path(__file__).with_name("building_blocks.smi")

ACID, ALDEHYDE, AMINE, BORONIC, BENZYL_BROMIDE, NITRILE = "C(=O)O", "C=O", "N", "B(O)O", "CBr", "C#N"
INERT = ("F", "Cl", "Br", "C", "OC", "C(F)(F)F", "OC(F)(F)F", "[N+](=O)[O-]", "C#N", "I", "CC", "C(C)C", "C(C)(C)C")
POLAR = ("c9ccccc9", "Oc9ccccc9", "N(C)C", "SC", "S(C)(=O)=O", "C(=O)OC", "NC(C)=O", "OCC", "OCc9ccccc9", "OC(F)F")
REACTIVE = ("CBr", "CCl", "S(=O)(=O)Cl", "C(=O)Cl", "N=C=O", "NN", "C=C", "C#C", "S", "CC(=O)O", "CC#N")
STABLE = ("C(=O)O", "C=O", "N", "B(O)O", "B8OC(C)(C)C(C)(C)O8", "CO", "O", "Br", "I", "C#N", "C(C)=O", "C(=O)OC", "CN",
          "[N+](=O)[O-]", "Cl", "F", "C(N)=O", "S(N)(=O)=O")  # fmt: skip
PAIRS = (
    "F F", "F Cl", "F Br", "F C", "F OC", "Cl Cl", "Cl C", "Cl OC", "C C", "OC OC", "Br C", "Br OC", "Br Cl", "Br Br",
)  # fmt: skip
ON_PAIRS = (ACID, ALDEHYDE, AMINE, BORONIC, "Br", "I", "O", NITRILE, BENZYL_BROMIDE, "CN", "CO", "C(=O)OC")
NITRO = ("F", "Cl", "Br", "C", "OC", "N", "O")


def benzene(groups: dict[int, str]) -> str:
    """Return a benzene with groups at positions 1 to 6."""
    atoms = [f"c({groups[at]})" if at in groups else "c" for at in range(1, 7)]
    return f"{atoms[0][:1]}1{atoms[0][1:]}{''.join(atoms[1:-1])}{atoms[-1][:1]}1{atoms[-1][1:]}"


def benzenes() -> Iterator[str]:
    """Yield benzenes with one to five groups."""
    yield from (benzene({1: group}) for group in (*INERT, *POLAR, *REACTIVE, *STABLE))
    for first, second, at in product(STABLE, (*INERT, *POLAR), (2, 3, 4)):
        yield benzene({1: first, at: second})
    for first, second, at in product(REACTIVE, INERT, (2, 3, 4)):
        yield benzene({1: first, at: second})
    for first, pair in product(ON_PAIRS, PAIRS):
        for positions in permutations(range(2, 7), 2):
            yield benzene({1: first, **dict(zip(positions, pair.split(), strict=True))})
    for first, second, at in product(NITRO, ("F", "Cl", "Br", "C", "OC", "C(F)(F)F"), permutations(range(2, 7), 2)):
        yield benzene({1: first, at[0]: second, at[1]: "[N+](=O)[O-]"})
    for first, at in product((*ON_PAIRS, "C(=O)Cl", "CC(=O)O", "[N+](=O)[O-]"), combinations(range(2, 7), 3)):
        yield benzene({1: first, **dict.fromkeys(at, "F")})
    for first, at in product((ACID, AMINE, "Br", ALDEHYDE, "O", BORONIC, BENZYL_BROMIDE), ((3, 5), (2, 4), (2, 5))):
        yield benzene({1: first, **dict.fromkeys(at, "C(F)(F)F")})
    for first, positions in product((ACID, AMINE, "Br", "O"), permutations(range(2, 7), 2)):
        yield benzene({1: first, positions[0]: "F", positions[1]: "C(F)(F)F"})
        yield benzene({1: first, positions[0]: "Cl", positions[1]: "C(F)(F)F"})


def substitute(parent: str, groups: Iterable[str], *, at_once: int = 1) -> Iterator[str]:
    """Yield a parent with groups in place of hydrogen at its aromatic carbons."""
    mol = Chem.MolFromSmiles(parent)
    positions = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetIsAromatic() and atom.GetSymbol() == "C"
              and atom.GetTotalNumHs()]  # fmt: skip
    for chosen, written in product(permutations(positions, at_once), product(groups, repeat=at_once)):
        grown = Chem.RWMol(mol)
        for position, group in zip(chosen, written, strict=True):
            piece = Chem.MolFromSmiles(group)
            start = grown.GetNumAtoms()
            grown.InsertMol(piece)
            grown.AddBond(position, start, Chem.BondType.SINGLE)
        Chem.SanitizeMol(grown)
        yield Chem.MolToSmiles(grown)


def heterocycles() -> Iterator[str]:
    """Yield heteroaromatic building blocks."""
    usual = ("Br", "Cl", "I", ACID, ALDEHYDE, NITRILE, AMINE, "C", "CO", "C(=O)OC", "C(=O)OCC", "OC", "C(C)=O", "CN")
    yield from substitute("c1ccncc1", (*usual, "O", "F", "C(F)(F)F", "[N+](=O)[O-]", "CCl", "C#C", "C=C", "C(N)=O"))
    yield from substitute(
        "c1ccncc1", ("F", "Cl", "Br", "C", "OC", "C(F)(F)F", AMINE, ACID, NITRILE, ALDEHYDE), at_once=2
    )
    yield from substitute("c1ccncc1", ("F", "Cl", "Br", "I"), at_once=2)
    for parent in ("c1cncnc1", "c1cnccn1", "c1ccnnc1"):
        yield from substitute(parent, (*usual, "C(F)(F)F", "O"))
        yield from substitute(parent, ("Cl", "Br", AMINE, "C", "OC"), at_once=2)
        yield from substitute(parent, ("Cl",), at_once=3)
    for fifth in ("F", "Br", "C", "[N+](=O)[O-]", "C(F)(F)F", "OC", "I", ALDEHYDE, "C(=O)OCC", AMINE):
        yield f"Clc1ncc({fifth})c(Cl)n1"
    for parent in (
        "c1cc[nH]n1", "Cn1cccn1", "c1c[nH]cn1", "Cn1ccnc1", "c1cscn1", "c1cocn1", "c1conc1", "c1cnsc1", "c1cccs1",
        "c1ccc2[nH]ccc2c1", "Cn1ccc2ccccc21", "c1ccc2[nH]ncc2c1", "Cn1ncc2ccccc21", "c1cnc2[nH]ccc2c1",
        "c1ccc2[nH]cnc2c1", "c1ccc2sccc2c1", "c1ccc2occc2c1", "c1ccc2scnc2c1", "c1ccc2ocnc2c1", "c1ccc2ncccc2c1",
        "c1ccc2cnccc2c1", "c1ccc2ncncc2c1", "c1ccc2nccnc2c1", "c1ccc2ccccc2c1", "c1ccn2ccnc2c1", "c1ccn2nccc2c1",
        "c1c[nH]c2ncncc12", "c1ccoc1",
    ):  # fmt: skip
        halides = ("Br",) if parent == "c1ccoc1" else ("Br", "Cl", "I")
        yield from substitute(parent, (*halides, ACID, ALDEHYDE, NITRILE, "C", "CO", "C(=O)OC", "C(=O)OCC"))
        if parent not in ("c1ccoc1", "c1cccs1"):  # whose amines are not stable
            yield from substitute(parent, (AMINE,))
    for parent in (
        "c1cccs1",
        "c1ccoc1",
        "Cn1cccn1",
        "c1cc[nH]n1",
        "c1ccc2[nH]ccc2c1",
        "c1ccc2ncccc2c1",
        "c1ccc2occc2c1",
    ):
        yield from substitute(parent, (BORONIC, "B1OC(C)(C)C(C)(C)O1"))
    yield from ("OB(O)c1cccnc1", "OB(O)c1ccncc1", "CC1(C)OB(c2cccnc2)OC1(C)C", "CC1(C)OB(c2ccncc2)OC1(C)C")
    for third, fourth in product(("F", "Cl", "C", "OC", "N", "C#N", "C(F)(F)F"), ("B(O)O", "B9OC(C)(C)C(C)(C)O9")):
        yield from (f"n1c({third})ccc({fourth})c1", f"n1c({third})cc({fourth})cc1", f"n1cc({third})cc({fourth})c1")


def saturated() -> Iterator[str]:
    """Yield cyclic amines, free and with the usual groups on nitrogen, and rings without one."""
    on_nitrogen = ("", "C", "C(=O)OC(C)(C)C", "C(=O)OCc9ccccc9", "Cc9ccccc9")
    groups = ("O", "N", "C(=O)O", "CO", "CN", "C(=O)OC", "C(=O)OCC", "C#N", "Br", "I", "C=O", "CBr", "N(C)C", "OC", "F",
              "NC(=O)OC(C)(C)C", "CC(=O)O", "C(N)=O", "c8ccccc8", "C")  # fmt: skip
    for shield in on_nitrogen:
        for ring in ("N1({})CC{}({})CC1", "N1({})C{}({})CC1", "N1({})C{}({})C1", "N1({})C{}({})CCC1"):
            for group in groups:
                if shield in ("", "C") and group in ("Br", "I", "C=O", "CBr"):  # would alkylate itself
                    continue
                for atom in ("C", "[C@H]", "[C@@H]"):
                    yield ring.format(shield, atom, group).replace("N1()", "N1")
        for ring in ("N1({})CCC(=O)CC1", "N1({})CC(=O)CC1", "N1({})CC(=O)C1", "N1({})CCCC(=O)C1", "N1({})CCCC1",
                     "N1({})CCNCC1", "N1({})CCCNCC1", "N1({})CCOCC1", "N1({})CCSCC1", "N1({})CCS(=O)(=O)CC1",
                     "N1({})CC2(C1)CNC2", "N1({})CC2(C1)COC2", "N1({})CCC2(CC1)CNC2", "N1({})CCC2(CC1)CCNC2",
                     "N1({})CCOCCC1", "N1({})CCCCC1", "N1({})CCCCCC1", "N1({})CCC=CC1", "N1({})CC=CC1",
                     "N1({})C2CCC1CNC2", "N1({})CC2CCC(C1)O2", "N1({})CC2CCC(C1)N2", "N1({})C[C@@H]2C[C@H]1CO2",
                     "N1({})C[C@@H]2C[C@H]1CN2", "N1({})CC2CC2C1", "N1({})Cc2ccccc2C1",
                     "N1({})CCc2ccccc2C1"):  # fmt: skip
            yield ring.format(shield).replace("N1()", "N1")
        for ring in ("N1({})CCN[C@@H](C)C1", "N1({})CCN[C@H](C)C1", "N1({})CCNC(C)C1", "N1({})[C@@H](C)CNCC1",
                     "N1({})[C@H](C)CNCC1", "N1({})C(C)CNCC1", "N1({})C[C@@H](C)N[C@@H](C)C1", "N1({})CC(C)NC(C)C1",
                     "N1({})CCN[C@H](C)CC1", "N1({})CCN[C@@H](C)CC1", "N1({})CCNC(C)CC1", "N1({})CCC(C)NCC1",
                     "N1({})[C@H](C)CCNCC1", "N1({})[C@@H](C)CCNCC1", "N1({})C(C)CCNCC1", "N1({})CCO[C@H](C)C1",
                     "N1({})CCO[C@@H](C)C1", "N1({})CCOC(C)C1", "N1({})[C@H](C)COCC1", "N1({})[C@@H](C)COCC1",
                     "N1({})CC(C)OC(C)C1", "N1({})[C@H](CO)CCC1", "N1({})[C@@H](CO)CCC1", "N1({})[C@H](C)CCC1",
                     "N1({})[C@@H](C)CCC1", "N1({})C(C)CCCC1", "N1({})[C@H](CO)COCC1", "N1({})[C@@H](CO)COCC1",
                     "N1({})CC(F)(F)CC1", "N1({})CC(F)(F)C1", "N1({})CCC(F)(F)CC1"):  # fmt: skip
            yield ring.format(shield).replace("N1()", "N1")
    kinds = ("O", "N", "C(=O)O", "CO", "CN", "C=O", "C#N", "Br", "I", "C(=O)Cl", "C(=O)OC", "C(C)=O", "CBr", "CC(=O)O")
    for ring, kind in product(("CC", "CCC", "CCCC", "CCCCC", "CCOCC", "COC", "CCOC", "CCCCCC"), kinds):
        yield f"C1({kind}){ring}1"
    for ring, kind in product(("CC", "CCC", "CCCC", "CCCCC"), ("B(O)O", "C#C", "S(=O)(=O)Cl", "[Mg]Br", "N=C=O")):
        yield f"C1({kind}){ring}1"
    yield from (f"O=C1{ring}1" for ring in ("CC", "CCC", "CCCC", "CCCCC", "CCCCCC", "CCOCC", "COC", "CCOC"))
    yield from (f"FC1(F)CCC({kind})CC1" for kind in ("N", "C(=O)O", "O", "CO"))
    yield from ("FC1(F)CCC(=O)CC1", "FC1(F)CC(C(=O)O)C1")
    for kind in ("N", "C(=O)O", "O", "C(=O)OC", "NC(=O)OC(C)(C)C"):
        yield from (f"N[C@H]1CC[C@H]({kind})CC1", f"N[C@H]1CC[C@@H]({kind})CC1", f"O[C@H]1CC[C@@H]({kind})CC1")


def chains() -> Iterator[str]:
    """Yield open-chain compounds with one group, or two that do not react with each other."""
    stems = (
        "C",
        "CC",
        "CCC",
        "CC(C)",
        "CCCC",
        "CC(C)C",
        "CCC(C)",
        "CC(C)(C)",
        "CCCCC",
        "CC(C)CC",
        "CC(C)(C)C",
        "CCCCCC",
        "CCCCCCC",
        "CCCCCCCC",
        "CCCCCCCCCC",
        "CCCCCCCCCCCC",
        "C1CC1C",
        "C1CCC1C",
        "C1CCCC1C",
        "C1CCCCC1C",
        "COCC",
        "COCCC",
        "CCOCC",
        "C=CC",
        "C=CCC",
        "CC=CC",
        "CC(C)=CC",
        "C#CC",
        "C#CCC",
        "FC(F)(F)C",
        "FC(F)(F)CC",
        "FC(F)C",
        "FCC",
        "FCCC",
        "c1ccccc1C",
        "c1ccccc1CC",
        "c1ccccc1CCC",
        "c1ccccc1C(C)",
        "c1ccncc1C",
        "c1cccnc1C",
    )
    groups = ("N", "O", "Br", "I", "C(=O)O", "C#N", "C(=O)OC", "C(=O)OCC", "NC", "C(C)=O", "C(N)=O", "OC(C)=O",
              "NC(=O)OC(C)(C)C", "C=O", "C(=O)Cl")  # fmt: skip
    yield from map("".join, product(stems, groups))
    plain = (stem for stem in stems if set(stem) <= set("C()1c") and "C#" not in stem)
    yield from map("".join, product(plain, ("S", "S(=O)(=O)Cl", "B(O)O", "N=C=O", "[Mg]Br", "[Mg]Cl", "OC(=O)Cl",
                                            "S(N)(=O)=O", "[N+](=O)[O-]")))  # fmt: skip
    for length, (first, second) in product(
        range(1, 9),
        (("OC(=O)", "NC(=O)OC(C)(C)C"), ("OC(=O)", "Br"), ("CCOC(=O)", "Br"), ("COC(=O)", "Br"), ("OC(=O)", "O"),
         ("CC(C)(C)OC(=O)", "Br"), ("CC(C)(C)OC(=O)", "N"), ("N", "NC(=O)OC(C)(C)C"), ("N", "O"), ("O", "Br"),
         ("O", "O"),
         ("N", "N"), ("Br", "Br"), ("O", "NC(=O)OC(C)(C)C"), ("Br", "NC(=O)OC(C)(C)C"), ("CN(C)", "N"), ("CN(C)", "O"),
         ("CO", "N"), ("Cl", "Br"), ("OC(=O)", "C(=O)O"), ("COC(=O)", "C(=O)O"), ("O", "OCc1ccccc1"), ("N", "C(=O)O"),
         ("N#C", "Br"), ("N#C", "C(=O)O"), ("C#C", "O"), ("C#C", "N"), ("C#C", "C(=O)O"), ("COC(=O)", "C(=O)OC"),
         ("CCOC(=O)", "C(=O)OCC"), ("COC(=O)", "C(=O)Cl"), ("O", "O[Si](C)(C)C(C)(C)C"), ("Br", "O[Si](C)(C)C(C)(C)C"),
         ("N", "NC(=O)OCc1ccccc1"), ("OC(=O)", "NC(=O)OCc1ccccc1"), ("COC(=O)", "N"), ("COC(=O)", "C=O"), ("I", "I")),
    ):  # fmt: skip
        if length == 1 and second in ("O", "N") and first in ("N", "O", "CN(C)", "CO"):
            continue  # aminals and acetals
        if length == 1 and {first, second} & {"NC(=O)OC(C)(C)C", "NC(=O)OCc1ccccc1"} and first in ("N", "O", "Br"):
            continue
        yield first + "C" * length + second


def main() -> None:
    """Write the list again: what it has, the families, and single molecules of `building_blocks.smi`."""
    RDLogger.DisableLog("rdApp.*")
    lines = gzip.decompress(STOCK.read_bytes()).decode().split("\n")
    entries = dict(line.split(" ", 1) for line in lines if line)
    before = len(entries)
    lines = SINGLES.read_text(encoding="utf-8").splitlines()
    singles = [smiles for line in lines if not line.startswith("#") for smiles in line.split()]
    for text in (*singles, *benzenes(), *heterocycles(), *saturated(), *chains()):
        mol = Chem.MolFromSmiles(text)
        if mol is None:
            raise ValueError(f"{text} is not a SMILES")
        entries.setdefault(Chem.MolToInchiKey(mol), Chem.MolToSmiles(mol))
    text = "".join(f"{key} {smiles}\n" for key, smiles in sorted(entries.items()))
    STOCK.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{before:,} molecules before, {len(entries):,} now")


if __name__ == "__main__":
    main()
