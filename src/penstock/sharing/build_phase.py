"""Rows of a step on their way into the SteMs: which of them some join wants, and in which order they walk.

Invariant  rows walk by (ts, role); a row is written into its SteM once, whatever the number of its roles, and stands in no index
           before its first walk is done: build comes before probe (Madden et al. 2002, §2.3).
Cost       O(rows × roles of their stream).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.kernels.join import chains
from penstock.operators.join.predicates import key_words
from penstock.sharing.join_catalog import Stem
from penstock.sharing.join_registry import Parties
from penstock.sharing.routed_rows import Said, Sorted
from penstock.state import key_words as words
from penstock.state.lineages import EVERYBODY, NOBODY
from penstock.types.batch import Array, Batch, Column
from penstock.types.data_type import Type
from penstock.types.memory import room


@dataclass(slots=True)
class Arriving:
    """Rows of a stream that some join wants."""

    batch: Batch
    keys: list[Array]
    texts: list[Column]
    """Keys that are strings."""
    lines: list[Array]
    """Lineage by role."""
    alive: Array
    """By role and row."""
    said: list[Said]
    """By filter, if that is noted by itself."""
    odd: Array
    """Rows that some query does not want though all filters let them pass: they have a key that is NULL."""


@dataclass(slots=True)
class Events:
    """Rows in their roles, in the order in which they walk."""

    times: Array
    roles: Array
    slots: Array
    lines: Array
    entering: Array
    lineage: Array


def arriving(parties: Parties, stem: Stem, found: Sorted | None) -> Arriving | None:
    """The rows that some join wants."""
    if found is None or not len(found.rows):
        return None
    assert found.lineage is not None
    lineage, batch = found.lineage, found.batch
    if len(found.rows) < len(batch):
        lineage, batch = lineage[found.rows], batch.take(found.rows)
    lines = [np.ascontiguousarray(lineage[:, parties.roles[role].words]) for role in stem.roles]
    keys, texts, odd = _keys(parties, stem, batch, lines)
    alive = np.array([line.any(axis=1) for line in lines])
    some = alive.any(axis=0)
    if not some.all():
        picked = np.flatnonzero(some)
        if not len(picked):
            return None
        batch, alive = batch.take(picked), alive[:, picked]
        lines, keys = [line[picked] for line in lines], [key[picked] for key in keys]
        texts, odd = [text.take(picked) for text in texts], odd[picked]
    return Arriving(batch, keys, texts, lines, alive, parties.said(stem, batch), odd)


def _keys(
    parties: Parties, stem: Stem, batch: Batch, lines: Sequence[Array]
) -> tuple[list[Array], list[Column], Array]:
    """Each attribute's keys, and those that are strings; a query that joins by a NULL does not want the row: which have one."""
    n, keys, texts = len(batch), [], []
    odd = np.zeros(n, np.bool_)
    for attribute in stem.attributes.values():
        columns = [run(batch.columns, n) for run in attribute.run]
        for column, key in zip(columns, attribute.keys, strict=True):
            if key.type is Type.STRING:
                texts.append(column)
            if column.valid is not None:
                odd |= ~column.valid
                null = np.flatnonzero(~column.valid)
                for role, line in zip(stem.roles, lines, strict=True):
                    line[null] &= ~parties.mask(attribute.uses.get(role, ()))
        parts = [words.plain(c, k.type) for c, k in zip(columns, attribute.keys, strict=True)]
        keys.append(key_words(parts, n))
    return keys, texts, odd


def _numbers(parties: Parties, stem: Stem, at: int, rows: Array, some: Arriving) -> list[Array]:
    """Which queries want rows in a role, by numbers of lineages: in one part, or in one for each filter."""
    lineages, line = parties.lineages, some.lines[at]
    if not some.said:
        before = len(lineages)
        whole = lineages.numbers(line if len(rows) == len(line) else line[rows])
        stem.count(len(rows), len(lineages) - before)
        return [whole]
    parts: list[Array] = []
    for said in some.said:
        bitmaps, which = said.bitmaps(rows, parties.roles[stem.roles[at]].words)
        parts.append(lineages.numbers(bitmaps)[which])
    odd = np.flatnonzero(some.odd[rows])
    if len(odd):
        parts[0][odd] = lineages.numbers(line[rows[odd]])
    return parts


def admitted(parties: Parties, rows: Sequence[tuple[int, Stem, Arriving]]) -> Events:
    """Write rows into their SteMs, each given by its number; they are not in any index yet."""
    wanted = [0] * len(parties.stems)
    noted: dict[int, tuple[Array, list[Array]]] = {}
    for edge, stem, some in rows:
        wanted[edge] = len(some.batch)
        for at, role in enumerate(stem.roles):
            own = np.flatnonzero(some.alive[at]).astype(np.int32)
            noted[role] = own, _numbers(parties, stem, at, own, some) if len(own) else []
    parties.bed.suit(len(parties.lineages))
    parties.bed.rows.reserve(wanted)
    parts: dict[int, tuple[Array, Array, Array, Array]] = {}
    for edge, stem, some in rows:
        batch = some.batch
        columns = [batch.columns[i] for i in stem.stored] + some.texts
        first = parties.bed.rows.admit(edge, Batch(batch.ts, batch.ts, batch.columns), columns, some.keys)
        notes = parties.bed.notes(stem.stream, first, first + len(batch))
        entered = np.zeros(len(batch), np.bool_)
        for at, role in enumerate(stem.roles):
            own, numbers = noted[role]
            for part, note in enumerate(notes[at]):
                if part < len(numbers) and len(own) == len(note):
                    note[:] = numbers[part]
                    continue
                note[:] = EVERYBODY if part else NOBODY
                if part < len(numbers):
                    note[own] = numbers[part]
            ts, line, entering = batch.ts, some.lines[at], ~entered
            if len(own) < len(batch):
                ts, line, entering = ts[own], line[own], entering[own]
            parts[role] = (ts, own + np.int32(first), line, entering)
            entered[own] = True
    roles = sorted(parts)
    if len(roles) == 1:
        ((ts, slots, lines, entering),) = parts.values()
        same = np.full(len(ts), roles[0], np.int32)
        return Events(ts, same, slots, np.arange(len(ts), dtype=np.int32), entering, lines)
    ts, slots, lines, entering = (np.concatenate([parts[role][i] for role in roles]) for i in range(4))
    bounds = np.cumsum([0, *(len(parts[role][0]) for role in roles)])
    n = len(ts)
    times, side, order = room(n, np.int64), room(n, np.int32), room(n, np.int32)
    chains.in_turn(ts, bounds, bounds[:-1].copy(), bounds[:-1], times, side, order)
    return Events(times, np.array(roles, np.int32)[side], slots[order], order, entering[order], lines)
