"""Which streams share a clock: those that some query reads together.

Invariant  the streams of a running query stand at one instant, so a query only ever waits for streams that it reads itself or
           that a chain of queries connects to its own. A silent stream holds no other query back.
Merge      a new query may connect groups that stand at different instants. It begins (`since`) after the latest of them; each of
           the groups stops just before that (`until`) until the others have come there, and then they become one.
Split      when the last query that connects streams is dropped, each part goes on from where the group stood.

Where streams stand follows from the queries and the watermarks alone, so an embedded engine, the engine of a cell and the driver
find the same (`risen`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.types.event_time import EARLIEST, LATEST


class Reading(NamedTuple):
    """What a query reads, and the first instant that it sees."""

    streams: frozenset[str]
    since: int


@dataclass(slots=True, eq=False)
class ClockGroup:
    """Streams that stand at one instant."""

    streams: set[str]
    now: int
    """Every row with ts <= now has been applied."""
    until: int = LATEST
    """It does not pass this instant before other groups have come there, too."""
    waits_with: set[str] = field(default_factory=set)
    """Its own streams and those of the groups that it is to be merged with."""


class ClockGroups:
    """The groups of all queries of an engine or of a flow.

    `single`: all streams that are read share one clock, whatever connects them.
    """

    def __init__(self, floor: int, *, single: bool = False) -> None:
        self._floor = floor
        self.single = single
        self.follows = False
        """This is a part of a flow, whose clock `raise_floor` gives; otherwise the clock is that of the slowest group."""
        self._group_of: dict[str, ClockGroup] = {}
        self._readers: Counter[str] = Counter()
        """By stream: queries that read it."""
        self._connecting: dict[frozenset[str], Counter[int]] = {}
        """By set of at least two streams: when the queries begin that read exactly these."""
        self._pending = False
        """Some groups wait to be merged."""

    @classmethod
    def of(
        cls, readings: Iterable[Reading], clocks: Mapping[str, int], floor: int, *, single: bool = False
    ) -> ClockGroups:
        """The groups of queries whose streams stand at these instants; other streams stand at the floor."""
        made = cls(floor, single=single)
        for reading in readings:
            for stream in reading.streams - made._group_of.keys():
                made._group_of[stream] = ClockGroup({stream}, clocks.get(stream, floor))
            made._count(reading)
        made._regroup()
        return made

    def __iter__(self) -> Iterator[ClockGroup]:
        yield from self._groups(list(self._group_of))

    @property
    def streams(self) -> Collection[str]:
        """Those that some query reads."""
        return self._group_of.keys()

    @property
    def clocks(self) -> dict[str, int]:
        """By stream that is read: where it stands."""
        return {stream: group.now for stream, group in self._group_of.items()}

    @property
    def clock(self) -> int:
        """Every row with ts <= clock has been applied, of every stream that is read; it never falls."""
        slowest = min((group.now for group in self._group_of.values()), default=self._floor)
        return min(self._floor, slowest) if self.follows else max(self._floor, slowest)

    @property
    def latest(self) -> int:
        """No stream has passed this instant."""
        return max([self._floor, *(group.now for group in self._group_of.values())])

    def now(self, streams: Iterable[str]) -> int:
        """The latest instant at which any of these streams stands; the clock if no query reads any of them."""
        found = [self._group_of[stream].now for stream in streams if stream in self._group_of]
        return max(found, default=self.clock)

    def earliest(self, streams: Iterable[str]) -> int:
        """The earliest instant at which any of these streams stands."""
        found = [self._group_of[stream].now for stream in streams if stream in self._group_of]
        return min(found, default=self.clock)

    def group(self, streams: Collection[str]) -> ClockGroup | None:
        """The group of all of these streams; None: they stand apart, or no query reads them."""
        first = self._group_of.get(next(iter(streams), ""))
        return first if first is not None and first.streams.issuperset(streams) else None

    def are_apart(self, reading: Reading) -> bool:
        """Whether a query that is to begin has to wait for some of its streams."""
        groups = {id(g): g for g in map(self._group_of.get, reading.streams) if g is not None}.values()
        return len(groups) > 1 and any(group.now != reading.since - 1 for group in groups)

    # ------------------------------------------------------------------ queries

    def add(self, reading: Reading) -> None:
        """A query begins; streams that no other reads stand where its other streams do, or at the clock."""
        self._keep_clock()
        now, fresh = self.now(reading.streams), reading.streams - self._group_of.keys()
        for stream in fresh:
            self._group_of[stream] = ClockGroup({stream}, now)
        self._count(reading)
        if fresh or self.group(reading.streams) is None:
            self._regroup()

    def remove(self, reading: Reading) -> None:
        """A query is gone: streams that it alone connected go on apart."""
        self._keep_clock()
        self._readers -= Counter(reading.streams)
        gone = [stream for stream in reading.streams if stream not in self._readers]
        for stream in gone:
            self._group_of.pop(stream).streams.discard(stream)
        if reading.streams in self._connecting:
            begins = self._connecting[reading.streams]
            first = min(begins)
            begins -= Counter([reading.since])
            if not begins:
                del self._connecting[reading.streams]
            if gone or not begins or min(begins) != first:
                self._regroup()

    def merge(self) -> bool:
        """Merge groups that have come together; whether there were any."""
        if not self._pending:
            return False
        before = len(self._groups(self._group_of))
        self._regroup()
        return len(self._groups(self._group_of)) < before

    def raise_floor(self, instant: int) -> None:
        """No query that is to come sees rows up to the instant."""
        self._floor = max(self._floor, instant)

    def _keep_clock(self) -> None:
        if not self.follows:
            self._floor = self.clock

    def _count(self, reading: Reading) -> None:
        self._readers.update(reading.streams)
        if len(reading.streams) > 1:
            self._connecting.setdefault(reading.streams, Counter())[reading.since] += 1

    def _groups(self, streams: Iterable[str]) -> Collection[ClockGroup]:
        """The groups of streams that are read, each once."""
        return {id(group): group for group in map(self._group_of.__getitem__, streams)}.values()

    def _regroup(self) -> None:
        """Group streams by the queries that connect them, and see how far each group may go."""
        if not self._group_of:
            return
        if self.single:
            group = ClockGroup(set(self._group_of), max(g.now for g in self._group_of.values()))
            group.waits_with = group.streams
            self._group_of = dict.fromkeys(group.streams, group)
            return
        for stream, group in self._group_of.items():
            self._group_of[stream] = ClockGroup({stream}, group.now)
        pending: list[Reading] = []
        for streams, begins in self._connecting.items():
            since = min(begins)
            first, *others = self._groups(streams)
            if any(group.now < since - 1 or group.now != first.now for group in (first, *others)):
                pending.append(Reading(streams, since))
                continue
            for other in others:
                first.streams |= other.streams
                self._group_of.update(dict.fromkeys(other.streams, first))
        for group in self:
            group.waits_with = set(group.streams)
        for reading in pending:
            groups = self._groups(reading.streams)
            together: set[str] = set().union(*(group.waits_with for group in groups))
            for group in groups if len(groups) > 1 else ():
                group.until = min(group.until, reading.since - 1)
                group.waits_with = together
        self._pending = any(group.until < LATEST for group in self)


def risen(groups: ClockGroups, watermarks: Mapping[str, int]) -> dict[str, int]:
    """Where streams stand once all that these watermarks allow is applied; the groups then stand there."""
    moves = True
    while moves:
        for group in groups:
            reach = min(watermarks.get(stream, EARLIEST) for stream in group.streams) - 1
            group.now = max(group.now, min(group.until, reach))
        moves = groups.merge()
    return groups.clocks
