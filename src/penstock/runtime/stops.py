"""Errors of a step: a query that meets one stops there, the others go on, and the caller hears of the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from penstock.errors import PenstockError, StateError
from penstock.runtime.running import Standing


class Stops:
    """What one step met."""

    def __init__(self) -> None:
        self.errors: list[PenstockError] = []

    @contextmanager
    def of(self, standings: Sequence[Standing]) -> Iterator[None]:
        """These queries stop at an error inside."""
        try:
            yield
        except PenstockError as error:
            self.stop(standings, error)
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not reach the other queries
            broken = StateError(f"query {standings[0].name} met a fault of the engine: {fault!r}")
            broken.__cause__ = fault
            self.stop(standings, broken)

    def stop(self, standings: Iterable[Standing], error: PenstockError) -> None:
        for standing in standings:
            standing.failed = error
        self.errors.append(error)

    def tell(self) -> None:
        """Raises the first."""
        if self.errors:
            raise self.errors[0]
