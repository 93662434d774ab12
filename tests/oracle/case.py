"""A case: a schema, queries, and one sequence of arrivals; all drawn from one seed."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from tests.oracle import features, schema, streams
from tests.oracle.algebra import Query, ToStream
from tests.oracle.algebra import streams as streams_of
from tests.oracle.model import World, play
from tests.oracle.queries import Maker
from tests.oracle.schema import Schema
from tests.oracle.streams import Event
from tests.oracle.twin import answer


@dataclass(frozen=True, slots=True)
class Case:
    seed: int
    schema: Schema
    queries: tuple[Query, ...]
    events: tuple[Event, ...]

    def world(self) -> World:
        return play(self.schema, self.queries, self.events)

    def constructs(self) -> Counter[str]:
        """Constructs used by the queries and by the data."""
        used = sum((features.constructs(q) for q in self.queries), Counter[str]())
        world = self.world()
        used["late"] = sum(map(len, world.late.values()))
        used["timestamp"] = int(self.schema.timestamps)
        used["several"] = int(len(self.queries) > 1)
        used["register_late"] = sum(clock != world.registered[0] for clock in world.registered.values())
        used["drop"] = sum(isinstance(e, streams.Drop) for e in self.events)
        used["idle"] = sum(isinstance(e, streams.Nothing) for e in self.events)
        others = {
            kind for stream in self.schema.streams for name, kind in stream.columns if name in schema.OTHERS
        }
        used["types"] = len(others)
        used["advance"] = sum(isinstance(e, streams.Advance) for e in self.events)
        used["nan"] = sum(v != v for e in self.events if isinstance(e, streams.Arrival) for v in e.row)
        return used


def make(seed: int, enabled: frozenset[str] = features.ALL, wanted: frozenset[str] = frozenset()) -> Case:
    """The case of this seed; with `wanted`, the first one drawn from it that uses all of these."""
    rng = random.Random(f"penstock {seed}")
    patience = rng.choice((1, 20, 20, 20, 20))
    for attempt in range(5000):
        case = _draw(seed, rng, enabled)
        if wanted and not wanted <= set(+case.constructs()):
            continue
        if attempt >= patience or is_telling(case):
            return case
    raise ValueError(f"no case uses {', '.join(sorted(wanted))} together")


def is_telling(case: Case) -> bool:
    """The first query has an answer at one of a few instants; most drawn joins have none."""
    world = case.world()
    query = case.queries[0].query if isinstance(case.queries[0], ToStream) else case.queries[0]
    times = {
        row[world.schema.stream(s.stream).time] for s in streams_of(query) for row in world.accepted[s.stream]
    }
    few = sorted(times)[:: max(1, len(times) // 4)][1:5]
    return any(answer(world, query, world.registered[0], tau) for tau in few)


def _draw(seed: int, rng: random.Random, enabled: frozenset[str]) -> Case:
    if rng.random() > 0.1:  # NaN forbids some constructs, so most cases do without it
        enabled -= {"nan"}
    drawn = schema.make(rng, enabled)
    count = rng.choice((2, 3, 5)) if "several" in enabled and rng.random() < 0.15 else 1
    queries = tuple(Maker(rng, drawn, enabled).query() for _ in range(count))
    size = rng.choice((8, 30, 60, 60, 120)) if count == 1 else rng.choice((20, 50))
    if max(len(list(streams_of(q))) for q in queries) > 5:
        size = min(size, 40)
    return Case(seed, drawn, queries, streams.make(rng, drawn, queries, size, enabled))
