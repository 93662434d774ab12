"""Q(τ) by DuckDB, for many τ in one statement.

Every relation carries a column `__tau`: a windowed stream holds, for each τ asked for, the rows alive at τ;
joins, groups and set operations work within one τ. So the text stays the query's own, each windowed stream
replaced by a subselect. Where a table is looked up as it was at the result's ts, `__ts` travels too.
"""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa

from tests.oracle.algebra import Relation, Select, SetOp, Source, StreamSource, SubSource, TableSource
from tests.oracle.model import World
from tests.oracle.scalar import DUCK_TYPES, duck
from tests.oracle.schema import Columns
from tests.oracle.twin import Row, canonical

_ARROW = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "VARCHAR": pa.string(), "BOOLEAN": pa.bool_()}


class Oracle:
    """One world loaded into DuckDB."""

    def __init__(self, world: World) -> None:
        self.con = _connect()
        self.schema = world.schema
        for stream in world.schema.streams:
            rows = [(*row, i) for i, row in enumerate(world.accepted[stream.name])]
            self.load(stream.name, (*stream.columns, ("__seq", "BIGINT")), rows)
        for table in world.schema.tables:
            versions = [(*v.row, v.since, v.until) for v in world.tables[table.name]]
            self.load(table.name, (*table.columns, ("__since", "BIGINT"), ("__until", "BIGINT")), versions)

    def load(self, name: str, columns: Columns, rows: list[Row]) -> None:
        arrays = [
            pa.array([r[i] for r in rows], _ARROW[DUCK_TYPES[kind]]) for i, (_, kind) in enumerate(columns)
        ]
        self.con.register(f"w_{name}", pa.Table.from_arrays(arrays, names=[n for n, _ in columns]))

    def answers(self, query: Relation, since: int, taus: list[int]) -> dict[int, list[Row]]:
        """Q(τ) for each τ, for a query that sees rows with ts > since."""
        self.con.register("w_taus", pa.table({"__tau": pa.array(taus, pa.int64())}))
        result: dict[int, list[Row]] = {tau: [] for tau in taus}
        text = render(query, self.schema_columns(since))
        floats = any(kind == "DOUBLE" for kind in query.types)
        for tau, *row in self.con.execute(text).fetchall():
            result[tau].append(canonical(tuple(row)) if floats else tuple(row))
        return result

    def schema_columns(self, since: int) -> Scope:
        return Scope({s.name: s.columns for s in self.schema.streams}, since)


class Scope:
    """The streams' columns, and the clock at the query's registration."""

    def __init__(self, columns: dict[str, Columns], since: int) -> None:
        self.columns = columns
        self.since = since


@cache
def _connect() -> duckdb.DuckDBPyConnection:
    """One connection per process; each world replaces the one before."""
    con = duckdb.connect(config={"threads": 1})
    con.execute("SET enable_progress_bar = false")
    # With it DuckDB 2.0 plans some CASE … IN (…) without end, in time and in memory.
    con.execute("SET disabled_optimizers = 'in_clause'")
    return con


def render(query: Relation, scope: Scope, stamped: bool = False) -> str:
    """The one-time query for all τ; `stamped` adds `__ts`, the latest arrival in each result row."""
    if isinstance(query, SetOp):
        op = f"{query.op.upper()}{' ALL' if query.all else ''}"
        return f"({render(query.left, scope)}) {op} ({render(query.right, scope)})"
    dated = _dated(query)
    clocked = [s.alias for s in query.sources if not _is_nrr(s)]
    tau = f"{clocked[0]}.__tau"
    where: list[str] = []
    if query.is_outer:
        body, tau = _chain(query, scope)
    else:
        body = f"FROM {', '.join(_source(s, scope, stamped or dated) for s in query.sources)}"
        where = [f"{alias}.__tau = {tau}" for alias in clocked[1:]]
    latest = _latest(clocked)
    for source in query.sources:
        if _is_nrr(source) and not query.is_outer:
            where.append(f"{latest} >= {source.alias}.__since AND {latest} < {source.alias}.__until")
    where += [duck(c) for c in (query.where if query.is_outer else query.conjuncts)]
    if query.anti:
        alias = query.anti.source.alias
        on = "".join(f" AND {duck(c)}" for c in query.anti.on)
        inner = f"SELECT 1 FROM {_source(query.anti.source, scope, False)} WHERE {alias}.__tau = {tau}{on}"
        where.append(f"NOT EXISTS ({inner})")
    items = ", ".join(f"{duck(e)} AS c{i}" for i, e in enumerate(query.items))
    stamp = f", {latest} AS __ts" if stamped else ""
    having = f" HAVING {' AND '.join(duck(h) for h in query.having)}" if query.having else ""
    if query.keys == ():
        where.append(f"{tau} = w_taus.__tau")
        inner = f"SELECT {items} {body}{_where(where)}{having}"
        distinct = "DISTINCT " if query.distinct else ""
        return f"SELECT {distinct}w_taus.__tau, g.* FROM w_taus, LATERAL ({inner}) AS g"
    group = ""
    if query.keys:
        group = f" GROUP BY {', '.join([tau, *map(duck, query.keys)])}"
    distinct = "DISTINCT " if query.distinct else ""
    return f"SELECT {distinct}{tau} AS __tau, {items}{stamp} {body}{_where(where)}{group}{having}"


def _latest(aliases: list[str]) -> str:
    """When a joined row becomes true."""
    return f"greatest({', '.join(f'{alias}.__ts' for alias in aliases)})"


def _chain(query: Select, scope: Scope) -> tuple[str, str]:
    """FROM of a chain with outer joins, and the τ of its rows."""
    text, tau = f"FROM {_source(query.sources[0], scope, False)}", f"{query.sources[0].alias}.__tau"
    for place, (source, on, kind) in enumerate(zip(query.sources[1:], query.on, query.kinds, strict=True), 1):
        if _is_nrr(source):  # the last one, after inner joins only
            latest = _latest([s.alias for s in query.sources[:place]])
            matches = [f"{latest} >= {source.alias}.__since AND {latest} < {source.alias}.__until"]
        else:
            matches = [f"{source.alias}.__tau = {tau}"]
        conditions = [*matches, *map(duck, on or ())]
        text += f" {kind.upper()} JOIN {_source(source, scope, False)} ON {' AND '.join(conditions)}"
        if kind in ("right", "full"):
            tau = f"coalesce({source.alias}.__tau, {tau})"
    return text, tau


def _where(conjuncts: list[str]) -> str:
    return f" WHERE {' AND '.join(conjuncts)}" if conjuncts else ""


def _is_nrr(source: Source) -> bool:
    return isinstance(source, TableSource) and not source.retroactive


def _dated(query: Select) -> bool:
    return any(_is_nrr(s) for s in query.sources)


def _source(source: Source, scope: Scope, stamped: bool) -> str:
    match source:
        case SubSource(query, alias):
            return f"({render(query, scope, stamped)}) AS {alias}"
        case TableSource(table, alias, retroactive):
            if not retroactive:
                return f"w_{table} AS {alias}"
            return (f"(SELECT __tau, 0 AS __ts, r.* FROM w_taus JOIN w_{table} r"
                    f" ON r.__since <= __tau AND __tau < r.__until) AS {alias}")  # fmt: skip
        case StreamSource():
            return f"({_window(source, scope)}) AS {source.alias}"


def _window(source: StreamSource, scope: Scope) -> str:
    window = source.window
    seen = f"r.ts > {scope.since} AND r.ts <= __tau"
    rows = f"FROM w_taus JOIN w_{source.stream} r ON {seen}"
    if window.kind == "rows":  # a row is displaced by the one that comes `count` rows after it
        partition = f"PARTITION BY {', '.join(window.partition)} " if window.partition else ""
        displaced = f"lead(ts, {window.count}) OVER ({partition}ORDER BY ts, __seq)"
        ordered = f"SELECT *, {displaced} AS __end FROM w_{source.stream} WHERE ts > {scope.since}"
        alive = "r.ts <= __tau AND (r.__end IS NULL OR __tau < r.__end)"
        return f"SELECT __tau, r.ts AS __ts, r.* EXCLUDE (__end) FROM w_taus JOIN ({ordered}) r ON {alive}"
    if not window.is_range:
        return f"SELECT __tau, r.ts AS __ts, r.* {rows}"
    start, end = _ceiling("r.ts", window.slide), _ceiling(f"(r.ts + {window.length})", window.slide)
    return f"SELECT __tau, {start} AS __ts, r.* {rows} AND {start} <= __tau AND __tau < {end}"


def _ceiling(ts: str, slide: int) -> str:
    """The next multiple of `slide`; DuckDB's % keeps the sign of the dividend."""
    return ts if slide == 1 else f"({ts} + ((-{ts} % {slide}) + {slide}) % {slide})"
