"""`penstock dry-run` and `penstock explain`: a script's plans without a session, so that no source is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from penstock.cli import picture
from penstock.errors import BindError, DataError, PenstockError
from penstock.optimizer import optimize
from penstock.plan.catalog import Catalog
from penstock.plan.explain import edges, title
from penstock.plan.explain import explain as explain_plan
from penstock.plan.query_root import Root, top
from penstock.sql import (
    CreateQuery,
    CreateStream,
    CreateTable,
    DropQuery,
    DropStream,
    DropTable,
    bind,
    parse,
)

WIDTH = 120
"""Lines longer than this are not shown under an error: a terminal would break them and the mark would be off."""


@dataclass(slots=True)
class Plans:
    """What a script leaves declared."""

    catalog: Catalog = field(default_factory=Catalog)
    queries: dict[str, tuple[str, Root]] = field(default_factory=dict)
    """The name as written and the plan, by name in lower case."""


def read_text(script: Path) -> str:
    """The text of a script."""
    try:
        return script.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{script} is not UTF-8 text") from error


@contextmanager
def pointing_into(script: Path, text: str) -> Iterator[None]:
    """Errors name the file and show the line they are about."""
    try:
        yield
    except PenstockError as error:
        typer.echo(f"error: {script}: {error}", err=True)
        lines = text.splitlines()
        if error.line is not None and error.line <= len(lines) and len(lines[error.line - 1]) <= WIDTH:
            typer.echo(f"  {lines[error.line - 1]}\n  {' ' * ((error.column or 1) - 1)}^", err=True)
        raise typer.Exit(1) from error


def read_plans(script: Path) -> Plans:
    """Parse, bind and plan every statement."""
    text, plans = read_text(script), Plans()
    with pointing_into(script, text):
        for parsed in parse(text):
            _declare(plans, bind(parsed, plans.catalog))
    return plans


def _declare(plans: Plans, statement: object) -> None:
    catalog = plans.catalog
    match statement:
        case CreateStream(stream):
            _check_new(catalog, stream.name)
            catalog.streams[stream.name.lower()] = stream
        case CreateTable(table):
            _check_new(catalog, table.name)
            catalog.tables[table.name.lower()] = table
        case CreateQuery(name, query):
            if name.lower() in plans.queries:
                raise BindError(
                    f"there is a query {name} already", hint="drop it first, or take another name"
                )
            plans.queries[name.lower()] = (name, top(optimize(query.root)))
        case DropQuery(name):
            if plans.queries.pop(name.lower(), None) is None:
                raise BindError(f"there is no query {name}")
        case DropStream(name) | DropTable(name):
            if (catalog.streams.pop(name.lower(), None) or catalog.tables.pop(name.lower(), None)) is None:
                raise BindError(f"there is no stream or table {name}")


def _check_new(catalog: Catalog, name: str) -> None:
    if name.lower() in catalog.streams or name.lower() in catalog.tables:
        raise BindError(
            f"there is a stream or table {name} already", hint="drop it first, or take another name"
        )


def dry_run(script: Path) -> None:
    """Say what the script declares, or fail where it is wrong."""
    plans = read_plans(script)
    for name, root in plans.queries.values():
        typer.echo(f"{name}: {root.judged.pattern}")
    catalog = plans.catalog
    typer.echo(
        f"ok: {len(catalog.streams)} streams, {len(catalog.tables)} tables, {len(plans.queries)} queries"
    )


def explain(script: Path, name: str | None, output: str) -> None:
    """Print the plan of one query, or of all."""
    queries = read_plans(script).queries
    if name is not None:
        if name.lower() not in queries:
            known = ", ".join(written for written, _ in queries.values()) or "none"
            raise BindError(f"{script} has no query {name}", hint=f"it has {known}")
        queries = {name.lower(): queries[name.lower()]}
    if output == "text":
        for i, (written, root) in enumerate(queries.values()):
            typer.echo(
                f"{'' if i == 0 else chr(10)}{written} ({root.judged.pattern})\n{explain_plan(root.node)}"
            )
        return
    trees = {written: _tree(root) for written, root in queries.values()}
    typer.echo({"json": _json, "dot": picture.dot, "svg": picture.svg}[output](trees))


def _json(trees: dict[str, picture.Tree]) -> str:
    return json.dumps(trees, indent=2)


def _tree(root: Root) -> picture.Tree:
    """Every node with the pattern of the edge that leaves it, and its inputs."""
    path: list[dict[str, Any]] = []
    for depth, node, judged in edges(root.node):
        here: dict[str, Any] = {
            "operator": type(node).__name__,
            "title": title(node),
            "columns": [str(f) for f in node.schema],
            "pattern": str(judged.pattern),
            "reason": judged.reason,
            "inputs": [],
        }
        del path[depth:]
        if path:
            path[-1]["inputs"].append(here)
        path.append(here)
    return path[0]
