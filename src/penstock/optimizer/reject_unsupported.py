"""The last rule: refuse what has no exact plan, and say what would."""

from __future__ import annotations

from penstock.errors import PlanError
from penstock.optimizer.flatten_joins import MOST_JOINED
from penstock.plan.nodes import (
    AntiJoin,
    Filter,
    Join,
    Node,
    OuterJoin,
    Project,
    Relation,
    Scan,
    Windowed,
)
from penstock.plan.traversal import every
from penstock.plan.update_pattern import Pattern, is_lookup, is_table, pattern
from penstock.plan.windows import Rows


def reject(root: Node) -> Node:
    nodes = list(every(root))
    if not any(isinstance(n, Scan) for n in nodes):
        raise PlanError(
            "a standing query reads at least one stream",
            hint="tables are looked up by streams they are joined with",
        )
    for node in nodes:
        _check_window(node)
        _check_tables(node)
    return root


def _check_window(node: Node) -> None:
    if (
        isinstance(node, Windowed)
        and not isinstance(node.input, Scan)
        and pattern(node.input) is not Pattern.MONOTONIC
    ):
        raise PlanError(
            f"a window needs an append-only input, and this subquery is {pattern(node.input)}",
            hint="put ISTREAM(...) around the subquery, or the windows inside it",
        )


def _check_tables(node: Node) -> None:
    if isinstance(node, Join | OuterJoin):
        _check_join(node)
        return
    for below in node.inputs:
        if is_table(below) and not isinstance(node, Filter | Project):
            table = _table(below).table
            if not table.retroactive:
                raise PlanError(
                    f"table {table.name} is looked up by rows as they come: it can only be read by a join with a stream",
                    hint="join it with a stream (for NOT EXISTS: LEFT JOIN it and ask for IS NULL), or make it"
                    " a RETROACTIVE TABLE, which NOT EXISTS reads too",
                )
            if not isinstance(node, AntiJoin):
                raise PlanError(
                    f"retroactive table {table.name} can only be read by a join or by NOT EXISTS",
                    hint="join it with a stream, and put what stands above the table above the join",
                )


def _check_join(node: Join | OuterJoin) -> None:
    tables = [_table(i) for i in node.inputs if is_table(i)]
    streams = [i for i in node.inputs if not is_table(i)]
    plain = [t for t in tables if not t.table.retroactive]
    if not streams:
        raise PlanError("a join reads at least one stream", hint="tables are looked up by arriving rows")
    if len(node.inputs) > MOST_JOINED:
        raise PlanError(
            f"one join of {len(node.inputs)} inputs; there are at most {MOST_JOINED}",
            hint="put some of them in a subquery in FROM",
        )
    if not plain:
        return
    if isinstance(node, OuterJoin) and not is_lookup(node):
        raise PlanError(
            f"table {plain[0].table.name} is looked up by rows as they come, so its own rows cannot be kept by an outer join",
            hint="keep the stream's rows (stream LEFT JOIN table), or make it a RETROACTIVE TABLE",
        )
    if len(plain) < len(tables):
        raise PlanError(
            f"table {plain[0].table.name} acts on later arrivals only and cannot be joined with a retroactive table",
            hint=f"make {plain[0].table.name} RETROACTIVE too",
        )
    for stream in streams:
        if pattern(stream) is Pattern.STRICT and not _count_window(stream):
            raise PlanError(
                f"table {plain[0].table.name} acts on later arrivals only, so no join with it can stand above a STRICT input",
                hint="join the table with its stream first, below outer joins, negation and aggregation,"
                " or make it RETROACTIVE",
            )


def _count_window(node: Node) -> bool:
    """STRICT only because rows push each other out of a count window: then versions are kept."""
    while isinstance(node, Filter | Project):
        node = node.input
    return isinstance(node, Windowed) and isinstance(node.window, Rows)


def _table(node: Node) -> Relation:
    while isinstance(node, Filter | Project):
        node = node.input
    assert isinstance(node, Relation)
    return node
