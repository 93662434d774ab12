"""`penstock run`: every CREATE QUERY of a script, fed from files and standard input, changes on standard output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer

from penstock.cli import inputs
from penstock.cli.plans import pointing_into, read_text
from penstock.errors import PlanError


def run(script: Path, options: list[str], output: str | None) -> None:
    """Fill the tables, feed the streams to their end, then process what is pending up to the last instant seen."""
    import penstock

    text, session = read_text(script), penstock.connect()
    with pointing_into(script, text):
        session.execute(text)
    if not session.queries:
        raise PlanError(f"{script} has no CREATE QUERY: nothing to run")
    streams = session.catalog.streams
    files = inputs.parse_options(options, session.catalog)
    for name, table in session.catalog.tables.items():
        if name in files:
            session.update_table(name, insert=inputs.read_whole(table, files[name]))
    rest = [name for name in streams if name not in files]
    show = _Table() if (output or _default()) == "table" else _Lines()
    latest: int | None = None

    def feed(step: list[tuple[str, pa.RecordBatch]]) -> None:
        nonlocal latest
        for name, batch in step:
            session.push(name, batch)
            found = inputs.latest_instant(streams[name], batch)
            if found is not None:
                latest = found if latest is None else max(latest, found)
        show(session)

    for item in inputs.together(streams, files):
        feed([item])
    if rest:
        for step in inputs.read_lines(sys.stdin.buffer, streams, rest):
            feed(step)
    if latest is not None:
        session.advance(latest)
        show(session)
    _summary(session)


def _default() -> str:
    return "table" if sys.stdout.isatty() else "jsonl"


class _Lines:
    """One JSON object a change, `__query` first."""

    def __call__(self, session: Any) -> None:
        for name, query in session.queries.items():
            for row in query.changes().to_pylist():
                typer.echo(json.dumps({"__query": name} | row, default=str))


class _Table:
    """A small table whenever a query has changes."""

    def __call__(self, session: Any) -> None:
        from rich.console import Console
        from rich.table import Table

        console = Console()
        for name, query in session.queries.items():
            changes = query.changes()
            if not changes.num_rows:
                continue
            table = Table(*changes.column_names, title=name, title_justify="left")
            for row in changes.to_pylist():
                table.add_row(*("" if v is None else str(v) for v in row.values()))
            console.print(table)


def _summary(session: Any) -> None:
    late = {name: session.late(name).num_rows for name in session.catalog.streams}
    for name, rows in late.items():
        if rows:
            typer.echo(f"{rows} late rows of {name} were set aside", err=True)
