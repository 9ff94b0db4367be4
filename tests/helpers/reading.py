"""Texts read as they must be: as molecules, or as a fault that says what is wrong."""

from __future__ import annotations

from chemspec.chem import Fault
from chemspec.chem.formats import Input, read_input
from chemspec.settings import Task


def read(text: str | bytes, task: Task = "retro") -> Input:
    """What a task takes of a text that can be read."""
    found = read_input(text, task=task)
    assert isinstance(found, Input), found
    return found


def fault(text: str | bytes, task: Task = "retro") -> Fault:
    """Why a text cannot be read."""
    found = read_input(text, task=task)
    assert isinstance(found, Fault), found
    return found
