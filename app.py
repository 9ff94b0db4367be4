"""The app's navigation; nothing else."""

from chemspec.ui.common.nav import run_app

run_app()
