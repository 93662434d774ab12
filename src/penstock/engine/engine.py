"""The engine in this process: streams in, a clock, standing queries, answers out.

An instant is applied once and whole. Streams that queries read together share a clock (`clock_groups`). When watermarks allow it to
rise from T0 to T1, the rows of these streams with T0 < ts <= T1 are taken in time order, cut into slices (between instants) that
stay in the cache, and the pipeline of every query over these streams steps over each slice. Rows of small pushes wait until a slice
is full or a caller reads (`settle`), which changes no answer; with Python functions they do not, since errors belong to the push.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.engine.adaptive.migration import migrated
from penstock.engine.adaptive.replanner import Replan, Replanning
from penstock.engine.adaptive.statistics import counted
from penstock.engine.clock_groups import ClockGroup, ClockGroups, Reading
from penstock.engine.output import Answer
from penstock.engine.output_buffer import UnreadChanges, UnreadLimit
from penstock.engine.registry import Running, Standing, Tail
from penstock.engine.step_errors import Stops
from penstock.engine.step_guard import Stepping
from penstock.engine.table import RelationState
from penstock.errors import DataError, PenstockError, StateError
from penstock.ingest.source import Source, SourceMark, StreamLimits
from penstock.ingest.warnings import HELD_TIMES, MANY, held_notice
from penstock.operators.contract import empty
from penstock.operators.expressions.compiled import RowError
from penstock.operators.expressions.evaluator import Evaluator
from penstock.operators.pipeline import Key, told
from penstock.overload.budget import Spending
from penstock.overload.priority_executor import Ranked
from penstock.plan.catalog import Catalog, Stream, Table
from penstock.plan.nodes import Scan
from penstock.plan.policies import Policies
from penstock.plan.query_root import Root
from penstock.plan.rank_levels import USUAL
from penstock.plan.state_upkeep import Upkeep
from penstock.plan.statistics import Statistics
from penstock.plan.traversal import every
from penstock.planner.physical import build
from penstock.sharing.eddy import Member
from penstock.sharing.shared_flow import Sharing
from penstock.state.string_sweep import InUse
from penstock.state.strings import Strings
from penstock.types import sizes
from penstock.types.batch import Batch, Column
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST, FIRST_INSTANT, LAST_MICROSECOND, LATEST
from penstock.types.limits import ResultLimitError


def one_clock(stream: Stream, time_type: Type | None) -> Type:
    """A session counts plain units or microseconds, not both."""
    if time_type not in (None, stream.time_type):
        raise DataError(
            f"stream {stream.name} tells time in {stream.time_type}, the session in {time_type}",
            hint="one session has one clock: use another session for the other time type",
        )
    return stream.time_type


Feeds = Mapping[tuple[str, str], Batch]
"""What comes in, by ('stream' | 'table', name in lower case)."""


class Mark(NamedTuple):
    """A stream and the engine before a push."""

    source: SourceMark
    steps: int
    name: str


class Engine:
    """Sources, tables, clock and queries of one session."""

    def __init__(
        self,
        catalog: Catalog,
        upkeep: Upkeep | None = None,
        policies: Policies | None = None,
    ) -> None:
        self.catalog = catalog
        self.upkeep = Upkeep() if upkeep is None else upkeep
        self.strings = Strings()
        self.policies = Policies() if policies is None else policies
        self.sharing = (
            Sharing(self.strings, catalog.functions, self.policies.routing, self.policies.seed)
            if self.policies.share and self.policies.budget is None
            else None
        )
        self._running = Running(self.strings, catalog.functions, self.upkeep, self.sharing, self.policies)
        self._later: list[Standing] = []
        """Queries that begin at a later instant."""
        self.time_type: Type | None = None
        self.sources: dict[str, Source] = {}
        self.tables: dict[str, RelationState] = {}
        self.queries: dict[str, Standing] = {}
        self.groups = ClockGroups(EARLIEST - 1)
        """Which streams share a clock, and where it is."""
        self.ceilings: Mapping[str, int] = {}
        """By stream: its clock does not rise beyond it, for the sake of streams that are read elsewhere."""
        self._unseen = 0
        """Rows pushed since the clock was last looked at."""
        self._swept_at = sizes.current.swept_strings
        self._stepping = Stepping()
        self.raises = True
        """Whether whoever moves the clock gets the errors of queries; if not, they are found in `Standing.failed`."""
        self.limits: StreamLimits | None = None
        """What streams set aside; None: another has decided that already."""
        self._held: dict[tuple[str, int], int] = {}
        """By stream that rows wait for and its watermark: in how many large pushes since it was so."""
        self._idle = False
        """Some stream may become idle."""
        self.unread_bytes: int | None = None
        """Bytes of unread changes that are kept of a query; None: all."""
        self.query_bytes: int | None = None
        """Bytes that a query may remember; None: any number."""
        self._grown: list[UnreadChanges] = []
        """Unread changes to be counted once the call has ended."""
        self.notices: list[Warning] = []
        """Warnings that the user is still to be given."""
        self.spending = Spending(self.policies)

    # ------------------------------------------------------------------ what there is

    @property
    def tails(self) -> Mapping[int, Tail]:
        """The plans that run in every step."""
        return self._running.tails

    @property
    def clock(self) -> int:
        """Every row with ts <= clock has been applied, of every stream that some query reads."""
        self.settle()
        return self.groups.clock

    @property
    def latest_clock(self) -> int:
        """No stream has passed this instant."""
        self.settle()
        return self.groups.latest

    @property
    def clocks(self) -> dict[str, int]:
        """By stream that some query reads: its clock."""
        self.settle()
        return self.groups.clocks

    def clock_of(self, standing: Standing) -> int:
        """Every row of a query's streams with ts <= clock has been applied."""
        self.settle()
        return self._now_of(standing)

    def streams_of(self, root: Root) -> frozenset[str]:
        """The streams that a plan reads, by their keys; estimates of expired rows are none."""
        read = (one.stream.name.lower() for one in every(root.node) if isinstance(one, Scan))
        return frozenset(key for key in read if key in self.sources)

    def _now_of(self, standing: Standing) -> int:
        return self.groups.earliest(standing.reading.streams)

    @property
    def first(self) -> int:
        """The first instant there is."""
        return FIRST_INSTANT if self.time_type is Type.TIMESTAMP else EARLIEST

    @property
    def last(self) -> int:
        return LAST_MICROSECOND if self.time_type is Type.TIMESTAMP else LATEST

    def check_idle(self) -> None:
        self._stepping.check_idle()

    def add_stream(self, stream: Stream) -> None:
        self.check_idle()
        self.time_type = one_clock(stream, self.time_type)
        self.groups.raise_floor(self.first - 1)
        self.sources[stream.name.lower()] = Source(stream, self.first, self.limits)
        self._idle |= self.limits is not None and stream.idle is not None

    def add_table(self, table: Table) -> None:
        self.check_idle()
        self.tables[table.name.lower()] = RelationState(table)

    def register(
        self,
        name: str,
        root: Root,
        *,
        keep: bool | None,
        since: int | None = None,
        replan: Replan | None = None,
        weight: float = USUAL,
    ) -> Standing:
        """Start a query: it sees rows with ts > clock, or from a later instant on. With `replan` its plan follows the data."""
        self.check_idle()
        assert self.time_type is not None
        self.settle()
        streams = self.streams_of(root)
        now = self.groups.now(streams) + 1
        since = now if since is None else max(since, now)
        reading = Reading(streams, since)
        apart = self.groups.are_apart(reading)
        if self.policies.budget is not None:
            replan = None
        tail, evaluator = self._running.tail(
            root, since, None if apart else now, may_move=replan is not None, time_type=self.time_type
        )
        pipeline = tail.pipeline
        upkeep = self.upkeep if self.policies.budget is None else Upkeep()
        answer = Answer(root, self.strings, self.time_type, upkeep, keep=keep, told=pipeline.told)
        if self.unread_bytes is not None:
            answer.unread.limit = UnreadLimit(name, self.unread_bytes, self.notices, self._grown)
        standing = Standing(name, root, since, reading, evaluator, pipeline, answer, weight=weight)
        if replan is not None:
            standing.replanning = Replanning(replan, root)
        self.queries[name.lower()] = standing
        self._running.begin(standing, tail)
        self._running.weigh(standing, weight)
        fresh = streams.difference(self.groups.streams)
        self.groups.add(reading)
        if since > now or apart:
            self._later.append(standing)
        for stream in fresh:
            # Rows for instants before the clock, which came while no query read the stream, are over.
            self.sources[stream].take(now - 1)
            self.sources[stream].raise_to(now)
        try:
            self._advance()
        except PenstockError:
            if standing.failed is not None:
                self._forget(standing)
            raise
        return standing

    def drop(self, name: str) -> None:
        self.check_idle()
        self.settle()
        self._forget(self.queries[name.lower()])
        self._advance()

    def alter(self, standing: Standing, root: Root) -> None:
        """Go on by other ranks and another lifespan; the plan is the same but for what it says of ranks."""
        self.check_idle()
        self.settle()
        other = root.levels.ranks != standing.root.levels.ranks
        if standing.rider is not None:
            assert isinstance(standing.pipeline, Ranked)
            standing.pipeline.alter(standing.rider, root)
        elif other:
            self._running.rerank(standing, root)
        if other:
            standing.answer.rerank(waiting=standing.rider is not None)
        standing.root = replace(standing.root, node=root.node, levels=root.levels)

    def weigh(self, standing: Standing, weight: float) -> None:
        """A query counts for something else beside others, from now on."""
        self.check_idle()
        self._running.weigh(standing, weight)

    def _forget(self, standing: Standing) -> None:
        del self.queries[standing.name.lower()]
        self.groups.remove(standing.reading)
        self._later = [one for one in self._later if one is not standing]
        self._running.retire(standing)
        self.sweep_strings()

    def _let_share(self, standing: Standing) -> None:
        """A query that was to begin later begins now, and shares what it can from its first instant on."""
        self._running.retire(standing)
        tail, standing.evaluator = self._running.tail(
            standing.root, standing.since, standing.since, may_move=False
        )
        standing.pipeline = tail.pipeline
        self._running.begin(standing, tail)

    # ------------------------------------------------------------------ feeding

    def lay(self, name: str, rows: pa.RecordBatch) -> bool:
        """A few rows of one stream unread, if nothing can be wrong with them; else they are to be read and pushed."""
        self.check_idle()
        self._unseen += rows.num_rows
        if not self.sources[name].lay(rows):
            self._unseen -= rows.num_rows
            return False
        self._came()
        return True

    def push(self, name: str, columns: tuple[Column, ...]) -> None:
        """Rows of one stream, checked by the caller."""
        self.check_idle()
        source = self.sources[name]
        self._unseen += len(columns[0])
        source.push(columns)
        try:
            self._came()
        finally:
            source.own()

    def mark(self, name: str) -> Mark:
        """What `undo` needs to take back a push that is interrupted."""
        self.check_idle()
        return Mark(self.sources[name].mark(), self._stepping.begun, name)

    def undo(self, mark: Mark, error: BaseException) -> None:
        """Take back a push that did not return; if its rows may have been applied, refuse every later call."""
        stepping = self._stepping
        if stepping.cut is not None:
            return
        stepping.cut = error  # also if this is interrupted
        if stepping.begun == mark.steps and self.sources[mark.name].undo(mark.source):
            stepping.cut = None

    @property
    def guard(self) -> AbstractContextManager[None]:
        """Around reads that hand over what waits: if one is interrupted, later calls are refused."""
        return self._stepping.guard

    def _came(self) -> None:
        many = self._unseen >= self._running.slice
        if many or self.catalog.functions:
            self._advance()
        if many:
            self._warn_if_held()

    def held_back_by(self) -> Source | None:
        """The stream that many rows of others wait for, if they do."""
        return next((held for _, held in self._held_groups()), None)

    def _held_groups(self) -> Iterator[tuple[ClockGroup, Source]]:
        """Groups with many rows that wait for one stream, and that stream."""
        for group in self.groups:
            if len(group.waits_with) > 1:
                read = [self.sources[name] for name in group.waits_with]
                held = min(read, key=lambda source: source.watermark)
                if sum(source.waiting for source in read if source is not held) >= MANY:
                    yield group, held

    def _warn_if_held(self) -> None:
        """Say once of a stream that many rows wait for it."""
        if self.limits is None:
            return
        counts: dict[tuple[str, int], int] = {}
        for group, held in self._held_groups():
            key = (held.stream.name, held.watermark)
            counts[key] = self._held.get(key, 0) + 1
            if counts[key] == HELD_TIMES:
                waiting = sum(self.sources[name].waiting for name in group.streams)
                seen = None if held.watermark == self.first else held.watermark
                self.notices.append(held_notice(held.stream, waiting, seen))
        self._held = counts

    def settle(self) -> None:
        """Apply what was pushed, and what waits for streams that have become idle."""
        if (self._unseen or self._idle) and not self._stepping.now and self._stepping.cut is None:
            self._advance()

    def advance(self, until: int, stream: str | None = None) -> None:
        """Nothing with ts <= until will come any more on a stream, or on any."""
        self.check_idle()
        for name, source in self.sources.items():
            if stream is None or name == stream:
                source.raise_to(until + 1)
        if not self.queries and stream is None:
            self.rest_until(until)
        self.go_on()

    def rest_until(self, instant: int) -> None:
        """No query that is to come can see rows up to the instant."""
        self.groups.raise_floor(instant)
        self._forget_before(self.groups.clock)

    def raise_watermarks(self, watermarks: Mapping[str, int]) -> None:
        """Every row below its stream's watermark has come."""
        self.check_idle()
        for name, watermark in watermarks.items():
            self.sources[name].raise_to(watermark)
        self._advance()

    def update(
        self, name: str, at: int | None, delete: tuple[Column, ...], insert: tuple[Column, ...]
    ) -> None:
        self.check_idle()
        clock = self.latest_clock
        rows = [tuple(c.copy() for c in columns) for columns in (delete, insert)]
        self.tables[name].update(clock + 1 if at is None else at, clock, *rows)

    def load(self, name: str, rows: tuple[Column, ...]) -> None:
        """The first content of a table that no query reads yet."""
        self.tables[name].content = tuple(c.copy() for c in rows)

    # ------------------------------------------------------------------ time

    def _advance(self) -> None:
        """Let clocks rise as far as watermarks allow."""
        self._unseen = 0
        if self._idle:
            self._pass_idle()
        stops, slices = Stops(), list[int]()
        merged = True
        while merged:
            for group in self.groups:
                slices += self._rise(group, self._reach(group), stops)
            merged = self._merge()
        if not slices:
            return
        with self._stepping.guard:
            self._forget_before(self.groups.clock)
            for tail in list(self.tails.values()):
                self._reconsider(tail.standings[0])
            self._give_back(max(slices))
            self._relieve()
            self._count_unread()
            self.sweep_strings()
        if self.raises:
            stops.tell()

    def _count_unread(self) -> None:
        """Bound the changes that were not read."""
        while self._grown:
            self._grown.pop().count()

    def _reach(self, group: ClockGroup) -> int:
        """How far watermarks allow the clock of a group to rise."""
        found = group.until
        for stream in group.streams:
            found = min(found, self.sources[stream].watermark - 1, self.ceilings.get(stream, LATEST))
        return found

    def _merge(self) -> bool:
        """Merge groups that have come together, and let the queries begin that waited for it."""
        if not self.groups.merge():
            return False
        with self._stepping:
            whole = [q for q in self._later if self.groups.group(q.reading.streams) is not None]
            self._share([q for q in whole if q.since == self._now_of(q) + 1])
        return True

    def _forget_before(self, clock: int) -> None:
        """Let go of what no query can see any more: table versions, and rows of streams that no query reads."""
        for table in self.tables.values():
            table.forget(clock)
        for name in self.sources.keys() - self.groups.streams:
            self.sources[name].take(clock)

    def _pass_idle(self) -> None:
        """Streams that have been silent for as long as they declare (IDLE AFTER) hold none of the others back."""
        for group in self.groups:
            read = [self.sources[name] for name in group.waits_with]
            active = [source.watermark for source in read if not source.is_idle]
            if active:
                for source in read:
                    if source.is_idle:
                        source.raise_to(min(active))

    def go_on(self) -> None:
        """A step: time passes, and where steps have a budget, what has come and what waits gets its units."""
        self.check_idle()
        self._advance()
        self._spend(whole=False)

    def _rise(self, group: ClockGroup, clock: int, stops: Stops) -> list[int]:
        """Apply all rows of a group up to the new clock; how many rows the last step had, if there was one."""
        if clock <= group.now:
            return []
        rows = 0
        with self._stepping:
            for until in self._cuts(group, clock):
                batches = {("stream", n): self.sources[n].take(until) for n in group.streams}
                feeds = {key: b for key, b in batches.items() if b is not None}
                rows = sum(map(len, feeds.values()))
                self._step(group, feeds, until, stops)
                self._share([q for q in self._later if q.since == until + 1 and self._is_in(q, group)])
        return [rows]

    def _is_in(self, standing: Standing, group: ClockGroup) -> bool:
        """Whether a query's streams are all in a group."""
        return group.streams.issuperset(standing.reading.streams)

    def _share(self, standings: list[Standing]) -> None:
        """Queries that begin with the next instant share what they can."""
        for standing in standings:
            if self.sharing is not None and standing.replanning is None:
                self._let_share(standing)

    def _give_back(self, coming: int) -> None:
        """Give back room that neither what is alive nor so many new rows need; where steps have a budget, after they were spent."""
        if self.sharing is not None:
            self.sharing.shrink(coming)
        for tail in self.tails.values():
            if not isinstance(tail.pipeline, Ranked):
                tail.shrink(coming, self._now_of(tail.standings[0]))

    def _reconsider(self, standing: Standing) -> None:
        """Go on with another plan if one is better by now and its state can be made."""
        replanning = standing.replanning
        if replanning is None or not replanning.due or standing.failed is not None:
            return
        now = self._now_of(standing)
        for root in replanning.better(standing.root, standing.pipeline, self._table_sizes, now):
            if self._migrate(standing, root):
                replanning.moved()
                return

    @property
    def _table_sizes(self) -> dict[str, int]:
        return {name: len(table.content[0]) for name, table in self.tables.items() if table.content}

    def statistics(self, standing: Standing) -> Statistics:
        """What has been counted of a query's streams and predicates."""
        now = self._now_of(standing)
        rates = {name: source.rate(now) for name, source in self.sources.items()}
        known = {name: rate for name, rate in rates.items() if rate is not None}
        return counted(standing.pipeline, known, self._table_sizes)

    def _migrate(self, standing: Standing, root: Root) -> bool:
        """Go on with another plan, if its state can be made."""
        evaluator = Evaluator(self.strings, self.catalog.functions)
        pipeline = migrated(
            standing.pipeline,
            standing.root,
            root,
            evaluator,
            self.strings,
            self.upkeep,
            self._now_of(standing),
        )
        if pipeline is None:
            evaluator.release()
            return False
        self._running.replace(standing, evaluator, pipeline)
        standing.root = root
        standing.migrations += 1
        return True

    def _relieve(self) -> None:
        """Hand over few rows that hold many up."""
        if self.sharing is None:
            return
        for waiting, until in list(self.sharing.burdens(self.unread_bytes)):
            for standing in self.queries.values():
                owed = standing.owed
                if owed is not None and owed.is_in(waiting) and owed.next < until:
                    owed.hand_over(standing.said, until)

    def _cuts(self, group: ClockGroup, clock: int) -> list[int]:
        """The instants up to which to step, with at most about a slice of rows between them."""
        rows = {n: self.sources[n].ready(clock) for n in group.streams}
        total = sum(rows.values())
        self._later = [q for q in self._later if not (self._is_in(q, group) and q.since <= group.now)]
        begins = {
            q.since - 1 for q in self._later if group.now < q.since - 1 < clock and self._is_in(q, group)
        }
        if total <= self._running.slice + self._running.slice // 2:
            return sorted({*begins, clock})
        longest = max(rows, key=lambda n: rows[n])
        step = -(-rows[longest] // -(-total // self._running.slice))
        return sorted({*self.sources[longest].marks(clock, step), *begins, clock})

    def _step(self, group: ClockGroup, feeds: Feeds, now: int, stops: Stops) -> None:
        contents = {n: t.at(group.now) for n, t in self.tables.items()}
        updates = {("table", n): t.between(group.now, now) for n, t in self.tables.items()}
        group.now = now
        if self.sharing is not None:
            rows, failed = self.sharing.step(feeds, now, group.streams)
            feeds = {**feeds, **rows}
            for member in failed:
                self._fail(member, stops)
            if self.sharing.confluence.overrun:
                self._stop_overrun(self.sharing.overrun, stops)
        for tail in self.tails.values():
            first = tail.standings[0]
            if tail.stopped or now < first.since or not self._is_in(first, group):
                continue
            with stops.of(tail.standings):
                self._step_tail(tail, feeds, updates, contents, now)

    def loads(self) -> dict[str, dict[str, Any]]:
        """By query: what waits, and what became of rows by rank, where steps have a budget."""
        return {
            s.name: s.pipeline.load(s.rider)
            for tail in self.tails.values()
            for s in tail.standings
            if isinstance(s.pipeline, Ranked) and s.rider is not None
        }

    def endless(self) -> list[str]:
        """Queries for which more and more waits that nothing bounds."""
        return [
            s.name
            for tail in self.tails.values()
            if isinstance(tail.pipeline, Ranked) and tail.pipeline.endless
            for s in tail.standings
        ]

    def dropped(self) -> dict[str, pa.Table]:
        """By query: what was dropped since somebody asked last, where it is kept."""
        return {
            s.name: s.rider.aside.given()
            for s in self.queries.values()
            if s.rider is not None and s.rider.aside is not None
        }

    def drain(self) -> None:
        """Work on everything that has come, however long it takes."""
        self.check_idle()
        self._advance()
        self._spend(whole=True)

    def _spend(self, *, whole: bool) -> None:
        """Work on what has come and what waits: for a step's budget, or until nothing is left."""
        if self.policies.budget is None:
            return
        stops = Stops()
        with self._stepping:
            self.spending.spend(self._budgeted(), stops.of, whole=whole)
        with self._stepping.guard:
            for tail in self.tails.values():
                if isinstance(tail.pipeline, Ranked):
                    tail.shrink(tail.pipeline.worked, self._now_of(tail.standings[0]))
            self._count_unread()
        if self.raises:
            stops.tell()

    def _budgeted(self) -> list[tuple[Ranked, list[Standing]]]:
        """The plans whose work a budget limits."""
        return [
            (tail.pipeline, tail.standings)
            for tail in self.tails.values()
            if isinstance(tail.pipeline, Ranked) and not tail.stopped
        ]

    def catch_up(self) -> None:
        """Before a read: apply rows up to the clock, unless they are more than the next step's budget."""
        if self._stepping.cut is not None:
            return  # what was answered before can still be read
        self.check_idle()
        self.settle()
        if self.policies.budget is None:
            return
        stops = Stops()
        with self._stepping:
            self.spending.run_ahead(self._budgeted(), stops.of)
        if self.raises:
            stops.tell()

    def _fail(self, member: Member, stops: Stops) -> None:
        """A predicate could not be computed for some row."""
        assert self.sharing is not None and self.time_type is not None
        error = member.failed
        assert isinstance(error, RowError)
        using = [
            q for q in self.queries.values() if q.failed is None and self.sharing.uses(q.pipeline, member)
        ]
        if using:  # else all have stopped before, at another error
            stops.stop(using, told(error, self.time_type))

    def _stop_overrun(self, joins: Iterable[Key], stops: Stops) -> None:
        """Stop the queries whose shared joins made too many results in this step."""
        for key in joins:
            for standing in self.queries.values():
                if standing.failed is None and key in standing.pipeline.sources:
                    stops.stop([standing], ResultLimitError().of(standing.name))

    def _step_tail(
        self,
        tail: Tail,
        feeds: Feeds,
        updates: Feeds,
        contents: Mapping[str, tuple[Column, ...]],
        now: int,
    ) -> None:
        first, inputs = tail.standings[0], {}
        for kind, name in tail.pipeline.sources:
            if kind == "table":
                inputs[kind, name] = self._table_feed(tail, name, updates, contents)
                continue
            found = feeds.get((kind, name))
            if found is None:  # a join gives something in every step
                found = empty(len(self.sources[name.split("\n")[0]].stream.schema))
            inputs[kind, name] = found
        for standing in tail.standings:
            standing.begun = True
        if first.replanning is not None:
            first.replanning.measured.see(inputs)
        made = tail.pipeline.step(inputs, now)
        for standing in tail.standings:
            standing.said.take(made, now)
        tail.check_memory(self.query_bytes)

    def _table_feed(
        self,
        tail: Tail,
        name: str,
        updates: Feeds,
        contents: Mapping[str, tuple[Column, ...]],
    ) -> Batch:
        """A table's updates; on a plan's first step its content before them too."""
        if tail.fed:
            return updates["table", name]
        return self.tables[name].since(tail.standings[0].since, contents[name], updates["table", name])

    # ------------------------------------------------------------------ answers

    def snapshot(self, standing: Standing) -> object:
        """The answer at the clock, also before the first step."""
        self.check(standing)
        now = self._now_of(standing)
        if standing.begun or (standing.owed is not None and now >= standing.since):
            return standing.answer.snapshot(now, standing.current)
        assert self.time_type is not None
        # Nothing has happened yet: what the query would say over empty windows.
        pipeline = build(standing.root, standing.evaluator, self.strings, standing.since, self.upkeep)
        answer = Answer(
            standing.root, self.strings, self.time_type, self.upkeep, keep=True, told=pipeline.told
        )
        feeds = {}
        for kind, name in pipeline.sources:
            if kind == "stream":
                feeds[kind, name] = empty(len(self.sources[name].stream.schema))
            else:
                feeds[kind, name] = self.tables[name].initial(standing.since, now)
        answer.take(pipeline.step(feeds, standing.since), standing.since)
        return answer.snapshot(standing.since, pipeline.current)

    def answer(self, standing: Standing) -> Answer:
        """All that a query has said, handed over."""
        found = standing.answer
        if standing.owed is not None:  # what steps do for others
            found.shrink(self._now_of(standing), 0)
        return found

    def check(self, standing: Standing) -> None:
        self._stepping.check_whole()
        if standing.failed is not None:
            raise StateError(
                f"query {standing.name} stopped at an error: {standing.failed}",
                hint="drop it and register it again",
            )

    # ------------------------------------------------------------------ memory

    def sweep_strings(self) -> None:
        """Free strings nobody holds, once the pool has doubled. Only between steps: a step's batches hold codes."""
        if len(self.strings) < self._swept_at or self._stepping.now:
            return
        in_use = InUse(self.strings)
        for source in self.sources.values():
            in_use.rows(source.stream.schema, source.columns_in_use())
        for table in self.tables.values():
            in_use.rows(table.table.schema, table.columns_in_use())
        if self.sharing is not None:
            schemas = {name: source.stream.schema for name, source in self.sources.items()}
            self.sharing.mark_strings(schemas, in_use)
        for standing in self.queries.values():
            standing.said.mark_strings(in_use.mark, self._now_of(standing))
            standing.pipeline.mark_strings(in_use.mark)
        in_use.sweep()
        self._swept_at = max(sizes.current.swept_strings, 2 * len(self.strings))

    @property
    def held_bytes(self) -> int:
        """All that is held: what queries remember, kept answers, unread changes, rows that wait or were set aside."""
        answers = sum(q.said.size_bytes + q.said.unread.size_bytes for q in self.queries.values())
        waiting = 0 if self.sharing is None else self.sharing.waiting_bytes
        waiting += sum(
            t.pipeline.waiting_bytes for t in self.tails.values() if isinstance(t.pipeline, Ranked)
        )
        return self.size_bytes + answers + waiting + sum(s.size_bytes for s in self.sources.values())

    @property
    def size_bytes(self) -> int:
        """What all queries remember, without their kept answers."""
        held = sum(tail.pipeline.arena.size_bytes for tail in self.tails.values())
        return held + (0 if self.sharing is None else self.sharing.size_bytes)

    # ------------------------------------------------------------------ leaving and coming back

    @property
    def settings(self) -> dict[str, Any]:
        """What `resume` takes, how state is kept up to date, and by which policies."""
        return {
            "clock": self.groups.clock,
            "clocks": self.groups.clocks,
            "single_clock": self.groups.single,
            "swept_at": self._swept_at,
            "upkeep": self.upkeep.json(),
            "policies": self.policies.json(),
        }

    def resume(
        self,
        queries: Iterable[Standing],
        clock: int,
        clocks: Mapping[str, int],
        swept_at: int,
        *,
        single_clock: bool,
    ) -> None:
        """Go on with queries that have run until these clocks elsewhere."""
        for standing in queries:
            tail = self.tails.get(id(standing.pipeline), Tail(None, standing.pipeline))
            self.queries[standing.name.lower()] = standing
            self._running.begin(standing, tail)
        readings = [standing.reading for standing in self.queries.values()]
        self.groups = ClockGroups.of(readings, clocks, clock, single=single_clock)
        self._swept_at = swept_at
        self._later = [
            q
            for q in self.queries.values()
            if not q.begun and (q.since > self._now_of(q) + 1 or self.groups.group(q.reading.streams) is None)
        ]
