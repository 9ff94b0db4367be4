"""Leave out organic photocatalysts, which give the product nothing and which models take for reactants."""

from functools import cache

from chemspec.chem.molecules.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.molecules.query import canonical, heavy_atoms
from chemspec.chem.reading.names.reagents import name_in_list

_XANTHENE = "[#6]1~[#6]~[#6](~[Br,I])~[#6](~O)~[#6](~[Br,I])~[#6]~1~[#8]~[#6]1~[#6]~[#6]~[#6]~[#6]~[#6]~1"
# Patterns of one kind each, all of which must fit, and how many heavy atoms such a catalyst has at least and at most.
_KINDS = (
    ("a cyanoarene", ("c-C#N", "c1(-[#7;X3](~c)~c)c(-[#7;X3](~c)~c)cccc1"), 34, 90),
    ("a xanthene dye", (_XANTHENE,), 25, 40),
    ("an acridinium salt", ("[n+;X3]1(-[#6])c2ccccc2c(-c3ccccc3)c2ccccc12",), 20, 50),
    ("a pyrylium salt", ("[o+]1c(-c2ccccc2)cc(-c2ccccc2)cc1-c1ccccc1",), 24, 40),
    ("a phenothiazine", ("c1ccccc1-N1c2ccccc2Sc2ccccc21",), 20, 20),
    ("methylene blue", ("CN(C)c1ccc2~[#7]~c3ccc(~N(C)C)cc3~[#16]~c2c1",), 20, 20),
    ("dicyanoanthracene", ("N#Cc1c2ccccc2c(C#N)c2ccccc12",), 18, 18),
    ("a perylene", ("c1cc2cccc3c4cccc5cccc(c(c1)c23)c45",), 20, 20),
)
_MIN_OTHERS = 2  # carbon compounds with it: a dye with one partner may be what is to react
_COUNTERIONS = ("[Na+]", "[K+]", "[Cl-]", "[Br-]", "F[B-](F)(F)F", "[O-][Cl+3]([O-])([O-])[O-]", "O=Cl(=O)(=O)[O-]")


def leave_out_photocatalysts(smiles: str) -> tuple[str, tuple[str, ...]]:
    """Return canonical SMILES of a flask without organic photocatalysts and their counterions, and a note for each."""
    parts = smiles.split(".")
    if len(parts) <= _MIN_OTHERS:
        return smiles, ()
    dyes = {part: kind for part in dict.fromkeys(parts) if (kind := _kind(part))}
    left = [part for part in parts if part not in dyes]
    if not dyes or sum("C" in part.replace("Cl", "") or "c" in part for part in left) < _MIN_OTHERS:
        return smiles, ()
    charge = sum(_charge(part) for part in parts if part in dyes)
    for part in [part for part in left if part in _counterions()]:
        if charge * _charge(part) < 0:
            charge += _charge(part)
            left.remove(part)
    joined = ".".join(left)
    notes = (f"{name_in_list(part) or kind} left out: it is the photocatalyst" for part, kind in dyes.items())
    return canonical(joined) or joined, tuple(dict.fromkeys(notes))


@cache
def _counterions() -> frozenset[str]:
    return frozenset(str(canonical(part)) for part in _COUNTERIONS)


def _charge(part: str) -> int:
    return sum(atom.GetFormalCharge() for atom in mol_from_smiles(part).GetAtoms())


def _kind(part: str) -> str:
    if len(part) < min(least for *_, least, _ in _KINDS):
        return ""
    size, mol = heavy_atoms(part), mol_from_smiles(part)
    for name, patterns, least, most in _KINDS:
        if least <= size <= most and all(mol.HasSubstructMatch(fixed_pattern(pattern)) for pattern in patterns):
            return name
    return ""
