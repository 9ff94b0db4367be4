"""Write a model's `familiarity.json`, for notes on queries unlike its training data (`chemspec.engine.familiarity`).

python tests/programs/familiarity.py --recipe retro-50k --source FOLDER --products
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.chem import main_product
from chemspec.cli import options as opt
from chemspec.data.reactions import canonical_pair
from chemspec.data.settings import require_data_folder
from chemspec.data.shards import is_used, read_rows
from chemspec.engine.familiarity import Familiarity, nearest_products
from chemspec.evaluation.accuracy import read_test_reactions
from chemspec.terminal import console
from chemspec.tokenizer import SPECIALS, TokenError, split_smiles
from chemspec.train.recipe import model_recipe

RARE_BELOW = 20  # training queries; tokens in fewer of them are rare
LENGTH_QUANTILE = 0.99  # quantile of training lengths beyond which a query counts as long
SIMILARITY_QUANTILE = 0.02  # quantile of validation similarities below which a query counts as unlike


def training_statistics(
    queries: Iterable[str], vocabulary: Sequence[str], likeness: Sequence[float], *, digest: str, made: str
) -> Familiarity:
    """Compute the statistics of training queries."""
    counts: Counter[str] = Counter()
    lengths = []
    for query in queries:
        try:
            tokens = split_smiles(query)
        except TokenError:
            continue
        counts.update(set(tokens))
        lengths.append(len(tokens))
    if not lengths:
        raise ValueError("there are no training queries")
    rare = {token: counts[token] for token in vocabulary[len(SPECIALS) :] if counts[token] < RARE_BELOW}
    unlike = float(np.quantile(likeness, SIMILARITY_QUANTILE)) if len(likeness) else 0.0
    return Familiarity(digest, rare, int(np.quantile(lengths, LENGTH_QUANTILE)), unlike, made)


def main(
    recipe: str,
    model: str = "",
    source: opt.Source = None,
    products: Annotated[bool, option("Compare products with the shipped precedents too.", "--products")] = False,
) -> None:
    """Compute training-set statistics (rare tokens, length, similarity), and store them in the model folder."""
    chosen = model_recipe(recipe)
    engine = opt.load_engine(chosen.task, model, threads=1)
    rows = (row for file in chosen.train_files for row in read_rows(require_data_folder(source) / file))
    queries = (canonical_pair(row, chosen.task)[0] for row in rows if is_used(row, chosen.data))
    alike = []
    if products and (index := nearest_products()):  # which contains the training products
        reactions = read_test_reactions(source, chosen.task, "val")
        targets = filter(None, (main_product(reaction.query) for reaction in reactions))
        alike = [index.nearest_similarity(target) for target in targets]
    merged = set(map("".join, engine.tokenizer.merges))
    vocabulary = [token for token in engine.tokenizer.smiles_tokens if token not in merged]
    statistics = training_statistics(queries, vocabulary, alike, digest=engine.digest, made=opt.command_line())
    statistics.save(engine.folder)
    rare, longest = len(statistics.rare), statistics.longest
    console.print_line(f"{rare} rare tokens; long: over {longest}; unlike: under {statistics.unlike:.2f}")


app = script(main)
if __name__ == "__main__":
    app()
