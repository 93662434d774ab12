"""How far back rows can matter to a query: what a log must hold so that the query can be made again from it.

Let w be the longest time a row lives, windows over windows added up. At any instant T the answer is made of rows later than T - w,
and whatever has been told of it since T - w. A fresh engine that is fed the rows later than T - 2w has, from T - w on, the
same rows alive as one that saw them all; everything told before that has ended by T. So from T on the two cannot be told apart.
"""

from __future__ import annotations

from penstock.plan.memo import once_a_node
from penstock.plan.nodes import (
    Filter,
    Join,
    Node,
    OuterJoin,
    Project,
    Relation,
    Scan,
    Shared,
    ToStream,
    Union,
    Windowed,
)
from penstock.plan.sampled_aggregate import is_estimates
from penstock.plan.update_pattern import is_lookup
from penstock.plan.windows import Announced, Range, Rows

_FOR_EVER = None


def horizon(node: Node, *, kept: bool = False) -> int | None:
    """Rows at or before T less this are not needed at T; None: there is no end to what is needed. `kept`: so is the answer.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> catalog = Catalog()
    >>> made, = parse("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF 0")
    >>> catalog.streams["a"] = bind(made, catalog).stream
    >>> def of(text, **more): return horizon(bind(parse(text)[0], catalog).query.root, **more)
    >>> of("SELECT DISTINCT x FROM a [RANGE 10]"), of("SELECT x FROM a [RANGE 10 SLIDE 5]")
    (20, 30)
    >>> of("SELECT x FROM a WHERE x > 1"), of("SELECT x FROM a", kept=True), of("SELECT DISTINCT x FROM a")
    (0, None, None)
    >>> of("SELECT x FROM a [ROWS 10]")
    """
    found = _lives(node)
    if found is None:
        return None
    lives, ends = found
    return 2 * lives if ends or not kept else None


@once_a_node
def _lives(node: Node) -> tuple[int, bool] | None:
    """The longest time below a node, and whether its own rows end; None: something keeps what never ends."""
    below = [_lives(i) for i in node.inputs]
    found = [b for b in below if b is not None]
    if len(found) < len(below):
        return _FOR_EVER
    lives, ends = max((b[0] for b in found), default=0), all(b[1] for b in found)
    match node:
        case Relation():
            return 0, True
        case Scan():
            return 0, False
        case Windowed(window=Range() as window):
            return lives + window.length + (window.slide if window.slide > 1 else 0), True
        case Windowed() if is_estimates(node):
            return 0, True  # they end with the rows that they are of
        case Windowed(window=Rows() | Announced()):
            return _FOR_EVER
        case Windowed() | Filter() | Project() | Union() | Shared():
            return lives, ends
        case Join() if _forward_only(node):
            return lives, ends
        case OuterJoin() if is_lookup(node):
            return lives, ends
        case ToStream():
            return (lives, False) if ends else _FOR_EVER
    return (lives, True) if ends else _FOR_EVER


def _forward_only(node: Join) -> bool:
    """A join with tables that act forward only remembers no row of its stream."""
    tables = [i for i in node.inputs if isinstance(i, Relation)]
    return len(tables) >= len(node.inputs) - 1 and not any(t.table.retroactive for t in tables)
