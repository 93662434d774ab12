"""Errors of a step: a query that meets one stops there, the others go on, and the caller hears of the first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType

from penstock.engine.registry import Standing
from penstock.errors import PenstockError, StateError
from penstock.types.limits import ResultLimitError


class Stops:
    """What one step met."""

    def __init__(self) -> None:
        self.errors: list[PenstockError] = []

    def of(self, standings: Sequence[Standing]) -> Stopping:
        """These queries stop at an error inside."""
        return Stopping(self, standings)

    def stop(self, standings: Iterable[Standing], error: PenstockError) -> None:
        for standing in standings:
            standing.failed = error
        self.errors.append(error)

    def tell(self) -> None:
        """Raises the first."""
        if self.errors:
            raise self.errors[0]


class Stopping:
    """Queries that stop at an error inside. Several are made in a step of any size: a class takes a third of the time of a generator."""

    __slots__ = ("_standings", "_stops")

    def __init__(self, stops: Stops, standings: Sequence[Standing]) -> None:
        self._stops, self._standings = stops, standings

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        if isinstance(error, ResultLimitError):
            for standing in self._standings:
                self._stops.stop([standing], error.of(standing.name))
        elif isinstance(error, PenstockError):
            self._stops.stop(self._standings, error)
        else:  # a fault of ours must not reach the other queries
            broken = StateError(f"query {self._standings[0].name} met a fault of the engine: {error!r}")
            broken.__cause__ = error
            self._stops.stop(self._standings, broken)
        return True
