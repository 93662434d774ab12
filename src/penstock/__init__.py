"""Penstock: standing SQL queries over streams, exact as tuples arrive and expire.

The life of a standing query:

1.  `session.query(text)` — api/session.py
2.  text → statement: a dialect of Spark's SQL with windows — sql/parser/dialect.py
3.  names and types resolved, errors with their place → a plan of frozen nodes — sql/binder/, plan/nodes.py
4.  every edge gets its update pattern: in what order will its rows end? — plan/update_pattern.py
5.  rules turn the plan into an equal one; the last only rejects — optimizer/
6.  nodes become operators, chosen by pattern; columns that are not read are dropped — planner/physical.py
7.  rows come in, are checked and wait for the watermark; late ones are set aside — ingest/convert.py, ingest/source.py
8.  the clock rises: rows are applied in event-time order, slice by slice — engine/engine.py
9.  operators exchange batches of changes; state is flat arrays in an arena — operators/, state/
10. the loops over rows are Numba kernels — kernels/
11. changes are netted per instant, kept as a view and handed out as Arrow — engine/output.py
12. `query.changes()`, `query.snapshot()`, `query.drop()`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from penstock.errors import (
    BindError,
    DataError,
    OverloadWarning,
    ParseError,
    PenstockError,
    PlanError,
    StateError,
    StreamWarning,
    UnreadWarning,
)

if TYPE_CHECKING:
    from penstock.api.query import Query
    from penstock.api.session import Session
    from penstock.api.spark_session import SparkSession

__version__ = "0.1.0"

__all__ = [
    "BindError",
    "DataError",
    "OverloadWarning",
    "ParseError",
    "PenstockError",
    "PlanError",
    "Query",
    "Session",
    "StateError",
    "StreamWarning",
    "UnreadWarning",
    "connect",
]


@overload
def connect(spark: None = None, *, checkpoint: None = None, **given: Any) -> Session: ...
@overload
def connect(spark: Any, *, checkpoint: str | None = None, **given: Any) -> SparkSession: ...
def connect(spark: Any = None, *, checkpoint: str | None = None, **given: Any) -> Session:
    """A session in this process, or on Spark. Options are keyword arguments with plain names; see docs.

    On Spark `checkpoint` is the directory from which a flow goes on after it was stopped, or killed; `cells` says over how
    many partitions its state is spread (default: as many as Spark has cores).
    """
    from penstock.api.options import options
    from penstock.api.session import Session

    if spark is None:
        if checkpoint is not None:
            raise StateError(
                "a checkpoint is for a session on Spark", hint="call connect(spark, checkpoint=...)"
            )
        return Session(options(given))
    if checkpoint is None:
        raise StateError(
            "a session on Spark needs a checkpoint directory", hint="call connect(spark, checkpoint=...)"
        )
    from penstock.api.spark_session import SparkSession

    cells = given.pop("cells", None)
    return SparkSession(spark, checkpoint, cells, options(given))


def __getattr__(name: str) -> Any:
    """Heavy parts are imported when first used, so that `import penstock` is quick."""
    if name in ("Session", "Query"):
        from penstock.api import session

        return getattr(session, name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
