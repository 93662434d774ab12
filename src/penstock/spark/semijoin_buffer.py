"""Rows that the first stage keeps back, since nobody in the second can meet them yet.

Paper      Yang & Papadias 2008 (suspension and resumption) and its Bloom filters, between stages of cells (`partitioning.semijoin_filter`).
Invariant  a row is kept back only while no row of the other stream that has come to any cell has its key and is alive. So whoever
           meets it comes later: at an instant not before the watermark that the other stream had when it was
           kept back. It is sent as soon as its key is told of, and begins, for the second stage, not before what that has
           been told of already; no result begins earlier. If its end is at or below the other's watermark it is dropped.
State      second stage: the greatest end of each key's bucket (a support horizon; never lowered, so nothing has to be counted down
           when rows end). First stage: the rows kept back, and their buckets.
Replay     which keys there are is told by answers to a step and stands in the header of the next one, which is logged.
Cost       a hash for every row of the other stream and every row kept back; a look at all of the latter in every step.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.partitioning.keys import Key
from penstock.partitioning.placement import Axis, Routing
from penstock.partitioning.router import Router
from penstock.partitioning.semijoin_filter import Sieve
from penstock.plan.catalog import Function
from penstock.plan.expressions import columns as read_by
from penstock.spark.flow_plan import Flowing
from penstock.spark.union_layout import TRAVELS_AS
from penstock.state.arrow_columns import from_arrow
from penstock.state.strings import Strings
from penstock.types.batch import Array, Column
from penstock.types.event_time import EARLIEST, FOREVER

SIZE = 1 << 18
"""Buckets of keys, of which every key has two (a Bloom filter of two hashes): 32 KB of bits, less once packed. With 36,000 live keys one
key in seventeen is taken for others."""
NEVER = EARLIEST - 1

Functions = Mapping[str, Function]


def _buckets(key: Key, columns: Sequence[Column], rows: int, strings: Strings, functions: Functions) -> Array:
    """Two of every row."""
    router = Router(Routing((Axis(SIZE * SIZE, key),)), strings, functions)
    found = router.places(columns, rows).astype(np.int64)
    router.release()
    return np.stack([found % SIZE, found // SIZE])


# ---------------------------------------------------------------------- the second stage


class Ends:
    """Until when keys of an input of the second stage have a live row at the latest."""

    def __init__(self, sieve: Sieve) -> None:
        self.sieve = sieve
        self._ends = np.full(SIZE, NEVER)

    def take(self, columns: Sequence[Column], strings: Strings, functions: Functions) -> None:
        """Rows that have come, be it their turn or not."""
        ts = columns[self.sieve.other.stream.time].values
        places = _buckets(self.sieve.other_key, columns, len(ts), strings, functions)
        if self.sieve.lives is None:
            self._ends[places] = FOREVER
        else:
            for own in places:
                np.maximum.at(self._ends, own, ts + self.sieve.lives)

    def told(self, now: int) -> str:
        """Buckets in which something is alive after `now`, for an answer."""
        return _packed(self._ends > now)

    def save(self) -> dict[str, Array]:
        places = np.flatnonzero(self._ends > NEVER)
        return {"places": places, "ends": self._ends[places]}

    def take_up(self, saved: Mapping[str, Array]) -> None:
        self._ends[saved["places"]] = saved["ends"]

    @property
    def size_bytes(self) -> int:
        return int(self._ends.nbytes)


def _packed(alive: Array) -> str:
    return base64.b64encode(zlib.compress(np.packbits(alive).tobytes(), 1)).decode()


def unpacked(told: str) -> Array:
    """What `Ends.told` said: a bit a bucket."""
    bits = np.frombuffer(zlib.decompress(base64.b64decode(told)), np.uint8)
    return np.unpackbits(bits, count=SIZE).view(np.bool_)


def united(told: Iterable[str], *, empty: bool = False) -> tuple[str, int]:
    """What several cells say, as one, and how many buckets that is. `empty`: it only matters whether there is anything at all."""
    found = np.zeros(SIZE, np.bool_)
    for one in told:
        found |= unpacked(one)
    if empty:
        found[:] = found.any()
    return _packed(found), int(found.sum())


# ---------------------------------------------------------------------- the first stage


class HeldBack:
    """Rows of one part that wait for rows of other streams."""

    def __init__(self, sieves: Sequence[Sieve]) -> None:
        self.sieves = tuple(sieves)
        self._rows: pa.Table | None = None
        self._places = np.empty((len(self.sieves), 2, 0), np.int64)

    def sift(
        self,
        rows: pa.Table | None,
        alive: Mapping[str, Array],
        until: int,
        watermarks: Mapping[str, int],
        functions: Functions,
    ) -> tuple[pa.Table | None, dict[str, int]]:
        """What is sent now, of these rows and of those kept back before, and counts.

        `alive`: by sieve, the buckets in which something lives; a sieve that is not there lets everything through. `until`: what the
        second stage has been told of already. `watermarks`: of the other streams, by name.
        """
        fresh = 0 if rows is None else rows.num_rows
        if self._rows is None and (not fresh or not alive):
            return rows, {"shipped": fresh}
        before = 0 if self._rows is None else self._rows.num_rows
        every = pa.concat_tables([t for t in (self._rows, rows) if t is not None])
        places = self._places
        if rows is not None and fresh:
            places = np.concatenate([places, self._buckets(rows, functions)], axis=2)
        ends = every.column("__exp").fill_null(FOREVER).to_numpy()
        goes, over = np.ones(len(ends), np.bool_), ends <= until
        for sieve, own in zip(self.sieves, places, strict=True):
            if sieve.name in alive:
                found = alive[sieve.name][own].all(axis=0)
                goes &= found
                over |= ~found & (ends <= watermarks[sieve.other.stream.name.lower()])
        goes &= ~over
        stays = ~(goes | over)
        self._rows = every.filter(pa.array(stays)).combine_chunks() if stays.any() else None
        self._places = places[:, :, stays]
        sent = every.filter(pa.array(goes))
        begins = np.maximum(sent.column("__ts").to_numpy(), until)
        sent = sent.set_column(0, "__ts", pa.array(begins, sent.schema.field(0).type))
        counts = {
            "shipped": sent.num_rows,
            "resumed": int(goes[:before].sum()),
            "suppressed": fresh - int(goes[before:].sum()),
            "asked": fresh if alive else 0,
        }
        return sent, counts

    def _buckets(self, rows: pa.Table, functions: Functions) -> Array:
        strings = Strings()
        found = []
        for sieve in self.sieves:
            columns: list[Any] = [None] * rows.num_columns
            for column in {c.index: c for term in sieve.key for c in read_by(term)}.values():
                values = rows.column(column.index).combine_chunks()
                columns[column.index] = from_arrow(values, TRAVELS_AS.get(column.type, column.type), strings)
            found.append(_buckets(sieve.key, columns, rows.num_rows, strings, functions))
        return np.array(found, np.int64)

    def save(self) -> dict[str, Array]:
        if self._rows is None:
            return {}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._rows.schema) as writer:
            writer.write_table(self._rows)
        return {"rows": np.frombuffer(sink.getvalue(), np.uint8), "places": self._places}

    def take_up(self, saved: Mapping[str, Array]) -> None:
        if saved:
            self._rows = pa.ipc.open_stream(pa.py_buffer(np.array(saved["rows"]))).read_all()
            self._places = np.array(saved["places"])

    @property
    def size_bytes(self) -> int:
        return 0 if self._rows is None else int(self._rows.nbytes + self._places.nbytes)


class Sifting:
    """The parts that a cell's first stage runs, each with what it keeps back."""

    def __init__(self) -> None:
        self._held: dict[str, HeldBack] = {}

    def declare(self, before: Flowing | None, wanted: Flowing) -> None:
        """What parts that are gone kept back goes with them."""
        named: dict[str, list[Sieve]] = {}
        for sieve in wanted.sieves:
            named.setdefault(sieve.part, []).append(sieve)
        same = [part for part in named if before is not None and before.begun.get(part) == wanted.begun[part]]
        known = {part: held for part, held in self._held.items() if part in same}
        self._held = {part: known.get(part) or HeldBack(sieves) for part, sieves in named.items()}

    def hand_on(
        self, header: dict[str, Any], said: Mapping[str, pa.Table], functions: Functions
    ) -> tuple[dict[str, pa.Table], dict[str, dict[str, int]]]:
        """What parts said, less what they keep back, with what they kept back until now; counts by part."""
        alive = {name: unpacked(told) for name, told in header["sieves"].items()}
        sent, counts = {}, {}
        for part in {**said, **self._held}:
            rows = said.get(part)
            if part in self._held:
                rows, counts[part] = self._held[part].sift(
                    rows, alive, announced(header, part), latest_watermarks(header), functions
                )
            elif rows is not None:
                counts[part] = {"shipped": rows.num_rows}
            if rows is not None and rows.num_rows:
                sent[part] = rows
        return sent, counts

    def save(self) -> dict[str, Array]:
        return {f"{part}/{name}": a for part, held in self._held.items() for name, a in held.save().items()}

    def take_up(self, saved: Mapping[str, Array]) -> None:
        for part, held in self._held.items():
            own = {n.rpartition("/")[2]: a for n, a in saved.items() if n.rpartition("/")[0] == part}
            held.take_up(own)

    @property
    def size_bytes(self) -> int:
        return sum(held.size_bytes for held in self._held.values())


def announced(header: dict[str, Any], part: str) -> int:
    """All of a part that is of use before this instant has been sent."""
    inner = header["inner"]
    key = part.lower()
    return int(inner.get("sieved", {}).get(key, inner["until"].get(key, EARLIEST)))


def latest_watermarks(header: dict[str, Any]) -> dict[str, int]:
    """No row that comes after this step's begins earlier; input that has ended brings no rows of its own."""
    found = dict(header["watermarks"])
    for name, end in (header["flush"] or {}).items():
        found[name] = max(found.get(name, end), end)
    return found
