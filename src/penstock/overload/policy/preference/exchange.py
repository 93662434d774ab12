"""What the cells of a flow have learnt of promising values, told to each other.

Paper      Works 2013, §6.4, over cells; merged as in `state.frequent_summary`.
Where      of queries that are the same in every cell: the same rows, ranks and joins, by a digest. A value is told as a text or as a
           word that means the same everywhere, one of several keys as a list of these: each cell has its own codes, and hashes of them.
Bounds     what was counted in all cells, rows that have copies once: each cell's counts are divided by the copies. Summaries are faded to the
           youngest first, so that a cell which has been calm for long does not speak for now.
State      a summary an attribute and level, `ROOM` values each; of no more than `MOST` of these, the best levels first; texts of `LONGEST` bytes.
Used       a cell goes by what it has counted itself; until that is enough (`monitor.ENOUGH`), of values that it does not know by what the others
           say, as far as rows with them can come to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from math import exp
from typing import Any

import numpy as np

from penstock.operators.join.predicates import key_words
from penstock.overload.policy.preference.join_attributes import Attribute
from penstock.overload.policy.preference.monitor import LASTS, ROOM, Monitor
from penstock.overload.policy.preference.partition_grid import Grid
from penstock.plan.fingerprint import describe, predicate_text
from penstock.state.frequent_summary import Summary, Value, merged
from penstock.state.frequent_values import Frequent
from penstock.state.strings import Strings
from penstock.types.batch import Ints

MOST = 16
"""Attributes and levels of a core that are told of."""
LONGEST = 256
"""Bytes of a text that is told."""
NONE = np.empty(0, np.int64)

Report = dict[str, Any]
"""What a cell says of a core, or all of them together: made of lists, numbers and texts."""


def digest(monitors: Sequence[Monitor]) -> str:
    """What must be the same wherever sketches are to be merged."""
    told = []
    for monitor in monitors:
        core = monitor.core
        told.append(describe(core.core.node))
        for d in core.determinants:
            told.append(f"{d.level}: {' '.join(map(predicate_text, d.alternatives))}")
        told += [f"{one.number}: {sorted(one.sides.items())}" for one in monitor.attributes]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def report(monitor: Monitor, grid: Grid, strings: Strings) -> Report:
    """What a cell has learnt of a core."""
    told = []
    for one, level in _spoken(monitor):
        sketch = monitor.sketches[one.number, level]
        if len(sketch):
            told.append([one.number, level, _summary(monitor, one, sketch, grid, strings).json()])
    return {"reached": monitor.reached, "alive": monitor.alive, "sketches": told}


def together(reports: Sequence[Report]) -> Report:
    """What all cells have learnt of a core."""
    reached = max((one["reached"] for one in reports if one["reached"] is not None), default=None)
    parts: dict[tuple[int, int], list[Summary]] = {}
    for one in reports:
        left = 1.0
        if reached is not None and one["reached"] is not None and one["alive"] > 0:
            left = exp((one["reached"] - reached) / (LASTS * one["alive"]))
        for number, level, told in one["sketches"]:
            parts.setdefault((number, level), []).append(Summary.of(told).faded(left))
    sketches = [[*key, merged(own, ROOM).json()] for key, own in sorted(parts.items())]
    alive = max((one["alive"] for one in reports), default=0.0)
    return {"reached": reached, "alive": alive, "sketches": sketches}


def learn(monitor: Monitor, told: Report | None, grid: Grid, strings: Strings) -> None:
    """Go by what others have learnt, too; None: nothing is known of that."""
    before = {key: set(other.values.tolist()) for key, other in monitor.others.items()}
    attributes = {one.number: one for one in monitor.attributes}
    monitor.others = {}
    for number, level, summary in [] if told is None else told["sketches"]:
        other = _here(attributes[number], Summary.of(summary), monitor, grid, strings)
        if len(other):
            monitor.others[number, level] = other
    monitor.heard = any(
        set(other.values.tolist()) - before.get(key, set()) - set(monitor.sketches[key].values.tolist())
        for key, other in monitor.others.items()
    )


def _spoken(monitor: Monitor) -> list[tuple[Attribute, int]]:
    """The attributes and levels whose values can be told, best levels first."""
    return [(one, level) for level in monitor.levels for one in monitor.attributes][:MOST]


def _said(monitor: Monitor, one: Attribute, values: Ints, strings: Strings) -> list[Value | None]:
    """Values as they are told; None: one that is not."""
    texts = monitor.texts(one)
    spelt = monitor.spelt.get(one.number)
    rows = [(v,) if spelt is None else spelt.get(v) for v in values.tolist()]
    told: list[Value | None] = []
    for row in rows:
        parts = (
            None if row is None else [strings.text(p) if t else p for p, t in zip(row, texts, strict=True)]
        )
        value = (
            None if parts is None else parts[0] if spelt is None else json.dumps(parts, ensure_ascii=False)
        )
        told.append(None if isinstance(value, str) and len(value.encode()) > LONGEST else value)
    return told


def _heard(
    monitor: Monitor, one: Attribute, told: Sequence[Value], strings: Strings
) -> tuple[Ints, list[Ints]]:
    """Values that were told as keys of this cell, and what they are made of."""
    texts = monitor.texts(one)
    several = one.number in monitor.spelt
    rows = [json.loads(str(v)) if several else [v] for v in told]
    coded = [[strings.code(p) if t else p for p, t in zip(row, texts, strict=True)] for row in rows]
    parts = [np.array(part, np.int64) for part in zip(*coded, strict=True)] or [NONE] * len(texts)
    values = key_words(parts, len(told))
    if several:
        monitor.spelt[one.number].update(zip(values.tolist(), map(tuple, coded), strict=True))
    return values, parts


def _summary(monitor: Monitor, one: Attribute, sketch: Frequent, grid: Grid, strings: Strings) -> Summary:
    """A sketch with rows that have copies counted once."""
    sides = range(sketch.sides)
    least = np.array([1 / max(map(grid.copies, monitor.makers(i))) for i in sides])
    most = np.array([1 / min(map(grid.copies, monitor.makers(i))) for i in sides])
    here = np.array([1 / grid.copies([i]) for i in sides])
    counted, met = sketch.beside[: sketch.sides], sketch.beside[sketch.sides :]
    sure = (counted * least[:, None]).sum(axis=0)
    # Whose rows made the error is not known: those, perhaps, that have the fewest copies.
    worst = float(most[sketch.total > 0].max(initial=0.0))
    count = (counted * most[:, None]).sum(axis=0) + (sketch.counts - sketch.sure) * worst
    beside = np.concatenate([counted * least[:, None], met * here[:, None]])
    values = _said(monitor, one, sketch.values, strings)
    kept = np.array([k for k, value in enumerate(values) if value is not None], np.int64)
    return Summary(
        tuple(value for value in values if value is not None), count[kept], sure[kept], beside[:, kept],
        sketch.total * most, sketch.came * here, sketch.rest * worst,
    )  # fmt: skip


def _here(one: Attribute, told: Summary, monitor: Monitor, grid: Grid, strings: Strings) -> Frequent:
    """What all cells say, as this one would have counted its part of it."""
    sketch = monitor.sketches[one.number, monitor.levels[0]]
    values, parts = _heard(monitor, one, told.values, strings)
    comes = np.flatnonzero(grid.comes(one, parts, strings))
    sides = range(sketch.sides)
    part = np.array([1 / grid.parts(i, one) for i in sides])
    of_all = np.array([1 / grid.parts(i) for i in sides])
    many = float(part[told.total > 0].max(initial=1.0 if not told.total.any() else 0.0))
    made = Frequent(max(1, len(comes)), sketch.sides)
    beside = told.beside[:, comes] * np.concatenate([part, part])[:, None]
    # Rows that came here are as many as came; of others so many had each value.
    came, own = told.came * of_all, sketch.came
    known = (own > 0) & (came > 0)
    scale = np.where(known, own / np.where(came > 0, came, 1.0), 1.0)
    beside[sketch.sides :] *= scale[:, None]
    made.fill(values[comes], told.count[comes] * many, (told.count - told.sure)[comes] * many, beside)
    made.total[:], made.came[:] = told.total * of_all, np.where(known, own, came)
    return made
