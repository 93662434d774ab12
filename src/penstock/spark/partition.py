"""One cell: an engine for each of two stages, the log of what it accepted, and the way back after a crash.

Invariant  the state after step n is a function of the declarations, the logged input and the watermarks of steps 1..n.
           A step is asked for at least once: one that has been applied is answered with what was laid down, one that
           was logged is applied from the log, so that a repeat changes nothing. Two hosts may hold the same cell and be asked
           for the same step at once: both apply what the first of them logged, and each lays its changes down apart.
Cost       a step: one write and one flush of its input; now and then one of the state.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.durability import snapshot
from penstock.engine.engine import Engine
from penstock.errors import PenstockError, StateError
from penstock.ingest.convert import write_column
from penstock.overload.learned_values import learn, learnt
from penstock.plan.catalog import Function
from penstock.spark.checkpoint import Store, read_segment, write_segment
from penstock.spark.declarations_log import Declared
from penstock.spark.driver_progress import summed
from penstock.spark.fencing import must_hold
from penstock.spark.filesystem import Place, create, make_folder, sync_files, whole
from penstock.spark.flow_plan import Fed, Flowing, flowing
from penstock.spark.parquet_reader import Files, Reader
from penstock.spark.rejected_files import file_name as set_aside_name
from penstock.spark.rejected_files import most_rows
from penstock.spark.resource_errors import is_shortage
from penstock.spark.result_files import (
    TOGETHER,
    file_name,
    for_spark,
    put_together,
    travelling,
    view_name,
    write_results,
)
from penstock.spark.semijoin_buffer import Sifting, latest_watermarks
from penstock.spark.stage import Stage
from penstock.spark.stopped_queries import described
from penstock.spark.union_layout import INPUT
from penstock.state.arrow_columns import seen
from penstock.types.batch import Column
from penstock.types.limits import MemoryLimitError, ResultLimitError

ROWS = "rows"
_UPPER, _HELD, _ENDS = "upper/", "held/", "ends/"
LEAST_LOG = 8 << 20
"""Bytes of log that are replayed sooner than a state is read."""
LEAST_STEPS = 128
"""Steps that are, however small: to apply one takes some milliseconds whatever it brings."""


class Cell:
    """Cell `number` of `cells`."""

    def __init__(
        self, store: Store, number: int, cells: int, functions: dict[str, Function], carries: int = 0
    ) -> None:
        self.store = store
        self.carried: dict[str, pa.Table] = {}
        """The last step's results if they have at most `carries` bytes: they go with the answer, not through files."""
        self._carries = carries
        self._query_bytes: int | None = None
        """What a query may remember here in the step that is asked for; steps of before have been answered."""
        self.takes_shortages = True
        """Whether a lack of memory stops the query that meets it; if not, it is raised."""
        self._writer = ThreadPoolExecutor(1)
        self.number = number
        self.cells = cells
        self.functions = functions
        self._begin()

    # ------------------------------------------------------------------ the way back

    def _begin(self, before: int | None = None) -> None:
        """Know nothing but what the checkpoint holds; `before`: of states, only those of earlier steps."""
        self.version = 0
        """The last step applied."""
        self._declared_at = 0
        self._flowing: Flowing | None = None
        self._reader: tuple[int, Reader] | None = None
        self._lower = Stage(self.number, 0)
        self._upper = Stage(self.number, 1, below=self._lower)
        self._sifting = Sifting()
        self._answer: dict[str, Any] = {}
        self._logged = self._stated = 0
        """Bytes of log since the last state, a small step counted as a larger one, and bytes of that state."""
        self._open(before)

    def _open(self, before: int | None = None) -> bool:
        """Take up the newest state that is whole, if it is newer than what is here; the log leads on from there."""
        for step in reversed(self.store.states(self.number)):
            if step <= self.version:
                break
            if before is not None and step >= before:
                continue
            place = self.store.state(self.number, step)
            try:
                found = snapshot.read(place)
            except StateError as error:
                # An older state and a longer log lead to the same place.
                sys.stderr.write(f"penstock: {error}; an older state is taken\n")
                continue
            told = found.meta.pop("cell")
            wanted = self._plan(told["declared"])
            lower, upper, held, ends = _parted(found)
            self._lower.take_up(wanted, lower)
            self._upper.take_up(wanted, upper)
            self._sifting.declare(None, wanted)
            self._sifting.take_up(held)
            for number, noted in enumerate(self._upper.ends.values()):
                noted.take_up({what: ends[f"{number}/{what}"] for what in ("places", "ends")})
            self._flowing, self._declared_at = wanted, told["declared"]
            self.version, self._answer = step, told["answer"]
            self._stated, self._logged = _bytes(found), 0
            return True
        logged = self.store.logs(self.number)
        if (
            not self.version
            and logged
            and logged[0] != 1
            and "deal" in read_segment(self.store.log(self.number, logged[0]))[0]
        ):
            self.version = logged[0] - 1  # rows were dealt out anew, and this is where they begin
            return True
        return False

    def _save(self) -> None:
        """Write the state once the log since the last one is longer than it, and let go of what lies before the last but one."""
        if self._flowing is None or self._logged < max(LEAST_LOG, self._stated):
            return
        if self._failed(self._flowing):
            return  # they may have stopped anywhere; the next step is without them
        found = _joined(snapshot.dump(self._lower.engine), snapshot.dump(self._upper.engine))
        found.arrays.update({_HELD + name: array for name, array in self._sifting.save().items()})
        for number, noted in enumerate(self._upper.ends.values()):
            found.arrays.update({f"{_ENDS}{number}/{what}": array for what, array in noted.save().items()})
        answer = self._answer
        if self.carried:  # whoever takes up the state here can be asked for them
            laid = self._write(self.version, self.carried)
            answer = {**answer, "carried": [], "laid": laid, "files": list(self.carried)}
        if answer["laid"] is not None:  # a state names nothing that a power cut could take away
            with contextlib.suppress(FileNotFoundError):  # read and removed: another host has answered
                sync_files(self.store.out(self.version, answer["laid"]))
        found.meta["cell"] = {"declared": self._declared_at, "answer": answer}
        place = self.store.state(self.number, self.version)
        try:
            with whole(place) as file:
                snapshot.write_to(found, file)
        except OSError as error:
            raise StateError(f"{place} cannot be written: {error.strerror or error}") from error
        self._stated, self._logged = _bytes(found), 0
        kept = self.store.states(self.number)[-2:]
        before = kept[0] + 1 if len(kept) == 2 else 0
        self.store.forget_cell(self.number, min(before, self._out_of_sight()), kept[0])

    def _out_of_sight(self) -> int:
        """The step from which on rows can still matter to a query: other cells could be made from these (see `rescale`)."""
        assert self._flowing is not None
        far = self._flowing.horizon
        if far is None:
            return self.version
        for step in self.store.logs(self.number):
            newest = self.store.newest(step)
            if newest is None or newest + far > self._lower.engine.clock:
                return step
        return self.version

    # ------------------------------------------------------------------ a step

    def step(self, header: dict[str, Any], rows: pa.Table, files: Files | None = None) -> dict[str, Any]:
        """Apply a step once; what it gave, also if it was applied before. `files`: where more rows are."""
        step = int(header["step"])
        must_hold(self.store.root, header["run"])
        self._query_bytes = header.get("query_bytes")
        if self.version == step and not self.store.is_over(step) and not self._has_results(step):
            self._begin(before=step)  # the log has what it takes to make them again
        self._catch_up(step - 1)
        if self.version == step:
            self._must_be_of(header["epoch"], self._answer)
            return self._answer
        if self.version > step:
            raise StateError(f"cell {self.number} is at step {self.version}, and step {step} was asked for")
        if files is not None and not self.store.log(self.number, step).exists():
            header, rows = self._read(header, rows, files)
        if self.store.log(self.number, step).exists():
            logged, rows = self._log(header, rows)
            self._must_be_of(header["epoch"], logged)
            self._answer = self._apply(logged, rows, lay_down=True)
        else:
            # The log is written while the rows are applied; the answer waits for both.
            logging = self._writer.submit(self._log, header, rows)
            try:
                self._answer = self._apply(header, rows, lay_down=True)
                if logging.result()[1] is not rows:  # another host was first
                    self._begin()
                    return self.step(header, rows)  # what was logged counts
            except BaseException:
                wait([logging])
                self._begin()  # as if this step had not been tried
                raise
        self._save()
        return self._answer

    def _read(self, header: dict[str, Any], rows: pa.Table, files: Files) -> tuple[dict[str, Any], pa.Table]:
        """A step with the rows that files have for this cell, and what was seen in them."""
        declared_at = int(header["declared"])
        if self._reader is None or self._reader[0] != declared_at:
            self._reader = (declared_at, Reader(self._plan(declared_at), self.number))
        found, seen = self._reader[1].read(files, header["watermarks"], header.get("ceilings", {}))
        tables = [table for table in (found, rows) if table.num_rows]
        rows = pa.concat_tables(tables, promote_options="default") if tables else rows
        return {**header, "seen": seen}, rows

    def _log(self, header: dict[str, Any], rows: pa.Table) -> tuple[dict[str, Any], pa.Table]:
        """Write a step's input down; what counts is what was written first."""
        place = self.store.log(self.number, int(header["step"]))
        with contextlib.suppress(FileExistsError):
            if not place.exists():
                self._count(write_segment(place, header, {ROWS: rows}, once=True))
                if self.store.is_over(int(header["step"])):
                    place.unlink(missing_ok=True)
                    raise StateError(f"step {header['step']} was done by another host of cell {self.number}")
                return header, rows
        header, tables = read_segment(place)
        self._count(tables[ROWS].nbytes)
        return header, tables[ROWS]

    def _must_be_of(self, epoch: str, found: dict[str, Any]) -> None:
        """Refuse what the checkpoint has of a step that another driver decided under the same number."""
        if found["epoch"] != epoch:
            raise StateError(
                f"cell {self.number}: step {found['step']} was logged in epoch {found['epoch']}, and decided in {epoch}",
                hint="run one driver for a checkpoint directory; restore the directory from a backup",
            )

    def _count(self, size: int) -> None:
        """One more logged step."""
        self._logged += max(size, LEAST_LOG // LEAST_STEPS)

    def _catch_up(self, step: int) -> None:
        """Bring the state to a step that has been answered, from the log or from a state that another host has written."""
        while self.version < step:
            found = self._logged_step(self.version + 1)
            if found is not None:
                self._answer = self._apply(*found, lay_down=False)
            elif not any(self._open() for _ in range(3)):  # a state may be let go of while it is looked at
                place = self.store.log(self.number, self.version + 1)
                raise StateError(
                    f"cell {self.number} cannot be brought to step {step}: {place} is not there",
                    hint="restore the checkpoint directory from a backup",
                )

    def _logged_step(self, step: int) -> tuple[dict[str, Any], pa.Table] | None:
        """What was logged, if it is still there: a host that went on without this one lets go of it."""
        place = self.store.log(self.number, step)
        if not place.exists():
            return None
        try:
            header, tables = read_segment(place)
        except StateError:
            if place.exists():
                raise
            return None
        decided = self.store.epoch_of(step)
        if decided is not None:
            self._must_be_of(decided, header)
        self._count(tables[ROWS].nbytes)
        return header, tables[ROWS]

    def _apply(self, header: dict[str, Any], rows: pa.Table, *, lay_down: bool) -> dict[str, Any]:
        began = time.perf_counter()
        step, watermarks = int(header["step"]), header["watermarks"]
        lower, upper = self._lower, self._upper
        plan = self._told(int(header["declared"]), watermarks, header["updates"])
        for stage in (lower, upper):
            stage.engine.query_bytes = self._query_bytes if lay_down else None
        learn(lower.engine, header["promising"], lower.dealt)
        shown = lower.clocks  # by all cells, before any runs ahead
        views = lower.views(header["views"]) if lay_down else {}
        inputs = rows.column(INPUT).combine_chunks() if rows.num_rows else pa.nulls(0, pa.int32())
        which = seen(inputs, np.dtype(np.int32))
        aside = functools.partial(self._set_aside, step, header.get("keep_late")) if lay_down else None
        ceilings = header.get("ceilings", {})
        counts = [stage.feed(rows, which, watermarks, aside, ceilings) for stage in (lower, upper)]
        if header["flush"] is not None:
            for stage in (lower, upper):
                stage.raise_watermarks(latest_watermarks(header))
            shown = lower.clocks
            views = lower.views(header["views"]) if lay_down else {}
        upper.raise_inner(header["inner"]["until"] | header["inner"].get("sieved", {}))
        for stage in (lower, upper):
            # Finite input ends with everything worked on; else what there are no units for waits for the next step.
            stage.engine.go_on() if header["flush"] is None else stage.engine.drain()
        dropped = lower.engine.dropped() | upper.engine.dropped()
        if lay_down and not header["again"]:
            self._put_aside(step, dropped)
        said = lower.changes()
        below = {
            name: travelling(low.rows(said.pop(name))) for name, low in plan.lower.items() if name in said
        }
        inner, sifted = self._sifting.hand_on(header, below, self.functions)
        results = said | upper.changes()
        if not self.takes_shortages:
            self._raise_shortage()
        failed = self._failed(plan)
        results = {name: table for name, table in results.items() if name not in failed}
        views |= upper.views(header["views"]) if lay_down else {}
        if header["again"]:  # it has all been said before
            results = {}
        wanted: dict[str, pa.Table] = {}
        if lay_down:
            wanted = {name: results[name] for name in header["sinks"] if name in results}
            if header["together"] and results:
                wanted[TOGETHER] = put_together(plan.together(), results)
            wanted |= {view_name(name): table for name, table in views.items()}
        laid = self._lay_down(step, wanted) if lay_down else None
        self.version = step
        return {
            "cell": self.number,
            "step": step,
            "epoch": header["epoch"],
            "clocks": lower.clocks,
            "shown": shown if header["views"] else {},
            "upper": upper.clocks,
            "out": {name: table.num_rows for name, table in results.items()},
            "matched": {name: _began(table) for name, table in results.items()},
            "partial": self._partial_results(plan, sifted),
            "sifted": sifted,
            "sieves": self._keys(plan, header),
            "laid": laid,
            "files": [] if laid is None else list(wanted),
            "inner": self._hand_on(step, inner) if lay_down else {},
            "ranked": lower.engine.loads() | upper.engine.loads(),
            "promising": learnt(lower.engine, lower.dealt),
            "state_bytes": lower.engine.held_bytes + upper.engine.held_bytes + self._sifting.size_bytes,
            "ms": round(1000 * (time.perf_counter() - began), 3),
            "carried": list(self.carried) if lay_down else [],
            "failed": {name: described(error) for name, error in failed.items()},
            **{part: counts[0][part] | counts[1][part] for part in ("rows", "late", "ahead", "newest")},
            "waiting": lower.waiting() | upper.waiting(),
            **header.get("seen", {}),  # before rows that nobody wants were left out
        }

    def _partial_results(self, plan: Flowing, sifted: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        """By query, of this step; of one in two stages, of both and of what went from one to the other."""
        owner = {low.name: name for name, query in plan.queries.items() for low in query.lower}
        found: dict[str, list[dict[str, int]]] = {}
        for counts in (self._lower.partial_results(), self._upper.partial_results(), sifted):
            for name, told in counts.items():
                found.setdefault(owner.get(name, name), []).append(told)
        return {name: summed(told) for name, told in found.items()}

    def _raise_shortage(self) -> None:
        """Raise the error of a query that got no memory: another process may have more."""
        for error in (self._lower.failed() | self._upper.failed()).values():
            if is_shortage(error):
                raise error

    def _failed(self, plan: Flowing) -> dict[str, PenstockError]:
        """Queries that met an error here, in one of their parts or whole."""
        owner = {low.name: name for name, query in plan.queries.items() for low in query.lower}
        found = self._lower.failed() | self._upper.failed()
        return {owner.get(name, name): _of(owner.get(name, name), error) for name, error in found.items()}

    def _keys(self, plan: Flowing, header: dict[str, Any]) -> dict[str, str]:
        """By sieve, keys of what is alive at the watermarks of this step: whatever is said below from now on begins there or later."""
        clocks, ends = plan.clock_groups(header["watermarks"]).clocks, self._upper.ends
        begins = {name: 1 + min(clocks[s] for s in plan.part_streams(ends[name].sieve.part)) for name in ends}
        return {name: ends[name].told(begins[name]) for name in header["asks"] if name in ends}

    # ------------------------------------------------------------------ what is asked

    def _told(self, declared_at: int, watermarks: dict[str, int], updates: list[str]) -> Flowing:
        """Both stages with the watermarks of the step, the queries declared for it, and the tables as they are from it on."""
        stages = (self._lower, self._upper)
        for stage in stages:
            stage.raise_watermarks(watermarks)
        read = [read_segment(self.store.root / "tables" / name) for name in updates]
        if self._flowing is None or declared_at != self._declared_at:
            before = self._flowing
            self._flowing = self._plan(declared_at)
            self._declared_at = declared_at
            self._sifting.declare(before, self._flowing)
            for stage in stages:
                stage.declare(self._flowing, read)
                stage.raise_watermarks(watermarks)
        for stage in stages:
            stage.update_tables(read)
        return self._flowing

    def _plan(self, declared_at: int) -> Flowing:
        """The declarations of a step, placed."""
        declared = Declared.of(self.store.get("declared", declared_at))
        return flowing(declared, declared.catalog(self.functions), self.cells, self.store.rates)

    # ------------------------------------------------------------------ what is laid down

    def _lay_down(self, step: int, results: dict[str, pa.Table]) -> str | None:
        """Results for the sinks: with the answer if they are small, otherwise as files; the folder they are in."""
        small = sum(table.nbytes for table in results.values()) <= self._carries
        self.carried = results if small else {}
        return None if small else self._write(step, results)

    def _write(self, step: int, results: dict[str, pa.Table]) -> str:
        """In a folder of this attempt alone: nobody reads there before the answer names it, nobody else writes there."""
        laid = f"{self.number}-{secrets.token_hex(6)}"
        folder = self.store.out(step, laid)
        if results:
            make_folder(folder)
        for name, table in results.items():
            with create(folder / file_name(name)) as file:
                write_results(for_spark(table), file)
        return laid

    def _results(self, step: int, answer: dict[str, Any]) -> list[Place]:
        """The files that an answer names."""
        return [self.store.out(step, answer["laid"]) / file_name(name) for name in answer["files"]]

    def _has_results(self, step: int) -> bool:
        return all(place.exists() for place in self._results(step, self._answer))

    def _hand_on(self, step: int, said: dict[str, pa.Table]) -> dict[str, str]:
        """What the parts below say, for the second stages of the next step; the files, which outlive this process."""
        if not said:
            return {}
        laid = f"{self.number}-{secrets.token_hex(6)}"
        folder = self.store.out(step, laid)
        make_folder(folder)
        for name, rows in said.items():
            with create(folder / file_name(name)) as file:
                write_results(rows, file)
        sync_files(folder)
        return {name: f"{laid}/{file_name(name)}" for name in said}

    def _set_aside(
        self, step: int, keep: int | None, kind: str, fed: Fed, columns: tuple[Column, ...], engine: Engine
    ) -> None:
        """Lay rows down that came too late or are too far ahead, the last `keep` of them if they are many more."""
        rows = len(columns[0])
        if keep is not None and rows > most_rows(keep):
            columns = tuple(c.slice(rows - keep, rows) for c in columns)
            rows = keep
        if not rows:
            return
        place = self.store.set_aside(kind, fed.stream) / set_aside_name(step, self.number, rows)
        schema = fed.input.stream.schema
        arrays = [write_column(c, f.type, engine.strings) for c, f in zip(columns, schema, strict=True)]
        table = pa.Table.from_arrays(arrays, names=[f.name for f in schema])
        with whole(place) as file:
            pq.write_table(for_spark(table), file)

    def _put_aside(self, step: int, dropped: dict[str, pa.Table]) -> None:
        """What queries dropped in a step; a step that is repeated drops the same."""
        for name, table in dropped.items():
            if table.num_rows:
                with whole(self.store.dropped(name) / f"{step:012d}-{self.number}.parquet") as file:
                    pq.write_table(for_spark(table), file)


def _of(query: str, error: PenstockError) -> PenstockError:
    """The error of a part of a query as one of the query."""
    return error.of(query) if isinstance(error, MemoryLimitError | ResultLimitError) else error


def _began(table: pa.Table) -> int:
    """How many changes make something true."""
    return int(pc.sum(pc.equal(table.column("__op"), "+")).as_py() or 0)


def _bytes(found: snapshot.Snapshot) -> int:
    return sum(array.nbytes for array in found.arrays.values())


def _joined(lower: snapshot.Snapshot, upper: snapshot.Snapshot) -> snapshot.Snapshot:
    """Both stages in one file."""
    arrays = {**lower.arrays, **{_UPPER + name: array for name, array in upper.arrays.items()}}
    return snapshot.Snapshot({**lower.meta, "upper": upper.meta}, arrays)


def _parted(
    both: snapshot.Snapshot,
) -> tuple[snapshot.Snapshot, snapshot.Snapshot, dict[str, Any], dict[str, Any]]:
    """Both stages, what is kept back between them, and until when."""
    found: dict[str, dict[str, Any]] = {"": {}, _UPPER: {}, _HELD: {}, _ENDS: {}}
    for name, array in both.arrays.items():
        start = next((s for s in (_UPPER, _HELD, _ENDS) if name.startswith(s)), "")
        found[start][name.removeprefix(start)] = array
    upper = both.meta.pop("upper")
    stages = snapshot.Snapshot(both.meta, found[""]), snapshot.Snapshot(upper, found[_UPPER])
    return *stages, found[_HELD], found[_ENDS]
