"""Count, on flasks that a sceptical chemist wrote, the forward model's first answers by what the review says of them.

    python tests/programs/sceptical_flasks.py [--write] [--rounds 13 14]

Columns of `tests/data/sceptical_flasks.tsv`: round (written before the rules had seen it); verdict; probability
in per cent; flask as typed; first answer; answers that a chemist expects, parted by | (empty: the flask gives nothing).
Verdicts: right; alarm (right, with a problem); warned (right, with a warning of low probability, or of a product that
few SMILES variants give); marked (wrong, with a problem); low (wrong, with such a warning); below half and missed
(wrong without a word, up to 50 % and above). E/Z and centres that an answer leaves open are no fault, since the page
tells them. `--write` writes verdicts, probabilities and answers anew.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.evaluation.loading import load_engines
from chemspec.review import Suggestion
from chemspec.review.review import review

TABLE = Path(__file__).parents[1] / "data" / "sceptical_flasks.tsv"


def is_right(first: Suggestion, expected: str) -> bool:
    """Return whether a first answer is one of those expected, or one that leaves stereochemistry open."""
    answer = first.best.canonical
    for text in filter(None, expected.split("|")):
        flat = chem.drop_stereo(text)
        if answer in (chem.canonical(text), flat):
            return True
        if chem.drop_stereo(answer) == flat and not first.problems:
            pattern = mol_from_smiles(answer)
            if flat == chem.canonical(text) or mol_from_smiles(text).HasSubstructMatch(pattern, useChirality=True):
                return True
    return False


def main() -> None:
    """Print the counts of each round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table anew")
    parser.add_argument("--rounds", nargs="*", default=[], help="only these")
    args = parser.parse_args()
    engines = load_engines(("forward",))
    lines, counts = [], dict[str, Counter[str]]()
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        number, _, _, typed, _, expected = line.split("\t")
        if args.rounds and number not in args.rounds:
            lines.append(line)
            continue
        query = formats.read_input(typed, task="forward")
        assert not isinstance(query, chem.Fault), (typed, query)
        reviewed = review(engines, "forward", query.smiles, index=None)
        first = reviewed.suggestions[0]
        if is_right(first, expected):
            verdict = "alarm" if first.problems else "warned" if reviewed.warning else "right"
        elif first.problems or reviewed.warning:
            verdict = "marked" if first.problems else "low"
        else:
            verdict = "missed" if first.probability > 0.5 else "below half"
        counts.setdefault(number, Counter())[verdict] += 1
        lines.append(f"{number}\t{verdict}\t{first.probability:.0%}\t{typed}\t{first.best.canonical}\t{expected}")
    for number, verdicts in counts.items():
        print(f"round {number}: {sum(verdicts.values())} flasks, {dict(verdicts)}")
    if args.write:
        TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
