"""What became of rows, by level: delivered and how late, expired and where, shed, suppressed. Nothing is dropped silently, and nothing is left out
unseen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from penstock.overload.queued_operator import Stop
from penstock.state.priority_queue import BACK_BURNER, LEVEL, NEXT, PROMISE
from penstock.types.batch import Ints

BUCKETS = 64
"""Latencies by powers of two of microseconds."""


@dataclass(slots=True)
class Latency:
    """Of the results of a level."""

    count: int = 0
    total: float = 0.0
    worst: int = 0
    buckets: Ints = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))

    def add(self, ages: Ints) -> None:
        self.count += len(ages)
        self.total += float(ages.sum())
        self.worst = max(self.worst, int(ages.max()))
        places = np.frexp(np.maximum(ages, 0).astype(np.float64))[1]
        self.buckets += np.bincount(places, minlength=BUCKETS)[:BUCKETS]

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> int:
        """An upper bound that is at most twice too high."""
        if not self.count:
            return 0
        at = int(np.searchsorted(np.cumsum(self.buckets), share * self.count))
        return min(1 << at, self.worst)


class Hearing(Protocol):
    """Hears what becomes of rows that wait: of what they promise, and if they are dropped before an operator."""

    def promised(self, levels: Ints) -> None: ...

    def expired(self, core: int, stop: Stop, rows: Ints) -> None: ...

    def suppressed(self, core: int, stop: Stop, rows: Ints) -> None: ...

    def shed(self, core: int, stop: Stop, rows: Ints) -> None: ...

    def lay_aside(self, core: int, stop: Stop, rows: Ints, reason: str, now: int) -> None: ...

    def lay_late(self, core: int, stop: Stop, rows: Ints, now: int) -> None: ...


@dataclass(slots=True)
class Tallies:
    """Since the beginning. A level of None in what is told: rows without rank."""

    latency: dict[int, Latency] = field(default_factory=dict)
    lost: dict[tuple[int, str], int] = field(default_factory=dict)
    """Expired rows by level and operator."""
    in_time: int = 0
    """Results of steps in which nothing had to wait."""
    left_out: dict[int, int] = field(default_factory=dict)
    """Shed rows by level."""
    denied: dict[tuple[int, str], int] = field(default_factory=dict)
    """Rows that were not followed, since some input had nobody for them, by level and operator: what they would have come to was never made, and is no result."""
    spared: int = 0
    """The same of steps in which nothing had to wait, whatever their level."""
    hoped: dict[int, int] = field(default_factory=dict)
    """Rows that were found promising, by the level that they promise."""

    def delivered(self, levels: Ints, ages: Ints) -> None:
        for level in np.unique(levels).tolist():
            self.latency.setdefault(level, Latency()).add(ages[levels == level])

    def expired(self, core: int, stop: Stop, rows: Ints) -> None:
        for level, count in _counted(rows):
            key = level, place(core, stop)
            self.lost[key] = self.lost.get(key, 0) + count

    def late(self, levels: Ints, where: str) -> None:
        """Results that are too old for whom these are."""
        for level, count in zip(*np.unique(levels, return_counts=True), strict=True):
            key = int(level), where
            self.lost[key] = self.lost.get(key, 0) + int(count)

    def shed(self, rows: Ints) -> None:
        for level, count in _counted(rows):
            self.left_out[level] = self.left_out.get(level, 0) + count

    def suppressed(self, core: int, stop: Stop, rows: Ints) -> None:
        for level, count in _counted(rows):
            key = level, place(core, stop)
            self.denied[key] = self.denied.get(key, 0) + count

    def spare(self, rows: int) -> None:
        self.spared += rows

    def promised(self, levels: Ints) -> None:
        for level, count in zip(*np.unique(levels, return_counts=True), strict=True):
            self.hoped[int(level)] = self.hoped.get(int(level), 0) + int(count)

    def save(self) -> dict[str, Any]:
        return {
            "latency": [
                [level, one.count, one.total, one.worst, one.buckets.tolist()]
                for level, one in self.latency.items()
            ],
            "lost": [[level, where, count] for (level, where), count in self.lost.items()],
            "left_out": list(self.left_out.items()),
            "hoped": list(self.hoped.items()),
            "denied": [[level, where, count] for (level, where), count in self.denied.items()],
            "spared": self.spared,
            "in_time": self.in_time,
        }

    def take_up(self, was: Mapping[str, Any]) -> None:
        for level, count, total, worst, buckets in was["latency"]:
            self.latency[level] = Latency(count, total, worst, np.array(buckets, np.int64))
        self.lost = {(level, where): count for level, where, count in was["lost"]}
        self.left_out, self.hoped = dict(was["left_out"]), dict(was["hoped"])
        self.in_time, self.spared = was["in_time"], was["spared"]
        self.denied = {(level, where): count for level, where, count in was["denied"]}

    def json(self) -> dict[str, object]:
        """For people and programs: by rank, best first."""
        by_place = (k for of in (self.lost, self.denied) for k, _ in of)
        levels = sorted({*self.latency, *by_place, *self.left_out, *self.hoped})
        return {
            "in_time": self.in_time,
            "suppressed": self.spared,
            "ranks": [
                {
                    "rank": None if level == BACK_BURNER else level,
                    "delivered": self.latency.get(level, Latency()).count,
                    "latency_mean": self.latency.get(level, Latency()).mean,
                    "latency_p50": self.latency.get(level, Latency()).quantile(0.5),
                    "latency_p99": self.latency.get(level, Latency()).quantile(0.99),
                    **_told("expired", self.lost, level),
                    **_told("suppressed", self.denied, level),
                    "shed": self.left_out.get(level, 0),
                    "promised": self.hoped.get(level, 0),
                }
                for level in levels
            ],
        }


def _told(what: str, counts: Mapping[tuple[int, str], int], level: int) -> dict[str, object]:
    """Of a level: how many, and before which operators."""
    found = {where: n for (k, where), n in sorted(counts.items()) if k == level}
    return {what: sum(found.values()), f"{what}_at": found}


def _counted(rows: Ints) -> Sequence[tuple[int, int]]:
    # A row in process has made its better results: what is lost are those it waited for.
    level = np.where(rows[NEXT] > 0, np.minimum(rows[LEVEL], rows[PROMISE]), rows[LEVEL])
    levels, counts = np.unique(level, return_counts=True)
    return list(zip(levels.tolist(), counts.tolist(), strict=True))


def outlined(load: Mapping[str, Any]) -> list[str]:
    """What became of rows by rank, for EXPLAIN."""
    fates = ("delivered", "expired", "shed", "suppressed")
    return [
        f"{'no rank' if one['rank'] is None else 'rank ' + str(one['rank'])}: "
        + ", ".join(f"{one[fate]:,} {fate}" for fate in fates)
        for one in load.get("ranks", ())
    ]


def place(core: int, stop: Stop) -> str:
    """An operator's name: `input 1: tests` or `input 1: join with input 2`."""
    what = "tests" if stop.target is None else f"join with input {stop.target + 1}"
    prefix = f"core {core + 1}, " if core else ""
    return f"{prefix}input {stop.route + 1}: {what}"
