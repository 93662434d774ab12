"""The engine in this process: streams in, a clock, standing queries, answers out.

An instant is applied once and whole. When watermarks allow the clock to rise from T0 to T1, the rows with
T0 < ts <= T1 are taken from all streams in time order, cut into slices (between instants) that stay in the
cache, and every query's pipeline steps over each slice. Rows of small pushes wait until a slice is full or somebody looks
(`settle`): nobody can tell the difference, unless there are Python functions, whose errors belong to the push.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.data.batch import Batch, Column
from penstock.data.clock import EARLIEST, FIRST_MICROSECOND, LAST_MICROSECOND, LATEST
from penstock.data.types import Type
from penstock.errors import DataError, PenstockError, StateError
from penstock.flow.eddy import Member
from penstock.operators.contract import empty
from penstock.operators.evaluate import Evaluator
from penstock.operators.expressions.parts import RowError
from penstock.plan.catalog import Catalog, Stream, Table
from penstock.plan.levels import USUAL
from penstock.plan.policies import Policies
from penstock.plan.roots import Root
from penstock.plan.statistics import Statistics
from penstock.plan.upkeep import Upkeep
from penstock.runtime.answer import Answer
from penstock.runtime.build import build
from penstock.runtime.in_use import InUse
from penstock.runtime.measure import counted
from penstock.runtime.migrate import migrated
from penstock.runtime.notices import HELD_TIMES, MANY, held_notice
from penstock.runtime.pipeline import told
from penstock.runtime.ranked import Ranked
from penstock.runtime.relation import RelationState
from penstock.runtime.renew import LARGE, quiet_after
from penstock.runtime.replan import Replan, Replanning
from penstock.runtime.running import Running, Standing, Tail
from penstock.runtime.sharing import Sharing
from penstock.runtime.source import Source, SourceMark, StreamLimits
from penstock.runtime.spending import Spending
from penstock.runtime.stepping import Stepping
from penstock.runtime.stops import Stops
from penstock.runtime.unread_changes import UnreadLimit
from penstock.state.strings import Strings


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
        self._clock: int | None = None
        self.limit = LATEST
        """The clock does not rise beyond it: somebody else waits for streams that no query here reads."""
        self._unseen = 0
        """Rows pushed since the clock was last looked at."""
        self._swept_at = 4096
        self._stepping = Stepping()
        self.raises = True
        """Whether whoever moves the clock gets the errors of queries; if not, they are found in `Standing.failed`."""
        self.limits: StreamLimits | None = None
        """What streams set aside; None: another has decided that already."""
        self._held: tuple[Source | None, int, int] = (None, 0, 0)
        """The stream that rows wait for, its watermark, and in how many large pushes since it was so."""
        self._idle = False
        """Some stream may become idle."""
        self.unread_bytes: int | None = None
        """Bytes of unread changes that are kept of a query; None: all."""
        self.query_bytes: int | None = None
        """Bytes that a query may remember; None: any number."""
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
        """Every row with ts <= clock has been applied."""
        self.settle()
        return self._now

    @property
    def _now(self) -> int:
        return self.first - 1 if self._clock is None else self._clock

    @property
    def first(self) -> int:
        """The first instant there is."""
        return FIRST_MICROSECOND if self.time_type is Type.TIMESTAMP else EARLIEST

    @property
    def last(self) -> int:
        return LAST_MICROSECOND if self.time_type is Type.TIMESTAMP else LATEST

    def check_idle(self) -> None:
        self._stepping.check_idle()

    def add_stream(self, stream: Stream) -> None:
        self.check_idle()
        self.time_type = one_clock(stream, self.time_type)
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
        now = self.clock + 1
        since = now if since is None else max(since, now)
        if self.policies.budget is not None:
            replan = None
        tail, evaluator = self._running.tail(
            root, since, now, may_move=replan is not None, time_type=self.time_type
        )
        pipeline = tail.pipeline
        upkeep = self.upkeep if self.policies.budget is None else Upkeep()
        answer = Answer(root, self.strings, self.time_type, upkeep, keep=keep, told=pipeline.told)
        if self.unread_bytes is not None:
            answer.unread.limit = UnreadLimit(name, self.unread_bytes, self.notices)
        standing = Standing(name, root, since, evaluator, pipeline, answer, weight=weight)
        if replan is not None:
            standing.replanning = Replanning(replan, root)
        self.queries[name.lower()] = standing
        self._running.begin(standing, tail)
        self._running.weigh(standing, weight)
        if since > now:
            self._later.append(standing)
        for stream in pipeline.streams:
            # What came for instants already applied, while nobody read the stream, is over.
            self.sources[stream].take(self._now)
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
        read = [self.sources[name] for name in self._running.readers]
        held = min(read, key=lambda source: source.watermark, default=None)
        return held if sum(source.waiting for source in read if source is not held) >= MANY else None

    def _warn_if_held(self) -> None:
        """Say once of a stream that many rows wait for it."""
        held = self.held_back_by()
        if self.limits is None or held is None:
            return
        if held is not self._held[0] or held.watermark != self._held[1]:
            self._held = (held, held.watermark, 0)
        times = self._held[2] + 1
        self._held = (held, held.watermark, times)
        if times == HELD_TIMES:
            waiting = sum(self.sources[name].waiting for name in self._running.readers)
            seen = None if held.watermark == self.first else held.watermark
            self.notices.append(held_notice(held.stream, waiting, seen))

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
            self._rise(until)
        self.go_on()

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
        when = self.clock + 1 if at is None else at
        rows = [tuple(c.copy() for c in columns) for columns in (delete, insert)]
        self.tables[name].update(when, self.clock, *rows)

    def load(self, name: str, rows: tuple[Column, ...]) -> None:
        """The first content of a table that no query reads yet."""
        self.tables[name].content = tuple(c.copy() for c in rows)

    # ------------------------------------------------------------------ time

    def _advance(self) -> None:
        """Let the clock rise as far as watermarks allow."""
        self._unseen = 0
        if self._idle:
            self._pass_idle()
        if self._running.readers:
            self._rise(min(self.limit, min(self.sources[s].watermark for s in self._running.readers) - 1))

    def _pass_idle(self) -> None:
        """Streams that have been silent for as long as they declare (IDLE AFTER) hold none of the others back."""
        read = [self.sources[name] for name in self._running.readers]
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

    def _rise(self, clock: int) -> None:
        """Apply everything up to the new clock."""
        if clock <= self._now:
            return
        stops = Stops()
        with self._stepping:
            for until in self._cuts(clock):
                batches = {("stream", n): s.take(until) for n, s in self.sources.items()}
                self._step({key: b for key, b in batches.items() if b is not None}, until, stops)
                for standing in [q for q in self._later if q.since == until + 1]:
                    if self.sharing is not None and standing.replanning is None:
                        self._let_share(standing)
        with self._stepping.guard:
            for tail in list(self.tails.values()):
                self._reconsider(tail.standings[0])
                self._give_back(tail)
            self._relieve()
            self.sweep_strings()
        if self.raises:
            stops.tell()

    def _give_back(self, tail: Tail) -> None:
        """Let a plan begin anew that holds much room and no row that could still matter."""
        if (
            tail.quiet is None
            or tail.stopped
            or tail.pipeline.may_move != (tail.standings[0].replanning is not None)
        ):
            return
        pipeline = tail.pipeline
        if tail.quiet < 0:
            kept = any(standing.said.kept for standing in tail.standings)
            tail.quiet = quiet_after(pipeline, pipeline.root.node, kept=kept)
            if tail.quiet is None:
                return
        latest = max((self.sources[name].latest for name in pipeline.streams), default=self._now)
        if (
            latest + tail.quiet > self._now
            or pipeline.arena.size_bytes < LARGE
            or id(pipeline) not in self.tails
        ):
            return
        evaluator = Evaluator(self.strings, self.catalog.functions)
        made = build(
            pipeline.root, evaluator, self.strings, self._now + 1, self.upkeep,
            may_move=pipeline.may_move, shares=self.sharing if pipeline.shares else None,
        )  # fmt: skip
        self._running.renew(tail, evaluator, made)
        for standing in tail.standings:
            standing.said.give_back(self._now)

    def _reconsider(self, standing: Standing) -> None:
        """Go on with another plan if one is better by now and its state can be made."""
        replanning = standing.replanning
        if replanning is None or not replanning.due or standing.failed is not None:
            return
        for root in replanning.better(standing.root, standing.pipeline, self._table_sizes, self._now):
            if self._migrate(standing, root):
                replanning.moved()
                return

    @property
    def _table_sizes(self) -> dict[str, int]:
        return {name: len(table.content[0]) for name, table in self.tables.items() if table.content}

    def statistics(self, standing: Standing) -> Statistics:
        """What has been counted of a query's streams and predicates."""
        rates = {name: source.rate(self._now) for name, source in self.sources.items()}
        known = {name: rate for name, rate in rates.items() if rate is not None}
        return counted(standing.pipeline, known, self._table_sizes)

    def _migrate(self, standing: Standing, root: Root) -> bool:
        """Go on with another plan, if its state can be made."""
        evaluator = Evaluator(self.strings, self.catalog.functions)
        pipeline = migrated(
            standing.pipeline, standing.root, root, evaluator, self.strings, self.upkeep, self._now
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

    def _cuts(self, clock: int) -> list[int]:
        """The instants up to which to step, with at most about a slice of rows between them."""
        rows = {n: s.ready(clock) for n, s in self.sources.items()}
        total = sum(rows.values())
        begins = {q.since - 1 for q in self._later if self._now < q.since - 1 < clock}
        self._later = [q for q in self._later if q.since > self._now]
        if total <= self._running.slice + self._running.slice // 2:
            return sorted({*begins, clock})
        longest = max(rows, key=lambda n: rows[n])
        step = -(-rows[longest] // -(-total // self._running.slice))
        return sorted({*self.sources[longest].marks(clock, step), *begins, clock})

    def _step(self, feeds: Feeds, now: int, stops: Stops) -> None:
        contents = {n: t.content for n, t in self.tables.items()}
        updates = {("table", n): t.take(now) for n, t in self.tables.items()}
        self._clock = now
        if self.sharing is not None:
            rows, failed = self.sharing.step(feeds, now)
            feeds = {**feeds, **rows}
            for member in failed:
                self._fail(member, stops)
        for tail in self.tails.values():
            if tail.stopped or now < tail.standings[0].since:
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
        if standing.begun or (standing.owed is not None and self._now >= standing.since):
            return standing.answer.snapshot(self._now, standing.current)
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
                feeds[kind, name] = self.tables[name].initial(standing.since)
        answer.take(pipeline.step(feeds, standing.since), standing.since)
        return answer.snapshot(standing.since, pipeline.current)

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
            standing.said.mark_strings(in_use.mark, self._now)
            standing.pipeline.mark_strings(in_use.mark)
        in_use.sweep()
        self._swept_at = max(4096, 2 * len(self.strings))

    @property
    def held_bytes(self) -> int:
        """All that is held: what queries remember, kept answers, unread changes, rows that wait or were set aside."""
        answers = sum(q.said.size_bytes + q.said.unread.size_bytes for q in self.queries.values())
        waiting = 0 if self.sharing is None else self.sharing.waiting_bytes
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
            "clock": self._clock,
            "swept_at": self._swept_at,
            "upkeep": self.upkeep.json(),
            "policies": self.policies.json(),
        }

    def resume(self, queries: Iterable[Standing], clock: int | None, swept_at: int) -> None:
        """Go on with queries that have run until the clock elsewhere."""
        for standing in queries:
            tail = self.tails.get(id(standing.pipeline), Tail(None, standing.pipeline))
            self.queries[standing.name.lower()] = standing
            self._running.begin(standing, tail)
        self._clock, self._swept_at = clock, swept_at
        self._later = [q for q in self.queries.values() if not q.begun and q.since > self._now + 1]
