"""What the driver knows once a step is done: how far streams and cells have come, and what is on its way between stages.

Invariant  it is a function of the steps done and of what cells answered to them, so what `done/` holds of the last one is all
           that a new driver needs.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.overload.learned_values import Learnt, together
from penstock.partitioning.stages import Lower
from penstock.plan.join_tree import Demand
from penstock.spark.declarations_log import Declared
from penstock.spark.flow_plan import Flowing
from penstock.spark.semijoin_buffer import SIZE, announced, latest_watermarks, united
from penstock.spark.watermarks import held_back_by
from penstock.types.event_time import EARLIEST

Header = dict[str, Any]
"""A step as it was decided."""
Answer = dict[str, Any]
"""What a cell said to it."""
Inner = dict[str, Any]
"""What parts below cuts gave in `step`. `laid`: files by part; `until`: by part, the instant before which all cells have given all;
`declared`: the declarations of then; `sieved`: the instant for parts that kept rows back, of which all that is of use before it
was sent."""

COUNTED = ("delivered", "expired", "shed", "suppressed", "promised")
"""What became of rows, by rank."""
LEAST, SPARED, REST = 1000, 0.25, 64
"""Rows of a part after which it is judged, the share that is to stay unsent, and the steps for which it is not asked otherwise."""


@dataclass(slots=True)
class Known:
    """After the last step."""

    watermarks: dict[str, int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    """Each stream's greatest time."""
    rows: dict[str, int] = field(default_factory=dict)
    """How many have come."""
    clock: int | None = None
    clocks: dict[str, int] = field(default_factory=dict)
    """By stream that queries read: every row up to there is applied; `clock` is the least."""
    ahead: int = EARLIEST
    """The first instant that no cell has reached."""
    inner: Inner = field(default_factory=lambda: {"step": 0, "until": {}, "laid": {}, "declared": 0})
    sieves: dict[str, str] = field(default_factory=dict)
    """Which keys the second stages have, for the first ones of the next step."""
    gates: dict[str, list[int]] = field(default_factory=dict)
    """By part: rows asked for and rows spared, later ones counted more, and for how many steps everything is sent."""
    promising: Learnt = field(default_factory=dict)
    """Which values promise to meet significant rows, for the cells of the next step; nothing while no cell is busy."""
    stopped: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Queries that failed, with their errors and what they were (see `stopped`)."""
    set_aside: dict[str, dict[str, int]] = field(default_factory=dict)
    """By kind ("late", "ahead") and stream: rows that were set aside, kept or not."""
    behind: bool = False
    """Some cell has not applied all that the watermarks allow."""

    def json(self) -> dict[str, Any]:
        return {
            "watermarks": self.watermarks,
            "newest": self.newest,
            "rows": self.rows,
            "clock": self.clock,
            "clocks": self.clocks,
            "ahead": self.ahead,
            "inner": self.inner,
            "sieves": self.sieves,
            "gates": self.gates,
            "promising": self.promising,
            "stopped": self.stopped,
            "set_aside": self.set_aside,
        }

    def asks(self, plan: Flowing) -> list[str]:
        """The sieves that cells are to tell of."""
        if plan.upkeep.demand is Demand.OFF:
            return []
        return [s.name for s in plan.sieves if self.gates.get(s.part, [0, 0, 0])[2] <= 1]

    def note(self, header: Header, answers: list[Answer], plan: Flowing, delays: Mapping[str, int]) -> None:
        """Raise the watermarks by what the cells saw, and the clock by the watermarks."""
        for answer in answers:
            for name, newest in answer["newest"].items():
                self.newest[name] = max(self.newest.get(name, newest), newest)
        if not header["again"]:
            self.rows = summed([self.rows, *(a["rows"] for a in answers)])
        watermarks = dict(header["watermarks"])
        for name, newest in self.newest.items():
            if name in watermarks:
                watermarks[name] = max(watermarks[name], newest - delays[name])
        for name, end in (header["flush"] or {}).items():
            watermarks[name] = max(watermarks[name], end)
        self.watermarks = watermarks
        if plan.readings:
            groups = plan.clock_groups(watermarks)
            self.clocks = groups.clocks
            self.clock = groups.clock if self.clock is None else max(self.clock, groups.clock)
            self.behind = any(_is_behind(answer, plan, self.clocks) for answer in answers)
            self.ahead = max(self.ahead, groups.latest + 1)
        self.inner = _said_below(header, answers, plan)
        self._note_sieves(header, answers, plan)
        busy = any(load["busy"] for answer in answers for load in answer["ranked"].values())
        in_order = sorted((a for a in answers if "cell" in a), key=lambda a: int(a["cell"]))
        self.promising = together(a["promising"] for a in in_order) if busy else {}

    def _note_sieves(self, header: Header, answers: list[Answer], plan: Flowing) -> None:
        """What the second stages have, and whether it pays to go by it."""
        self.sieves = {}
        self.gates = {s.part: self.gates.get(s.part, [0, 0, 0]) for s in plan.sieves}
        for part, (asked, spared, rest) in self.gates.items():
            told = summed(a.get("sifted", {}).get(part, {}) for a in answers)
            asked = asked // 2 + told.get("asked", 0)
            spared = spared // 2 + told.get("suppressed", 0) - told.get("resumed", 0)
            if rest:
                asked, spared, rest = 0, 0, rest - 1
            elif asked >= LEAST and spared < SPARED * asked:
                rest = REST
            self.gates[part] = [asked, spared, rest]
        for sieve in plan.sieves:
            heard = [a["sieves"][sieve.name] for a in answers if sieve.name in a.get("sieves", {})]
            if sieve.name in header["asks"] and heard and not self.gates[sieve.part][2]:
                keys, filled = united(heard, empty=plan.upkeep.demand is Demand.DOE)
                if filled <= SIZE // 2 or plan.upkeep.demand is Demand.DOE:
                    self.sieves[sieve.name] = keys


def _is_behind(answer: Answer, plan: Flowing, clocks: Mapping[str, int]) -> bool:
    """Whether a cell has not applied all that the clocks allow, or shows what was so before."""
    for fed in plan.inputs:
        found = answer["upper"] if fed.stage else answer["clocks"]
        expected = min(clocks[s] for s in ([fed.stream] if fed.below is None else plan.read_by(fed.below)))
        if min(found.get(fed.name, expected), answer["shown"].get(fed.name, expected)) < expected:
            return True
    return False


def _said_below(header: Header, answers: list[Answer], plan: Flowing) -> Inner:
    laid: dict[str, list[str]] = {}
    for answer in answers:
        for name, place in answer["inner"].items():
            laid.setdefault(name, []).append(place)
    until = {part.lower(): _given_before(low, answers) for part, low in plan.lower.items()}
    sieved: dict[str, int] = {}
    for sieve in plan.sieves:
        if sieve.name in header["sieves"]:
            # A row that is kept back is sent once a row that it meets has come: those before the watermark have.
            part, seen = sieve.part.lower(), latest_watermarks(header)[sieve.other.stream.name.lower()]
            sieved[part] = max(announced(header, part), min(sieved.get(part, until[part]), seen))
    told = {"step": header["step"], "until": until, "laid": laid, "declared": header["declared"]}
    return {**told, "sieved": sieved}


def _given_before(low: Lower, answers: list[Answer]) -> int:
    """The instant before which all cells have given all changes of a part."""
    names = {read.name.lower() for read in low.placement.inputs}
    clocks = [a["clocks"][name] for a in answers for name in names if name in a["clocks"]]
    return min(clocks, default=EARLIEST - 1) + 1


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts by name, added up."""
    found: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            found[name] = found.get(name, 0) + count
    return found


def report(
    header: Header,
    answers: list[Answer],
    known: Known,
    declared: Declared,
    groups: Collection[Collection[str]],
    cells: float,
    sinks: float,
) -> dict[str, Any]:
    """A step for `lastProgress`; `groups`: streams that wait for each other; `cells` and `sinks` are seconds."""
    rows = dict.fromkeys(declared.streams, 0) | summed(a["rows"] for a in answers)
    out = dict.fromkeys(declared.queries, 0) | summed(a["out"] for a in answers)
    waiting = summed(a["waiting"] for a in answers)
    makers = {name for a in answers for name in a.get("partial", {})}
    partial = {
        name: {"partialResults": summed(a.get("partial", {}).get(name, {}) for a in answers)}
        for name in makers
    }
    return {
        "step": header["step"],
        "batchId": header["batch"],
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "numInputRows": sum(rows.values()),
        "sources": {name: {"numInputRows": count} for name, count in rows.items()},
        "durationMs": {
            "cells": round(1000 * cells),
            "sinks": round(1000 * sinks),
            "work": max((a["ms"] for a in answers), default=0.0),
        },
        "stateBytes": sum(a["state_bytes"] for a in answers),
        "late": summed(a["late"] for a in answers),
        "ahead": summed(a["ahead"] for a in answers),
        "waiting": waiting,
        "heldBackBy": next(iter(held_back_by(groups, waiting, known.watermarks)), None),
        "unread": {
            name: {"unplaced": count}
            for name, count in summed(a.get("unplaced", {}) for a in answers).items()
        },
        "watermarks": known.watermarks,
        "clock": known.clock,
        "clocks": known.clocks,
        "queries": {
            name: {
                "numOutputRows": count,
                **partial.get(name, {}),
                **_load([a["ranked"].get(name) for a in answers]),
            }
            for name, count in out.items()
        },
    }


def _load(cells: list[dict[str, Any] | None]) -> dict[str, Any]:
    """What waits in all cells, and what became of rows by rank; nothing where steps have no budget."""
    told = [cell for cell in cells if cell is not None]
    if not told:
        return {}
    ranks: dict[int | None, dict[str, int]] = {}
    for cell in told:
        for one in cell["ranks"]:
            sums = ranks.setdefault(one["rank"], dict.fromkeys(COUNTED, 0))
            for what in sums:
                sums[what] += one[what]
    order = sorted(ranks, key=lambda rank: (rank is None, rank))
    return {
        "waiting": sum(cell["waiting"] for cell in told),
        "backlog": sum(cell["backlog"] for cell in told),
        "growth": sum(cell["growth"] for cell in told),
        "endlessCells": sum(cell["endless"] for cell in told),
        "busyCells": sum(cell["busy"] for cell in told),
        "suppressed": sum(cell["suppressed"] for cell in told),
        "ranks": [{"rank": rank, **ranks[rank]} for rank in order],
        **_covered(told),
        **({"letGo": sum(cell["let_go"] for cell in told)} if "let_go" in told[0] else {}),
    }


def _covered(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """What COVER promised, and what came of it. An object whose rows go to several cells is one in each of them."""
    found: dict[int, dict[str, int]] = {}
    for cell in cells:
        for one in cell.get("coverage", ()):
            sums = found.setdefault(one["rank"], dict.fromkeys(("objects", "covered", "missed"), 0))
            for what in sums:
                sums[what] += one[what]
    return {"coverage": [{"rank": rank, **found[rank]} for rank in sorted(found)]} if found else {}
