"""A mismatch as people read it: schema, query, arrivals, expected, got, what the engine said; and as an example."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from tests.oracle.algebra import is_grouped, key_positions, patterns, sql, streams
from tests.oracle.case import Case
from tests.oracle.duck import Oracle
from tests.oracle.model import BEGINNING, World
from tests.oracle.replay import Row
from tests.oracle.scalar import moment
from tests.oracle.streams import Advance, Arrival, Drop, Nothing, Register, Update, cut

if TYPE_CHECKING:
    from tests.oracle.check import Mismatch


def describe(m: Mismatch) -> str:
    """The whole story on a screen or two."""
    case = m.case
    query = case.queries[m.query]
    lines = [f"seed {case.seed}, query {m.query}: {m.what}", "", case.schema.ddl() + ";"]
    for table in case.schema.tables:
        kind = "RETROACTIVE TABLE" if table.retroactive else "TABLE"
        columns = ", ".join(" ".join(c) for c in table.columns)
        lines.append(
            f"CREATE {kind} {table.name} ({columns});  -- {', '.join(map(show, table.rows)) or 'empty'}"
        )
    lines += [
        "",
        *(
            f"q{i}: {sql(q)}{'   <--' if i == m.query and len(case.queries) > 1 else ''}"
            for i, q in enumerate(case.queries)
        ),
    ]
    lines += [f"    pattern: {' or '.join(sorted(patterns(query)))}", "", *arrivals(case, m)]
    if m.tau is not None:
        shown = f" = {moment(m.tau)}" if case.schema.timestamps else ""
        lines += ["", f"at τ = {m.tau}{shown}", *difference(m.expected or [], m.got or [])]
    if m.heard is not None:
        lines += ["", f"changes() said ({m.heard.pattern}):", *said(m)]
    return "\n".join(lines)


def show(row: Row) -> str:
    text = ", ".join(
        "NULL" if v is None else str(int(v)) if type(v).__name__ == "Micros" else repr(v) for v in row
    )
    return f"({text},)" if len(row) == 1 else f"({text})"


def arrivals(case: Case, m: Mismatch) -> list[str]:
    """Every event with the clock after it; rows of streams the query does not read are left out."""
    read = {s.stream for s in streams(case.queries[m.query])}
    world = World(case.schema)
    lines = ["arrivals:                                          clock after"]
    for event in case.events:
        late = {name: len(rows) for name, rows in world.late.items()}
        text = ""
        match event:
            case Arrival(name, row):
                world.apply(event, case.queries)
                is_late = len(world.late[name]) > late[name]
                text = f"{name} {show(row)}{'  late' if is_late else ''}" if name in read else ""
            case Advance(to):
                text = f"advance({int(to)})"
            case Update(table, insert, delete, _):
                changes = [f"+{show(r)}" for r in insert] + [f"-{show(r)}" for r in delete]
                text = f"update {table} at {world.at(event)}: {' '.join(changes)}"
            case Register(query):
                text = f"register q{query}"
            case Drop(query):
                text = f"drop q{query}"
            case Nothing(name):
                text = f"{name}: a push without rows" if name in read else ""
        if not isinstance(event, Arrival):
            world.apply(event, case.queries)
        if text:
            lines.append(f"  {text:<48} {'-∞' if world.clock == BEGINNING else world.clock}")
    return lines


def difference(expected: list[Row], got: list[Row]) -> list[str]:
    left, right = Counter(expected), Counter(got)
    lines = [f"  {len(expected)} rows expected, {len(got)} got"]
    for title, rows in (("missing", left - right), ("too many", right - left), ("in both", left & right)):
        if rows:
            listed = [show(r) + (f" ×{n}" if n > 1 else "") for r, n in sorted(rows.items(), key=str)]
            lines.append(
                f"  {title + ':':<10}"
                + "\n            ".join(listed[:12])
                + (" …" if len(listed) > 12 else "")
            )
    return lines


def said(m: Mismatch) -> list[str]:
    assert m.heard is not None
    lines = []
    for ts, group in groupby(m.heard.changes, key=lambda c: c.ts):
        if m.tau is not None and ts > m.tau:
            break
        lines += [f"  {c}" for c in group]
    return lines if len(lines) <= 60 else [*lines[:10], f"  … {len(lines) - 50} more …", *lines[-40:]]


def example(case: Case, index: int, name: str) -> str:
    """The case as a test to paste into test_examples.py; what is expected comes from DuckDB."""
    world = World(case.schema)
    answers = Oracle(case.world())
    query = case.queries[index]
    lines = [f"def test_{name}() -> None:", f'    """From seed {case.seed}."""']
    key = f", key={key_positions(query)}" if is_grouped(query) else ""
    lines.append(f"    play = Drawn({case.schema.ddl()!r})")
    for table in case.schema.tables:
        rows = ", ".join(show(r).replace("NULL", "None") for r in table.rows)
        lines.append(
            f"    play.table({table.name!r}, {table.columns!r}, [{rows}], retroactive={table.retroactive})"
        )
    for event in cut(case.events, None):
        parts = event if isinstance(event, list) else [event]
        before = world.clock
        match event:
            case list():
                rows = ", ".join(show(a.row).replace("NULL", "None") for a in event)
                lines.append(f"    play.push({event[0].stream!r}, {rows})")
            case Advance(to):
                lines.append(f"    play.advance({int(to)})")
            case Register(number):
                extra = key if number == index else f", name='q{number}'"
                lines.append(f"    play.query({sql(case.queries[number])!r}{extra})")
            case Drop(number):
                lines.append(f"    play.drop({'watched' if number == index else f'q{number}'!r})")
            case Nothing(name):
                lines.append(f"    play.push({name!r})")
            case Update(table, insert, delete, _):
                at = world.at(event)
                added, gone = ([show(r).replace("NULL", "None") for r in rows] for rows in (insert, delete))
                when = "" if at in (BEGINNING, world.clock + 1) else f", at={at}"
                lines.append(
                    f"    play.update({table!r}, insert=[{', '.join(added)}], delete=[{', '.join(gone)}]{when})"
                )
        for part in parts:
            world.apply(part, case.queries)
        if world.clock > before and index in world.registered and not hasattr(query, "kind"):
            rows = answers.answers(query, world.registered[index], [world.clock])[world.clock]
            shown = [show(r).replace("NULL", "None") for r in sorted(rows, key=str)]
            lines.append(f"    play.shows({', '.join([*shown, f'at={world.clock}'])})")
    return "\n".join(lines)
