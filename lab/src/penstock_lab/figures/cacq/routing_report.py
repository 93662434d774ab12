"""What a session reports of its routing: rows, visits and tickets of every operator of a stream."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from penstock.errors import StateError


@dataclass(frozen=True, slots=True)
class Operator:
    """Rows so far that visited it and that it let through; its tickets."""

    name: str
    rows: int
    passed: int
    tickets: float


@dataclass(frozen=True, slots=True)
class RoutingReport:
    """Of one stream."""

    rows: int
    visits: int
    lineage_bytes: int
    operators: tuple[Operator, ...]


def of_stream(session: Any, name: str) -> RoutingReport:
    """The report of a session, as of now."""
    try:
        text = session.explain(format="json")
    except TypeError as error:
        raise StateError(
            "this session does not report where rows were routed",
            hint="the figure needs session.explain(format='json')",
        ) from error
    return read(text, name)


def read(text: str, name: str) -> RoutingReport:
    """One stream of `session.explain(format="json")`."""
    found = json.loads(text)["streams"][name]
    operators = tuple(
        Operator(o["operator"], int(o["rows"]), int(o["passed"]), float(o["tickets"]))
        for o in found["operators"]
    )
    return RoutingReport(int(found["rows"]), int(found["visits"]), int(found["lineage_bytes"]), operators)
