"""Inner inputs: the changes of one part of a plan as a stream that another part reads.

A row of such a stream is a change: when it became true or stopped being so, its end as announced (NULL: never), its sign
(1 or -1), and the columns. Its window, `Announced`, makes changes of the rows again, so that above the leaf
nobody can tell that the plan was cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.plan.catalog import Stream
from penstock.plan.expressions import Column, Expression, Literal, Named
from penstock.plan.nodes import Node, Project, Scan, Windowed
from penstock.plan.update_pattern import Pattern
from penstock.plan.windows import Announced
from penstock.types.data_type import Type
from penstock.types.schema import Field, Schema

EXP, SIGN = 1, 2
"""Places of a change's end and sign; its time stands before them."""

HEAD = 3
"""Where the columns begin."""

NEVER_BY_ITSELF = 1 << 62
"""A delay so long that rows raise no watermark: time moves when somebody says so."""


def inner_stream(name: str, columns: Schema, time_type: Type) -> Stream:
    """The stream that carries changes with these columns."""
    head = (Field("__ts", time_type), Field("__exp", time_type), Field("__sign", Type.TINYINT))
    return Stream(name, head + tuple(Field(f.name, f.type) for f in columns), 0, NEVER_BY_ITSELF)


def leaf(stream: Stream, pattern: Pattern, schema: Schema, carried: Sequence[int]) -> Node:
    """What stands in the place of a node with this schema whose `carried` columns the stream brings.

    The others are NULL: nobody above reads them.
    """
    place = {column: HEAD + i for i, column in enumerate(carried)}

    def output(index: int, field: Field) -> Expression:
        if index in place:
            return Column(place[index], field.type, stream.schema[place[index]].name)
        return Literal(None, field.type)

    changes = Windowed(Scan(stream, stream.name), Announced(pattern))
    return Project(changes, tuple(Named(output(i, f), f.name) for i, f in enumerate(schema)))
