"""Train a model by a recipe, validated by exact match on token level, which needs no RDKit."""

from pathlib import Path

from chemspec.data.arrays import Pairs
from chemspec.decode.generate import open_decoding
from chemspec.decode.greedy import greedy_search
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.transformer import Transformer
from chemspec.settings import preset_config
from chemspec.tokenizer import EOS, Tokenizer
from chemspec.train.module import latest_checkpoint, train
from chemspec.train.recipe import Recipe

BATCH = 32  # pairs decoded together in a validation


def exact_match(model: Transformer, pairs: Pairs) -> float:
    """Return the share of pairs whose greedy decode equals the target token for token.

    The model is decoded on its device in evaluation mode, which is reset afterwards.
    """
    if not len(pairs):
        raise ValueError("no pairs to decode")
    sources, targets = pairs.sources, pairs.targets
    order = sorted(range(len(pairs)), key=lambda index: (len(targets[index]), len(sources[index])))
    was_training = model.training
    model.eval()
    try:
        backend = TorchBackend(model)
        right = 0
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            expected = [(*targets[index].tolist(), EOS) for index in chosen]
            # At most as long as the targets.
            decoders = [greedy_search(max_len=len(target)) for target in expected]
            encoded = [sources[index].tolist() for index in chosen]
            run = open_decoding(backend, encoded, decoders, top_k=1, max_len=max(map(len, expected)))
            answers = [finished[0] for finished in run.run_to_end()]
            right += sum(answer.tokens == target for answer, target in zip(answers, expected, strict=True))
    finally:
        model.train(was_training)
    return right / len(pairs)


def run_recipe(
    recipe: Recipe, data: Path, out: Path, *, resume: bool = True, start: Path | None = None, quiet: bool = False
) -> Path:
    """Train on data that `prepare` wrote for this recipe, in the run folder `out`, and return the model folder.

    `resume` continues from the last checkpoint, if any; `start` is a model folder with initial weights. Raises
    FileNotFoundError if the data has not been prepared, and ValueError without `start` for a recipe that continues
    training a model.
    """
    for name in ("train.npz", "vocab.json"):
        if not (data / name).is_file():
            raise FileNotFoundError(f"{data / name} is missing; prepare it with `chemspec data --recipe {recipe.name}`")
    checkpoint_to_resume = latest_checkpoint(out) if resume else None
    if recipe.starts_from and start is None and not checkpoint_to_resume:
        raise ValueError(
            f"{recipe.name} continues training the model of {recipe.starts_from}; give its folder with --start"
        )
    return train(
        data,
        out,
        task=recipe.task,
        config=preset_config(recipe.preset, vocab_size=len(Tokenizer.load(data / "vocab.json"))),
        settings=recipe.train,
        resume=checkpoint_to_resume,
        start=None if checkpoint_to_resume else start,
        exact=exact_match,
        quiet=quiet,
        average_last=recipe.average_last,
    )
