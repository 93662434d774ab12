"""Answers from samples: a GROUP BY over rows of which some expired before they could be processed.

Paper      Works 2013 (TP-Ag), §5.3 and §5.4.

A GROUP BY with ranks becomes two ordinary ones by keys *and level*, of the rows that were processed and of what is estimated
of those that were not, and a `Reliable` above them, which decides per group of how many levels an answer can be made. The
estimates have an input of their own: while nothing expires they cost nothing, and the rows' GROUP BY is as it would be.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import PlanError
from penstock.plan.expressions import Aggregation, Column, Expression, Literal, Named
from penstock.plan.function_signatures import call, cast
from penstock.plan.nodes import Aggregate, Node, Reliable
from penstock.types.data_type import Type

LEVEL = "__level"

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "count": ("count",),
    "min": ("count", "min"),
    "max": ("count", "max"),
    **dict.fromkeys(("sum", "avg", "stddev"), ("count", "sum", "rest", "avg", "stddev")),
}
"""What is kept by level for an aggregate: whatever its answer is, the deviation says how large a sample it takes."""

_ROWS = Aggregation("count", None, False, Type.BIGINT)


def parts(aggregations: tuple[Aggregation, ...]) -> tuple[tuple[Aggregation, ...], list[dict[str, int]]]:
    """The aggregates to keep by level, COUNT(*) first, and for each of the query's where its own stand among them."""
    kept, places = [_ROWS], []
    for one in aggregations:
        place = {}
        for function in _NEEDS[one.function] if one.argument is not None else ():
            part = _part(function, one)
            if part is not None:
                if part not in kept:
                    kept.append(part)
                place[function] = kept.index(part)
        places.append(place)
    return tuple(kept), places


def _part(function: str, of: Aggregation) -> Aggregation | None:
    argument = of.argument
    assert argument is not None
    if function == "rest" and not argument.type.is_float:
        return None  # integers are summed without a rest
    types = {"count": Type.BIGINT, "min": argument.type, "max": argument.type}
    whole = function == "sum" and not argument.type.is_float
    return Aggregation(function, argument, False, types.get(function, Type.BIGINT if whole else Type.DOUBLE))


def sampled(
    aggregate: Aggregate,
    rank: Expression,
    levels: int,
    expired: Node,
    *,
    error: float = 0.1,
    relative: bool = False,
) -> Reliable:
    """The aggregate over rows that were processed, beside estimates of rows that were not.

    `rank`: over the aggregate's input, the level of a row from 1 to `levels`; NULL, or one more, is insignificant. `expired`
    gives what is estimated: the keys, the level, how many rows there would have been and, if they are known, the variance of
    that (else every row is taken to come about by itself: w·(1-w), and w above 1) and its doubt, a deviation that all
    estimates of a group and level have together (else 0). Its rows live as the others would have.
    `error`: how far a mean may be off, as it is or `relative` to the mean.

    >>> from penstock.types.schema import Field
    >>> from penstock.plan.catalog import Stream
    >>> from penstock.plan.explain import outline
    >>> from penstock.plan.nodes import Scan, Windowed
    >>> from penstock.plan.windows import Range
    >>> def live(name, *fields):
    ...     schema = (Field("ts", Type.BIGINT), *(Field(*f) for f in fields))
    ...     return Windowed(Scan(Stream(name, schema, 0), name), Range(9))
    >>> rows = live("a", ("s", Type.STRING), ("p", Type.DOUBLE), ("r", Type.INT))
    >>> gone = live("e", ("s", Type.STRING), ("r", Type.INT), ("w", Type.DOUBLE))
    >>> from penstock.plan.nodes import Project
    >>> gone = Project(gone, tuple(Named(Column(i, gone.schema[i].type, gone.schema[i].name), "") for i in (1, 2, 3)))
    >>> mean = Aggregation("avg", Column(2, Type.DOUBLE, "p"), False, Type.DOUBLE)
    >>> group = Aggregate(rows, (Named(Column(1, Type.STRING, "s"), "s"),), (mean,))
    >>> print(outline(sampled(group, Column(3, Type.INT, "r"), 2, gone)).splitlines()[0])
    reliable AVG(p) by s of 2 levels and insignificant rows, within 0.1
    """
    distinct = [a for a in aggregate.aggregations if a.distinct]
    if distinct:
        raise PlanError(
            f"{distinct[0]} cannot be told from a sample",
            hint="how many values nobody has seen is not in those that came: leave out DISTINCT, or the ranks",
        )
    keys = len(aggregate.keys)
    schema = expired.schema
    wanted = [k.expression.type for k in aggregate.keys]
    if len(schema) - keys not in (2, 3, 4) or [f.type for f in schema[:keys]] != wanted:
        raise ValueError(
            "estimates have the keys, the level, the number of rows, perhaps its variance, perhaps its doubt"
        )
    of = [Column(i, f.type, f.name) for i, f in enumerate(schema)]
    weight = cast(of[keys + 1], Type.DOUBLE)
    variance = cast(of[keys + 2], Type.DOUBLE) if len(of) > keys + 2 else _variance(weight)
    doubt = cast(of[keys + 3], Type.DOUBLE) if len(of) > keys + 3 else Literal(0.0, Type.DOUBLE)
    estimates = Aggregate(
        expired,
        (
            *(Named(c, k.name) for c, k in zip(of, aggregate.keys, strict=False)),
            Named(_level(of[keys], levels), LEVEL),
        ),
        tuple(Aggregation("sum", one, False, Type.DOUBLE) for one in (weight, variance, doubt)),
    )
    level = Named(_level(rank, levels), LEVEL)
    kept, _ = parts(aggregate.aggregations)
    rows = Aggregate(aggregate.input, (*aggregate.keys, level), kept)
    return Reliable(rows, estimates, keys, aggregate.aggregations, levels, float(error), relative)


def _level(rank: Expression, levels: int) -> Expression:
    """Insignificant rows have one level, whatever was said of them."""
    ranked = call("and", call(">=", rank, Literal(1, Type.INT)), call("<=", rank, Literal(levels, Type.INT)))
    return cast(call("case", ranked, rank, Literal(levels + 1, Type.INT)), Type.INT)


def _variance(weight: Expression) -> Expression:
    """Of a row that comes about with a probability; of several that are expected (a join's), as if they came at random."""
    one = Literal(1.0, Type.DOUBLE)
    alone = call("*", weight, call("-", one, weight))
    return call("case", call("<=", weight, one), alone, weight)
