"""Other ranks of a plan that runs: its results are what they were, and so is all that is remembered.

Only what says the rank is another, the projection at the top. It may read what the plan keeps already.
"""

from __future__ import annotations

from penstock.errors import StateError
from penstock.operators.contract import Site
from penstock.operators.filter_project import Projection
from penstock.operators.pipeline import Pipeline
from penstock.plan.nodes import Node, Project
from penstock.plan.required_columns import all_of, needed_below


def check_reranked(old: Node, new: Node) -> None:
    """Whether a plan may become another that differs in its ranks alone."""
    if old == new:  # rows of its answer are not rows of the FROM, and have no rank
        return
    if not (isinstance(old, Project) and isinstance(new, Project) and old.input == new.input):
        raise StateError(
            "the running plan hangs on its ranks", hint="register the query anew, with the new ranks"
        )
    (kept,), (read,) = needed_below(old, all_of(old)), needed_below(new, all_of(new))
    if not read <= kept:
        names = ", ".join(new.input.schema[i].name for i in sorted(read - kept))
        raise StateError(
            f"the running query does not keep {names}, which the criteria read",
            hint="register the query anew, with the new criteria",
        )


def rerank(pipeline: Pipeline, new: Node, site: Site) -> None:
    """Let the top of a checked plan say the new ranks."""
    if isinstance(new, Project):
        _, inputs = pipeline.stages[-1]
        pipeline.stages[-1] = Projection(site, new.outputs, all_of(new)), inputs
