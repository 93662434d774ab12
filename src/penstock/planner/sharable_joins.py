"""Which joins can meet in shared SteMs: equi-joins of windows over streams, each with a predicate of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.operators.expressions.compiled import raises
from penstock.operators.join.fifo_join import is_connected
from penstock.operators.join.predicates import offsets, take_apart
from penstock.plan.expressions import Expression, columns
from penstock.plan.nodes import Filter, Join, Node, Project, Scan, Windowed
from penstock.plan.traversal import every
from penstock.plan.windows import Range, Unbounded
from penstock.sharing.join_catalog import FAR, Equality, Input


@dataclass(frozen=True, slots=True)
class SharedJoin:
    """A join taken apart; `tests` are left to be tested of a result."""

    scans: tuple[Scan, ...]
    predicates: tuple[Expression | None, ...]
    windows: tuple[int, ...]
    equalities: tuple[Equality, ...]
    tests: tuple[Expression, ...]
    alone: bool
    """There is a quicker walk for one query by itself."""

    def inputs(self, needed: frozenset[int]) -> list[Input]:
        """What is read of each stream if these columns of the result are."""
        read = needed | {c.index for test in self.tests for c in columns(test)}
        schemas = [scan.schema for scan in self.scans]
        return [
            Input(
                scan.stream.name.lower(),
                scan.stream.schema,
                predicate,
                window,
                frozenset(k for k in range(len(scan.schema)) if start + k in read),
            )
            for scan, predicate, window, start in zip(
                self.scans, self.predicates, self.windows, offsets(schemas), strict=True
            )
        ]


def is_leaf(node: Node) -> bool:
    """A stream in a window that gives every row its lifetime at once."""
    if not isinstance(node, Windowed) or not isinstance(node.input, Scan):
        return False
    return isinstance(node.window, Unbounded) or (isinstance(node.window, Range) and node.window.slide == 1)


def shared_join(node: Join) -> SharedJoin | None:
    """The join, if it is of the kind."""
    scans: list[Scan] = []
    predicates: list[Expression | None] = []
    windows: list[int] = []
    for below in node.inputs:
        leaf = below.input if isinstance(below, Filter) else below
        if not is_leaf(leaf) or not isinstance(leaf, Windowed) or not isinstance(leaf.input, Scan):
            return None
        scans.append(leaf.input)
        predicates.append(below.predicate if isinstance(below, Filter) else None)
        windows.append(leaf.window.length if isinstance(leaf.window, Range) else FAR)
    equalities, residuals = take_apart(node.predicates, [scan.schema for scan in scans])
    if not is_connected(len(scans), equalities) or any(raises(e.whole) for e in equalities):
        return None
    tests = [r.whole for r in residuals]
    pairs: dict[tuple[int, int], list[tuple[Expression, Expression, Expression]]] = {}
    for e in equalities:
        i, j = sorted((e.left, e.right))
        pairs.setdefault((i, j), []).append((e.side(i), e.side(j), e.whole))
    for between in pairs.values():
        if len(between) > 1:
            # Keys of several attributes are hashes: test the equalities themselves.
            tests += [whole for _, _, whole in between]
    made = tuple(
        Equality(i, tuple(a for a, _, _ in between), j, tuple(b for _, b, _ in between))
        for (i, j), between in pairs.items()
    )
    alone = len(scans) == 2 or not residuals
    return SharedJoin(
        tuple(scans), tuple(predicates), tuple(windows), made, tuple(dict.fromkeys(tests)), alone
    )


def shared_joins(node: Node) -> Iterator[SharedJoin]:
    """The joins of a plan that can be shared."""
    found = (shared_join(one) for one in every(node) if isinstance(one, Join))
    yield from (one for one in found if one is not None)


def meeting_streams(node: Node) -> set[str]:
    """The streams that joins of a plan would keep in shared SteMs."""
    return {scan.stream.name.lower() for found in shared_joins(node) for scan in found.scans}


def is_stateless(node: Node, meets: bool) -> bool:
    """A projection of what is shared: of a selection of a stream, or of a join with nothing left to be tested."""
    while isinstance(node, Project):
        if any(raises(n.expression) for n in node.outputs):
            return False
        node = node.input
    if isinstance(node, Join):
        found = shared_join(node) if meets else None
        return found is not None and not found.tests
    return is_leaf(node.input if isinstance(node, Filter) else node)
