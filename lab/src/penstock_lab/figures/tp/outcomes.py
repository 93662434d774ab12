"""What runs under overload are asked alike: how much they hold, and that they tell nothing that is not there."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from penstock.errors import StateError
from penstock_lab.figures.tp.load import Ints


class Told(Protocol):
    """Results by step and rank."""

    @property
    def told(self) -> Ints: ...


T = TypeVar("T", bound=Told)


def stored(pipeline: Any) -> int:
    """Rows in the states of joins."""
    return sum(
        len(core.stocks[which].stored()) for core in pipeline.scheduler.cores for which in core.routes_by
    )


def checked(outcome: T, whole: T, name: str) -> T:
    """An outcome that has nothing that is not there without a limit."""
    if (outcome.told > whole.told).any():
        raise StateError(f"{name} tells more of some rank and step than there is")
    return outcome
