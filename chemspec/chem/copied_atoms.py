"""Atom maps from copied tokens: accepted drafts say which atom of the query an atom of the answer was copied from.

They are free, since every trace has them, but leave out the atoms whose tokens were not copied. `atom_maps` covers all
atoms, and is right more often.
"""

from rdkit import Chem

import chemspec.chem as chem
from chemspec.chem.parsing import mol_from_smiles
from chemspec.types import DecodeResult

Run = list[tuple[int, int]]  # (position in the query, position in the answer) of each token of a copied piece


def copied_map(result: DecodeResult) -> str:
    """Return `query>>answer` as SMILES with a map number on every copied atom; empty without a valid answer.

    For a retro model that is the reaction backwards. Where nothing was drafted, as in beams and batches for which
    drafts do not pay on the machine, no atom has a number; `DecodeSettings(decoder="greedy", n=1, drafter="mixed",
    drafting="fixed")` always drafts.
    """
    if not result.hypotheses or not result.hypotheses[0].valid:
        return ""
    sides = [mol_from_smiles("".join(tokens)) for tokens in (result.trace.query, result.hypotheses[0].tokens)]
    for number, atoms in enumerate(sorted(copied_atoms(result).items()), 1):
        for mol, atom in zip(sides, atoms, strict=True):
            mol.GetAtomWithIdx(atom).SetAtomMapNum(number)
    return ">>".join(str(Chem.MolToSmiles(mol)) for mol in sides)


def copied_atoms(result: DecodeResult) -> dict[int, int]:
    """Return the atoms of the query that the best answer copied, each with its atom in the answer.

    Atoms are numbered as RDKit reads the joined tokens of the query and of the answer. An atom that was copied more
    than once counts in its longest run.
    """
    if not result.hypotheses:
        return {}
    query_atoms = chem.atom_tokens(result.trace.query)
    answer_atoms = chem.atom_tokens(result.hypotheses[0].tokens)
    pairs: dict[int, int] = {}
    for run in sorted(copied_runs(result), key=len, reverse=True):
        for source, target in run:
            atom, copy = query_atoms[source], answer_atoms[target]
            if atom is not None and copy is not None:
                pairs.setdefault(atom, copy)
    return pairs


def copied_runs(result: DecodeResult) -> list[Run]:
    """Return the pieces of the query that the best answer copied, in the order of the answer.

    A run starts with an accepted drafted token. Tokens that the model chose, as it does the last one of every pass,
    continue it as long as they are the next ones of the query. The result needs an answer, and its trace.
    """
    query, answer = result.trace.query, result.hypotheses[0].tokens
    spans = [span for step in result.trace.passes for span in step.spans]
    # By position in the answer, the position in the query of every accepted drafted token that was copied.
    sources = {
        span.start + offset: span.span[0] + offset for span in spans if span.span for offset in range(span.length)
    }
    runs: list[Run] = []
    for target, token in enumerate(answer):
        following = runs[-1][-1][0] + 1 if runs and runs[-1][-1][1] == target - 1 else -1
        source = sources.get(target, following)
        # In a beam, spans may be of another hypothesis.
        if not (0 <= source < len(query) and chem.is_same_token(query[source], token)):
            continue
        if source == following:
            runs[-1].append((source, target))
        else:
            runs.append([(source, target)])
    return runs
