"""The reaction CSVs: the folder that a user has them in, and the test files there."""

import os
from pathlib import Path

import chemspec.tasks as tasks

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
