"""A large case as a program of its own: NumPy makes the data, DuckDB says what is true."""

from __future__ import annotations

from ..algebra import sql
from ..duck import Scope, render
from .course import Advance, Case, Drop, Look, Push, Register
from .data import PRELUDE

_HEAD = """\
import duckdb, numpy as np, pyarrow as pa, pyarrow.compute as pc, penstock

ARROW = {{"TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(), "FLOAT": pa.float32(),
         "DOUBLE": pa.float64(), "STRING": pa.string(), "BOOLEAN": pa.bool_(), "DATE": pa.date32(),
         "TIMESTAMP": pa.timestamp("us"), "TIME": pa.int64()}}

{prelude}

def stream(n, rows, **columns):
    names = {{**globals(), "n": n, "i": np.arange(n)}}
    table = pa.table({{name: eval(text, names) for name, text in columns.items()}})
    return table.take(pa.array(np.arange(n)[rows]))


def push(name, table, start, stop, batches):
    edges = [start + (stop - start) * j // batches for j in range(batches + 1)]
    for a, b in zip(edges, edges[1:]):
        s.push(name, table.slice(a, b - a))

"""


def script(case: Case, index: int, tau: int | None) -> str:
    """A program that runs the case and prints how many rows the query shows at each look, and at τ how many are due."""
    lines = [_HEAD.format(prelude=PRELUDE)]
    for stream in case.streams:
        lines.append(f"{stream.name} = stream({stream.n}, slice{stream.rows},")
        for series in stream.series:
            text = series.array_text()
            if case.timestamps and series.kind == "TIME":
                text = text.replace("'TIME'", "'TIMESTAMP'")
            lines.append(f"    {series.name}={text!r},")
        lines.append(")")
    options = ", ".join(f"{k}={v!r}" for k, v in case.options)
    lines += ["", f"s = penstock.connect({options})"]
    lines += [f"s.execute({s.ddl(case.timestamps)!r})" for s in case.streams]
    for event in case.events:
        match event:
            case Push(name, start, stop, batches):
                stream = case.stream(name)
                a, b = stream.place(start), stream.place(stop)
                if b > a:
                    lines.append(f"push({name!r}, {name}, {a}, {b}, {min(batches, b - a)})")
            case Advance(to):
                lines.append(f"s.advance({to})")
            case Register(query):
                mark = "  # the one that differs" if query == index else ""
                lines.append(f"q{query} = s.query({sql(case.queries[query])!r}){mark}")
            case Drop(query):
                lines.append(f"q{query}.drop()")
            case Look(query, snapshot):
                lines.append(f"q{query}.changes()")
                if snapshot and query == index:
                    lines.append(f"print(s.clock, q{query}.snapshot().num_rows)")
                elif snapshot:
                    lines.append(f"q{query}.snapshot()")
    if tau is not None:
        body = render(case.queries[index], Scope({}, -(2**62)))
        lines += ["", "con = duckdb.connect()", f"con.register('w_taus', pa.table({{'__tau': [{tau}]}}))"]
        for stream in case.streams:
            held = f"pa.chunked_array([pa.array(np.asarray({stream.name}['ts'], np.int64))])"
            lines.append(
                f"con.register('w_{stream.name}', {stream.name}.set_column(0, 'ts', {held})"
                f".append_column('__seq', pa.array(np.arange(len({stream.name})))))"
            )
        lines.append(f"print('due at {tau}:', len(con.execute('''{body}''').fetchall()))")
    return "\n".join(lines)
