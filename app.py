"""The app's navigation; nothing else."""

from pathlib import Path

from chemspec.ui.common.nav import shell

shell(Path(__file__).parent)
