"""`penstock dry-run` and `penstock explain`: a script's plans without running them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from penstock.errors import BindError, DataError, PenstockError

SYNTAX_HINT_WIDTH = 120


def open_script(script: Path) -> Any:
    """A session that has executed the script; an error names the file and shows the line."""
    import penstock

    try:
        text = script.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{script} is not UTF-8 text") from error
    session = penstock.connect()
    try:
        session.execute(text)
    except PenstockError as error:
        typer.echo(f"error: {script}: {error}", err=True)
        if error.line is not None and error.line <= len(lines := text.splitlines()):
            line = lines[error.line - 1]
            if len(line) <= SYNTAX_HINT_WIDTH:
                typer.echo(f"  {line}\n  {' ' * ((error.column or 1) - 1)}^", err=True)
        raise typer.Exit(1) from error
    return session


def dry_run(script: Path) -> None:
    """Say what the script declares, or fail where it is wrong."""
    session = open_script(script)
    for name, query in session.queries.items():
        typer.echo(f"{name}: {query.pattern}")
    catalog = session.catalog
    typer.echo(
        f"ok: {len(catalog.streams)} streams, {len(catalog.tables)} tables, {len(session.queries)} queries"
    )


def explain(script: Path, name: str | None, output: str) -> None:
    """Print the plan of one query, or of all."""
    session = open_script(script)
    queries = session.queries
    if name is not None:
        if name.lower() not in queries:
            raise BindError(
                f"{script} has no query {name}", hint=f"it has {', '.join(sorted(queries)) or 'none'}"
            )
        queries = {name.lower(): queries[name.lower()]}
    if output == "text":
        typer.echo(session.explain() if name is None else queries[name.lower()].explain())
        return
    trees = {key: _tree(query.plan.root) for key, query in queries.items()}
    typer.echo(json.dumps(trees, indent=2) if output == "json" else _dot(trees))


def _tree(node: Any) -> dict[str, Any]:
    """A node, the pattern of the edge that leaves it, and its inputs."""
    from penstock.plan.pattern import judge

    judged = judge(node)
    return {
        "operator": type(node).__name__,
        "detail": _detail(node),
        "columns": [str(f) for f in node.schema],
        "pattern": str(judged.pattern),
        "reason": judged.reason,
        "inputs": [_tree(i) for i in node.inputs],
    }


def _detail(node: Any) -> str:
    for attribute in ("window", "predicate", "stream", "table", "kind"):
        value = getattr(node, attribute, None)
        if value is not None:
            return str(getattr(value, "name", value))
    parts: Any = (
        getattr(node, "predicates", None) or getattr(node, "outputs", None) or getattr(node, "keys", ())
    )
    return ", ".join(str(getattr(p, "expression", p)) for p in parts)


def _dot(trees: dict[str, dict[str, Any]]) -> str:
    """Graphviz: operators are boxes, edges carry their pattern."""
    lines = ["digraph penstock {", "  rankdir=BT; node [shape=box, fontname=sans];"]
    count = 0

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def visit(tree: dict[str, Any]) -> int:
        nonlocal count
        mine = count
        count += 1
        lines.append(f"  n{mine} [label={quoted(tree['operator'] + chr(10) + tree['detail'])}];")
        for child in tree["inputs"]:
            lines.append(f"  n{visit(child)} -> n{mine} [label={quoted(child['pattern'])}];")
        return mine

    for name, tree in trees.items():
        top = visit(tree)
        lines.append(
            f"  q{top} [label={quoted(name)}, shape=oval]; n{top} -> q{top} [label={quoted(tree['pattern'])}];"
        )
    return "\n".join([*lines, "}"])
