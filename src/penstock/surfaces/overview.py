"""The whole shared flow: which operator serves which queries, and what it has done — text, JSON, dot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.errors import StateError
from penstock.plan.explain import title
from penstock.runtime.build import JOIN
from penstock.runtime.embedded import Engine
from penstock.runtime.sharing import Current

FEW = 6
"""Names of queries that are listed in a line."""


def overview(engine: Engine) -> dict[str, Any]:
    """What is shared, by stream, and the plans that run for queries."""
    currents = {} if engine.sharing is None else engine.sharing.currents
    return {
        "streams": {stream: _stream(current, engine) for stream, current in currents.items()},
        "stems": _stems(engine),
        "tails": [
            {
                "plan": title(tail.standings[0].root.node),
                "queries": [standing.name for standing in tail.standings],
                "reads": sorted(tail.pipeline.streams | tail.pipeline.tables),
                "bytes": tail.pipeline.arena.size_bytes,
            }
            for tail in engine.tails.values()
        ],
    }


def _stream(current: Current, engine: Engine) -> dict[str, Any]:
    eddy, names = current.eddy, _names(current, engine)
    tickets = {key: operator.ledger.tickets for key, operator in eddy.operators.items()}
    return {
        "rows": eddy.rows,
        "visits": eddy.visits,
        "lineage_bytes": 8 * eddy.words,
        "queries": sorted({name for one in names.values() for name in one}),
        "waiting": current.waiting.rows,
        "operators": [
            {
                "operator": str(operator.filter.subject),
                "queries": sorted({n for bit in operator.filter.asked for n in names.get(bit, ())}),
                "predicates": operator.filter.predicates,
                "cells": operator.filter.cells,
                "rows": operator.ledger.visited,
                "passed": operator.ledger.passed,
                "selectivity": operator.ledger.passed / max(operator.ledger.visited, 1),
                "tickets": tickets[key] / sum(tickets.values()),
                "cost_ns": round(operator.ledger.cost, 1),
            }
            for key, operator in eddy.operators.items()
        ],
    }


def _stems(engine: Engine) -> list[dict[str, Any]]:
    """What joins share: per stream its rows, and per join attribute who joins by it."""
    if engine.sharing is None:
        return []
    confluence, names = engine.sharing.confluence, _joining(engine)
    return [
        {
            "stream": stem.stream,
            "rows": confluence.sizes.get(stem.stream, 0),
            "attributes": [
                {
                    "keys": [str(key) for key in attribute.keys],
                    "queries": sorted(
                        {n for bits in attribute.uses.values() for b in bits for n in names.get(b, ())}
                    ),
                }
                for attribute in stem.attributes.values()
            ],
        }
        for stem in confluence.stems.values()
    ]


def _joining(engine: Engine) -> dict[int, list[str]]:
    """Queries by the bit of a join they share."""
    made: dict[int, list[str]] = {}
    for standing in engine.queries.values():
        for source in standing.pipeline.sources:
            if source[0] == JOIN:
                made.setdefault(int(source[1].rpartition("\n")[2]), []).append(standing.name)
    return made


def _names(current: Current, engine: Engine) -> dict[int, list[str]]:
    """Queries by the bit of the predicate they begin with, alone or below a join."""
    assert engine.sharing is not None
    by_leaf = {leaf.key: leaf.member.bit for leaf in current.leaves.values()}
    made: dict[int, list[str]] = {}
    for standing in engine.queries.values():
        for source in standing.pipeline.sources:
            if source in by_leaf:
                made.setdefault(by_leaf[source], []).append(standing.name)
            elif source[0] == JOIN:
                party = engine.sharing.joins[source].party
                for one, member in zip(party.inputs, party.members, strict=True):
                    if one.stream == current.stream:
                        made.setdefault(member.bit, []).append(standing.name)
    return made


def shown(engine: Engine, form: str) -> str:
    """The overview as `text`, `json` or `dot`."""
    made = overview(engine)
    if form == "json":
        return json.dumps(made)
    if form == "dot":
        return _dot(made)
    if form != "text":
        raise StateError(f"there is no format {form!r}", hint="one of text, json, dot")
    return "\n".join(_lines(made))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - FEW
    return ", ".join(names[:FEW]) + (f" and {more:,} more" if more > 0 else "")


def _lines(made: dict[str, Any]) -> Iterable[str]:
    for stream, flow in made["streams"].items():
        each = flow["visits"] / max(flow["rows"], 1)
        yield (
            f"stream {stream}: {flow['rows']:,} rows, {each:.2f} visits and {flow['lineage_bytes']} bytes of lineage a row,"
            f" for {_listed(flow['queries'])}"
        )
        for one in flow["operators"]:
            yield (
                f"  grouped filter {one['operator']}: {one['predicates']:,} predicates in {one['cells']:,} cells,"
                f" {one['rows']:,} rows visited, {one['selectivity']:.1%} passed, {one['cost_ns']:.0f} ns a row,"
                f" {one['tickets']:.0%} of the tickets"
            )
            yield f"    for {_listed(one['queries'])}"
        if flow["waiting"]:
            yield f"  {flow['waiting']:,} rows wait to be handed over"
    for stem in made["stems"]:
        yield f"SteM {stem['stream']}: {stem['rows']:,} rows"
        for one in stem["attributes"]:
            yield f"  by {', '.join(one['keys'])} for {_listed(one['queries'])}"
    for tail in made["tails"]:
        yield f"plan {tail['plan']} over {', '.join(tail['reads'])}, {tail['bytes']:,} bytes"
        yield f"    for {_listed(tail['queries'])}"


def _dot(made: dict[str, Any]) -> str:
    lines = ["digraph penstock {", "  rankdir=BT; node [shape=box, fontname=sans]; edge [fontname=sans];"]

    def node(name: str, label: str, shape: str = "box") -> None:
        lines.append(f"  {name} [label={json.dumps(label)}, shape={shape}];")

    for s, (stream, flow) in enumerate(made["streams"].items()):
        node(f"s{s}", f"stream {stream}\n{flow['rows']:,} rows", "cds")
        node(f"e{s}", f"eddy\n{flow['lineage_bytes']} bytes of lineage a row", "circle")
        lines.append(f"  s{s} -> e{s};")
        for o, one in enumerate(flow["operators"]):
            label = f"{one['operator']}\n{one['predicates']:,} predicates\n{one['selectivity']:.1%} passed"
            node(f"e{s}o{o}", label)
            rows = one["rows"]
            lines.append(f'  e{s} -> e{s}o{o} [dir=both, label="{rows:,}"];')
        node(f"q{s}", _listed(flow["queries"]), "oval")
        lines.append(f"  e{s} -> q{s};")
    numbers = {stream: s for s, stream in enumerate(made["streams"])}
    for j, stem in enumerate(made["stems"]):
        keys = "\n".join(f"by {', '.join(one['keys'])}" for one in stem["attributes"])
        node(f"j{j}", f"SteM {stem['stream']}, {stem['rows']:,} rows\n{keys}", "cylinder")
        lines.append(f"  e{numbers[stem['stream']]} -> j{j} [dir=both];")
    for t, tail in enumerate(made["tails"]):
        node(f"t{t}", tail["plan"])
        node(f"a{t}", _listed(tail["queries"]), "oval")
        lines += [f"  e{numbers[read]} -> t{t};" for read in tail["reads"] if read in numbers]
        lines.append(f"  t{t} -> a{t};")
    return "\n".join([*lines, "}"])
