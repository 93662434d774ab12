"""Update patterns: in what order the results of a (sub)query end (Golab & Özsu 2005, §3 and §5.2).

MONOTONIC  results never end
WEAKEST    results end in the order they came (FIFO)
WEAK       results end when announced, in any order
STRICT     some results end earlier than announced: negative tuples tell

Every edge of a plan gets its pattern from its operator and its inputs, with the reason in words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from penstock.plan.memo import once_a_node
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
from penstock.plan.windows import Announced, Range, Rows


class Pattern(Enum):
    MONOTONIC = "MONOTONIC"
    WEAKEST = "WEAKEST"
    WEAK = "WEAK"
    STRICT = "STRICT"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Judged:
    """A pattern and why."""

    pattern: Pattern
    reason: str


_M, _WKS, _WK, _STR = Pattern.MONOTONIC, Pattern.WEAKEST, Pattern.WEAK, Pattern.STRICT


@once_a_node
def judge(node: Node) -> Judged:
    """The pattern of the edge that leaves a node."""
    return _RULES[type(node)](node)


def pattern(node: Node) -> Pattern:
    return judge(node).pattern


def judge_query(root: Node) -> Judged:
    """The pattern a query reports: GROUP BY at the root replaces its rows by key and need not be STRICT."""
    top, filtered = group_root(root)
    if top is None:
        return judge(root)
    if filtered:
        return Judged(_STR, "HAVING can end a group's row without a successor")
    if top.keys and pattern(top.input) is _STR:
        return Judged(_STR, "a negative tuple can empty a group before its row's announced end")
    return Judged(_WK, "rule 4: a newer row of the same group replaces the old one")


def group_root(root: Node) -> tuple[Aggregate | None, bool]:
    """The GROUP BY a query ends in (below projections and HAVING), and whether HAVING is there."""
    filtered = False
    while isinstance(root, Project | Filter):
        filtered = filtered or isinstance(root, Filter)
        root = root.input
    return (root if isinstance(root, Aggregate) else None), filtered


def _scan(_: Scan) -> Judged:
    return Judged(_M, "a stream only grows")


def _relation(node: Relation) -> Judged:
    if node.table.retroactive:
        return Judged(_STR, "updates of a retroactive table reach back")
    return Judged(_M, "updates of this table act on later arrivals only")


def _windowed(node: Windowed) -> Judged:
    if isinstance(node.window, Range):
        return Judged(_WKS, "rows leave a time window in the order they came")
    if isinstance(node.window, Rows):
        return Judged(_STR, "a row leaves a count window when others push it out (FIFO inside)")
    if isinstance(node.window, Announced):
        return Judged(node.window.pattern, "rows end as another part of the plan ends them")
    return judge(node.input)


def _from_below(inputs: Sequence[Node]) -> str:
    """Which operator below an input that is STRICT began it."""
    node = next(i for i in inputs if pattern(i) is _STR)
    while True:
        below = [i for i in node.inputs if pattern(i) is _STR]
        if not below:
            return f"an input is STRICT, from {_NAMES[type(node)]} on"
        node = below[0]


_NAMES: dict[type[Node], str] = {
    Windowed: "a count window",
    Relation: "a retroactive table",
    Except: "EXCEPT",
    AntiJoin: "NOT EXISTS",
    OuterJoin: "an outer join",
    Aggregate: "GROUP BY",
    Join: "the join of a retroactive table",
    Reliable: "GROUP BY",
}


def _same(node: Filter | Project) -> Judged:
    below = pattern(node.input)
    return Judged(below, f"rule 1: keeps the {below} order of its input")


def _shared(node: Shared) -> Judged:
    return Judged(pattern(node.input), "as below; it runs once for all that read it")


def _union(node: Union) -> Judged:
    inputs = [pattern(i) for i in node.inputs]
    if _STR in inputs:
        return Judged(_STR, f"rule 2: {_from_below(node.inputs)}")
    if all(p is _M for p in inputs):
        return Judged(_M, "no input ends rows")
    lengths = {_lifetime(i) for i in node.inputs}
    if all(p is _WKS for p in inputs) and len(lengths) == 1 and None not in lengths:
        return Judged(_WKS, "rule 2: windows of equal length, merged in order")
    return Judged(_WK, "rule 2: inputs end their rows after different times")


def _lifetime(node: Node) -> Range | None:
    """The window all rows of an edge live for, if there is one."""
    while isinstance(node, Filter | Project):
        node = node.input
    if isinstance(node, Windowed) and isinstance(node.window, Range):
        return node.window
    if isinstance(node, Union):
        lengths = {_lifetime(i) for i in node.inputs}
        return lengths.pop() if len(lengths) == 1 else None
    return None


def _join(node: Join) -> Judged:
    retroactive = [i for i in node.inputs if is_table(i) and pattern(i) is _STR]
    streams = [i for i in node.inputs if not is_table(i)]
    if retroactive:
        return Judged(_STR, "rule 5: joins a retroactive table")
    if any(pattern(i) is _STR for i in streams):
        return Judged(_STR, f"rule 3: {_from_below(streams)}")
    if len(streams) == 1:
        return Judged(pattern(streams[0]), "rule 1: a table looked up at arrival keeps the order")
    return _weak(streams, "a result ends with the first of its parts")


def is_table(node: Node) -> bool:
    """Whether an input of a join is a table, possibly filtered or projected."""
    while isinstance(node, Filter | Project):
        node = node.input
    return isinstance(node, Relation)


def _weak(inputs: list[Node], why: str) -> Judged:
    patterns = [pattern(i) for i in inputs]
    if _STR in patterns:
        return Judged(_STR, f"rule 3: {_from_below(inputs)}")
    if all(p is _M for p in patterns):
        return Judged(_M, "no input ends rows")
    return Judged(_WK, f"rule 3: {why}")


def _distinct(node: Distinct) -> Judged:
    return _weak([node.input], "a value's successor may be shown long after it came")


def _intersect(node: Intersect) -> Judged:
    return _weak([node.left, node.right], "a result ends with the first of its two copies")


def _except(_: Except) -> Judged:
    return Judged(_STR, "rule 5: an arrival on the right takes results back")


def is_lookup(node: OuterJoin) -> bool:
    """Whether rows of one side look a plain table up as they come, and no later update reaches them."""
    other = node.right if node.keeps_left else node.left
    kept_once = node.keeps_left != node.keeps_right
    return kept_once and is_table(other) and pattern(other) is not _STR


def _outer(node: OuterJoin) -> Judged:
    if is_lookup(node):
        kept = node.left if node.keeps_left else node.right
        if pattern(kept) is _STR:
            return Judged(_STR, f"rule 3: {_from_below([kept])}")
        return Judged(pattern(kept), "rule 1: a table looked up at arrival keeps the order")
    return Judged(_STR, "rule 5: a partner takes back a row that was shown without one")


def _anti(node: AntiJoin) -> Judged:
    if is_table(node.right) and pattern(node.right) is not _STR:
        return Judged(pattern(node.left), "rule 1: a table looked up at arrival keeps the order")
    return Judged(_STR, "rule 5: an arrival on the right takes results back")


def _aggregate(_: Aggregate) -> Judged:
    return Judged(_STR, "below another operator a group's old row is taken back when a new one comes")


def _reliable(_: Reliable) -> Judged:
    return Judged(
        _STR, "a group's old answer is taken back when a new one comes, or none can be told any more"
    )


def _to_stream(node: ToStream) -> Judged:
    return Judged(_M, f"{node.kind.value} appends for good")


_RULES: dict[type[Node], Callable[..., Judged]] = {
    Scan: _scan,
    Relation: _relation,
    Windowed: _windowed,
    Filter: _same,
    Project: _same,
    Shared: _shared,
    Join: _join,
    AntiJoin: _anti,
    OuterJoin: _outer,
    Distinct: _distinct,
    Union: _union,
    Intersect: _intersect,
    Except: _except,
    Aggregate: _aggregate,
    Reliable: _reliable,
    ToStream: _to_stream,
}
