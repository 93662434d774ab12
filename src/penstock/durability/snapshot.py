"""The state of a whole engine, out as flat arrays and a little JSON, and in again.

Invariant  whatever comes next, `restore(catalog, queries, dump(engine))` says what `engine` would have said.
State      all that operators remember lies in arenas already: it is copied, and operators are built over the copies.
           Strings keep their codes, so the pool comes first: literals of the queries find themselves in it.
Cost       O(bytes), with the room that arrays have to grow.

Names of arrays are `strings/…`, `stream/<n>/…`, `table/<n>/…`, `query/<n>/state/…` and `query/<n>/answer/…`, numbered as in `meta`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import numpy as np

from penstock.engine.clock_groups import Reading
from penstock.engine.engine import Engine
from penstock.engine.output import Answer, keeps
from penstock.engine.registry import Standing
from penstock.errors import StateError
from penstock.operators.expressions.evaluator import Evaluator
from penstock.operators.pipeline import JOIN
from penstock.overload.priority_executor import Ranked
from penstock.overload.subscriber import Rider
from penstock.overload.subscriber_group import Riders
from penstock.plan.catalog import Catalog, Stream, Table
from penstock.plan.explain import outline
from penstock.plan.fingerprint import fingerprint
from penstock.plan.policies import Policies
from penstock.plan.query_root import Root
from penstock.plan.state_upkeep import Upkeep
from penstock.planner.physical import build
from penstock.state import snapshot_file
from penstock.state.arena import Arena
from penstock.types.batch import Array
from penstock.types.schema import Schema

T = TypeVar("T")

Registered = tuple[str, Root, bool | None]
"""A query: its name, its plan, and whether its results are kept (see `runtime.answer.keeps`)."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What an engine was at its clock; shares no memory with it."""

    meta: dict[str, Any]
    arrays: dict[str, Array]


def write(snapshot: Snapshot, path: str | PathLike[str]) -> None:
    """Put a snapshot where a file is or is not; it is there whole, or what was there stays."""
    snapshot_file.write(Path(path), snapshot.meta, snapshot.arrays)


def write_to(snapshot: Snapshot, opened: IO[bytes]) -> None:
    """Put a snapshot into a file that somebody else makes whole."""
    snapshot_file.write_to(opened, snapshot.meta, snapshot.arrays)


def read(path: str | PathLike[str] | snapshot_file.Opens) -> Snapshot:
    """The snapshot in a file; a file that is not exactly as it was written is refused."""
    return Snapshot(*snapshot_file.read(Path(path) if isinstance(path, str | PathLike) else path))


# ---------------------------------------------------------------------- out


def dump(engine: Engine) -> Snapshot:
    """Everything that later answers hang on, after what was pushed is applied."""
    engine.check_idle()
    engine.settle()
    for standing in engine.queries.values():
        _ = standing.answer  # whole, and the strings in it, before anything is written down
    arrays: dict[str, Array] = {}

    def put(place: str, arena: Arena) -> None:
        for name, array in arena.arrays.items():
            arrays[f"{place}/{name}"] = np.array(array, order="C")

    put("strings", _saved(engine.strings))
    for n, source in enumerate(engine.sources.values()):
        put(f"stream/{n}", _saved(source))
    for n, table in enumerate(engine.tables.values()):
        put(f"table/{n}", _saved(table))
    first: dict[int, int] = {}
    for n, standing in enumerate(engine.queries.values()):
        if first.setdefault(id(standing.pipeline), n) == n:
            put(f"query/{n}/state", standing.pipeline.saved())
        put(f"query/{n}/answer", standing.answer.save(engine.clock_of(standing)))
    shared: dict[str, Any] = {}
    if engine.sharing is not None and engine.sharing.joins:
        arena = Arena()
        joins = {str(n): _bits(standing) for n, standing in enumerate(engine.queries.values())}
        shared = {"layout": engine.sharing.confluence.save(arena), "bits": joins}
        put("shared", arena)
    meta = {
        **engine.settings,
        "shared": shared,
        "streams": [_stream(source.stream) for source in engine.sources.values()],
        "tables": [_table(table.table) for table in engine.tables.values()],
        "queries": [
            _standing(standing, first[id(standing.pipeline)], engine.clock_of(standing))
            for standing in engine.queries.values()
        ],
    }
    return Snapshot(meta, arrays)


def _bits(standing: Standing) -> list[int]:
    """Of its joins in the shared SteMs."""
    return [int(name.rpartition("\n")[2]) for kind, name in standing.pipeline.sources if kind == JOIN]


class _Saves(Protocol):
    def save(self, arena: Arena) -> None: ...


def _saved(held: _Saves) -> Arena:
    arena = Arena()
    held.save(arena)
    return arena


def _stream(stream: Stream) -> dict[str, Any]:
    time = stream.schema[stream.time].name
    return {"name": stream.name, "columns": _columns(stream.schema), "time": time, "delay": stream.delay}


def _table(table: Table) -> dict[str, Any]:
    return {"name": table.name, "columns": _columns(table.schema), "retroactive": table.retroactive}


def _columns(schema: Schema) -> list[str]:
    return [str(field) for field in schema]


def _plan(root: Root, kept: bool) -> dict[str, Any]:
    # Fingerprints are blind to the order of conjuncts, and keys of several attributes are not: the plan's text tells.
    return {"plan": outline(root.node).split("\n"), "fingerprint": fingerprint(root.node), "kept": kept}


def _standing(standing: Standing, runs: int, clock: int) -> dict[str, Any]:
    return {
        "name": standing.name,
        **_plan(standing.root, standing.answer.kept),
        "since": standing.since,
        "begun": standing.begun or (standing.owed is not None and clock >= standing.since),
        "may_move": standing.pipeline.may_move,
        "shares": standing.pipeline.shares,
        "meets": standing.pipeline.meets,
        "runs": runs,  # the number of the first query with the same running plan
        "failed": None if standing.failed is None else str(standing.failed),
        "weight": standing.weight,
    }


# ---------------------------------------------------------------------- in


def restore(
    catalog: Catalog, queries: Iterable[Registered], snapshot: Snapshot, policies: Policies | None = None
) -> Engine:
    """An engine that goes on where the dumped one was.

    The catalog declares the streams and tables that the snapshot holds (others begin empty) and the Python functions;
    `queries` are those dumped; `policies` are those to go on by, if not the same. What does not fit is a `StateError`. The
    snapshot stays as it is.
    """
    meta = snapshot.meta
    if (
        not {
            "clock",
            "clocks",
            "single_clock",
            "swept_at",
            "upkeep",
            "policies",
            "shared",
            "streams",
            "tables",
            "queries",
        }
        <= meta.keys()
    ):
        raise StateError("this is no snapshot of an engine")
    saved = _Saved(snapshot.arrays)
    were = Policies.of(meta["policies"])
    engine = Engine(catalog, _upkeep(meta["upkeep"]), were if policies is None else policies)
    for name in ("share", "budget"):
        was_, is_ = getattr(were, name), getattr(engine.policies, name)
        if meta["queries"] and (was_ != is_ if name == "share" else (was_ is None) != (is_ is None)):
            raise StateError(f"the queries in the snapshot run with {name}={was_}")
    with saved.arena("strings", "the strings") as arena:
        engine.strings.take_up(arena)
    for stream in catalog.streams.values():
        engine.add_stream(stream)
    for table in catalog.tables.values():
        engine.add_table(table)
    for n, was in enumerate(meta["streams"]):
        what = f"stream {was['name']}"
        source = _known(engine.sources, was["name"], what)
        _check(what, was, _stream(source.stream))
        with saved.arena(f"stream/{n}", what) as arena:
            source.take_up(arena)
    for n, was in enumerate(meta["tables"]):
        what = f"table {was['name']}"
        relation = _known(engine.tables, was["name"], what)
        _check(what, was, _table(relation.table))
        with saved.arena(f"table/{n}", what) as arena:
            relation.take_up(arena)
    given = {name.lower(): (root, keep) for name, root, keep in queries}
    standings: list[Standing] = []
    roots = {name: root for name, (root, _) in given.items()}
    for n, was in enumerate(meta["queries"]):
        root, keep = _known(given, was["name"], f"query {was['name']}")
        del given[was["name"].lower()]
        runs = was["runs"]
        if not isinstance(runs, int) or not 0 <= runs <= n:
            raise StateError(
                f"query {was['name']} runs with query {runs} in the snapshot, which is not there"
            )
        other = standings[runs] if runs < n else None
        riders = None
        if other is None and engine.policies.budget is not None:
            together = [w for w in meta["queries"] if w["runs"] == n]
            riders = Riders([_rider(roots, w) for w in together], were.significance)
        standings.append(_resumed(engine, was, root, keep, saved, f"query/{n}", other, riders))
    if given:
        raise StateError(f"the snapshot does not hold the queries {', '.join(given)}")
    for pipeline in {id(one.pipeline): one.pipeline for one in standings}.values():
        if isinstance(pipeline, Ranked):
            pipeline.compare(engine.policies.significance)
    single = meta["single_clock"]
    engine.resume(standings, meta["clock"], meta["clocks"], meta["swept_at"], single_clock=single)
    if meta["shared"]:
        _meet_again(engine, standings, meta["shared"], saved)
    saved.check_empty()
    return engine


def _meet_again(engine: Engine, standings: list[Standing], was: dict[str, Any], saved: _Saved) -> None:
    """Rows in the shared SteMs, wanted by the same queries under the bits they have now."""
    bits: dict[int, int] = {}
    for n, standing in enumerate(standings):
        before, now = was["bits"][str(n)], _bits(standing)
        if len(before) != len(now):
            raise StateError(f"query {standing.name} has {len(now)} shared joins, and had {len(before)}")
        bits |= dict(zip(before, now, strict=True))
    assert engine.sharing is not None
    with saved.arena("shared", "what joins share") as arena:
        engine.sharing.confluence.take_up(arena, was["layout"], bits)


def _rider(roots: Mapping[str, Root], was: dict[str, Any]) -> Rider:
    return Rider(_known(roots, was["name"], f"query {was['name']}"), was["weight"])


def _resumed(
    engine: Engine,
    was: dict[str, Any],
    root: Root,
    keep: bool | None,
    saved: _Saved,
    place: str,
    other: Standing | None,
    riders: Riders | None,
) -> Standing:
    """A query as it was; `other` runs the same plan; `riders` share its core."""
    what = f"query {was['name']}"
    assert engine.time_type is not None
    _check(what, was, _plan(root, keeps(root, keep)))
    upkeep = engine.upkeep
    if other is not None:
        evaluator, pipeline = other.evaluator, other.pipeline
    elif riders is not None:
        evaluator, upkeep = Evaluator(engine.strings, engine.catalog.functions), Upkeep()
        with saved.arena(f"{place}/state", what) as arena:
            pipeline = Ranked(
                riders, evaluator, engine.strings, engine.catalog.functions, was["since"], engine.time_type,
                engine.policies, arena, engine.upkeep.demand,
            )  # fmt: skip
    else:
        evaluator = Evaluator(engine.strings, engine.catalog.functions)
        sharing = engine.sharing if was["shares"] else None
        with saved.arena(f"{place}/state", what) as arena:
            pipeline = build(
                root,
                evaluator,
                engine.strings,
                was["since"],
                engine.upkeep,
                arena,
                may_move=was["may_move"],
                shares=sharing,
                meets=was["meets"],
            )
    with saved.arena(f"{place}/answer", what) as arena:
        answer = Answer(
            root, engine.strings, engine.time_type, upkeep, keep=keep, told=pipeline.told, arena=arena
        )
    failed = None if was["failed"] is None else StateError(was["failed"])
    reading = Reading(engine.streams_of(root), was["since"])
    made = Standing(
        was["name"], root, was["since"], reading, evaluator, pipeline, answer, was["begun"], failed
    )
    made.weight = was["weight"]
    return made


def _upkeep(was: dict[str, Any]) -> Upkeep:
    """How state was kept up to date; it has the arrays that this takes."""
    try:
        return Upkeep.of(was)
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"the snapshot's way to keep state up to date is {was}") from error


def _known(there: Mapping[str, T], name: str, what: str) -> T:
    if name.lower() not in there:
        raise StateError(f"the snapshot holds {what}, which is not there", hint="declare what was there")
    return there[name.lower()]


def _check(what: str, was: dict[str, Any], now: dict[str, Any]) -> None:
    """What was saved must be what is declared now."""
    for part, said in now.items():
        held = was[part]
        if part == "name" or held == said:
            continue
        if part == "plan":
            part, held, said = next(
                ("plan", a, b) for a, b in zip_longest(held, said, fillvalue="nothing") if a != b
            )
        raise StateError(
            f"{what} is another in the snapshot: its {part} there is {held}, here {said}",
            hint="a snapshot is taken up by what it was taken of",
        )


class _Saved:
    """Arrays by place, each handed out once."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._places: dict[str, dict[str, Array]] = {}
        for name, array in arrays.items():
            place, _, own = name.rpartition("/")
            self._places.setdefault(place, {})[own] = array

    @contextmanager
    def arena(self, place: str, what: str) -> Iterator[Arena]:
        """Copies of a place's arrays, of which every one must be taken up."""
        held = self._places.pop(place, {})
        arena = Arena({name: np.array(array, order="C") for name, array in held.items()})
        try:
            yield arena
            arena.complete()
        except StateError as error:
            raise StateError(f"{what} does not fit the snapshot: {error.message}") from error

    def check_empty(self) -> None:
        if self._places:
            raise StateError(f"the snapshot holds what nobody takes up: {', '.join(sorted(self._places))}")
