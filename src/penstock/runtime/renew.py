"""Memory of a plan whose rows have all expired goes back: the plan begins anew.

Invariant  whatever comes next, the new pipeline says what the old one would have said: no row that could still matter
           (`flow.horizon`) has come, so a pipeline that has had no rows at all cannot be told from one that has.
Cost       of a large arena, once after the last row has expired.
"""

from __future__ import annotations

from penstock.flow.horizon import horizon
from penstock.plan.nodes import Aggregate, Node, Reliable
from penstock.rules.walk import every
from penstock.runtime.pipeline import Pipeline
from penstock.runtime.ranked import Ranked

LARGE = 1 << 20
"""Bytes of an arena from which on it is worth while."""


def quiet_after(pipeline: Pipeline, node: Node, *, kept: bool) -> int | None:
    """How long no row may have come for the plan to begin anew; None: it never may."""
    if isinstance(pipeline, Ranked) or pipeline.meets or pipeline.tables:
        return None
    if any(isinstance(n, Reliable) or (isinstance(n, Aggregate) and not n.keys) for n in every(node)):
        return None  # these say something before any row has come
    # Half of a horizon: the longest time that a row lives. When none is alive, all that was said of them has ended, too.
    found = horizon(node, kept=kept)
    return None if found is None else found // 2
