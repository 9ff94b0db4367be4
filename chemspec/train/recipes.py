"""The trainings by name: everything that it takes to make a model again, and what to expect of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chemspec.data.settings import DataSettings
from chemspec.settings import Task, TrainSettings


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One way to train a model.

    Attributes:
        train_files, validation_files: names within a data folder; without validation files, the last pairs of the
            training data are held out.
        validation_data: how the validation files are prepared, with the vocabulary of the training data.
        average_last: the model is the mean of so many last checkpoints.
        starts_from: a recipe whose model this one goes on with; it is given with `--start`. If the data are others,
            they are
            prepared with that model's vocabulary (`chemspec data --vocab`).
        tried: whether anybody has run it to its end.
    """

    name: str
    task: Task
    train_files: tuple[str, ...]
    validation_files: tuple[str, ...] = ()
    data: DataSettings
    validation_data: DataSettings | None = None
    preset: str
    train: TrainSettings
    average_last: int = 1
    starts_from: str = ""
    tried: bool
    expectation: str

    def __post_init__(self) -> None:
        if bool(self.validation_files) != (self.validation_data is not None):
            raise ValueError(f"{self.name}: validation files and their settings go together")
        if self.average_last > self.train.keep + 1:
            raise ValueError(f"{self.name}: {self.train.keep} checkpoints are kept")


# Columns of rows that a forward model must not see, if it is to be tested on USPTO-MIT and to score USPTO-50K answers.
TEST_PRODUCTS = ("product_in_50k_valtest", "product_in_mit_test")

# The standard split of USPTO-50K itself shares 23 products between its training and test parts.
RETRO_TEST_PRODUCTS = ("product_in_test",)


def _cpu(minutes: float) -> TrainSettings:
    return TrainSettings(
        optimizer="muon",
        lr=1.2e-3,
        tokens=5000,
        warmup=300,
        validate_every=1000,
        threads=1,
        steps=100_000,
        minutes=minutes,
    )


def _drafter(minutes: float) -> TrainSettings:
    return replace(_cpu(minutes), lr=2e-3, tokens=4000)


def _gpu(steps: int) -> TrainSettings:
    return TrainSettings(
        optimizer="muon",
        lr=1.2e-3,
        tokens=40_000,
        warmup=2000,
        validate_every=1000,
        steps=steps,
        dropout=0.1,
        keep=10,
        compile=True,
    )


def _goes_on(earlier: Recipe, name: str, train: TrainSettings, told: str) -> Recipe:
    """A further stage: the same data in another order, from the weights of the stage before."""
    told = f"Goes on with the model of {earlier.name}, another order of the data: {told}"
    return replace(earlier, name=name, train=train, starts_from=earlier.name, expectation=told)


_RETRO = Recipe(
    name="retro-50k",
    task="retro",
    train_files=("retro_train.csv.gz",),
    validation_files=("retro_val.csv.gz",),
    data=DataSettings(task="retro", variants=8, leave_out=RETRO_TEST_PRODUCTS),
    validation_data=DataSettings(task="retro", variants=1, leave_out=RETRO_TEST_PRODUCTS),
    preset="small",
    train=replace(_cpu(138), lr=1.5e-3, tokens=8000, threads=2, seed=10),
    tried=True,
    expectation=(
        "One-step retrosynthesis on the standard USPTO-50K split (40,000 reactions, eight root-aligned spellings of "
        "each, without the 23 products that the split shares between its parts) with the small model, for two CPU cores: ten "
        "minutes of data preparation and 138 minutes of training. It is limited by time, so the result depends on the "
        "machine. On two cores without bf16 it was 4,775 steps, 36 M tokens, validation loss 0.0510 nats per token, 43 % exact by "
        "greedy decoding of 200 validation products (assets/docs/curves/retro-50k.csv): top-1 44.8 % on all 5,007 test reactions."
    ),
)

_FORWARD = Recipe(
    name="forward-mit",
    task="forward",
    train_files=("forward_stereo_train.csv.gz",),
    data=DataSettings(task="forward", variants=2, flat_share=0.5, leave_out=TEST_PRODUCTS),
    preset="small",
    train=_cpu(108),
    tried=True,
    expectation=(
        "Product prediction from reactants and reagents, for the USPTO-MIT test set in its mixed form and for scoring "
        "retrosynthesis answers: 650,000 pairs, half of them without stereochemistry, as USPTO-MIT has none. The "
        "small model, for one CPU core: about ten minutes of data preparation on two cores and 108 minutes of "
        "training, which is less than one pass over the data. It is limited by time, so the result depends on the "
        "machine. Accuracy stays below the published 88 to 91 % of models of this kind with days of GPU training."
    ),
)
_FORWARD_2 = _goes_on(
    _FORWARD,
    "forward-mit-2",
    replace(_cpu(0), lr=1e-3, steps=3800, seed=3),
    (
        "3,800 steps, about 50 minutes on one CPU core. When it was first run, its first 2,000 steps followed a cosine over "
        "120 minutes instead of one over steps, so that the learning rate fell a little later. Validation loss from 0.172 (end of "
        "forward-mit) to 0.163 nats per token after 3,000 steps (assets/docs/curves/forward-mit-2.csv)."
    ),
)
_FORWARD_3 = _goes_on(
    _FORWARD_2,
    "forward-mit-3",
    replace(_cpu(0), lr=1e-3, steps=4000, seed=6),
    (
        "4,000 steps, about 45 minutes on one CPU core. Validation loss from 0.163 to 0.132 nats per token, 44 % exact by greedy "
        "decoding of 200 validation pairs (assets/docs/curves/forward-mit-3.csv): top-1 65.0 % on 1,000 test reactions instead of 58.9 %."
    ),
)

_FORWARD_5 = Recipe(
    name="forward-mit-5",
    task="forward",
    train_files=("forward_stereo_train.csv.gz",),
    validation_files=("forward_val.csv.gz",),
    data=DataSettings(
        task="forward",
        variants=2,
        flat_share=0.85,
        leave_out=TEST_PRODUCTS,
        only=("has_reagents",),
        guess_maps=True,
        seed=1,
    ),
    validation_data=DataSettings(
        task="forward", variants=1, flat_share=1.0, leave_out=("overlaps_test",), guess_maps=True, limit=2000
    ),
    preset="small",
    train=replace(_cpu(58), lr=5e-4, tokens=8000, threads=2, seed=8),
    starts_from="forward-mit-4",
    tried=True,
    expectation=(
        "Goes on with the model of forward-mit-4, on data closer to what it is tested on: only reactions with reagents, most "
        "of them without stereochemistry, and 148,000 more, whose atom maps are guessed. Validation is on USPTO-MIT's own "
        "validation part, of which nothing is trained on. 58 minutes on two cores without bf16: 2,124 steps, validation loss from "
        "0.071 to 0.063 nats per token, 58 % exact by greedy decoding of 200 validation pairs "
        "(assets/docs/curves/forward-mit-5.csv): top-1 74.5 % on 1,000 test reactions."
    ),
)
_FORWARD_6 = replace(
    _FORWARD_5,
    name="forward-mit-6",
    data=replace(_FORWARD_5.data, variants=1),
    train=replace(_FORWARD_5.train, minutes=80, seed=9),
    starts_from="forward-mit-5",
    expectation=(
        "Goes on with the model of forward-mit-5 on the same reactions in one spelling each, the canonical one, as queries are asked: "
        "more different reactions in the same time. 80 minutes on two cores without bf16, which had other work too: 2,519 steps, "
        "validation loss from 0.063 to 0.059 nats per token, 64 % exact by greedy decoding of 200 validation pairs "
        "(assets/docs/curves/forward-mit-6.csv): top-1 76.1 % on 1,000 test reactions."
    ),
)

_ALL = (
    _RETRO,
    _FORWARD,
    replace(
        _RETRO,
        name="retro-50k-2",
        data=replace(_RETRO.data, seed=1),
        validation_data=replace(_RETRO.data, seed=1, variants=1),
        train=replace(_RETRO.train, lr=1e-3, warmup=200, validate_every=1500, minutes=70, seed=11),
        starts_from="retro-50k",
        expectation=(
            "Goes on with the model of retro-50k on eight other spellings of the same reactions: ten minutes of data preparation and 70 "
            "minutes of training on two CPU cores. On two cores without bf16 it was 2,458 steps, 18 M tokens, validation loss from "
            "0.0510 to 0.0485 nats per token, 42.5 % exact by greedy decoding of 200 validation products "
            "(assets/docs/curves/retro-50k-2.csv): top-1 46.1 % on all 5,007 test reactions. These are the shipped weights. "
            "Accuracy stays below published ones, which take days of GPU training."
        ),
    ),
    _FORWARD_2,
    _FORWARD_3,
    _goes_on(
        _FORWARD_3,
        "forward-mit-4",
        replace(_cpu(72), lr=1e-3, seed=7),
        (
            "72 minutes on one CPU core, 6,172 steps there. Validation loss from 0.132 to 0.112 nats per token, 50.5 % exact by "
            "greedy decoding of 200 validation pairs (assets/docs/curves/forward-mit-4.csv): top-1 72.0 % on 1,000 test reactions."
        ),
    ),
    _FORWARD_5,
    _FORWARD_6,
    Recipe(
        name="retro-50k-gpu",
        task="retro",
        train_files=("retro_train.csv.gz",),
        validation_files=("retro_val.csv.gz",),
        data=DataSettings(task="retro", variants=20, leave_out=RETRO_TEST_PRODUCTS),
        validation_data=DataSettings(task="retro", variants=1, leave_out=RETRO_TEST_PRODUCTS),
        preset="mt-6x6",
        train=_gpu(60_000),
        average_last=10,
        tried=False,
        expectation=(
            "Not yet run: settings scaled up from retro-50k. The size of Andronov et al. (six layers each), twenty "
            "spellings of each reaction and batches of 40,000 tokens, some forty passes over the data on one large GPU. "
            "If it goes as in the literature, top-1 accuracy on the USPTO-50K test part comes near the 52 to 56 % of "
            "paper A and of root-aligned SMILES; nobody has checked."
        ),
    ),
    Recipe(
        name="forward-mit-gpu",
        task="forward",
        train_files=("forward_stereo_train.csv.gz",),
        data=DataSettings(task="forward", variants=5, flat_share=0.5, leave_out=TEST_PRODUCTS),
        preset="mt-4x4",
        train=_gpu(120_000),
        average_last=10,
        tried=False,
        expectation=(
            "Not yet run: settings scaled up from forward-mit. The Molecular Transformer's size (four layers each), five "
            "spellings of each reaction and batches of 40,000 tokens, some thirty passes over the data on one large GPU. "
            "If it goes as in the literature, top-1 accuracy on USPTO-MIT mixed comes near the 88 % of paper A; nobody "
            "has checked."
        ),
    ),
    Recipe(
        name="retro-ar",
        task="retro",
        train_files=("retro_train.csv.gz",),
        validation_files=("retro_val.csv.gz",),
        data=DataSettings(task="retro", variants=8, leave_out=RETRO_TEST_PRODUCTS),
        validation_data=DataSettings(task="retro", variants=1, leave_out=RETRO_TEST_PRODUCTS),
        preset="ar",
        train=_drafter(30),
        tried=True,
        expectation=(
            "The small autoregressive drafter of paper T for the model retro (1.1 M parameters), on the data of retro-50k, "
            "for one CPU core: 30 minutes, so the result depends on the machine. It is judged by the tokens that it "
            "saves the target, not by its answers."
        ),
    ),
    Recipe(
        name="forward-ar",
        task="forward",
        train_files=("forward_stereo_train.csv.gz",),
        data=DataSettings(task="forward", variants=2, flat_share=0.5, leave_out=TEST_PRODUCTS),
        preset="ar",
        train=_drafter(30),
        tried=True,
        expectation=(
            "The small autoregressive drafter of paper T for the model forward (1.1 M parameters), on the data of "
            "forward-mit, for one CPU core: 30 minutes, so the result depends on the machine."
        ),
    ),
    Recipe(
        name="retro-medium",
        task="retro",
        train_files=("retro_train.csv.gz",),
        validation_files=("retro_val.csv.gz",),
        data=DataSettings(task="retro", variants=8, leave_out=RETRO_TEST_PRODUCTS),
        validation_data=DataSettings(task="retro", variants=1, leave_out=RETRO_TEST_PRODUCTS),
        preset="medium",
        train=replace(_cpu(14), lr=5e-4, tokens=4000, warmup=50, validate_every=500),
        tried=True,
        expectation=(
            "The medium model of paper T's hierarchy (3.4 M parameters): the encoder and the first decoder layer of the "
            "model retro, to be given with `--start`, trained on for 14 minutes on one CPU core."
        ),
    ),
)

RECIPES: dict[str, Recipe] = {item.name: item for item in _ALL}


def recipe(name: str) -> Recipe:
    """A recipe by name."""
    if name not in RECIPES:
        raise ValueError(f"no recipe {name!r}; there are {', '.join(RECIPES)}")
    return RECIPES[name]
