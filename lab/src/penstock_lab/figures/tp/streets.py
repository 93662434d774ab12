"""Ways along the streets of a square city: where somebody is at a moment of a journey.

Streets lie a block apart, twenty blocks to the mile as in Portland. A leg goes along one street and then along another, at a
steady speed. Coordinates of stops are whole blocks, so that who has arrived is exactly at the place: equal coordinates, no
tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock_lab.figures.tp.load import Floats, Ints

BLOCKS = 20
"""In a mile."""
SIZE = 12 * BLOCKS
"""Blocks from one end of the city to the other: 144 square miles, about what Portland has."""
SPEED = 25 * BLOCKS / 3600
"""Blocks a second: 25 miles an hour."""
STRIDE = 8
"""Blocks that a patrol goes at most before it turns."""


@dataclass(frozen=True, slots=True)
class Journeys:
    """One row a traveller: stops (x, y) in blocks, and when each is left for the next, in seconds, rising."""

    x: Ints
    y: Ints
    leaves: Floats

    def __post_init__(self) -> None:
        if not (self.x.shape == self.y.shape == (len(self.leaves), self.leaves.shape[1] + 1)):
            raise ValueError(
                "a stop is left for the next one: there is one stop more than there are departures"
            )

    def at(self, who: Ints, seconds: Floats) -> tuple[Floats, Floats]:
        """Where each is then, in miles."""
        leg = self._legs(who, seconds)
        last = np.maximum(leg, 0)
        x, y = self.x[who, last], self.y[who, last]
        east, north = self.x[who, last + 1] - x, self.y[who, last + 1] - y
        gone = np.where(leg >= 0, seconds - self.leaves[who, last], 0.0)
        along = np.minimum(gone * SPEED, np.abs(east))
        across = np.clip(gone * SPEED - np.abs(east), 0.0, np.abs(north))
        return (x + np.sign(east) * along) / BLOCKS, (y + np.sign(north) * across) / BLOCKS

    def _legs(self, who: Ints, seconds: Floats) -> Ints:
        """The last departure that is not later, -1 before the first: one search over everybody's, laid end to end."""
        span = max(float(self.leaves.max(initial=0.0)), float(seconds.max(initial=0.0))) + 1.0
        laid = (self.leaves + np.arange(len(self.leaves))[:, None] * span).reshape(-1)
        found: Ints = (
            np.searchsorted(laid, seconds + who * span, side="right") - 1 - who * self.leaves.shape[1]
        )
        return found


def planned(x: Ints, y: Ints, leaves: Floats) -> Journeys:
    """Journeys by a timetable; nobody leaves a stop that he has not come to yet."""
    travel = (np.abs(np.diff(x)) + np.abs(np.diff(y))) / SPEED
    kept = leaves.copy()
    for stop in range(1, leaves.shape[1]):
        kept[:, stop] = np.maximum(kept[:, stop], kept[:, stop - 1] + travel[:, stop - 1])
    return Journeys(x, y, kept)


def patrols(low: Ints, high: Ints, seconds: float, random: np.random.Generator) -> Journeys:
    """Endless walks within the squares from `low` to `high` (corners as rows of x, y): some blocks, a turn, some blocks …"""
    travellers = len(low)
    turns = int(seconds * SPEED) + 2
    """A leg has a block at least, but where the border folds it; so this is enough."""
    first = random.integers(low, high + 1)
    paces = random.integers(1, STRIDE + 1, (travellers, turns)) * random.choice((-1, 1), (travellers, turns))
    sideways = random.integers(0, 2, (travellers, turns)) == 0
    x = _folded(first[:, 0], np.where(sideways, paces, 0), low[:, 0], high[:, 0])
    y = _folded(first[:, 1], np.where(sideways, 0, paces), low[:, 1], high[:, 1])
    travel = (np.abs(np.diff(x)) + np.abs(np.diff(y))) / SPEED
    return Journeys(x, y, np.cumsum(travel, axis=1) - travel)


def _folded(first: Ints, paces: Ints, low: Ints, high: Ints) -> Ints:
    """Where paces lead from the first place, turned back at both ends."""
    begin, span = (first - low)[:, None], (high - low)[:, None]
    free = np.concatenate((begin, begin + np.cumsum(paces, axis=1)), axis=1)
    folded: Ints = low[:, None] + span - np.abs(free % (2 * span) - span)
    return folded


def corners(count: int, random: np.random.Generator) -> Ints:
    """Places drawn from all over the city, as rows of x, y in blocks."""
    return random.integers(0, SIZE + 1, (count, 2))
