"""A cell comes back from its checkpoint, whatever was lost on the way: here without Spark, step by step."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import StateError
from penstock.ingest.convert import read_rows
from penstock.partitioning.router import Router
from penstock.plan.join_tree import Shape, Tree
from penstock.plan.policies import Policies
from penstock.plan.state_upkeep import Upkeep
from penstock.spark import partition as cells
from penstock.spark.checkpoint import Store
from penstock.spark.declarations_log import Declared
from penstock.spark.filesystem import remove_all
from penstock.spark.flow_plan import Flowing, flowing
from penstock.spark.partition import Cell
from penstock.spark.union_layout import INPUT
from penstock.state.strings import Strings
from tests.spark.test_sessions import QUERIES, A, B, drawn, told

NUMBER = 4


class Driver:
    """Decides steps as the flow does, and routes rows itself."""

    def __init__(self, root: Path, policies: Policies | None = None) -> None:
        self.store = Store(root)
        self.store.open(NUMBER)
        session = penstock.connect()
        session.execute(A + B)
        queries = {name: session.query(text, name=name).sql for name, text in QUERIES.items()}
        self.declared = Declared(
            dict(session.catalog.streams),
            {},
            queries,
            dict.fromkeys(queries),
            policies=policies or Policies(),
        )
        self.declared_at = 1
        self.plan: Flowing = flowing(self.declared, self.declared.catalog({}), NUMBER, {})
        self.newest: dict[str, int] = {}
        self.watermarks = dict.fromkeys(self.declared.streams, -(2**61))
        self.step = 0
        self.epoch = self.run = ""
        self.inner: dict[str, Any] = {"step": 0, "until": {}, "laid": {}}
        self.heard: dict[str, dict[tuple[int, int], pa.Table]] = {name: {} for name in queries}
        self.store.put("declared", 1, self.declared.json())

    @classmethod
    def again(cls, driver: Driver) -> Driver:
        """Another one over the same checkpoint, that knows nothing yet."""
        return cls(driver.store.root)

    def turn_to(self, policies: Policies) -> None:
        """From the next step on, as a session that is connected otherwise would."""
        self.declared.policies = policies
        self.declared_at = self.step + 1
        self.store.put("declared", self.declared_at, self.declared.json())

    def header(self, flush: bool) -> dict[str, Any]:
        self.step += 1
        end = max(self.newest.values(), default=0) + 1
        header = {
            "step": self.step, "batch": self.step, "declared": self.declared_at, "watermarks": dict(self.watermarks),
            "updates": [], "sinks": list(self.declared.queries), "views": [], "together": False, "flush": dict.fromkeys(self.declared.streams, end) if flush else None,
            "inner": self.inner, "again": False, "sieves": {}, "asks": [], "promising": {},
            "epoch": self.epoch, "run": self.run,
        }  # fmt: skip
        self.store.put("steps", self.step, header)
        return header

    def routed(self, rows: dict[str, list[dict[str, Any]]]) -> list[pa.Table]:
        """Each cell's rows in the columns that all streams share."""
        parts: list[list[pa.Table]] = [[] for _ in range(NUMBER)]
        layout = self.plan.layout
        said = {
            name.lower(): [
                row
                for place in places
                for row in pa.parquet.read_table(self.store.out(self.inner["step"], place)).to_pylist()
            ]
            for name, places in self.inner["laid"].items()
        }
        for number, fed in enumerate(self.plan.inputs):
            given = (rows | said).get(fed.stream, [])
            stream, strings = fed.input.stream, Strings()
            columns = read_rows(given, stream.schema, strings)
            for where, picked in Router(fed.input.routing, strings, {}).route(columns, len(given)):
                content: dict[str, pa.Array] = {INPUT: pa.array([number] * len(picked), pa.int32())}
                for slot, kind in enumerate(layout.slots):
                    places = layout.places[fed.stream]
                    name = stream.schema[places.index(slot)].name if slot in places else None
                    values = [None if name is None else given[int(r)][name] for r in picked]
                    content[f"c{slot}"] = pa.array(values, kind.arrow)
                parts[where].append(pa.table(content))
        empty = pa.schema([(INPUT, pa.int32()), *((f"c{i}", t.arrow) for i, t in enumerate(layout.slots))])
        return [pa.concat_tables(p) if p else empty.empty_table() for p in parts]

    def note(self, answers: list[dict[str, Any]]) -> None:
        for answer in answers:
            for name, newest in answer["newest"].items():
                self.newest[name] = max(self.newest.get(name, newest), newest)
            assert sorted(answer["files"]) == sorted(answer["out"])
            for name in answer["files"]:
                place = self.store.out(answer["step"], answer["laid"]) / f"{name}.parquet"
                self.heard[name][answer["step"], answer["cell"]] = pa.parquet.read_table(place)
        clocks = [clock for answer in answers for clock in answer["clocks"].values()]
        until = dict.fromkeys((name.lower() for name in self.plan.lower), min(clocks) + 1)
        self.inner = {"step": answers[0]["step"], "until": until, "laid": {}}
        for answer in answers:
            for name, place in answer["inner"].items():
                self.inner["laid"].setdefault(name, []).append(place)
        for name, newest in self.newest.items():
            self.watermarks[name] = max(self.watermarks[name], newest - self.declared.streams[name].delay)
        self.store.put("done", answers[0]["step"], {"newest": self.newest})


def straight(rows: dict[str, list[dict[str, Any]]]) -> dict[str, pa.Table]:
    session = penstock.connect()
    session.execute(A + B)
    queries = {name: session.query(text, name=name) for name, text in QUERIES.items()}
    for name in "ab":
        session.push(name, rows[name])
    session.advance(max(r["ts"] for part in rows.values() for r in part))
    return {name: query.changes() for name, query in queries.items()}


@pytest.mark.parametrize("seed", range(8))
def test_cells_lost_at_any_step(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells die before, between and after steps; steps are asked for twice; the newest state is damaged."""
    monkeypatch.setattr(cells, "LEAST_LOG", 6000)
    rng = random.Random(seed)
    policies = Policies(
        seed % 4 != 1,
        rng.choice(("thompson", "tickets", "fixed", "random", "worst")),
        rng.choice(("auto", "eddy", "mjoin")),
        seed,
    )
    driver = Driver(tmp_path, policies)
    rows = drawn(seed, 60)
    alive = [Cell(driver.store, n, NUMBER, {}) for n in range(NUMBER)]
    cuts = sorted(rng.sample(range(1, 60), 9))
    turned = replace(policies, routing="random", join="eddy" if seed % 2 else "mjoin", seed=seed + 9)
    for begin, end in zip([0, *cuts, 60, 60], [*cuts, 60, 60, 60], strict=True):
        if begin == cuts[5]:
            driver.turn_to(turned)
        header = driver.header(flush=begin == 60)
        given = driver.routed({name: part[begin:end] for name, part in rows.items()})
        answers = []
        for n in range(NUMBER):
            if rng.random() < 0.4:
                if rng.random() < 0.3:
                    damage(driver.store, n, rng)
                alive[n] = Cell(driver.store, n, NUMBER, {})
            answers.append(alive[n].step(header, given[n]))
            if rng.random() < 0.3:
                alive[n] = Cell(driver.store, n, NUMBER, {})
            if rng.random() < 0.3:
                assert alive[n].step(header, given[n])["out"] == answers[-1]["out"]
        driver.note(answers)
    for name, expected in straight(rows).items():
        got = [tuple(r.values()) for t in driver.heard[name].values() for r in t.to_pylist()]
        assert sorted(got, key=repr) == told(expected), name
    for cell, own in zip(alive, given, strict=True):
        cell.step(header, own)  # one that was lost catches up
        for stage in (cell._lower, cell._upper):
            assert stage.engine.policies == turned
            assert (stage.engine.sharing is not None) == turned.share
    assert any(driver.store.states(n) for n in range(NUMBER)), "states are written"
    assert all(len(driver.store.states(n)) <= 2 for n in range(NUMBER))


def test_small_steps_make_a_state_due_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaying takes some time a step, whatever is in it."""
    monkeypatch.setattr(cells, "LEAST_STEPS", 4)
    driver = Driver(tmp_path)
    cell = Cell(driver.store, 0, NUMBER, {})
    for step in range(1, 10):
        driver.note([cell.step(driver.header(flush=False), driver.routed({})[0])])
        assert driver.store.states(0) == [n for n in (4, 8) if n <= step]


def damage(store: Store, number: int, rng: random.Random) -> None:
    """Flip a bit of the newest of two states."""
    states = store.states(number)
    if len(states) == 2:
        place = store.state(number, states[-1])
        content = bytearray(place.read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        place.write_bytes(content)


def test_a_damaged_log_is_refused(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    cell = Cell(driver.store, 0, NUMBER, {})
    rows = drawn(1, 40)
    for begin in (0, 20):
        header = driver.header(flush=False)
        driver.note(
            [cell.step(header, driver.routed({n: p[begin : begin + 20] for n, p in rows.items()})[0])]
        )
    place = driver.store.log(0, 1)
    whole = place.read_bytes()
    header = driver.header(flush=True)
    nothing = driver.routed({})[0]
    for at in range(0, len(whole), 37):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        place.write_bytes(damaged)
        with pytest.raises(penstock.StateError, match="damaged"):
            Cell(driver.store, 0, NUMBER, {}).step(header, nothing)
    for size in range(0, len(whole), 41):
        place.write_bytes(whole[:size])
        with pytest.raises(penstock.StateError, match="damaged"):
            Cell(driver.store, 0, NUMBER, {}).step(header, nothing)
    place.unlink()
    with pytest.raises(penstock.StateError, match="cannot be brought to step"):
        Cell(driver.store, 0, NUMBER, {}).step(header, nothing)
    place.write_bytes(whole)
    assert Cell(driver.store, 0, NUMBER, {}).step(header, nothing)["step"] == 3


def test_what_is_half_written_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails in the middle leaves neither a file nor a step behind."""
    driver = Driver(tmp_path)
    cell = Cell(driver.store, 0, NUMBER, {})
    header = driver.header(flush=False)
    given = driver.routed({n: p[:10] for n, p in drawn(2, 10).items()})[0]
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            cell.step(header, given)
    assert not list((tmp_path / "cells").rglob("*.*"))
    assert cell.version == 0
    assert 0 < sum(cell.step(header, given)["rows"].values()) < given.num_rows, "copies are not counted"
    assert np.isfinite(cell.step(header, given)["ms"])


@pytest.mark.parametrize(
    ("policies", "meets"),
    [
        (Policies(), False),
        (Policies(share=False), False),
        (Policies(join="eddy", routing="tickets", seed=3), True),
        (Policies(join="mjoin", routing="worst"), False),
    ],
)
def test_a_cell_goes_by_the_policies_of_the_session(tmp_path: Path, policies: Policies, meets: bool) -> None:
    driver = Driver(tmp_path, policies)
    alive = [Cell(driver.store, n, NUMBER, {}) for n in range(NUMBER)]
    header, given = driver.header(flush=True), driver.routed(drawn(1, 30))
    for cell, rows in zip(alive, given, strict=True):
        cell.step(header, rows)
    engines = [stage.engine for cell in alive for stage in (cell._lower, cell._upper)]
    assert all(engine.policies == policies for engine in engines)
    shared = [engine.sharing for engine in engines if engine.sharing is not None]
    assert bool(shared) == policies.share
    assert any(one.joins for one in shared) == meets
    routed = {c.eddy._cheap._name for one in shared for c in one.currents.values()}
    assert routed == ({policies.routing} if policies.share else set())


def test_what_state_hangs_on_stays_as_it_was() -> None:
    before = Declared(queries={"q": "SELECT 1"}, policies=Policies(share=False, seed=1))
    Declared(policies=Policies(share=False, routing="random", join="eddy", seed=2)).must_follow(before)
    with pytest.raises(StateError, match="made with share=False, this session has True"):
        Declared().must_follow(before)
    with pytest.raises(StateError, match="made with tree='bushy, demand jit', this session has 'None'"):
        Declared().must_follow(Declared(queries={"q": "SELECT 1"}, upkeep=Upkeep(tree=Tree(Shape.BUSHY))))


POLICIES = Policies().json()


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (
            {"share": True},
            "policies are share, routing, join, seed, budget, allocation, significance, guaranteed, sampling",
        ),
        ({**POLICIES, "more": 1}, "policies are"),
        ({**POLICIES, "share": 1}, "share=1 is neither"),
        ({**POLICIES, "routing": "eval()"}, "routing='eval\\(\\)' is unknown"),
        ({**POLICIES, "join": None}, "join=None is unknown"),
        ({**POLICIES, "seed": -1}, "seed=-1 is not a whole number"),
        ({**POLICIES, "budget": 0.5}, "budget=0.5 is not a whole number"),
        ({**POLICIES, "allocation": "best"}, "allocation='best' is unknown"),
        ([], "policies are"),
    ],
)
def test_policies_are_checked_when_they_are_read(told: Any, why: str) -> None:
    with pytest.raises(StateError, match=why):
        Declared.of({**Declared().json(), "policies": told})


def test_results_that_are_gone_are_made_again_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state holds the answer to its step, which names files; without them the step is applied once more."""
    monkeypatch.setattr(cells, "LEAST_STEPS", 1)
    driver = Driver(tmp_path)
    rows = drawn(2, 30)
    for begin in (0, 10, 20):
        header = driver.header(flush=False)
        given = driver.routed({n: p[begin : begin + 10] for n, p in rows.items()})
        answers = [Cell(driver.store, n, NUMBER, {}).step(header, own) for n, own in enumerate(given)]
        assert all(driver.store.states(n)[-1] == header["step"] for n in range(NUMBER))
        if begin == 20:
            before = {name: dict(tables) for name, tables in driver.heard.items()}
            driver.note(answers)
            (tmp_path / "done" / "000000000003.json").unlink()
            first, driver.heard = driver.heard, before
            remove_all(tmp_path / "out" / "000000000003")
            answers = [Cell(driver.store, n, NUMBER, {}).step(header, own) for n, own in enumerate(given)]
        driver.note(answers)
    assert any(step == 3 for tables in first.values() for step, _ in tables)
    assert driver.heard == first
