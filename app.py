"""The app's navigation; nothing else."""

from pathlib import Path

from chemspec.ui.nav import shell

shell(Path(__file__).parent)
