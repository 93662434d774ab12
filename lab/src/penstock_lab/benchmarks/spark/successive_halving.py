"""The fastest of many settings, without running all of them for long.

Paper  Karnin, Koren and Somekh, Almost Optimal Exploration in Multi-Armed Bandits (2013): successive halving.
Rule   in every round each setting that is left has as many batches counted as the round says; then those leave that have less than half
       the best pace, and all but the fastest few that the round lets on. All that were tried are told, each with its last pace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")

HOPELESS = 0.5
"""Less than this part of the best pace is not worth another round."""


@dataclass(frozen=True, slots=True)
class Round:
    """How many batches are counted, and how many settings at most go on to the next round."""

    batches: int
    stay: int


@dataclass(frozen=True, slots=True)
class Tried(Generic[S]):
    setting: S
    pace: float
    rounds: int
    """In how many it was, the last of which gave the pace."""

    def __str__(self) -> str:
        return f"{self.setting}; round {self.rounds}"


def fastest(
    settings: Iterable[S], measure: Callable[[S, int], float], rounds: Iterable[Round]
) -> list[Tried[S]]:
    """All settings, the fastest of the last round first. `measure` is given a setting and how many batches to count."""
    left = list(settings)
    out: list[Tried[S]] = []
    for number, told in enumerate(rounds, 1):
        paced = [Tried(setting, measure(setting, told.batches), number) for setting in left]
        paced.sort(key=lambda tried: -tried.pace)
        good = [tried for tried in paced[: told.stay] if tried.pace >= HOPELESS * paced[0].pace]
        # Whoever went further stands before whoever did not, however fast that one was in fewer batches.
        out = [*paced, *out[len(left) :]]
        left = [tried.setting for tried in good]
    return out
