"""The app's navigation; nothing else."""

from pathlib import Path

from chemspec.ui.common.nav import run_app_shell

run_app_shell(Path(__file__).parent)
