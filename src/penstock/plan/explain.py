"""Plans as text: every edge with its pattern and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from penstock.plan.advice import advice
from penstock.plan.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Except,
    Filter,
    Intersect,
    Join,
    Node,
    OuterJoin,
    Project,
    Relation,
    Reliable,
    Scan,
    Shared,
    ToStream,
    Union,
    Windowed,
)
from penstock.plan.update_pattern import Judged, group_root, is_table, judge, judge_query
from penstock.plan.windows import Range, Rows
from penstock.types.data_type import Type


def title(node: Node) -> str:
    """One line that says what a node does."""
    return _TITLES[type(node)](node)


def edges(root: Node) -> Iterator[tuple[int, Node, Judged]]:
    """Every node, outermost first, with its depth and the pattern of the edge that leaves it.

    What is below a shared subplan comes after the first node that reads it.
    """
    group, _ = group_root(root)
    reported = judge_query(root)

    seen: set[int] = set()

    def walk(node: Node, depth: int, above: bool) -> Iterator[tuple[int, Node, Judged]]:
        yield depth, node, reported if above and group is not None else judge(node)
        if isinstance(node, Shared) and id(node) in seen:
            return
        seen.add(id(node))
        for below in node.inputs:
            yield from walk(below, depth + 1, above and not isinstance(node, Aggregate))

    yield from walk(root, 0, True)


def explain(root: Node, notes: Callable[[Node], Sequence[str]] = lambda _: ()) -> str:
    """The plan as an indented tree; under an operator what there is to note about it, at the end what would help."""
    lines = []
    for depth, node, judged in edges(root):
        lead = "" if depth == 0 else "  " * (depth - 1) + "└ "
        lines.append(f"{lead}{title(node)}  [{judged.pattern}: {judged.reason}]")
        lines += [f"{'  ' * depth}  · {note}" for note in notes(node)]
    told = advice(root)
    if told:
        lines.append("Some results end earlier than announced. To have every end announced:")
        lines += [f"  {line}" for line in told]
    return "\n".join(lines)


def outline(root: Node) -> str:
    """The plan as an indented tree, operators only."""
    return "\n".join("  " * depth + title(node) for depth, node, _ in edges(root))


def _named(name: str, alias: str) -> str:
    return name if not alias or alias.lower() == name.lower() else f"{name} AS {alias}"


def _window(node: Windowed) -> str:
    window = node.window
    if isinstance(window, Rows) and window.partition:
        keys = ", ".join(node.schema[i].name for i in window.partition)
        return f"window [PARTITION BY {keys} ROWS {window.count}]"
    if isinstance(window, Range) and _in_microseconds(node):
        return f"window [{window.in_units}]"
    return f"window [{window}]"


def _in_microseconds(node: Node) -> bool:
    """Whether the streams below tell time in TIMESTAMP."""
    while node.inputs:
        node = next((i for i in node.inputs if not is_table(i)), node.inputs[0])
    return isinstance(node, Scan) and node.stream.time_type is Type.TIMESTAMP


def _join(node: Join) -> str:
    on = " AND ".join(str(p) for p in node.predicates)
    return f"join of {len(node.inputs)}" + (f" on {on}" if on else " (every pair)")


def _anti(node: AntiJoin) -> str:
    return "anti join" + (f" on {' AND '.join(str(p) for p in node.predicates)}" if node.predicates else "")


def _outer(node: OuterJoin) -> str:
    on = " AND ".join(str(p) for p in node.predicates)
    return f"{node.kind} join" + (f" on {on}" if on else " (every pair)")


def _aggregate(node: Aggregate) -> str:
    parts = ", ".join(str(a) for a in node.aggregations) or "nothing"
    return f"aggregate {parts}" + (f" by {', '.join(str(k) for k in node.keys)}" if node.keys else "")


def _reliable(node: Reliable) -> str:
    parts = ", ".join(str(a) for a in node.aggregations) or "nothing"
    keys = ", ".join(f.name for f in node.schema[: node.keys])
    levels = f"{node.levels} level{'' if node.levels == 1 else 's'} and insignificant rows"
    error = f"{node.error:.6g}{' of the mean' if node.relative else ''}"
    return f"reliable {parts}{' by ' * bool(keys)}{keys} of {levels}, within {error}"


_TITLES: dict[type[Node], Callable[..., str]] = {
    Scan: lambda n: f"stream {_named(n.stream.name, n.alias)}",
    Relation: lambda n: (
        ("retroactive table " if n.table.retroactive else "table ") + _named(n.table.name, n.alias)
    ),
    Windowed: _window,
    Filter: lambda n: f"select {n.predicate}",
    Project: lambda n: f"project {', '.join(str(o) for o in n.outputs)}",
    Join: _join,
    AntiJoin: _anti,
    OuterJoin: _outer,
    Distinct: lambda _: "distinct",
    Shared: lambda n: f"shared {n.name}",
    Union: lambda n: f"union of {len(n.inputs)}",
    Intersect: lambda n: "intersect all" if n.all else "intersect",
    Except: lambda n: "except all" if n.all else "except",
    Aggregate: _aggregate,
    Reliable: _reliable,
    ToStream: lambda n: n.kind.value.lower(),
}
