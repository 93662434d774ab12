"""The rows of the shared SteMs, as they lie: one ring a stream, with all columns, keys and numbers of lineages that joins ask for.

Invariant  the rows of a stream lie in the order of their times, and the live ones are in every index.
Cost       O(rows) to append or expire. A new column, join attribute, role or stream lays all live rows out anew; what a row
           does not have of it (it came before whoever asks) is blank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import StateError
from penstock.kernels.join import chains
from penstock.sharing.join_catalog import MOST, Key, Stem
from penstock.state.annotated_stems import SHORT, NotedStems, Place
from penstock.state.arena import Arena
from penstock.state.lineages import EVERYBODY
from penstock.types.batch import Array, Batch, Column, concat
from penstock.types.data_type import Type


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of a stream on their way from one bed to another."""

    ts: Array
    keys: Mapping[Key, Array]
    columns: Mapping[int, Column]
    texts: Mapping[Key, Sequence[Column]]
    """By join attribute: keys that are strings."""
    notes: Mapping[int, Array]
    """By role: the numbers of lineages, as many to a row as it has parts."""


class Bed:
    """`stems` says what is to be held; it may change between steps (`stale`)."""

    def __init__(self, stems: Mapping[str, Stem]) -> None:
        self._stems = stems
        self.rows = NotedStems(Arena(), "stems", [], [], [])
        self._short = False
        self.stale = False
        self._held: dict[str, _Layout] = {}

    def lay_out(self) -> None:
        """Hold what is asked for now."""
        if not self.stale:
            return
        blocks = {stream: self._block(stream) for stream in self._held}
        stems = list(self._stems.values())
        self.rows = NotedStems(
            Arena(),
            "stems",
            [stem.types for stem in stems],
            [len(stem.attributes) for stem in stems],
            [stem.parts * len(stem.roles) for stem in stems],
            short=self._short,
        )
        self._held = {
            stem.stream: _Layout(
                edge,
                stem.stored,
                {k: a.texts for k, a in stem.attributes.items()},
                list(stem.roles),
                stem.parts,
            )
            for edge, stem in enumerate(stems)
        }
        self.stale = False
        for stream, block in blocks.items():
            if len(block.ts):
                self.put(self._stems[stream], block)

    def edge(self, stream: str) -> int:
        return self._held[stream].edge

    def notes(self, stream: str, first: int, last: int) -> list[list[Array]]:
        """The numbers of lineages of rows, by role and part: views."""
        was = self._held[stream]
        return [
            [self.rows.note(was.edge, was.parts * at + part)[first:last] for part in range(was.parts)]
            for at in range(len(was.roles))
        ]

    def places(self, stream: str, role: int) -> list[Place]:
        """Where the numbers of a role stand in a row."""
        was = self._held[stream]
        first = was.parts * was.roles.index(role)
        return [self.rows.place(was.edge, first + part) for part in range(was.parts)]

    def suit(self, lineages: int) -> None:
        """Have room for numbers of so many lineages, and not for much greater ones where rows have several; what lies, lies so then."""
        several = any(stem.parts > 1 for stem in self._stems.values())
        short = several and lineages <= (SHORT if self._short else SHORT // 4)
        if short != self._short:
            self._short, self.stale = short, True
            self.lay_out()

    def expire(self, stream: str, until: int) -> None:
        """Rows that came until then are gone."""
        edge = self.rows.edges[self.edge(stream)]
        tail, used = int(edge[chains.TAIL]), int(edge[chains.USED])
        ts = self.rows.table(self.edge(stream))[tail:used, 0]
        if tail < used and ts[0] <= until:
            edge[chains.TAIL] += np.searchsorted(ts, until, side="right")

    # ------------------------------------------------------------------ moving

    def _block(self, stream: str) -> Block:
        """All live rows of a stream."""
        was = self._held[stream]
        tail, used = (int(self.rows.edges[was.edge, f]) for f in (chains.TAIL, chains.USED))
        table = self.rows.table(was.edge)[tail:used].copy()
        columns = [Column(c.values, c.valid) for c in self.rows.frames[was.edge].at(np.arange(tail, used))]
        notes = [np.column_stack(parts) for parts in self.notes(stream, tail, used)]
        return was.block(
            table[:, 0], [table[:, 1 + 2 * k] for k in range(len(was.attributes))], notes, columns
        )

    def put(self, stem: Stem, block: Block) -> None:
        """Put rows among those of their stream, in the order of their times."""
        edge, there = self.edge(stem.stream), self._block(stem.stream)
        blank = np.zeros(len(block.ts), np.int64)
        ts = np.concatenate([there.ts, block.ts])
        order = np.argsort(ts, kind="stable")
        ts = ts[order]
        columns = [
            concat([there.columns[i], block.columns.get(i, Column(blank.astype(stem.schema[i].type.dtype)))])
            for i in stem.stored
        ]
        keys = []
        for key, attribute in stem.attributes.items():
            keys.append(np.concatenate([there.keys[key], block.keys.get(key, blank)])[order])
            texts = block.texts.get(key, [Column(blank.astype(np.int32))] * attribute.texts)
            columns += [concat([a, b]) for a, b in zip(there.texts[key], texts, strict=True)]
        self.rows.clear(edge)
        self.rows.reserve([len(ts) if i == edge else 0 for i in range(len(self._held))])
        first = self.rows.admit(edge, Batch(ts, ts, ()), [c.take(order) for c in columns], keys)
        notes = self.notes(stem.stream, first, first + len(ts))
        for role, parts in zip(stem.roles, notes, strict=True):
            both = there.notes[role], block.notes.get(role, blank.reshape(-1, 1))
            for part, note in enumerate(parts):
                rest = [
                    b[:, part] if part < b.shape[1] else np.full(len(b), EVERYBODY, np.int64) for b in both
                ]
                note[:] = np.concatenate(rest)[order]
        self.rows.link(edge, first, first + len(ts))

    # ------------------------------------------------------------------ leaving and coming back

    def save(self, arena: Arena, roles: Callable[[int], bool]) -> list[dict[str, Any]]:
        """Lay the rows of streams into an arena, with the roles that somebody has; how they lie there."""
        self.lay_out()
        told: list[dict[str, Any]] = []
        for stream, was in self._held.items():
            kept = [role for role in was.roles if roles(role)]
            if not kept:
                continue  # those who read it are gone
            block, at = self._block(stream), len(told)
            table = [block.ts, *block.keys.values(), *(block.notes[role] for role in kept)]
            arena.keep(f"{at}.rows", np.column_stack(table))
            texts = [column for some in block.texts.values() for column in some]
            arena.keep_columns(f"{at}.columns", [*block.columns.values(), *texts])
            told.append(
                {
                    "stream": stream,
                    "columns": was.columns,
                    "attributes": [[list(key), n] for key, n in was.attributes.items()],
                    "roles": kept,
                    "parts": was.parts,
                }
            )
        return told

    def take_up(
        self, arena: Arena, told: Sequence[dict[str, Any]], known: Array, roles: Sequence[int]
    ) -> None:
        """Hold what was saved by another; `known`: the number now of every lineage's number then, `roles`: the same."""
        for was in told:
            there = self._stems.get(was["stream"])
            if there is None:
                raise StateError(f"no join reads {was['stream']}, whose rows were kept")
            if not 1 <= was["parts"] <= MOST:
                raise StateError(f"rows of {there.stream} have {was['parts']} parts of a lineage")
            if was["parts"] > there.parts:
                there.parts, there.apart, self.stale = was["parts"], True, True
        self.lay_out()
        for at, was in enumerate(told):
            stem = self._stems[was["stream"]]
            keys = {tuple(key): n for key, n in was["attributes"]}
            width = 1 + len(keys) + len(was["roles"]) * was["parts"]
            table = arena.taken(f"{at}.rows", np.int64, (0, width))
            types = [stem.schema[i].type for i in was["columns"]] + [Type.STRING] * sum(keys.values())
            columns = arena.columns(f"{at}.columns", types) if types else ()
            if columns is None or any(len(c) != len(table) for c in columns):
                raise StateError(f"rows of {stem.stream} are not whole")
            notes = table[:, 1 + len(keys) :]
            if notes.size and not (int(notes.min()) >= 0 and int(notes.max()) < len(known)):
                raise StateError(f"rows of {stem.stream} have a lineage that is not there")
            layout = _Layout(0, was["columns"], keys, [roles[role] for role in was["roles"]], was["parts"])
            if len(table):
                each = np.split(known[notes], len(was["roles"]), axis=1)
                own = layout.block(table[:, 0], list(table.T[1 : 1 + len(keys)]), each, columns)
                self.put(stem, own)


@dataclass(frozen=True, slots=True)
class _Layout:
    """How rows of a stream lie: which columns, join attributes (with the number of keys that are strings) and roles."""

    edge: int
    columns: list[int]
    attributes: dict[Key, int]
    roles: list[int]
    parts: int

    def block(
        self, ts: Array, keys: Sequence[Array], notes: Sequence[Array], columns: Sequence[Column]
    ) -> Block:
        """Rows that lie so."""
        stored = len(self.columns)
        texts: dict[Key, Sequence[Column]] = {}
        for key, n in self.attributes.items():
            texts[key] = columns[stored : stored + n]
            stored += n
        return Block(
            ts,
            dict(zip(self.attributes, keys, strict=True)),
            dict(zip(self.columns, columns, strict=False)),
            texts,
            dict(zip(self.roles, notes, strict=True)),
        )
