"""What the cells of a flow have learnt of promising values, told to each other.

Paper      Works 2013, §6.4, over cells; merged as in `state.summary`.
Where      of queries that are the same in every cell: the same rows, ranks and joins, by a digest. A value is told as a text or as a
           word that means the same everywhere; a hash of several attributes with a text among them is not, and is learnt by every cell for itself.
Bounds     what was counted in all cells, rows that have copies once: each cell's counts are divided by the copies. Summaries are faded to the
           youngest first, so that a cell which has been calm for long does not speak for now.
State      a summary an attribute and level, `ROOM` values each; of no more than `MOST` of these, the best levels first; texts of `LONGEST` bytes.
Used       a cell goes by what it has counted itself; of values that it does not know by what the others say, as far as rows with them can come to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import exp
from typing import Any

import numpy as np

from penstock.data.batch import Ints
from penstock.data.types import Type
from penstock.flow.preference.attributes import Attribute
from penstock.flow.preference.dealt import Grid
from penstock.flow.preference.monitor import LASTS, ROOM, Monitor
from penstock.plan.fingerprint import describe, predicate_text
from penstock.state.frequent import Frequent
from penstock.state.strings import Strings
from penstock.state.summary import Summary, Value, merged

MOST = 16
"""Attributes and levels of a core that are told of."""
LONGEST = 256
"""Bytes of a text that is told."""

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
    known = [one for one in monitor.attributes if _is_text(monitor, one) or not _has_text(monitor, one)]
    return [(one, level) for level in monitor.levels for one in known][:MOST]


def _is_text(monitor: Monitor, one: Attribute) -> bool:
    return all(monitor.core.is_text(i, k) for i, k in one.sides.items())


def _has_text(monitor: Monitor, one: Attribute) -> bool:
    return any(e.type is Type.STRING for i, k in one.sides.items() for e in monitor.core.key_of(i, k))


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
    values: list[Value] = sketch.values.tolist()
    told = np.ones(len(values), np.bool_)
    if _is_text(monitor, one):
        values = strings.decode(sketch.values.astype(np.int32)).to_pylist()
        told = np.array([len(v.encode()) <= LONGEST for v in values if isinstance(v, str)], np.bool_)
    kept = np.flatnonzero(told)
    return Summary(
        tuple(values[k] for k in kept.tolist()), count[kept], sure[kept], beside[:, kept],
        sketch.total * most, sketch.came * here, sketch.rest * worst,
    )  # fmt: skip


def _here(one: Attribute, told: Summary, monitor: Monitor, grid: Grid, strings: Strings) -> Frequent:
    """What all cells say, as this one would have counted its part of it."""
    sketch = monitor.sketches[one.number, monitor.levels[0]]
    values: Ints
    if _is_text(monitor, one):
        values = np.array([strings.code(str(v)) for v in told.values], np.int64)
    else:
        values = np.array(told.values, np.int64)
    comes = np.flatnonzero(grid.comes(one, values, strings))
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
