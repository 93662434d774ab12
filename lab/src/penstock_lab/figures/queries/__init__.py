"""Queries 1 to 5 of the paper's §6.1, one file each. `:window` in them stands for the length of every window."""

from __future__ import annotations

from importlib.resources import files


def text(name: str, window: int) -> str:
    """The query with this window; a number is all that is ever put in."""
    return (files(__package__) / f"{name}.sql").read_text(encoding="utf-8").replace(":window", f"{window:d}")
