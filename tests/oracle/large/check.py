"""Compares bags of rows in DuckDB: Q(τ) against snapshots, and against what the changes add up to.

First by digests: for each τ the number of rows and the sum of their hashes, which needs no table of rows. Where these
differ, rows are compared, so that doubles may differ in their last digits and a difference is reported in full.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.oracle.algebra import Relation, ToStream, is_grouped, key_positions, patterns, sql, streams, tables
from tests.oracle.check import Tally
from tests.oracle.duck import Scope, _connect, render
from tests.oracle.large.course import BEGINNING, END, Array, Case
from tests.oracle.large.play import Heard, Trace, record
from tests.oracle.scalar import DUCK_TYPES

FEWEST_INSTANTS, MOST_INSTANTS, MOST_ROWS = 4, 1500, 2_000_000
"""Instants at which the changes of one query are added up, and rows of a stream times instants."""
SAMPLED_CHANGES = 50_000
"""From more changes than these, instants are chosen among the times of so many."""
TOLERANCE = 1e-9
"""By which doubles may differ, in relation to themselves and near zero."""

Digests = dict[int, tuple[int, int]]
"""By τ: the number of rows, and the sum of their hashes."""


class Mismatch(AssertionError):
    """The engine and DuckDB disagree about one query of a large case."""

    def __init__(self, what: str, case: Case, query: int, tau: int | None = None, detail: str = "") -> None:
        self.what, self.case, self.query, self.tau, self.detail = what, case, query, tau, detail
        super().__init__(what)

    def __str__(self) -> str:
        from tests.oracle.large.report import script

        where = "" if self.tau is None else f" at {self.tau}"
        text = f"large seed {self.case.seed}, query {self.query}: {self.what}{where}\n{self.detail}"
        return f"{text}\n\n{script(self.case, self.query, self.tau)}"


def check_case(case: Case) -> Tally:
    """Runs a case and returns how many comparisons held."""
    return judge(case, record(case))


def judge(case: Case, trace: Trace) -> Tally:
    con, world = _connect(), trace.world
    for stream in case.streams:
        table = loaded(stream.table)
        on_time = world.came[stream.name].on_time
        con.register(f"w_{stream.name}", table if on_time.all() else table.filter(pa.array(on_time)))
    for held in case.tables:
        since, until = world.held[held.name]
        versions = loaded(held.table).append_column("__since", pa.array(since))
        versions = versions.append_column("__until", pa.array(until))
        con.register(f"w_{held.name}", versions.filter(pa.array(since < END)))
    tally = Tally()
    for index, heard in enumerate(trace.queries):
        if heard.changes:
            tally += Judge(case, index, heard, con, trace).run()
    return tally


def loaded(table: pa.Table) -> pa.Table:
    """Columns as DuckDB compares them, and the order of arrival."""
    arrays = [plain(table.column(i)) for i in range(table.num_columns)]
    names = [*table.column_names, "__seq"]
    return pa.table([*arrays, pa.array(np.arange(table.num_rows))], names=names)


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Integers as BIGINT, instants and dates as integers, FLOAT as DOUBLE."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us")).cast(pa.int64())
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_floating(kind):
        return values.cast(pa.float64())
    return values.cast(pa.int64()) if pa.types.is_integer(kind) else values


@dataclass
class Judge:
    case: Case
    index: int
    heard: Heard
    con: duckdb.DuckDBPyConnection
    trace: Trace

    @property
    def relation(self) -> Relation:
        """The query, or what ISTREAM, DSTREAM or RSTREAM is made of."""
        query = self.case.queries[self.index]
        return query.query if isinstance(query, ToStream) else query

    def fail(self, what: str, tau: int | None = None, detail: str = "") -> Mismatch:
        return Mismatch(what, self.case, self.index, tau, detail)

    def run(self) -> Tally:
        changes = self.changes()
        self.con.register("w_changes", changes)
        query = self.case.queries[self.index]
        if isinstance(query, ToStream):
            return self.to_stream(query.kind, changes)
        shown = sorted(self.heard.snapshots)
        replayed = self.instants(changes, shown)
        taus = sorted({*shown, *replayed})
        if not taus:
            return Tally()
        self.at("w_taus", taus)
        scope = Scope({s.name: () for s in self.case.streams}, self.heard.since)
        self.body = f"SELECT __tau, {self.columns}, 1 AS n FROM ({render(self.relation, scope)})"
        wanted = self.digests(self.body)
        if shown:
            stamped = [self.stamped(self.heard.snapshots[t], t) for t in shown]
            self.con.register("w_got", pa.concat_tables(stamped))
            self.hold("SELECT *, 1 AS n FROM w_got", shown, wanted, "snapshot() differs from Q(τ)")
        self.at("w_now", replayed)
        self.hold(self.view(), replayed, wanted, "the replayed changes differ from Q(τ)")
        return Tally(len(shown), len(replayed))

    def at(self, name: str, taus: list[int]) -> None:
        self.con.register(name, pa.table({"__tau": pa.array(taus, pa.int64())}))

    # -- what the engine returned -------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return [f"c{i}" for i in range(len(self.relation.types))]

    @property
    def columns(self) -> str:
        """The columns, each of the same type on both sides."""
        kinds = (DUCK_TYPES[kind] for kind in self.relation.types)
        return ", ".join(f"{name}::{kind} AS {name}" for name, kind in zip(self.names, kinds, strict=True))

    def own(self, table: pa.Table) -> list[pa.ChunkedArray]:
        """The query's own columns, as DuckDB has them."""
        found = []
        for name, kind in zip(self.names, self.relation.types, strict=True):
            values = plain(table.column(name))
            if DUCK_TYPES[kind] == "DOUBLE":
                values = values.cast(pa.float64())
            found.append(values)
        return found

    def stamped(self, table: pa.Table, tau: int) -> pa.Table:
        return pa.table(
            [pa.array(np.full(table.num_rows, tau)), *self.own(table)], names=["__tau", *self.names]
        )

    def changes(self) -> pa.Table:
        """All changes with sign, instants and key as integers; the contract is checked on the way."""
        parts, before = [], BEGINNING
        expected, pattern = patterns(self.case.queries[self.index]), self.heard.pattern
        if pattern not in expected:
            raise self.fail(f"pattern: expected {sorted(expected)}, got {pattern}")
        for clock, table in self.heard.changes:
            ts = np.asarray(plain(table.column("__ts")), np.int64)
            ends = plain(table.column("__exp"))
            exp = np.asarray(pc.fill_null(ends, END), np.int64)
            minus = np.asarray(pc.equal(table.column("__op"), "-"))
            if len(ts):
                if not self.case.waits and ((np.diff(ts) < 0).any() or ts[0] < before):
                    raise self.fail("__ts goes back", int(ts[0]))
                if ts.max() > clock:
                    raise self.fail("__ts is beyond the clock", int(ts.max()))
                if minus.any() and pattern != "STRICT":
                    raise self.fail(f"a {pattern} query sends '-'", int(ts[minus][0]))
                if (ts >= exp).any():
                    raise self.fail("a change of a row that has ended", int(ts[ts >= exp][0]))
                if pattern == "MONOTONIC" and (exp != END).any():
                    raise self.fail("a MONOTONIC query announces an end", int(ts[0]))
                before = int(ts[-1])
            arrays = [pa.array(np.where(minus, -1, 1)), pa.array(ts), pa.array(exp), *self.own(table)]
            names = ["__sign", "__ts", "__exp", *self.names]
            if "__key" in table.column_names:
                arrays.append(table.column("__key"))
                names.append("__key")
            parts.append(pa.table(arrays, names=names))
        return pa.concat_tables(parts)

    def view(self) -> str:
        """What the changes add up to at every τ of w_now."""
        alive = "__ts <= __tau AND __tau < __exp"
        if not is_grouped(self.relation):
            return f"SELECT __tau, {self.columns}, __sign AS n FROM w_now JOIN w_changes ON {alive}"
        places = key_positions(self.relation)
        keys = ["__key"] if places is None else [f"c{p}" for p in places]
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        following = f"lead(__ts) OVER ({partition}ORDER BY __ts, __sign)"
        inner = f"SELECT *, least(__exp, coalesce({following}, {END})) AS __end FROM w_changes"
        return (f"SELECT __tau, {self.columns}, 1 AS n FROM w_now JOIN ({inner})"
                f" ON __ts <= __tau AND __tau < __end WHERE __sign > 0")  # fmt: skip

    def instants(self, changes: pa.Table, shown: list[int]) -> list[int]:
        """Instants to replay: those of some snapshots, some at which changes happen or rows end, some between."""
        rng = np.random.default_rng(self.case.seed)
        low, high = self.first(), self.heard.until
        some = changes
        if changes.num_rows > SAMPLED_CHANGES:
            some = changes.take(pa.array(rng.integers(0, changes.num_rows, SAMPLED_CHANGES)))
        times = np.concatenate([*(np.asarray(some.column(c)) for c in ("__ts", "__exp")), self.edges(rng)])
        times = np.concatenate([times, times - 1])
        times = np.unique(times[(times > low) & (times <= high)])
        most = min(max(MOST_ROWS // self.case.rows, FEWEST_INSTANTS), MOST_INSTANTS, len(times))
        chosen = rng.choice(times, most, replace=False).tolist()
        return sorted({*(t for t in shown[-4:] if t > low), *chosen})

    def edges(self, rng: np.random.Generator) -> Array:
        """Instants at which a few rows come or go, whether or not the query has changed."""
        found = [np.zeros(0, np.int64)]
        for source in streams(self.relation):
            ts = self.case.stream(source.stream).ts
            some = rng.choice(ts, min(len(ts), 50), replace=False)
            bounds = [t for one in some.tolist() for t in source.window.bounds(one) if t is not None]
            found.append(np.array(bounds, np.int64))
        for table in tables(self.relation):
            found += self.trace.world.held[table.table]
        return np.unique(np.concatenate(found))

    def first(self) -> int:
        """Before its first row comes, the one row of a global aggregate may come at any time."""
        read = {source.stream for source in streams(self.relation)}
        begins = [int(ts.min()) for ts in (self.case.stream(name).ts for name in read) if len(ts)]
        for table in tables(self.relation):
            since, until = self.trace.world.held[table.table]
            begins += [int(t) for edge in (since, until) for t in edge[(edge > BEGINNING) & (edge < END)][:1]]
        return max(self.heard.since, min(begins, default=END))

    # -- what is true -------------------------------------------------------------------------------------

    def digests(self, rows: str) -> Digests:
        """Of rows with τ, columns and the number of times n that each is there."""
        # Twice: a plain hash of several columns could cancel out where values are exchanged between rows.
        hashed = f"hash(hash({', '.join(self.names)}))::HUGEINT"
        found = self.con.execute(
            f"SELECT __tau, sum(n)::BIGINT, sum(n * {hashed}) FROM ({rows}) GROUP BY __tau"
        ).fetchall()
        return {tau: (number, total) for tau, number, total in found if number or total}

    def hold(self, got: str, taus: list[int], wanted: Digests, what: str) -> None:
        found = self.digests(got)
        if found != {tau: wanted[tau] for tau in taus if tau in wanted}:
            self.compare(self.body, got, taus, what)

    def compare(self, wanted: str, got: str, taus: list[int], what: str) -> None:
        """Bags of rows by τ; where numbers of floating point differ, to nine digits."""
        self.at("w_now", taus)
        wanted = f"SELECT * FROM ({wanted}) SEMI JOIN w_now USING (__tau)"
        both = f"SELECT *, n AS e FROM ({wanted}) UNION ALL SELECT *, -n AS e FROM ({got})"
        names = ", ".join(self.names)
        left = self.con.sql(
            f"SELECT __tau, {names}, sum(e)::BIGINT AS __left FROM ({both}) GROUP BY ALL HAVING sum(e) <> 0"
        ).to_arrow_table()
        if not left.num_rows or self.is_rounding(left):
            return
        tau = pc.min(left.column("__tau")).as_py()
        first = left.filter(pc.equal(left.column("__tau"), tau))
        counts = np.asarray(first.column("__left"))
        missing, extra = int(counts[counts > 0].sum()), int(-counts[counts < 0].sum())
        detail = f"{missing} rows missing, {extra} too many; first:\n{first.slice(0, 8).to_pylist()}"
        raise self.fail(what, tau, f"{sql(self.case.queries[self.index])}\n{detail}")

    def to_stream(self, kind: str, changes: pa.Table) -> Tally:
        """ISTREAM and DSTREAM: what came or went at τ; RSTREAM: all of it at each change, and nothing otherwise."""
        taus = [tau for tau in self.instants(changes, []) if tau > self.first() + 1]
        if not taus:
            return Tally()
        self.at("w_taus", sorted({t for tau in taus for t in (tau - 1, tau)}))
        scope = Scope({s.name: () for s in self.case.streams}, self.heard.since)
        names = ", ".join(self.names)
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE answers AS"
            f" SELECT __tau, {self.columns}, 1 AS n FROM ({render(self.relation, scope)})"
        )
        self.at("w_now", taus)
        now, before = "SELECT * FROM answers", f"SELECT __tau + 1 AS __tau, {names}, -1 AS n FROM answers"
        net = f"SELECT __tau, {names}, sum(n) AS n FROM ({now} UNION ALL {before}) SEMI JOIN w_now USING (__tau) GROUP BY ALL"
        came, went = (
            f"SELECT * FROM ({net}) WHERE n > 0",
            f"SELECT * REPLACE (-n AS n) FROM ({net}) WHERE n < 0",
        )
        changed = f"SELECT DISTINCT __tau FROM ({net}) WHERE n <> 0"
        whole = f"SELECT * FROM answers SEMI JOIN ({changed}) USING (__tau)"
        emitted = (
            f"SELECT __ts AS __tau, {self.columns}, 1 AS n FROM w_changes SEMI JOIN w_now ON __ts = __tau"
        )
        if kind == "rstream":  # where nothing has changed by value, all of it may come again
            emitted = f"SELECT * FROM ({emitted}) SEMI JOIN ({changed}) USING (__tau)"
        wanted = {"istream": came, "dstream": went, "rstream": whole}[kind]
        if self.digests(wanted) != self.digests(emitted):
            self.compare(wanted, emitted, taus, f"{kind.upper()} differs from what changed")
        return Tally(0, len(taus))

    def is_rounding(self, left: pa.Table) -> bool:
        """Whether all differences are of doubles that agree to nine digits."""
        kinds = self.relation.types
        doubles = [n for n, k in zip(self.names, kinds, strict=True) if DUCK_TYPES[k] == "DOUBLE"]
        if not doubles or left.num_rows > 200_000:
            return False
        equal = ["__tau", *(n for n in self.names if n not in doubles)]
        counts = np.asarray(left.column("__left"))
        # By runs first: the last digits of one column must not decide which rows are compared in the others.
        for name in doubles:
            left = left.append_column(f"{name} null", left.column(name).is_null())  # to_numpy makes it NaN
            equal.append(f"{name} null")
            left = left.append_column(f"{name} run", pa.array(runs(left.column(name).to_numpy())))
        order = [*equal, *(f"{name} run" for name in doubles), *doubles]
        sides = []
        for sign in (1, -1):
            chosen = left.take(pa.array(np.repeat(np.arange(left.num_rows), np.maximum(sign * counts, 0))))
            sides.append(chosen.sort_by([(name, "ascending") for name in order]))
        one, other = sides
        if one.num_rows != other.num_rows:
            return False
        for name in equal:
            if not one.column(name).combine_chunks().equals(other.column(name).combine_chunks()):
                return False
        return all(
            np.allclose(
                one.column(name).to_numpy(),
                other.column(name).to_numpy(),
                rtol=TOLERANCE,
                atol=TOLERANCE,
                equal_nan=True,
            )
            for name in doubles
        )


def runs(values: Array) -> Array:
    """For each value, the number of its run: in ascending order, each value of a run is close to the one before."""
    distinct, places = np.unique(values, return_inverse=True)
    begins = ~np.isclose(distinct[1:], distinct[:-1], rtol=TOLERANCE, atol=TOLERANCE)
    return np.concatenate([[0], np.cumsum(begins)])[places]
