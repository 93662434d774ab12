"""What a flow has been told: streams, tables and queries, as text that survives.

A query is its SQL. Driver and cells parse, bind, plan and place it each for themselves and come to the same plan; no plan,
and no code, ever travels through the checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import StateError
from penstock.optimizer import optimize
from penstock.plan.catalog import Catalog, Function, Stream, Table
from penstock.plan.nodes import Node
from penstock.plan.policies import Policies
from penstock.plan.rank_levels import USUAL, Levels, levels_of
from penstock.plan.state_upkeep import Upkeep
from penstock.sql import Select, altered, bind, bind_alter, parse
from penstock.types.data_type import Type
from penstock.types.schema import Field, Schema


@dataclass(slots=True)
class Declared:
    """The declarations in force from some step on; names in lower case are keys."""

    streams: dict[str, Stream] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    """Name as given → SELECT."""
    since: dict[str, int | None] = field(default_factory=dict)
    """The instant from which on a query sees rows; None: all there are."""
    kept: list[str] = field(default_factory=list)
    """Queries whose current answer somebody wants."""
    functions: dict[str, str] = field(default_factory=dict)
    """Name → what the function is: type, kind and a hash of its code."""
    upkeep: Upkeep = field(default_factory=Upkeep)
    policies: Policies = field(default_factory=Policies)
    weights: dict[str, float] = field(default_factory=dict)
    """What queries count for beside each other."""
    altered: dict[str, dict[str, str]] = field(default_factory=dict)
    """By query: the last ALTER QUERY that set its ranks, and its lifespan."""

    def json(self) -> dict[str, Any]:
        return {
            "streams": [
                {"name": s.name, "columns": _columns(s.schema), "time": s.time, "delay": s.delay}
                for s in self.streams.values()
            ],
            "tables": [
                {"name": t.name, "columns": _columns(t.schema), "retroactive": t.retroactive}
                for t in self.tables.values()
            ],
            "queries": [[name, sql, self.since.get(name)] for name, sql in self.queries.items()],
            "kept": self.kept,
            "functions": self.functions,
            "upkeep": self.upkeep.json(),
            "policies": self.policies.json(),
            "weights": {name: weight for name, weight in self.weights.items() if weight != USUAL},
            "altered": self.altered,
        }

    @classmethod
    def of(cls, told: dict[str, Any]) -> Declared:
        streams = [Stream(s["name"], _schema(s["columns"]), s["time"], s["delay"]) for s in told["streams"]]
        tables = [Table(t["name"], _schema(t["columns"]), t["retroactive"]) for t in told["tables"]]
        return cls(
            {s.name.lower(): s for s in streams},
            {t.name.lower(): t for t in tables},
            {name: sql for name, sql, _ in told["queries"]},
            {name: since for name, _, since in told["queries"]},
            list(told["kept"]),
            dict(told["functions"]),
            Upkeep.of(told["upkeep"]),
            Policies.of(told["policies"]),
            dict(told["weights"]),
            {name: dict(texts) for name, texts in told["altered"].items()},
        )

    def forget(self, query: str) -> None:
        """A query is gone."""
        for kind in (self.queries, self.since, self.weights, self.altered):
            kind.pop(query, None)
        self.kept = [name for name in self.kept if name != query]

    def must_follow(self, before: Declared) -> None:
        """Refuse options that the state of a checkpoint does not fit."""
        for option, is_, was in (
            ("expiry", self.upkeep.expiry.value, before.upkeep.expiry.value),
            ("share", self.policies.share, before.policies.share),
            ("tree", self.upkeep.trees, before.upkeep.trees),
            ("budget", _limits(self.policies), _limits(before.policies)),
            ("sampling", self.policies.sampling, before.policies.sampling),
            ("keep_dropped", self.policies.keep_dropped > 0, before.policies.keep_dropped > 0),
        ):
            if before.queries and is_ != was:
                raise StateError(
                    f"the checkpoint was made with {option}={was!r}, this session has {is_!r}",
                    hint="connect as before, or start with another checkpoint directory",
                )

    def catalog(self, functions: Mapping[str, Function]) -> Catalog:
        """What names mean. A function that is not registered any more raises when it is called: queries that were
        dropped since may call it."""
        missing = {key: _missing(key, what) for key, what in self.functions.items() if key not in functions}
        return Catalog(dict(self.streams), dict(self.tables), missing | dict(functions))


def called(function: str, sql: str) -> bool:
    """Whether a text calls a function; one that only looks like it may count, too."""
    return re.search(rf"\b{re.escape(function)}`?\s*\(", sql, re.IGNORECASE) is not None


def _missing(name: str, identity: str) -> Function:
    """In place of a function that is not registered."""

    def body(*_: object) -> object:
        raise StateError(f"function {name} is not registered")

    kind, vectorized, _ = identity.split(":", 2)
    return Function(name, body, Type(kind), vectorized == "vectorized")


def _limits(policies: Policies) -> str:
    """Whether steps have a budget: what waits is state. How large it is may change."""
    return "none" if policies.budget is None else "some"


def planned(sql: str, catalog: Catalog, changes: Iterable[str] = ()) -> tuple[Node, Levels]:
    """A query's plan from its text, and what it says of ranks; `changes`: ALTER QUERY, since."""
    statement = bind(parse(sql)[0], catalog)
    if not isinstance(statement, Select):
        raise StateError(f"not a SELECT: {sql}")
    query = statement.query
    for text in changes:
        query = altered(query, bind_alter(parse(text)[0], catalog, sql))
    return optimize(query.root), levels_of(query)


def _columns(schema: Schema) -> list[list[str]]:
    return [[f.name, f.type.value] for f in schema]


def _schema(columns: list[list[str]]) -> Schema:
    return tuple(Field(name, Type(kind)) for name, kind in columns)
