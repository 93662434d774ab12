"""Monitoring levels: what RANK … CRITERIA say of a row, as an expression and as determinants (Works 2013, §4.1, §4.3.4).

The rank of a result is declarative: the least level whose criteria are TRUE of it, NULL if none is. So it does not hang on when
or where criteria are evaluated, and a result has the best rank of all its parts.

A *determinant* is one disjunct of a level's criteria in disjunctive normal form: all of it must hold, so it can be evaluated
wherever the inputs it reads are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod

from penstock.errors import StateError
from penstock.plan.expressions import Call, Expression, Literal, Named, conjunction
from penstock.plan.function_signatures import call
from penstock.plan.nodes import Aggregate, Distinct, Filter, Node, Project, Query, Rank, ToStream
from penstock.types.data_type import Type
from penstock.types.schema import Schema

RANK = "__rank"
USUAL = 1.0
"""The weight of a query that nobody gave another."""
MOST = 32
"""Disjuncts of a level; criteria that would make more are one."""


@dataclass(frozen=True, slots=True)
class Disjunct:
    """Part of a level's criteria that is enough by itself."""

    level: int
    criteria: Expression


@dataclass(frozen=True, slots=True)
class Levels:
    """P-CQL's clauses of a query: LIFESPAN in microseconds (None: for ever), and RANKs, over the columns of its FROM."""

    lifespan: int | None = None
    ranks: tuple[Rank, ...] = ()
    over: Schema = ()


UNRANKED = Levels()


def checked_weight(weight: object) -> float:
    """What a query counts for beside others.

    >>> checked_weight(2)
    2.0
    """
    if type(weight) not in (int, float) or not 0 < weight < inf:  # type: ignore[operator]
        raise StateError(
            f"weight {weight!r} is not a number above 0", hint="1 is the weight of a query without"
        )
    return float(weight)  # type: ignore[arg-type]


def promises(ranks: Sequence[Rank]) -> list[str]:
    """What COVER clauses say, for EXPLAIN."""
    return [f"rank {rank.level} covers {rank.cover}" for rank in ranks if rank.cover is not None]


def levels_of(query: Query) -> Levels:
    """A query's own."""
    return Levels(query.lifespan, query.ranks, query.over)


def with_rank(root: Node, ranks: Sequence[Rank]) -> Node:
    """The plan of a query that says the rank of every result, in a last column.

    Where rows of the answer are not rows of the FROM (GROUP BY, DISTINCT) it stays as it is.
    """
    if isinstance(root, ToStream):
        return ToStream(with_rank(root.input, ranks), root.kind)
    if isinstance(root, Distinct) or not isinstance(root, Project) or _groups(root.input):
        return root
    outputs = tuple(o for o in root.outputs if o.name != RANK)
    if ranks:
        outputs += (Named(rank_of(ranks), RANK),)
    return Project(root.input, outputs, root.alias)


def _groups(node: Node) -> bool:
    return isinstance(node, Aggregate) or (isinstance(node, Filter) and _groups(node.input))


def rank_of(ranks: Sequence[Rank]) -> Expression:
    """The rank of a row, NULL for none.

    >>> from penstock.plan.expressions import Column
    >>> x = Column(0, Type.BOOLEAN, "x")
    >>> print(rank_of([Rank(1, x)]))
    case(x, 1, NULL)
    """
    arguments: list[Expression] = []
    for rank in ranks:
        arguments += (rank.criteria, Literal(rank.level, Type.INT))
    return call("case", *arguments)


def ranks_in(expression: Expression) -> tuple[Rank, ...]:
    """What `rank_of` was made of, over whatever schema the expression is over by now."""
    if not isinstance(expression, Call) or expression.function != "case":
        return ()
    arguments = expression.arguments
    return tuple(
        Rank(int(level.value), criteria)
        for criteria, level in zip(arguments[0:-1:2], arguments[1:-1:2], strict=True)
        if isinstance(level, Literal) and isinstance(level.value, int)
    )


def disjuncts(rank: Rank) -> tuple[Disjunct, ...]:
    """A level's criteria in disjunctive normal form; NOT stays where it is in front of anything but AND and OR.

    >>> from penstock.plan.expressions import Column
    >>> a, b, c = (Column(i, Type.BOOLEAN, n) for i, n in enumerate("abc"))
    >>> either = Call("or", (a, b), Type.BOOLEAN)
    >>> [str(d.criteria) for d in disjuncts(Rank(1, Call("and", (either, c), Type.BOOLEAN)))]
    ['(a AND c)', '(b AND c)']
    """
    found = _alternatives(rank.criteria, True)
    if found is None:
        return (Disjunct(rank.level, rank.criteria),)
    return tuple(Disjunct(rank.level, conjunction(one)) for one in dict.fromkeys(found))


Conjunction = tuple[Expression, ...]


def _alternatives(expression: Expression, wanted: bool) -> list[Conjunction] | None:
    """Conjunctions of which one must be TRUE for the expression to be certainly `wanted`; None: too many."""
    if isinstance(expression, Call):
        if expression.function == "not":
            return _alternatives(expression.arguments[0], not wanted)
        if expression.function in ("and", "or"):
            parts = [_alternatives(a, wanted) for a in expression.arguments]
            known = [p for p in parts if p is not None]
            if len(known) < len(parts):
                return None
            either = (expression.function == "or") is wanted
            if (sum if either else prod)(map(len, known)) > MOST:
                return None
            if either:
                return [one for part in known for one in part]
            return [tuple(dict.fromkeys(e for one in choice for e in one)) for choice in product(*known)]
    return [(expression if wanted else Call("not", (expression,), Type.BOOLEAN),)]
