"""Compares bags of rows in DuckDB: Q(τ) against snapshots, and against what the changes add up to."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..algebra import Relation, is_grouped, key_positions, patterns, sql, streams
from ..check import Tally
from ..duck import Scope, _connect, render
from ..scalar import DUCK_TYPES
from .course import BEGINNING, Case
from .play import Heard, record

FEWEST_INSTANTS, MOST_INSTANTS, MOST_ROWS = 12, 1500, 2_000_000
"""Instants at which the changes of one query are added up, and rows of a stream times instants."""
NEVER = 2**62


class Mismatch(AssertionError):
    """The engine and DuckDB disagree about one query of a large case."""

    def __init__(self, what: str, case: Case, query: int, tau: int | None = None, detail: str = "") -> None:
        self.what, self.case, self.query, self.tau, self.detail = what, case, query, tau, detail
        super().__init__(what)

    def __str__(self) -> str:
        from .report import script

        where = "" if self.tau is None else f" at {self.tau}"
        text = f"large seed {self.case.seed}, query {self.query}: {self.what}{where}\n{self.detail}"
        return f"{text}\n\n{script(self.case, self.query, self.tau)}"


def check_case(case: Case) -> Tally:
    """Runs a case and returns how many comparisons held."""
    return judge(case, record(case))


def judge(case: Case, heard: list[Heard]) -> Tally:
    con = _connect()
    for stream in case.streams:
        con.register(f"w_{stream.name}", loaded(stream.table))
    tally = Tally()
    for index, said in enumerate(heard):
        if said.changes:
            tally += Judge(case, index, said, con).run()
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
    said: Heard
    con: duckdb.DuckDBPyConnection

    @property
    def query(self) -> Relation:
        return self.case.queries[self.index]

    def fail(self, what: str, tau: int | None = None, detail: str = "") -> Mismatch:
        return Mismatch(what, self.case, self.index, tau, detail)

    def run(self) -> Tally:
        changes = self.changes()
        shown = sorted(t for t in self.said.snapshots if t > BEGINNING)
        replayed = self.instants(changes, shown)
        taus = sorted({*shown, *replayed})
        if not taus:
            return Tally()
        self.expect(taus)
        if shown:
            tables = [self.stamped(self.said.snapshots[t], t) for t in shown]
            self.con.register("w_got", pa.concat_tables(tables))
            self.compare("SELECT *, 1 AS n FROM w_got", shown, "snapshot() differs from Q(τ)")
        self.con.register("w_changes", changes)
        self.compare(self.view(), replayed, "the replayed changes differ from Q(τ)")
        return Tally(len(shown), len(replayed))

    # -- what the engine said -----------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return [f"c{i}" for i in range(len(self.query.types))]

    def own(self, table: pa.Table) -> list[pa.ChunkedArray]:
        """The query's own columns, as DuckDB has them."""
        found = []
        for name, kind in zip(self.names, self.query.types, strict=True):
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
        expected = patterns(self.query)
        if self.said.pattern not in expected:
            raise self.fail(f"pattern: expected {sorted(expected)}, got {self.said.pattern}")
        for clock, table in self.said.changes:
            ts = np.asarray(plain(table.column("__ts")), np.int64)
            ends = plain(table.column("__exp"))
            exp = np.asarray(pc.fill_null(ends, NEVER), np.int64)
            minus = np.asarray(pc.equal(table.column("__op"), "-"))
            if len(ts):
                if (np.diff(ts) < 0).any() or ts[0] < before:
                    raise self.fail("__ts goes back", int(ts[0]))
                if ts[-1] > clock:
                    raise self.fail("__ts is beyond the clock", int(ts[-1]))
                if minus.any() and self.said.pattern != "STRICT":
                    raise self.fail(f"a {self.said.pattern} query sends '-'", int(ts[minus][0]))
                if (ts >= exp).any():
                    raise self.fail("a change of a row that has ended", int(ts[ts >= exp][0]))
                if self.said.pattern == "MONOTONIC" and (exp != NEVER).any():
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
        if not is_grouped(self.query):
            return f"SELECT __tau, {self.columns}, __sign AS n FROM w_now JOIN w_changes ON {alive}"
        places = key_positions(self.query)
        keys = ["__key"] if places is None else [f"c{p}" for p in places]
        partition = ", ".join(["__tau", *keys])
        last = f"row_number() OVER (PARTITION BY {partition} ORDER BY __ts DESC, __sign DESC)"
        inner = f"SELECT *, {last} AS __row FROM w_now JOIN w_changes ON __ts <= __tau"
        return (f"SELECT __tau, {self.columns}, 1 AS n FROM ({inner})"
                f" WHERE __row = 1 AND __sign > 0 AND __tau < __exp")  # fmt: skip

    @property
    def read(self) -> set[str]:
        return {source.stream for source in streams(self.query)}

    @property
    def columns(self) -> str:
        return ", ".join(self.names)

    def instants(self, changes: pa.Table, shown: list[int]) -> list[int]:
        """Instants to replay: those of snapshots, some at which changes happen or rows end, some between."""
        rng = np.random.default_rng(self.case.seed)
        begins = [int(ts.min()) for ts in (self.case.stream(n).ts for n in self.read) if len(ts)]
        # Before its first row, the one row of a global aggregate may come at any time.
        low, high = max(self.said.since, min(begins, default=NEVER)), self.said.until
        times = np.concatenate([np.asarray(changes.column(c)) for c in ("__ts", "__exp")])
        times = np.concatenate([times, times - 1])
        times = np.unique(times[(times > low) & (times <= high)])
        most = min(max(MOST_ROWS // self.case.rows, FEWEST_INSTANTS), MOST_INSTANTS, len(times))
        some = rng.choice(times, most, replace=False).tolist()
        return sorted({*(t for t in shown[-4:] if t > low), *some})

    # -- what is true -------------------------------------------------------------------------------------

    def expect(self, taus: list[int]) -> None:
        """Q(τ) for all τ, as table `expected`."""
        self.con.register("w_taus", pa.table({"__tau": pa.array(taus, pa.int64())}))
        scope = Scope({s.name: () for s in self.case.streams}, self.said.since)
        body = render(self.query, scope)
        self.con.execute(
            f"CREATE OR REPLACE TEMP TABLE expected AS SELECT __tau, {self.columns} FROM ({body})"
        )

    def compare(self, got: str, taus: list[int], what: str) -> None:
        """Bags of rows by τ; where numbers of floating point differ, to nine digits."""
        self.con.register("w_now", pa.table({"__tau": pa.array(taus, pa.int64())}))
        wanted = f"SELECT __tau, {self.columns}, 1 AS n FROM expected SEMI JOIN w_now USING (__tau)"
        both = f"SELECT *, n AS e FROM ({wanted}) UNION ALL SELECT *, -n AS e FROM ({got})"
        left = self.con.sql(
            f"SELECT __tau, {self.columns}, sum(e)::BIGINT AS __left FROM ({both}) GROUP BY ALL HAVING sum(e) <> 0"
        ).to_arrow_table()
        if not left.num_rows or self.is_rounding(left):
            return
        tau = pc.min(left.column("__tau")).as_py()
        first = left.filter(pc.equal(left.column("__tau"), tau))
        counts = np.asarray(first.column("__left"))
        missing, extra = int(counts[counts > 0].sum()), int(-counts[counts < 0].sum())
        detail = f"{missing} rows missing, {extra} too many; first:\n{first.slice(0, 8).to_pylist()}"
        raise self.fail(what, tau, f"{sql(self.query)}\n{detail}")

    def is_rounding(self, left: pa.Table) -> bool:
        """Whether all differences are of doubles that agree to nine digits."""
        kinds = self.query.types
        doubles = [n for n, k in zip(self.names, kinds, strict=True) if DUCK_TYPES[k] == "DOUBLE"]
        if not doubles or left.num_rows > 200_000:
            return False
        order = ["__tau", *(n for n in self.names if n not in doubles), *doubles]
        counts = np.asarray(left.column("__left"))
        sides = []
        for sign in (1, -1):
            chosen = left.take(pa.array(np.repeat(np.arange(left.num_rows), np.maximum(sign * counts, 0))))
            sides.append(chosen.sort_by([(name, "ascending") for name in order]))
        one, other = sides
        if one.num_rows != other.num_rows:
            return False
        for name in order[: -len(doubles)]:
            if not one.column(name).combine_chunks().equals(other.column(name).combine_chunks()):
                return False
        return all(
            np.allclose(
                one.column(name).to_numpy(),
                other.column(name).to_numpy(),
                rtol=1e-9,
                atol=1e-9,
                equal_nan=True,
            )
            for name in doubles
        )
