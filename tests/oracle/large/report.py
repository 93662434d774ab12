"""A large case as a program of its own: NumPy makes the data, DuckDB says what is true."""

from __future__ import annotations

from tests.oracle.algebra import ToStream, sql
from tests.oracle.duck import Scope, render
from tests.oracle.large.course import BEGINNING, Advance, Case, Drop, Look, Push, Register, Update, World
from tests.oracle.large.data import PRELUDE, Rows

_HEAD = """\
import duckdb, numpy as np, pyarrow as pa, pyarrow.compute as pc, penstock

ARROW = {{"TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(), "FLOAT": pa.float32(),
         "DOUBLE": pa.float64(), "STRING": pa.string(), "BOOLEAN": pa.bool_(), "DATE": pa.date32(),
         "TIMESTAMP": pa.timestamp("us"), "TIME": pa.int64()}}

{prelude}

def rows(n, some, **columns):
    names = {{**globals(), "n": n, "i": np.arange(n)}}
    table = pa.table({{name: eval(text, names) for name, text in columns.items()}})
    return table.take(pa.array(np.arange(n)[some]))


def push(name, table, start, stop, batches):
    edges = [start + (stop - start) * j // batches for j in range(batches + 1)]
    for a, b in zip(edges, edges[1:]):
        s.push(name, table.slice(a, b - a))

"""


def script(case: Case, index: int, tau: int | None) -> str:
    """A program that runs the case and prints how many rows the query shows at each look, and at τ how many are due."""
    lines = [_HEAD.format(prelude=PRELUDE)]
    for stream in case.streams:
        lines += _made(stream, case.timestamps)
    for table in case.tables:
        lines += _made(table, False)
    options = ", ".join(f"{k}={v!r}" for k, v in case.options)
    lines += ["", f"s = penstock.connect({options})"]
    if case.cells:
        lines += [
            "from penstock.testing.local_cells import Cells",
            f"s.engine = Cells(s.catalog, {case.cells}, upkeep=s.options.upkeep, policies=s.options.policies)",
        ]
    lines += [f"s.execute({s.ddl(case.timestamps)!r})" for s in case.streams]
    for table in case.tables:
        held = f"{table.name}.slice(0, {table.place(table.first)})"
        lines.append(f"s.create_table({table.name!r}, {held}, retroactive={table.retroactive})")
    world, since = World(case), BEGINNING
    for event in case.events:
        if isinstance(event, Register) and event.query == index:
            since = world.now
        lines += _event(case, event, index, world)
        world.apply(event)
    if tau is not None:
        lines += _due(case, index, tau, world, since)
    return "\n".join(lines)


def _made(rows: Rows, timestamps: bool) -> list[str]:
    lines = [f"{rows.name} = rows({rows.n}, slice{rows.rows},"]
    for series in rows.series:
        text = series.array_text()
        if timestamps and series.kind == "TIME":
            text = text.replace("'TIME'", "'TIMESTAMP'")
        lines.append(f"    {series.name}={text!r},")
    return [*lines, ")"]


def _event(case: Case, event: object, index: int, world: World) -> list[str]:
    match event:
        case Push(name, start, stop, batches):
            stream = case.stream(name)
            a, b = stream.place(start), stream.place(stop)
            return [f"push({name!r}, {name}, {a}, {b}, {max(min(batches, b - a), 1)})"]
        case Advance(to):
            return [f"s.advance({to})"]
        case Update(name, insert, delete, ahead):
            table, at = case.table(name), world.at(event)
            given = []
            for word, (start, stop) in (("insert", insert), ("delete", delete)):
                a, b = table.place(start), table.place(stop)
                given += [f"{word}={name}.slice({a}, {b - a})"] if b > a else []
            if at != BEGINNING and not (ahead is None and at == world.now + 1):
                given.append(f"at={at}")
            return [f"s.update_table({name!r}, {', '.join(given)})"] if given else []
        case Register(query):
            mark = "  # the one that differs" if query == index else ""
            return [f"q{query} = s.query({sql(case.queries[query])!r}){mark}"]
        case Drop(query):
            return [f"q{query}.drop()"]
        case Look(query, snapshot):
            lines = ["s.drain()"] if case.waits else []
            lines.append(f"q{query}.changes()")
            if snapshot and not isinstance(case.queries[query], ToStream):
                shown = f"q{query}.snapshot()"
                lines.append(f"print(s.clock, {shown}.num_rows)" if query == index else shown)
            return lines
    raise TypeError(event)


def _due(case: Case, index: int, tau: int, world: World, since: int) -> list[str]:
    """How many rows DuckDB finds at τ; late rows are left out."""
    query = case.queries[index]
    body = render(query.query if isinstance(query, ToStream) else query, Scope({}, since))
    lines = ["", "con = duckdb.connect()", f"con.register('w_taus', pa.table({{'__tau': [{tau}]}}))"]
    for stream in case.streams:
        held = f"pa.chunked_array([pa.array(np.asarray({stream.name}['ts'], np.int64))])"
        numbered = f".append_column('__seq', pa.array(np.arange(len({stream.name}))))"
        late = (~world.came[stream.name].on_time).nonzero()[0].tolist()
        taken = f".take(np.setdiff1d(np.arange(len({stream.name})), {late}))" if late else ""
        lines.append(
            f"con.register('w_{stream.name}', {stream.name}.set_column(0, 'ts', {held}){numbered}{taken})"
        )
    for table in case.tables:
        since_, until = world.held[table.name]
        dated = f"{table.name}.append_column('__since', pa.array(since)).append_column('__until', pa.array(until))"
        lines += [
            f"since, until = np.array({_runs(since_.tolist())}), np.array({_runs(until.tolist())})",
            f"con.register('w_{table.name}', {dated})",
        ]
    return [*lines, f"print('due at {tau}:', len(con.execute('''{body}''').fetchall()))"]


def _runs(values: list[int]) -> str:
    """A list of values of which many neighbours are equal."""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return " + ".join(f"[{value}] * {number}" for value, number in runs) or "[]"
