"""The whole shared flow: which operator serves which queries, and what it has done — text, JSON, dot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.engine.engine import Engine
from penstock.errors import StateError
from penstock.operators.pipeline import Key
from penstock.plan.explain import title
from penstock.sharing.shared_flow import Current, Joined, Sharing

FEW = 6
"""Names of queries that are listed in a line."""


def overview(engine: Engine) -> dict[str, Any]:
    """What is shared, by stream, and the plans that run for queries."""
    sharing = engine.sharing
    return {
        "streams": {}
        if sharing is None
        else {stream: _stream(current, engine) for stream, current in sharing.currents.items()},
        "stems": [] if sharing is None else _stems(sharing, engine),
        "joins": [] if sharing is None else _joins(sharing, engine),
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


def _names(current: Current, engine: Engine) -> dict[int, list[str]]:
    """Queries by the bit of a predicate that they have over the stream, by itself or below a join."""
    bits = {leaf.key: [leaf.member.bit] for leaf in current.leaves.values()}
    for key, one in () if engine.sharing is None else engine.sharing.joins.items():
        both = zip(one.party.inputs, one.party.members, strict=True)
        bits[key] = [member.bit for read, member in both if read.stream == current.stream]
    made: dict[int, list[str]] = {}
    for standing in engine.queries.values():
        for source in standing.pipeline.sources:
            for bit in bits.get(source, ()):
                made.setdefault(bit, []).append(standing.name)
    return made


def _stems(sharing: Sharing, engine: Engine) -> list[dict[str, Any]]:
    """What is kept of the streams that joins read."""
    rows, taken = sharing.confluence.sizes, sharing.confluence.stem_bytes
    return [
        {
            "stream": stream,
            "rows": rows.get(stream, 0),
            "bytes": taken.get(stream, 0),
            "indexes": [", ".join(map(str, attribute.keys)) for attribute in stem.attributes.values()],
            "queries": _with(engine, {k for k, one in sharing.joins.items() if stream in _streams(one)}),
        }
        for stream, stem in sharing.confluence.stems.items()
    ]


def _joins(sharing: Sharing, engine: Engine) -> list[dict[str, Any]]:
    """Queries by the streams that they join."""
    made: dict[tuple[str, ...], set[Key]] = {}
    for key, one in sharing.joins.items():
        made.setdefault(tuple(sorted(_streams(one))), set()).add(key)
    return [{"streams": list(streams), "queries": _with(engine, keys)} for streams, keys in made.items()]


def _streams(one: Joined) -> set[str]:
    return {read.stream for read in one.party.inputs}


def _with(engine: Engine, sources: set[Key]) -> list[str]:
    """Queries that begin with one of these."""
    return sorted(q.name for q in engine.queries.values() if not sources.isdisjoint(q.pipeline.sources))


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
        yield (
            f"SteM of {stem['stream']}: {stem['rows']:,} rows, indexed by {' and by '.join(stem['indexes'])},"
            f" for {_listed(stem['queries'])}"
        )
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
    for stem in made["stems"]:
        s = numbers[stem["stream"]]
        node(f"m{s}", f"SteM\n{stem['rows']:,} rows\nby {' and by '.join(stem['indexes'])}", "cylinder")
        lines.append(f"  e{s} -> m{s};")
    for j, join in enumerate(made["joins"]):
        node(f"j{j}", _listed(join["queries"]), "oval")
        lines += [f"  m{numbers[stream]} -> j{j};" for stream in join["streams"]]
    for t, tail in enumerate(made["tails"]):
        node(f"t{t}", tail["plan"])
        node(f"a{t}", _listed(tail["queries"]), "oval")
        lines += [f"  e{numbers[read]} -> t{t};" for read in tail["reads"] if read in numbers]
        lines.append(f"  t{t} -> a{t};")
    return "\n".join([*lines, "}"])
