"""Write textbook reactions and negative flasks, to be mixed into the last stage of a forward model's training.

    python assets/docs/recipes/textbook_reactions.py forward_stereo_train.csv.gz OUT --exclude TEST_FILE ...

writes `textbook_train.csv.gz` and `negative_flasks.csv.gz` (columns as in the source file), and `textbook_test.csv`
with other products. Patents hold few of these reactions, or record them with another outcome, so the models miss what
every chemist knows. They are written by SMARTS from the molecules of `assets/stock/common.txt.gz`; the column `source`
says "textbook".

A negative flask is a recorded reaction without the reagents that its class needs
(`chemspec/chem/checks/flask_check.py`); its product is the largest molecule of the flask, unchanged. It teaches a model
that reagents count.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from rdkit import Chem, RDLogger
from rdkit.Chem import AllChem

from chemspec import chem
from chemspec.chem.checks.flask_check import missing_or_conflicting, needs_of, split_flask
from chemspec.chem.reactions.step_class import classify_step
from chemspec.data.shards import read_rows

STOCK = Path(__file__).parents[2] / "stock" / "common.txt.gz"
COLUMNS = ("reactants_and_reagents", "product", "main_product", "source", "id", "has_reagents")
TRAIN, TEST, NEGATIVE = 60, 15, 600  # of each kind, of each kind, in all
HEAVIEST = 40  # heavy atoms of a product
Flask = tuple[str, str]  # reactants with reagents, product


def stock(smarts: str, without: str = "", heaviest: int = 22) -> list[str]:
    """Return common building blocks that match a pattern once, and none of other patterns parted by blanks."""
    pattern, others = Chem.MolFromSmarts(smarts), [Chem.MolFromSmarts(text) for text in without.split()]
    names = gzip.decompress(STOCK.read_bytes()).decode().split("\n")
    mols = {smiles: Chem.MolFromSmiles(smiles) for smiles in (line.split(" ")[-1] for line in names) if smiles}
    return [
        smiles
        for smiles, mol in sorted(mols.items())
        if "." not in smiles
        and mol.GetNumHeavyAtoms() <= heaviest
        and len(mol.GetSubstructMatches(pattern)) == 1
        and not any(mol.HasSubstructMatch(other) for other in others)
    ]


def react(smarts: str, *reactants: str) -> str | None:
    """Return the product if a reaction gives exactly one, else None."""
    reaction = AllChem.ReactionFromSmarts(smarts)
    products = set()
    for outcome in reaction.RunReactants([Chem.MolFromSmiles(smiles) for smiles in reactants]):
        text = chem.canonical(".".join(Chem.MolToSmiles(mol) for mol in outcome))
        if text:
            products.add(text)
    return products.pop() if len(products) == 1 else None


def derived(smarts: str, molecules: Sequence[str]) -> list[str]:
    """Return what a reaction makes of each molecule, where it gives exactly one product."""
    return [made for smiles in molecules if (made := react(smarts, smiles))]


def combine(smarts: str, *pools: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield reactants and product of a reaction for all combinations of reactants."""
    for reactants in product(*pools):
        made = react(smarts, *reactants)
        if made:
            yield ".".join(reactants), made


# --- the reactions ----------------------------------------------------------------------------------

_ACIDIC = "[OX2H] [SX2H] [NX3;H2,H1;!$(NC=O);!$(NS=O)] [CX3](=O)[Cl,Br] S(=O)(=O)Cl N=C=O B [Mg] [Zn]"
_FMOC = "O=C(OCC1c2ccccc2-c2ccccc21)"


def fmoc_removal() -> Iterator[tuple[str, str]]:
    """Fmoc-amines, also with Boc and esters, to amines."""
    acids = stock(_FMOC + "[NX3]", heaviest=45)
    amines = stock("[NX3;H2][CX4]", "[OX2H] [SX2H] C#N [n;H1]", heaviest=14)
    boc_amines = stock("[NX3;H1]1CCNCC1") + stock("[NX3;H1]1CCCC1", "[OX2H]")
    esters = derived("[C:1](=[O:2])[OX2H]>>[C:1](=[O:2])OC", acids)
    amides = [made for _, made in combine("[C:1](=[O:2])[OX2H].[NX3;H2:3]>>[C:1](=[O:2])[N:3]", acids[::3], amines[:8])]
    protected = derived("[NX3;H1,H2;!$(NC=O):1]>>[N:1]" + _FMOC.replace("O=C(", "C(=O)(", 1), amines + boc_amines)
    yield from combine("[NX3:1]" + "C(=O)OCC1c2ccccc2-c2ccccc21>>[N:1]", [*acids, *esters, *amides, *protected])


def click() -> Iterator[tuple[str, str]]:
    """Organic azides and terminal alkynes to 1,4-triazoles."""
    alkynes = [
        *stock("[CX2H]#[CX2]", "[Si] C#C[Br,Cl,I] [CX3](=O)[Cl,Br]"),
        "C#CCO",
        "C#CCCO",
        "C#CCCCO",
        "C#CCOCc1ccccc1",
        "C#CC(C)(C)O",
    ]
    alkynes += ["C#CCN1C(=O)c2ccccc2C1=O", "C#CCOC(=O)c1ccccc1", "C#CCNC(=O)OC(C)(C)C", "C#CCCCCC", "C#CCOc1ccccc1"]
    azides = derived("[CX4;H2:1]-[Br]>>[C:1]N=[N+]=[N-]", stock("[CX4;H2][Br]", "[CX3](=O)[Cl,Br] [Cl,I] C#C"))
    azides += derived("[c:1]-[NX3;H2]>>[c:1]N=[N+]=[N-]", stock("c[NX3;H2]", "[OX2H] [CX3](=O)[OX2H] [SX2H]", 12))
    yield from combine("[CX2H:1]#[CX2:2].[N:3]=[N+:4]=[N-:5]>>[cH:1]1[c:2][n+0:5][n+0:4][n+0:3]1", alkynes, azides[::2])


def diels_alder() -> Iterator[tuple[str, str]]:
    """Dienes and activated alkenes or alkynes to cyclohexenes and cyclohexadienes."""
    dienes = ["C=CC=C", "C=C(C)C(=C)C", "C1C=CC=C1", "c1ccoc1", "C1=CCC=CC1", "C1=CC=CCC1", "CC=CC=CC", "C=CC=CC"]
    olefins = ["O=C1C=CC(=O)O1", "O=C1C=CC(=O)N1", "CN1C(=O)C=CC1=O", "O=C1C=CC(=O)N1c1ccccc1", "CCN1C(=O)C=CC1=O"]
    olefins += ["O=C1C=CC(=O)C=C1", "COC(=O)C=CC(=O)OC", "CCOC(=O)C=CC(=O)OCC", "O=C1C=CC(=O)N1Cc1ccccc1", "N#CC=CC#N"]
    olefins += [
        "O=C1C=CC(=O)c2ccccc21",
        "C=CC(=O)OC",
        "C=CC(=O)OCC",
        "C=CC(C)=O",
        "C=CC#N",
        "C=CC=O",
        "C=C[N+](=O)[O-]",
    ]
    alkynes = ["COC(=O)C#CC(=O)OC", "CCOC(=O)C#CC(=O)OCC"]
    diene, activated = "[C,c:1]=,:[C,c:2]-,:[C,c:3]=,:[C,c:4]", "[C:6]-[#6,#7]"
    ring = "[C:1]1[C:2]=[C:3][C:4]"
    yield from combine(f"{diene}.[C:5]=[{activated[1:]}>>{ring}[C:5][C:6]1".replace("-[#6,#7]", ""), dienes, olefins)
    yield from combine("[C:1]=[C:2]-[C:3]=[C:4].[C:5]#[C:6]>>[C:1]1[C:2]=[C:3][C:4][C:5]=[C:6]1", dienes, alkynes)


def ring_closing_metathesis() -> Iterator[tuple[str, str]]:
    """Two terminal alkenes in one molecule to a cycloalkene of five to seven atoms, and ethylene."""
    halves = {"C": "CC=C", "CC": "CCC=C"}
    acyl = derived(
        "[C:1](=[O:2])[Cl,OX2H]>>[C:1](=[O:2])[NH2]", stock("[#6]C(=O)[OX2H]", "[NX3;H2,H1] S O=CO[CX4] C=C", 14)
    )
    sulfonyl = derived("[S:1]Cl>>[S:1][NH2]", stock("S(=O)(=O)Cl"))
    for amide in [*sulfonyl, *acyl[::6], "CC(C)(C)OC(N)=O", "NC(=O)OCc1ccccc1"]:
        for left, right in (("C", "C"), ("C", "CC"), ("CC", "CC")):
            alkyls = f"N({halves[left]}){halves[right]}"
            diene = react(f"[C,S:1](=[O:2])[NH2:3]>>[C,S:1](=[O:2])[{alkyls[0]}:3]{alkyls[1:]}", amide)
            ring = close_ring(diene)
            if diene and ring:
                yield diene, ring
    for acid in ("CCOC(=O)C(CC=C)(CC=C)C(=O)OCC", "COC(=O)C(CC=C)(CC=C)C(=O)OC", "CC(=O)C(CC=C)(CC=C)C(C)=O"):
        yield acid, close_ring(acid) or ""
    for alcohol in (
        "O(CC=C)C(C=C)c1ccccc1",
        "O(CC=C)C(CC=C)c1ccccc1",
        "O(CC=C)C(CC=C)C1CCCCC1",
        "OC(CC=C)(CC=C)c1ccccc1",
    ):
        yield chem.canonical(alcohol) or "", close_ring(alcohol) or ""


def close_ring(diene: str | None) -> str | None:
    """Return the cycloalkene that ring-closing metathesis makes of a diene."""
    mol = Chem.MolFromSmiles(diene or "")
    ends = mol.GetSubstructMatches(Chem.MolFromSmarts("[CH2]=[CH1]-[C,O,N]"))
    if len(ends) != 2:
        return None
    edited = Chem.RWMol(mol)
    edited.AddBond(ends[0][1], ends[1][1], Chem.BondType.DOUBLE)
    for atom in sorted((ends[0][0], ends[1][0]), reverse=True):
        edited.RemoveAtom(atom)
    return chem.canonical(Chem.MolToSmiles(edited))


def fischer_indole() -> Iterator[tuple[str, str]]:
    """Arylhydrazines and ketones to indoles."""
    plain = ["NNc1ccccc1", "NNc1ccc(C)cc1", "NNc1ccc(OC)cc1", "NNc1ccc(Cl)cc1", "NNc1ccc(Br)cc1", "NNc1ccc(F)cc1"]
    plain += ["NNc1ccccc1C", "NNc1ccccc1Cl", "NNc1ccccc1F", "NNc1ccc(C(F)(F)F)cc1", "CC(C)c1ccc(NN)cc1"]
    ketones = ["O=C1CCCCC1", "O=C1CCCC1", "O=C1CCCCCC1", "CCC(=O)CC", "O=C1CCOCC1", "O=C1CCSCC1", "CN1CCC(=O)CC1"]
    ketones += [
        "CC(C)(C)OC(=O)N1CCC(=O)CC1",
        "CC(=O)c1ccccc1",
        "CC(=O)c1ccc(Cl)cc1",
        "CC(=O)c1ccc(OC)cc1",
        "CCC(=O)c1ccccc1",
    ]
    ketones += ["CC(=O)c1ccc(F)cc1", "CC(=O)c1ccncc1", "CCOC(=O)C1CCC(=O)CC1", "O=C1CCC(c2ccccc2)CC1", "CC(C)C(C)=O"]
    smarts = "[cH1:1][c:2]-[NX3;H1:3]-[NX3;H2].[CX4;H2,H3:4]-[CX3:5]=O>>[c:1]1[c:2][nH:3][c:5][c:4]1"
    yield from combine(smarts, plain, ketones)


def paal_knorr() -> Iterator[tuple[str, str]]:
    """1,4-Diketones and primary amines to pyrroles."""
    diketones = ["CC(=O)CCC(C)=O", "O=C(CCC(=O)c1ccccc1)c1ccccc1", "CC(=O)CCC(=O)c1ccccc1", "CCC(=O)CCC(=O)CC"]
    diketones += ["CCOC(=O)C(CC(C)=O)C(C)=O", "CC(=O)CCC(=O)c1ccc(Cl)cc1", "CC(=O)CCC(=O)c1ccc(OC)cc1"]
    amines = stock(
        "[NX3;H2;!$(NC=[O,S]);!$(NS);!$(N[#7,#8])][#6]", "[NX3;H1] [SX2H] [CX3](=O)[OX2H] C=N B [CX4](N)N", 14
    )
    smarts = "[#6:1][C:2](=O)[C:3][C:4][C:5](=O)[#6:6].[NH2:7]>>[#6:1][c:2]1[c:3][c:4][c:5]([#6:6])[n:7]1"
    yield from combine(smarts, diketones, amines[::3])


def minisci() -> Iterator[tuple[str, str]]:
    """Heteroarenes and carboxylic acids to alkylated heteroarenes, with one free position next to the nitrogen."""
    arenes = [
        "Cc1ccnc2ccccc12",
        "c1ccc2cnccc2c1",
        "Cc1cccc2ccncc12",
        "Brc1cccc2ccncc12",
        "N#Cc1ccncc1",
        "COC(=O)c1ccncc1",
    ]
    arenes += ["CC(=O)c1ccncc1", "CC(C)(C)c1ccncc1", "Cc1ccccn1", "Clc1ccnc2ccccc12", "COc1ccnc2ccccc12", "Cc1cccnc1C"]
    arenes += ["FC(F)(F)c1ccncc1", "c1ccc(-c2ccncc2)cc1", "Cc1cnc2ccccc2n1", "c1ccc2ncncc2c1", "COC(=O)c1ccc2ccccc2n1"]
    acids = [
        "CC(C)(C)C(=O)O",
        "O=C(O)C1CCCCC1",
        "O=C(O)C1CCCC1",
        "CC(C)C(=O)O",
        "O=C(O)C1CCC1",
        "O=C(O)C1CCOCC1",
        "CCC(CC)C(=O)O",
    ]
    smarts = "[cH1:1]:[n;H0;X2:2].[CX4:3]-C(=O)[OX2H]>>[CX4:3]-[c:1]:[n:2]"
    yield from combine(smarts, arenes, acids)


def borylation() -> Iterator[tuple[str, str]]:
    """1,3-Disubstituted benzenes to boronates at the position between neither of the substituents."""
    groups = "[F,Cl,Br,I,CH3,$(OC),$(C(F)(F)F),$(C(=O)OC),$(C#N),$(C(C)(C)C),$(N(C)C)]"
    arenes = stock(f"{groups}-c1[cH1]c(-{groups})[cH1][cH1][cH1]1", "[OX2H] [NX3;H2,H1] B [CX3]=O C=C C#C", 16)
    pieces = {
        "C": "C",
        "Cl": "Cl",
        "OMe": "OC",
        "CF3": "C(F)(F)F",
        "CO2Me": "C(=O)OC",
        "CN": "C#N",
        "F": "F",
        "Br": "Br",
    }
    pieces |= {"tBu": "C(C)(C)C", "NMe2": "N(C)C", "I": "I", "OEt": "OCC", "OBn": "OCc1ccccc1"}
    texts = list(pieces.values())
    arenes += [
        f"{a}c1cccc({b})c1".replace("C#Nc1", "N#Cc1").replace("C(=O)OCc1c", "COC(=O)c1c") for a in texts for b in texts
    ]
    smarts = f"[{groups[1:-1]}:1]-[c:2]1[cH1:3][c:4](-[{groups[1:-1]}:5])[cH1:6][cH1:7][cH1:8]1"
    target = "[*:1]-[c:2]1[cH1:3][c:4](-[*:5])[cH1:6][c:7](B2OC(C)(C)C(C)(C)O2)[cH1:8]1"
    yield from combine(f"{smarts}>>{target}", sorted({text for arene in arenes if (text := chem.canonical(arene))}))


KINDS: dict[Callable[[], Iterator[tuple[str, str]]], tuple[str, ...]] = {
    fmoc_removal: ("C1CCNCC1.CN(C)C=O", "C1CCNCC1.ClCCl", "CCNCC.C1CCOC1", "CC1CCNCC1.CN(C)C=O", "C1CCNCC1.C1CCOC1"),
    click: (
        "O=S(=O)([O-])[O-].[Cu+2].O=C1O[C@H]([C@@H](O)CO)C(O)=C1[O-].[Na+].O.CC(C)(C)O",
        "[Cu]I.CCN(C(C)C)C(C)C.CC#N",
        "O=S(=O)([O-])[O-].[Cu+2].O=C1O[C@H]([C@@H](O)CO)C(O)=C1[O-].[Na+].O.C1CCOC1",
        "[Cu]I.CCN(CC)CC.C1CCOC1",
    ),
    diels_alder: ("Cc1ccccc1", "c1ccccc1", "ClCCl", "Cc1ccccc1C", "C1CCOC1"),
    ring_closing_metathesis: tuple(
        f"{catalyst}.{solvent}"
        for catalyst in (
            "[Ru]",
            "[Cl][Ru][Cl]",
            "Cc1cc(C)c(N2CCN(c3c(C)cc(C)cc3C)C2=[Ru](Cl)(Cl)=Cc2ccccc2)c(C)c1.C1CCC(P(C2CCCCC2)C2CCCCC2)CC1",
            "Cl[Ru](Cl)(=Cc1ccccc1)([P](C1CCCCC1)(C1CCCCC1)C1CCCCC1)[P](C1CCCCC1)(C1CCCCC1)C1CCCCC1",
        )
        for solvent in ("ClCCl", "Cc1ccccc1")
    ),
    fischer_indole: ("CC(=O)O", "O=S(=O)(O)O.CCO", "Cl.CCO", "[Cl][Zn][Cl].CC(=O)O", "Cl.CC(=O)O"),
    paal_knorr: ("CC(=O)O", "Cc1ccc(S(=O)(=O)O)cc1.Cc1ccccc1", "CC(=O)O.CCO", "CC(=O)O.Cc1ccccc1"),
    minisci: (
        "O=S(=O)([O-])OOS(=O)(=O)[O-].[NH4+].[NH4+].[Ag+].O=[N+]([O-])[O-].O=S(=O)(O)O.O",
        "O=S(=O)([O-])OOS(=O)(=O)[O-].[NH4+].[NH4+].[Ag+].O=[N+]([O-])[O-].O=C(O)C(F)(F)F.O.CC#N",
        "O=S(=O)([O-])OOS(=O)(=O)[O-].[K+].[K+].[Ag+].O=[N+]([O-])[O-].O=S(=O)(O)O.O.CC#N",
    ),
    borylation: tuple(
        f"CC1(C)OB(B2OC(C)(C)C(C)(C)O2)OC1(C)C.{iridium}.CC(C)(C)c1ccnc(-c2cc(C(C)(C)C)ccn2)c1.{solvent}"
        for iridium in ("[Ir]", "C1=CCCC=CCC1.C1=CCCC=CCC1.C[O].C[O].[Ir].[Ir]".replace("C[O]", "C[O-]"))
        for solvent in ("C1CCOC1", "CCCCCCC", "C1CCCCC1")
    ),
}


def draw(kind: Callable[[], Iterator[tuple[str, str]]], excluded: frozenset[str], rng: random.Random) -> list[Flask]:
    """Return random flasks of one kind with different products, each with one of the kind's sets of reagents."""
    pairs = {made: reactants for reactants, made in kind() if made and made not in excluded and "." not in made}
    chosen = [made for made in pairs if len(Chem.MolFromSmiles(made).GetAtoms()) <= HEAVIEST]
    rng.shuffle(chosen)
    flasks = []
    for made in chosen[: TRAIN + TEST]:
        flask = chem.canonical(f"{pairs[made]}.{rng.choice(KINDS[kind])}")
        if flask is None:
            raise ValueError(f"{kind.__name__}: {pairs[made]}")
        flasks.append((flask, made))
    return flasks


def negative_flasks(rows: Sequence[dict[str, str]], count: int) -> Iterator[Flask]:
    """Yield recorded reactions without what their class needs; their product is the largest molecule, unchanged."""
    for row in rows:
        flask, made = row["reactants_and_reagents"], row["main_product"]
        step = classify_step(flask, made)
        missing = " ".join(part.phrase for need in needs_of(flask, step) for part in need.sets[:1]) if step else ""
        if not any(word in missing for word in NEEDED):
            continue
        if step is None or not needs_of(flask, step) or missing_or_conflicting(flask, made):
            continue
        given, agents = split_flask(flask, step)
        solvents = [part for part in agents if part in SOLVENTS]
        rest = chem.canonical(".".join([*given, *solvents]))
        if rest and any(text.startswith("Missing") for text in missing_or_conflicting(rest, made)):
            yield rest, max(given, key=lambda part: (Chem.MolFromSmiles(part).GetNumHeavyAtoms(), part))
            count -= 1
        if not count:
            return


# Without one of these hardly a recorded reaction goes; bases and acids are often left out of the record.
NEEDED = ("catalyst", "copper", "activator of the acid", "reductant", "oxidant")
_SOLVENTS = """
O CO CCO CC(C)O C1CCOC1 C1COCCO1 CC1CCCO1 CCOCC COC(C)(C)C COCCOC CN(C)C=O CN(C)C(C)=O CS(C)=O CN1CCCC1=O ClC(Cl)Cl
ClCCCl Cc1ccccc1 Cc1ccccc1C CCOC(C)=O CC(C)=O CC#N CCCCCC ClCCl
"""
SOLVENTS = frozenset(_SOLVENTS.split())


def products(file: Path) -> Iterator[str]:
    """Yield the canonical products of a file of reactions."""
    for row in read_rows(file):
        yield chem.canonical(row.get("main_product") or row["product"]) or ""


def read_arguments(description: str, source: str, left_out: str, *, most: int = 0) -> tuple[Any, random.Random]:
    """Return the arguments of a script that writes reactions by rules, and its random numbers.

    Scripts with `most` look through that many recorded molecules, unless an argument says otherwise.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help=f"recorded training reactions: {source}")
    parser.add_argument("out", type=Path, help="folder")
    parser.add_argument(
        "--exclude", type=Path, nargs="*", default=[], help=f"test files, whose {left_out} are left out"
    )
    parser.add_argument("--seed", type=int, default=42)
    if most:
        parser.add_argument("--most", type=int, default=most, help="recorded molecules that are looked through")
    RDLogger.DisableLog("rdApp.*")
    args = parser.parse_args()
    return args, random.Random(args.seed)


def main() -> None:
    """Write both files."""
    args, rng = read_arguments(__doc__, "forward_stereo_train.csv.gz", "products")
    excluded = frozenset(text for file in args.exclude for text in products(file))
    train, test = [], []
    for kind in KINDS:
        flasks = draw(kind, excluded, rng)
        print(f"{kind.__name__}: {len(flasks)}")
        test += [(kind.__name__, *flask) for flask in flasks[:TEST]]
        train += [(kind.__name__, *flask) for flask in flasks[TEST:]]
    rows = [row for row in read_rows(args.source) if row["has_reagents"] == "1" and row["product_in_mit_test"] == "0"]
    rng.shuffle(rows)
    negatives = [("negative", *flask) for flask in negative_flasks(rows, NEGATIVE + 8 * TEST)]
    print(f"negative flasks: {len(negatives)}")
    write_file(args.out / "textbook_train.csv.gz", write, train)
    write_file(args.out / "negative_flasks.csv.gz", write, negatives[8 * TEST :])
    write_file(args.out / "textbook_test.csv", write, [*test, *negatives[: 8 * TEST]])


def write_file(path: Path, write: Callable[[Any, Any], None], reactions: Any) -> None:
    """Write reactions to a table by a function that takes a CSV writer, compressed if the name ends with .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8", newline="") as file:
        write(csv.writer(file), reactions)


def write(writer: Any, flasks: Sequence[tuple[str, str, str]]) -> None:
    """Write rows in the columns of the recorded reactions."""
    writer.writerow(COLUMNS)
    for number, (kind, flask, made) in enumerate(flasks):
        writer.writerow((flask, made, made, "textbook", f"{kind}-{number}", 1))


if __name__ == "__main__":
    main()
