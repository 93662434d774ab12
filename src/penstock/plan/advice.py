"""Why a query's results may end early, which operator began it, and what would change that."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.plan.nodes import (
    Aggregate,
    AntiJoin,
    Except,
    Node,
    OuterJoin,
    Relation,
    Reliable,
    Windowed,
)
from penstock.plan.update_pattern import (
    Pattern,
    group_root,
    is_lookup,
    judge,
    judge_query,
    pattern,
)


def causes(root: Node) -> list[Node]:
    """The operators from which on ends come early: STRICT themselves, over nothing STRICT. Outermost first."""
    return list(dict.fromkeys(_causes(root, set())))


def _causes(node: Node, seen: set[int]) -> Iterator[Node]:
    if pattern(node) is not Pattern.STRICT or id(node) in seen:
        return
    seen.add(id(node))
    below = [i for i in node.inputs if pattern(i) is Pattern.STRICT]
    if not below or _is_cause(node):
        yield node
    if isinstance(node, Reliable):
        below = []  # the GROUP BYs below are its own
    for one in below:
        yield from _causes(one, seen)


def _is_cause(node: Node) -> bool:
    """Whether an operator ends rows early whatever its inputs do."""
    if isinstance(node, OuterJoin):
        return not is_lookup(node)
    return isinstance(node, Except | AntiJoin | Reliable)


def advice(root: Node) -> list[str]:
    """What would make a STRICT query WEAK, one line for every cause; nothing if it is not STRICT."""
    if judge_query(root).pattern is not Pattern.STRICT:
        return []
    group, having = group_root(root)
    said = []
    if having:
        said.append(
            "HAVING: select groups where the changes are read; without it a newer row replaces the older"
        )
    below = root if group is None else group.input
    for cause in causes(below):
        said.append(f"{_what(cause)}: {_instead(cause)}")
    return said


def _what(node: Node) -> str:
    named = {
        Windowed: "count window",
        Relation: "retroactive table",
        Aggregate: "GROUP BY",
        Reliable: "GROUP BY with ranks",
        Except: "EXCEPT",
        OuterJoin: "outer join",
    }
    return named.get(type(node), "NOT EXISTS")


def _instead(node: Node) -> str:
    match node:
        case Windowed():
            return "a time window (RANGE) says in advance when its rows end"
        case Relation():
            return "a table that is not RETROACTIVE acts on later rows only, and takes none back"
        case Aggregate():
            return "as the outermost operator it would replace its rows by key instead of taking them back"
    return f"no other window helps: {judge(node).reason.removeprefix('rule 5: ')}"
