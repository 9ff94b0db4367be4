"""Where the reaction CSVs are, and settings of their preparation, whose code needs RDKit."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import chemspec.tasks as tasks
from chemspec.settings import ReactionFolder, Task, check_range


@dataclass(frozen=True, kw_only=True)
class PreparationSettings:
    """Files of a preparation of a recipe's data, and its extent.

    Attributes:
        out: folder for the token arrays; default data/<recipe>.
        vocab: use this vocab.json (of the model to continue from) instead of building one; some recipes extend it.
    """

    source: ReactionFolder = None
    out: Path | None = None
    workers: int = 2
    limit: int = 0
    vocab: Path | None = None


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Settings of a data set; stored with it, so that shards of other settings are not reused.

    `hold_out` is the number of random products to hold out by file, with all reactions that form them; one reaction of
    each is written to `heldout.csv` in the output folder (`holdout.py`).
    """

    task: Task
    variants: int = 4  # SMILES variants per reaction (the first has the canonical source)
    variants_of: Mapping[str, int] = field(default_factory=dict)  # variants by file, if different
    share_of: Mapping[str, float] = field(default_factory=dict)  # share of tokens by file; excess is left out at random
    flat_share: float = 0.0  # share of the variants without stereochemistry
    flat_share_of: Mapping[str, float] = field(default_factory=dict)  # that share by file, if different
    leave_out: tuple[str, ...] = ()  # columns; a row with "1" in one of them is not used (test products, say)
    clean: tuple[str, ...] = ()  # files without the columns of `leave_out`, whose rows are all used
    only: tuple[str, ...] = ()  # columns; a row without "1" in one of them is not used (those with reagents, say)
    guess_maps: bool = False  # rows without atom maps get guessed ones (`atom_maps.py`) instead of being left out
    ignore_maps: bool = False  # rows with atom maps get guessed ones too, so that all targets follow one convention
    hold_out: Mapping[str, int] = field(default_factory=dict)
    apart_from: tuple[str, ...] = ()  # other files, whose products are held out
    max_tokens: int = 200  # longer sources or targets are left out
    min_count: int = 5  # rarer tokens are not in the vocabulary, and rows with them are left out
    extend_vocabulary: bool = False  # extend the vocabulary of the initial model by new tokens
    merges: int = 0  # merges of neighbouring tokens, learned from the data (byte-pair encoding); 0: none
    # Share of the sources that are cut with merges left out at random. Targets are not: a model would list one text
    # several times, in other cuts.
    merge_dropout: float = 0.0
    seed: int = 0
    limit: int = 0  # rows used of each file; 0 means all

    def __post_init__(self) -> None:
        tasks.check_task(self.task)
        for name, least in (("variants", 1), ("max_tokens", 1), ("min_count", 1), ("limit", 0), ("merges", 0)):
            check_range(name, getattr(self, name), least)
        for name in ("flat_share", "merge_dropout"):
            check_range(name, getattr(self, name), 0.0, 1.0)
        for name in ("variants_of", "hold_out"):
            for file, count in getattr(self, name).items():
                check_range(f"{name} of {file}", count, 1)
        for file, share in self.flat_share_of.items():
            check_range(f"flat_share_of of {file}", share, 0.0, 1.0)
        shares = self.share_of.values()
        if not all(0 < share < 1 for share in shares) or sum(shares) >= 1:
            raise ValueError(f"share_of is {dict(self.share_of)}; shares lie between 0 and 1 and leave something over")
        if self.ignore_maps and not self.guess_maps:
            raise ValueError("ignore_maps needs guess_maps: without either no row can be aligned")
        for name in ("leave_out", "clean", "only", "apart_from"):
            if isinstance(columns := getattr(self, name), str):
                raise ValueError(f"{name} is a tuple; write ({columns!r},)")


NO_DATA = """no reaction data; give --source FOLDER or set CHEMSPEC_DATA. The data come from Lowe's text mining of US \
patents (CC0) and are not part of chemspec. FOLDER holds gzipped CSVs with a header: retro_train, retro_val and \
retro_test.csv.gz (USPTO-50K; columns product, reactants, and for training mapped_rxn) and forward_stereo_train, \
forward_val and forward_test.csv.gz (USPTO-MIT; columns reactants_and_reagents, main_product, and for training \
core_reactants, mapped_core_rxn). See assets/docs/models.md"""


def require_data_folder(source: Path | None) -> Path:
    """Return the folder given by --source or CHEMSPEC_DATA; without one a ValueError says where the data come from."""
    if source is None and not os.environ.get("CHEMSPEC_DATA"):
        raise ValueError(NO_DATA)
    return source or Path(os.environ["CHEMSPEC_DATA"])


def find_test_file(source: Path | None, task: str, remedy: str = "") -> Path:
    """Return a task's standard test file; a ValueError without one has the advice `remedy`, or names other tasks."""
    spec = tasks.TASKS[tasks.check_task(task)]
    if not spec.test:
        able = " or ".join(entry.name for entry in tasks.TASKS.values() if entry.test)
        remedy = remedy or f"this command needs one, as there is for {able}"
        raise ValueError(f"there is no standard test set for {spec.name}; {remedy}")
    return require_data_folder(source) / spec.test
