"""What every sink is to a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyspark.sql import DataFrame


class OutputSink(Protocol):
    """Takes each step's frame at least once and must not keep any twice."""

    def prepare(self, schema: str) -> None:
        """Before the first step: make what readers look for. `schema`: the columns of the frames."""

    def __call__(self, frame: DataFrame, step: int) -> None:
        """Keep the frame of a step; a repeated step has the same number and the same rows."""


class FunctionSink:
    """A function that takes a frame and a step."""

    def __init__(self, function: Callable[[DataFrame, int], None]) -> None:
        self._function = function

    def prepare(self, schema: str) -> None:
        """Nothing to make."""

    def __call__(self, frame: DataFrame, step: int) -> None:
        self._function(frame, step)
