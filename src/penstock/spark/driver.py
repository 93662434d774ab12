"""The driver's side: one Spark query, one step a micro-batch.

A step is decided before it is run: its number, the watermarks, the declarations and the updates of tables are written down,
then the cells are asked. Spark may ask for a batch again after a crash; it then gets the step it got before.

Watermarks rise between steps: W is the greatest time seen so far less the delay, over all cells. A cell may know more of its
own rows and run ahead of the others, never ahead of the next step's W. So what a step holds back comes with the next
one; when no rows come, a step without rows brings it (`settle`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, Row, SparkSession

from penstock.engine.clock_groups import ClockGroups, Reading
from penstock.errors import DataError, StateError
from penstock.plan.catalog import Function, Stream, Table
from penstock.plan.policies import Policies
from penstock.plan.query_root import Root
from penstock.plan.state_upkeep import Upkeep
from penstock.spark import spark_log, step_task, worker_process
from penstock.spark.batch_identity import Batch, describe
from penstock.spark.checkpoint import Store, read_segment
from penstock.spark.declaration_changes import follow, streams_changed
from penstock.spark.declarations_log import Declared
from penstock.spark.driver_progress import Inner, Known, report, summed
from penstock.spark.fencing import claim, must_hold
from penstock.spark.filesystem import Place, create, literal, make_folder, uri
from penstock.spark.flow_plan import Flowing, flowing
from penstock.spark.handle import Handle
from penstock.spark.parquet_folders import Folder, Folders
from penstock.spark.parquet_reader import Files
from penstock.spark.python_workers import PythonWorkers
from penstock.spark.rejected_files import SetAsideFiles, held_rows
from penstock.spark.rescale import rescale
from penstock.spark.shuffle import Routes, laid_out, laid_out_anew, united
from penstock.spark.spark_sources import add_sources
from penstock.spark.step_results import Results
from penstock.spark.stopped_queries import WHAT_WORKS, Stopped, failures
from penstock.spark.table_updates import TableUpdates
from penstock.spark.tasks import run_again_if_worker_died, runs_here, spark_process
from penstock.spark.union_layout import lay_out
from penstock.spark.watermarks import StreamClocks
from penstock.spark.worker_link import WORKER_TIMEOUT, Run, worker_timeout
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST, FIRST_INSTANT
from penstock.types.schema import Schema

_LOG = logging.getLogger("penstock")
THIN = 20_000
"""Rows in the last step from which on it pays to leave out in the next one what no query can use."""
TIDY = 100
"""Steps between two looks for files that nobody needs any more."""

T = TypeVar("T")
Sink = Callable[[int, dict[str, int]], None]
"""Takes a step and how many changes each query made in it."""


class Flow:
    """All queries of a session over all its streams, on `cells` cells."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        cells: int | None,
        upkeep: Upkeep | None = None,
        policies: Policies | None = None,
    ) -> None:
        self.spark = spark
        self.declared = Declared(
            upkeep=Upkeep() if upkeep is None else upkeep,
            policies=Policies() if policies is None else policies,
        )
        self.functions: dict[str, Function] = {}
        self.sinks: dict[str, list[Sink]] = {}
        """By query; what is under "" takes every query's changes."""
        self.views: dict[str, list[Sink]] = {}
        """By query: who wants the current answer after every step."""
        self.preparations: dict[str, list[Callable[[], None]]] = {}
        """By query: what its sinks make before the first step."""
        self.results = Results()
        """Of the step that sinks are asked to take."""
        self.progress: list[dict[str, Any]] = []
        self._worker_run = self._new_run()
        self._python_workers: PythonWorkers | None = None
        self.lock = threading.RLock()
        """Held by a step: what is declared changes between steps."""
        self._planned: tuple[str, Flowing] | None = None
        self._stepping: tuple[tuple[int, int], tuple[Flowing, Routes]] | None = None
        self._streams_changed: Declared | None = None
        """Some streams are to have other columns: what cells are to be made anew with."""
        self.epoch = ""
        """In which this driver holds the checkpoint, once it has started."""
        self._locate(checkpoint, cells or spark.sparkContext.defaultParallelism)
        self.wanted = cells or self.cells
        """How many cells there are to be."""
        self._updates = TableUpdates(self.store, self.step)
        self._outdated: StateError | None = None
        """Why this driver can never start: its tables are not those of the checkpoint."""
        self.stopped = Stopped()
        """Queries that met an error of their own."""
        self.discarded: Collection[str] = ()
        """Those that did in the step that sinks are asked to take: what they said in it counts for nothing."""
        self.matched: dict[str, int] = {}
        self._empty: tuple[int, DataFrame] | None = None
        self._folders: Folders | None = None
        """Spark's batches are lists of files."""
        self._framed: dict[str, Stream] = {}
        """The streams as Spark's batches have them."""
        self.failed: BaseException | None = None
        self.query_bytes: int | None = None
        """What a query may remember in a cell; None: any number of bytes."""
        self.set_aside = SetAsideFiles()
        self.clocks = StreamClocks()

    def _locate(self, checkpoint: str | Place, cells: int) -> None:
        """Read where the checkpoint stands; one of `cells` cells if it is new."""
        self.store = Store(checkpoint)
        self.cells = int(self.store.open(cells)["cells"])
        last = self.store.last_step()
        self.step = int(last["step"]) if last else 0
        """The last step decided."""
        told = self.store.at("declared", self.step)
        self._before = Declared() if told is None else Declared.of(told[1])
        """What the checkpoint holds state for."""
        self.batch = Batch(**last["source"]) if last else Batch()
        """The last of Spark's batches for which a step was decided."""
        self._go_back()

    def must_hold(self) -> None:
        """Refuse to go on once another driver has taken over the checkpoint."""
        must_hold(self.store.root, self.epoch)

    def _take_over(self) -> None:
        """Claim the checkpoint, and go on from where the driver before has left it."""
        if self._outdated is not None:
            raise self._outdated
        updates = [place.name for number, place in self.store.updates() if number <= self.step]
        self.epoch = claim(self.store.root)
        last = self.store.last_step()
        if (int(last["step"]) if last else 0) != self.step or Store(self.store.root).deal != self.store.deal:
            self._locate(self.store.root, self.cells)
            if [p.name for number, p in self.store.updates() if number <= self.step] != updates:
                # The updates that wait here may be among those, and deletes were checked against older tables.
                self._outdated = StateError(
                    "another driver has updated tables since this session connected",
                    hint="connect again, declare tables and queries, and start",
                )
                raise self._outdated
        for number in self.store.numbers("steps"):
            if number > self.step:
                self.store.forget_step(number)  # cells of another number were to begin with it
        left = [place for number, place in self.store.updates() if number > self.step]
        for place in left:
            place.unlink()  # the step was not decided any more
        if left:
            self.store.sync("tables")  # lest they come back, and be taken for those of a later step

    # ------------------------------------------------------------------ what is declared

    def plan(self) -> Flowing:
        """The declarations as the cells see them."""
        told = json.dumps(self.declared.json())
        if self._planned is None or self._planned[0] != told:
            catalog = self.declared.catalog(self.functions)
            self._planned = (told, flowing(self.declared, catalog, self.cells, self.store.rates))
        return self._planned[1]

    def _plan_of(self, header: dict[str, Any]) -> tuple[Flowing, Routes]:
        """The declarations that a step was decided with; others may have come since."""
        number = int(header["declared"])
        if self._stepping is None or self._stepping[0] != (number, self.cells):
            declared = Declared.of(self.store.get("declared", number))
            plan = flowing(declared, declared.catalog(self.functions), self.cells, self.store.rates)
            self._stepping = ((number, self.cells), (plan, Routes(plan, self.cells)))
        return self._stepping[1]

    def root(self, query: str) -> Root:
        return self.plan().queries[query].root

    @property
    def first_instant(self) -> int:
        types = {s.time_type for s in self.declared.streams.values()}
        return FIRST_INSTANT if Type.TIMESTAMP in types else EARLIEST

    @property
    def time_type(self) -> Type:
        return next(s.time_type for s in self.declared.streams.values())

    def keep(self, query: str) -> None:
        """Somebody wants the current answer: cells keep it from the query's first step on, or not at all."""
        with self.lock:
            if query in self.declared.kept:
                return
            begun = query in self.declared.since or query in self._before.queries
            if begun and query not in self._before.kept:
                raise StateError(
                    f"query {query} has begun without a view: its answer is not kept",
                    hint="register it under another name, and attach the view first",
                )
            self.declared.kept.append(query)

    def forget(self, query: str) -> None:
        """The query is gone; another of its name begins anew."""
        with self.lock:
            for told in (self.declared, self._before):
                told.forget(query)
            self.known.stopped.pop(query, None)
            self.stopped.errors.pop(query, None)
            self.matched.pop(query, None)
            self.sinks.pop(query, None)
            self.views.pop(query, None)
            self.preparations.pop(query, None)

    def update_table(
        self, table: str, at: int | None, delete: pa.Table, insert: pa.Table, *, first: bool
    ) -> None:
        """Takes effect with the next step, in every cell from the same instant on, which is `at` unless some cell is
        beyond it by then; a table that the checkpoint knows keeps the content it has there."""
        with self.lock:
            if first and table in self._before.tables:
                return
            if at is not None and self.known.clock is not None and at <= self.known.clock:
                raise DataError(
                    f"table {table}: an update at {at} is too late: the clock is at {self.known.clock}",
                    hint="leave out `at`, or give a later time",
                )
            durable = not first and table in self._known_tables()
            header = {"table": table, "at": at, "first": first}
            self._updates.add(header, {"delete": delete, "insert": insert}, durable=durable)

    def _known_tables(self) -> Collection[str]:
        """The tables whose first content the checkpoint has."""
        told = self.store.at("declared", self.step)
        return {table["name"].lower() for table in told[1]["tables"]} if told and self.step else ()

    def updates(self, table: Table) -> list[dict[str, pa.Table]] | None:
        """All that a table has been told, its first content first; None if the checkpoint does not know it."""
        key = table.name.lower()
        known = self._before.tables.get(key)
        if known is None or known.schema != table.schema:
            return None
        found: list[dict[str, pa.Table]] = []
        for step, place in self.store.updates():
            header, tables = read_segment(place) if step <= self.step else ({}, {})
            if header.get("table") == key:
                found = [tables] if header["first"] else [*found, tables]
        return found + self._updates.of(table)

    # ------------------------------------------------------------------ steps

    def take(self, frame: DataFrame, batch: int) -> None:
        """Spark's micro-batch `batch`; nothing if a later step says that it is done, which Spark may have had no time to note."""
        with self.lock:
            given = describe(self.store.root / "spark", batch)
            if batch > self.batch.number:
                given.must_follow(self.batch)
            else:
                given.must_repeat(self.batch if batch == self.batch.number else self._batch_before(batch))
                if self.done >= self.step or not self._asked_before(batch):
                    return  # every sink has had it, and what it was made of may be gone
            if self.wanted != self.cells and not self._asked_before(batch):
                self._rescale()
            elif not self._asked_before(batch):
                self._change_streams()
            spark_log.sync_batch(self.store.root / "spark", batch)
            self._run(self._decide(batch, None, source=given), frame)

    def _batch_before(self, batch: int) -> Batch:
        """What an earlier batch was, if a step that is still there was decided for it."""
        for step in reversed(self.store.numbers("steps")):
            header = self.store.get("steps", step)
            if header["batch"] == batch:
                return Batch(**header["source"])
        return Batch()

    def settle(self) -> None:
        """Bring every cell to the clock: the first stages, and then the second ones; tables are updated on the way."""
        with self.lock:
            self._change_streams()
            for _ in range(2):
                if self.is_behind:
                    self._run(self._decide(None, None), None)

    @property
    def is_behind(self) -> bool:
        """A step without rows would do something."""
        if self.known.behind or bool(self._updates):
            return True
        if not self.lock.acquire(blocking=False):  # a step runs, or declarations change
            return False
        try:
            return self.clocks.is_behind(self.known.watermarks, self.declared.streams, self._waiting_groups())
        finally:
            self.lock.release()

    def _waiting_groups(self) -> list[set[str]]:
        """Streams that wait for each other, since some query reads them together."""
        return [group.waits_with for group in self.plan().clock_groups(self.known.watermarks)]

    def advance(self, until: int, stream: str | None) -> None:
        """Nothing with ts <= until will come any more on a stream, or on any: from the next step on."""
        with self.lock:
            self.clocks.advance(until, self.declared.streams if stream is None else [stream])

    def flush(self) -> None:
        """The input has ended: apply all that has come."""
        with self.lock:
            self._change_streams()
            if self.known.newest:
                end = max(self.known.newest.values()) + 1
                self._run(self._decide(None, dict.fromkeys(self.declared.streams, end)), None)
                self.settle()

    def _go_back(self) -> None:
        """Know what was known after the last step that is done."""
        done = self.store.at("done", self.step)
        self.done = done[0] if done else 0
        self.known = Known(**done[1]) if done else Known()

    def recover(self) -> None:
        """A step without rows that was decided and not done is done now; one with rows Spark asks for again."""
        with self.lock:
            if self.step > self.done:
                self._go_back()
                header = self.store.get("steps", self.step)
                if header["batch"] is None:
                    self._run(header, None)
            header = self.store.get("steps", self.step) if self.step else {}
            if "deal" in header and self._plan_of(header)[0].lower:
                # Cells have begun anew. What the second stages make of what was said below has been said once, too.
                self._run(self._decide(None, None, again=True), None)

    def _decide(
        self,
        batch: int | None,
        flush: dict[str, int] | None,
        *,
        again: bool = False,
        source: Batch | None = None,
    ) -> dict[str, Any]:
        """The header of the next step, written down; the one written before if Spark asks again."""
        if self._asked_before(batch):
            return self.store.get("steps", self.step)
        if self.step > self.done:  # it has failed, and Spark went on
            raise StateError(f"step {self.step} has not been done", hint="start the flow again")
        self.must_hold()
        step = self.step + 1
        marks = {n: self.known.watermarks.get(n, self.first_instant) for n in self.declared.streams}
        watermarks = self.clocks.raised(marks, self.declared.streams, self._waiting_groups())
        new = [name for name in self.declared.queries if name not in self.declared.since]
        self.declared.since |= {name: self._since(name, watermarks) for name in new}
        told = self.declared.json()
        known = self.store.at("declared", step)
        if known is None or known[1] != told:
            self.store.put("declared", step, told)
            known = (step, told)
        reached = self.plan().clock_groups(watermarks).latest
        header = {
            "step": step,
            "epoch": self.epoch,
            "batch": batch,
            "source": (source or self.batch).json(),
            "declared": known[0],
            "watermarks": watermarks,
            "ceilings": self.clocks.ceilings(self.declared.streams, self.known.newest),
            "updates": self._updates.write(step, self.declared.tables, max(self.known.ahead, reached + 1)),
            "sinks": [name for name in self.declared.queries if self.sinks.get(name)],
            "views": [name for name in self.declared.queries if self.views.get(name)],
            "together": bool(self.sinks.get("")),
            "flush": flush,
            "inner": self._still_wanted(known[0]),
            "sieves": self.known.sieves if self.known.inner["declared"] == known[0] else {},
            "asks": self.known.asks(self.plan()),
            "promising": self.known.promising,
            "again": again,
        }
        self.store.decide(header)
        self.must_hold()  # before any cell is asked
        self._updates.held()
        self.clocks.forget_told()
        self.step = step
        self.batch = source or self.batch
        return header

    def _asked_before(self, batch: int | None) -> bool:
        """Whether the last step decided is for this batch of Spark's."""
        return batch is not None and self.step > 0 and self.store.get("steps", self.step)["batch"] == batch

    def _change_streams(self) -> None:
        """Make cells anew if streams are to have other columns, and no batch of the old ones is under way."""
        if self._streams_changed is not None and self.step == self.done:
            self._rescale()

    def _rescale(self) -> None:
        """Go on with as many cells as are wanted, and with the columns that streams are to have."""
        if self.done and self.declared.policies.budget is not None:
            if self._streams_changed is not None:
                raise StateError(
                    "the checkpoint has cells in which rows wait, and streams with other columns",
                    hint="declare the streams as before; new columns can be a stream of another name",
                )
            raise StateError(
                f"the checkpoint has {self.cells} cells in which rows wait, and this session wants {self.wanted}",
                hint="connect with as many cells as before",
            )
        if self.done:
            changed, wanted = self._streams_changed, self.declared
            if changed is not None:
                # Until then by what the cells know, and nothing else.
                told = self.store.at("declared", self.step)
                assert told is not None
                self.declared, self._streams_changed = Declared.of(told[1]), None
                self.declared.tables |= wanted.tables  # their content goes with the next step
            try:
                self._run(self._decide(None, None), None)  # every cell comes to the clock
                self.settle()
                args = self.functions, self.cells, self.wanted, self.epoch
                rescale(self.spark, self.store, *args, changed)
            except BaseException:
                self._streams_changed = changed
                raise
            finally:
                self.declared = wanted
            self.step += 1
        else:
            self.store.next_deal().enter(self.wanted, {})
        self.close()
        self.store = Store(self.store.root)
        self.cells, self._worker_run, self._planned = self.wanted, self._new_run(), None
        self.recover()

    def _still_wanted(self, declared_at: int) -> Inner:
        """What the last step said, for the parts that are still there."""
        then = self.known.inner
        if then["declared"] == declared_at or not then["laid"]:
            return then
        told = Declared.of(self.store.get("declared", then["declared"]))
        same = {
            low.name
            for name, query in self.plan().queries.items()
            for low in query.lower
            if self.plan().begun[name] == (told.queries.get(name), told.since.get(name))
        }
        return {**then, "laid": {name: files for name, files in then["laid"].items() if name in same}}

    def _since(self, name: str, watermarks: Mapping[str, int]) -> int | None:
        """When a query begins: at the first instant that is beyond the clock and all rows of the streams that it has to wait for."""
        if name in self._before.since:
            return self._before.since[name]
        plan = self.plan()
        own = plan.read_by(name)
        groups = ClockGroups.of([Reading(r.streams, EARLIEST) for r in plan.readings], {}, EARLIEST - 1)
        streams = set().union(*(group.streams for group in groups if group.streams & own))
        newest = [self.known.newest[s] + 1 for s in streams if s in self.known.newest]
        marks = [watermarks[s] for s in streams if watermarks[s] > self.first_instant]
        clock = self.known.clock
        beyond = [] if clock is None or clock < self.first_instant else [clock + 1]
        return max([*newest, *marks, *beyond], default=None)

    def _run(self, header: dict[str, Any], frame: DataFrame | None) -> None:
        try:
            try:
                with self._watched(int(header["step"])):
                    self._run_watched(header, frame)
            except Exception:
                self.must_hold()  # two drivers that write the same step may make each other fail
                raise
        except BaseException as error:
            self.failed = error  # before the lock is released: why whatever comes next finds the step undone
            raise

    def _run_watched(self, header: dict[str, Any], frame: DataFrame | None) -> None:
        began = time.perf_counter()
        step = int(header["step"])
        given = frame
        heard, watch, frame = self._attempt(step, lambda: self._hear(header, given))
        answers = [json.loads(row[0]) for row in heard]
        step_task.raise_errors(answers)
        step_task.must_be_all(answers, self.cells)
        self.results.heard(self.store, answers, [row[1] for row in heard])
        if watch is not None:
            # Spark has counted the rows before it left some out.
            counted = step_task.seen(watch, header.get("ceilings", {}))
            answers = [{**answer, "rows": {}} for answer in answers] + [counted]
        if self._folders is not None and frame is not None:
            odd = {name: int(seen.get["unplaced"]) for name, seen in self._folders.odd.items()}
            answers[0]["unplaced"] = {name: count for name, count in odd.items() if count}
        delays = {name: stream.delay for name, stream in self.declared.streams.items()}
        self.known.note(header, answers, self._plan_of(header)[0], delays)
        self._note_streams(answers)
        failed = self.discarded = failures(answers)
        own = {name: failure for name, failure in failed.items() if self._is_running(name, header)}
        self.known.stopped |= self.stopped.noted(own, self.declared, step, self.query_bytes)
        counted = _without(summed(a["out"] for a in answers), failed)
        self.matched = summed([self.matched, *(_without(a["matched"], failed) for a in answers)])
        done = time.perf_counter()
        for sink in self.sinks.get("", []) if counted and header["together"] else []:
            self._attempt(step, partial(sink, step, counted))
        for name in header["sinks"]:
            for sink in self.sinks.get(name, []) if counted.get(name) else []:
                self._attempt(step, partial(sink, step, {name: counted[name]}))
        for name in header["views"]:
            for sink in self.views.get(name, []) if name not in failed else []:
                self._attempt(step, partial(sink, step, counted))
        if step > self.done:
            # Only now: what a sink has not had is asked for again.
            self.must_hold()
            self.store.put("done", step, self.known.json())
            self.done = step
        if not header["again"]:
            told = report(
                header,
                answers,
                self.known,
                self.declared,
                self._waiting_groups(),
                done - began,
                time.perf_counter() - done,
            )
            for name, was in self.known.stopped.items():
                told["queries"][name] = {"numOutputRows": 0, "error": was["message"]}
            self.progress = [*self.progress[-99:], told]
        self._go_on_without_stopped()
        self.store.forget_results(step)
        if step % TIDY == 0:
            self.store.forget_steps(self.cells)

    def _watched(self, step: int) -> AbstractContextManager[None]:
        """While a step runs: Python workers of Spark's that are stopped are killed."""
        if self._python_workers is None:
            self._python_workers = PythonWorkers(spark_process(self.spark), self._worker_run.timeout)
        return self._python_workers.watched(step)

    def _attempt(self, step: int, job: Callable[[], T]) -> T:
        return run_again_if_worker_died(self.spark, f"step {step}", job)

    def _hear(
        self, header: dict[str, Any], frame: DataFrame | None
    ) -> tuple[list[Row], Observation | None, DataFrame | None]:
        """The cells' answers; what Spark counted, if it did; the rows that were sent, if any were."""
        watch = Observation()
        frame, files = self._found(header, frame)
        asked, watched = self._ask(header, frame, files, watch)
        heard = asked.collect()
        if not heard:
            # Spark runs no task at all for a batch that it finds to be empty; cells need the step all the same.
            return self._tasks(self._nothing(), header, files).collect(), None, None
        return heard, watch if watched else None, frame

    def _is_running(self, name: str, header: dict[str, Any]) -> bool:
        """Whether a query of a step is what is declared now under its name, and has not been told to begin anew."""
        begun = name in self.declared.since or name in self._before.queries
        return begun and self.declared.queries.get(name) == self._plan_of(header)[0].begun[name][0]

    def _retry_stopped(self) -> bool:
        """At a start: let stopped queries that were declared otherwise begin anew; whether the last step is to be repeated."""
        if self.step > self.done:
            self._go_back()
        ended = self.stopped.retry(self.known.stopped, self.declared, self.step)
        if ended:
            self.store.forget_done(self.step)
            self._go_back()
        anew = [name for name, was in ended.items() if self.declared.queries.get(name) != was["sql"]]
        for name in anew + self.stopped.begin_again(self.known.stopped, self.declared, self.query_bytes):
            self._before.forget(name)
        self._go_on_without_stopped()
        return bool(ended)

    def _go_on_without_stopped(self) -> None:
        """From the next step on."""
        for name in self.stopped.take_out(self.known.stopped, self.declared):
            _LOG.error("query %s has stopped: %s; %s", name, self.stopped.errors[name], WHAT_WORKS)
        self.stopped.must_leave_some(self.declared)

    def _note_streams(self, answers: list[dict[str, Any]]) -> None:
        """Warn of streams whose rows are set aside, or that hold others back."""
        rows, late, ahead, waiting = (
            summed(a[what] for a in answers) for what in ("rows", "late", "ahead", "waiting")
        )
        marks = self.known.watermarks
        groups = self._waiting_groups()
        self.clocks.note(self.declared.streams, groups, rows, late, ahead, waiting, marks)
        for kind, counts in (("late", late), ("ahead", ahead)):
            totals = self.known.set_aside[kind] = summed([self.known.set_aside.get(kind, {}), counts])
            self.set_aside.note(self.store, kind, counts, totals)

    def not_kept(self, kind: str, stream: str) -> int:
        """Rows that were set aside and are not kept any more."""
        with self.lock:
            total = self.known.set_aside.get(kind, {}).get(stream, 0)
            return max(total - held_rows(self.store.set_aside(kind, stream)), 0)

    def _found(
        self, header: dict[str, Any], frame: DataFrame | None
    ) -> tuple[DataFrame | None, Files | None]:
        """A batch's rows, or the files that cells are to read for themselves."""
        if frame is None:
            return None, None
        streams = self._plan_of(header)[0].catalog.streams
        # Not so in a step that was decided before streams changed.
        as_framed = _schemas(streams) == _schemas(self._framed)
        if self._folders is not None:
            listed = self._folders.listed(frame)
            if as_framed and self._folders.fit(listed, self.cells):
                return None, listed
            frame = self._folders.rows(listed)
        return frame if as_framed or frame is None else laid_out_anew(frame, self._framed, streams), None

    def _ask(
        self, header: dict[str, Any], frame: DataFrame | None, files: Files | None, watch: Observation
    ) -> tuple[DataFrame, bool]:
        """The cells' answers, once they are collected, and whether `watch` is told of rows that no cell is to see."""
        routes = self._plan_of(header)[1]
        watched = False
        if frame is not None:
            last = self.progress[-1]["numInputRows"] if self.progress else 0
            thin = last >= THIN
            watched = routes.unread or (thin and routes.selects)
            frame = routes.observed(frame, watch) if watched else frame
            frame = routes.thinned(frame, header["watermarks"], header.get("ceilings", {})) if thin else frame
        frame = routes.with_inner(self.spark, frame, self._files(header))
        spread = self._nothing() if frame is None else routes.spread(frame)
        return self._tasks(spread, header, files), watched

    def _tasks(self, spread: DataFrame, header: dict[str, Any], files: Files | None) -> DataFrame:
        """A task for every cell, which is a partition."""
        mark = worker_process.mark_of(self.store.root, self._worker_run.name)
        make_folder(mark.parent)
        with contextlib.suppress(FileExistsError):
            create(mark).close()
        settings = {"query_bytes": self.query_bytes, "keep_late": self.set_aside.keep}
        asked = {**header, **settings, "run": self.epoch}
        task = step_task.task(
            self._worker_run, str(self.store.root), self.cells, asked, self.functions, files
        )
        return spread.mapInArrow(task, step_task.ANSWER)

    def _files(self, header: dict[str, Any]) -> dict[str, list[str]]:
        """What the parts below have said, where Spark finds it."""
        told = header["inner"]
        return {
            name: [literal(uri(self.store.out(told["step"], place))) for place in places]
            for name, places in told["laid"].items()
        }

    def _nothing(self) -> DataFrame:
        """A frame without rows, one partition a cell; made once, since that takes some calls of Spark's process."""
        if self._empty is None or self._empty[0] != self.cells:
            self._empty = self.cells, self.spark.range(0, self.cells, 1, self.cells).where("id < 0")
        return self._empty[1]

    # ------------------------------------------------------------------ running

    def begin(self) -> None:
        """Take the checkpoint over, and finish what was begun."""
        with self.lock:
            self._take_over()
            retried = self._retry_stopped()
        held = self._held()
        if retried:
            held.functions = {}  # no query is left whose state was made with them
        anew = follow(self.declared, held, self.functions)
        self._streams_changed = streams_changed(self.declared, held) if anew else None
        for name, made in self.preparations.items():
            for prepare in made if not name or name in self.declared.queries else []:
                prepare()
        self.failed = None
        self._worker_run = self._new_run()
        for mark in (self.store.root / "hosts").glob("*"):
            mark.unlink(missing_ok=True)  # a run that was killed left it
        # Spark knows its sources by their order alone.
        known = [name for name in held.streams if name in self.declared.streams]
        self.declared.streams = {n: self.declared.streams[n] for n in (*known, *self.declared.streams)}
        spark_log.repair(self.store.root / "spark", self.batch.number)
        self.recover()
        self._change_streams()

    def start(
        self,
        streams: dict[str, DataFrame],
        folders: dict[str, Folder] | None,
        trigger: dict[str, Any],
        *,
        flush: bool,
    ) -> Handle:
        """One Spark query over all streams; if they are folders, over the names of their files."""
        self.begin()
        add_sources(self.store.root / "spark", len(self.declared.streams))
        self._framed = dict(self.declared.streams)
        layout = lay_out(self._framed.values())
        if folders is None:
            self._folders = None
            parts = [
                laid_out(streams[name], stream, number, layout)
                for number, (name, stream) in enumerate(self.declared.streams.items())
            ]
            whole = united(parts)
        else:
            self._folders = Folders(self.spark, [folders[name] for name in self.declared.streams], layout)
            whole = self._folders.names()
        make_folder(self.store.root / "spark")  # before Spark does, for everybody to read
        writer = whole.writeStream.foreachBatch(self._taken)
        writer = writer.option("checkpointLocation", uri(self.store.root / "spark"))
        query = (writer.trigger(**trigger) if trigger else writer).start()
        ends = bool(trigger.get("availableNow") or trigger.get("once"))
        return Handle(self, query, ends=ends, flush=flush)

    def _held(self) -> Declared:
        """What the checkpoint holds now, but for queries that were dropped here."""
        told = self.store.at("declared", self.step)
        if told is None:
            return Declared()
        held = Declared.of(told[1])
        for name in list(held.queries):
            if name not in self._before.queries and name not in self.declared.since:
                held.forget(name)
        held.tables = self._before.tables
        return held

    def _taken(self, frame: DataFrame, batch: int) -> None:
        with self.lock:  # no step without rows may find the failed one before its error is kept
            try:
                self.take(frame, batch)
            except BaseException as error:
                self.failed = error
                raise

    def close(self) -> None:
        """Let the worker processes go, on all machines: each removes its files."""
        worker_process.mark_of(self.store.root, self._worker_run.name).unlink(missing_ok=True)

    def _new_run(self) -> Run:
        """What worker processes and tasks are to know each other by from now on."""
        timeout = worker_timeout(self.spark.conf.get(WORKER_TIMEOUT, None))
        return Run(timeout=timeout, watched=runs_here(self.spark))


def _without(counts: Mapping[str, int], names: Collection[str]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name not in names}


def _schemas(streams: Mapping[str, Stream]) -> list[tuple[str, Schema]]:
    return [(name, stream.schema) for name, stream in streams.items()]
