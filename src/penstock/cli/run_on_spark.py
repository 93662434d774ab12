"""`penstock run --spark`: every CREATE QUERY of a script as one flow, changes on standard output, until stopped."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from penstock.cli import inputs
from penstock.cli.plans import pointing_into, read_text
from penstock.errors import PlanError


def run(script: Path, options: list[str], master: str, checkpoint: str | None) -> None:
    """Streams with a source of Spark's run until stopped; if every stream has a file, the flow ends with them."""
    import penstock
    from penstock.spark.local import local_spark

    text = read_text(script)
    if checkpoint is None:
        checkpoint = tempfile.mkdtemp(prefix="penstock-")
        typer.echo(f"no --checkpoint: state is in {checkpoint} for this run", err=True)
    session = penstock.connect(local_spark(master, f"penstock {script.name}"), checkpoint=checkpoint)
    with pointing_into(script, text):
        session.execute(text)
    if not session.queries:
        raise PlanError(f"{script} has no CREATE QUERY: nothing to run")
    files = inputs.parse_options(options, session.catalog)
    for name, table in session.catalog.tables.items():
        if name in files:
            session.update_table(name, insert=inputs.read_whole(table, files[name]))
    for name, query in session.queries.items():
        query.foreach_batch(_printing(name))  # type: ignore[attr-defined]
    for name, batch in inputs.together(session.catalog.streams, files):
        session.push(name, batch)
    ends = all(name in files for name in session.catalog.streams)
    handle = session.start(trigger={"availableNow": True} if ends else None)
    try:
        handle.awaitTermination()
    except KeyboardInterrupt:
        typer.echo("stopping", err=True)
    finally:
        handle.stop()
    last = handle.lastProgress or {"late": {}}
    for name, rows in last["late"].items():
        typer.echo(f"{rows} late rows of {name} were set aside", err=True)


def _printing(name: str) -> Callable[[Any, int], None]:
    def show(frame: Any, _: int) -> None:
        for row in frame.toArrow().to_pylist():
            sys.stdout.write(json.dumps({"__query": name} | row, default=str) + "\n")
        sys.stdout.flush()

    return show
