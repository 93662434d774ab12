"""First stages keep back what no second stage has a partner for: the same answers, fewer rows between the stages.

Most of it without Spark: cells are driven step by step, as the flow does it, and lost now and then."""

from __future__ import annotations

import os
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.ingest.convert import read_rows
from penstock.partitioning.router import Router
from penstock.partitioning.semijoin_filter import sieves
from penstock.partitioning.stages import Stages, two_stages
from penstock.plan.join_tree import Demand
from penstock.plan.policies import Policies
from penstock.plan.query_root import Root
from penstock.plan.state_upkeep import Upkeep
from penstock.spark import driver_progress as judged
from penstock.spark import flow_plan
from penstock.spark import partition as cells
from penstock.spark.checkpoint import Store
from penstock.spark.declarations_log import Declared
from penstock.spark.driver_progress import Known, summed
from penstock.spark.flow_plan import flowing
from penstock.spark.partition import Cell
from penstock.spark.union_layout import INPUT
from penstock.state.strings import Strings
from tests.spark.test_sessions import Kept, told

NUMBER = 3
"""So few would not be worth a second stage: `cut` makes one."""
STREAMS = "".join(
    f"CREATE STREAM {name} (ts BIGINT, x INT, y {kind}) WATERMARK ts DELAY OF {delay};"
    for name, kind, delay in (("a", "INT", 3), ("b", "BIGINT", 0), ("c", "DOUBLE", 5))
)
CHAIN = "a.x = b.x AND b.y = c.y"
QUERIES = (
    f"SELECT a.ts AS i, b.ts AS j, c.ts AS k FROM a [RANGE 20], b [RANGE 9], c [RANGE 12] WHERE {CHAIN}",
    f"SELECT a.y, c.x FROM a [RANGE 4], b [RANGE 40 SLIDE 5], c [RANGE 6 SLIDE 4] WHERE {CHAIN} AND c.x > 3",
    f"SELECT c.y, COUNT(*) AS n FROM a [RANGE 20], b [RANGE 9], c [NOW] WHERE {CHAIN} GROUP BY c.y",
    f"SELECT a.x + c.x AS z FROM a [RANGE 20], b [RANGE 30], c [RANGE 5] WHERE {CHAIN} AND a.y < 40",
    f"SELECT a.ts AS i, c.ts AS k FROM a, b, c [RANGE 10] WHERE {CHAIN}",
    f"SELECT a.ts AS i, c.ts AS k FROM a [RANGE 9], b [RANGE 9], c WHERE {CHAIN}",
)


def cut(root: Root, cells: int, name: str, *rest: Any, **more: Any) -> Stages:
    """The first way to cut a query with which something can be kept back, worth it or not."""
    return next(s for s in two_stages(root, cells, name, *rest, **more) if list(sieves(s)))


class Driver:
    """Decides steps as the flow does, and routes rows itself."""

    def __init__(
        self, root: Path, query: str, demand: Demand, policies: Policies | None = None, streams: str = STREAMS
    ) -> None:
        self.store = Store(root)
        self.store.open(NUMBER)
        session = penstock.connect()
        session.execute(streams)
        self.declared = Declared(
            dict(session.catalog.streams),
            {},
            {"q": session.query(query, name="q").sql},
            {"q": None},
            upkeep=Upkeep(demand=demand),
            policies=Policies() if policies is None else policies,
        )
        self.store.put("declared", 1, self.declared.json())
        self.plan = flowing(self.declared, self.declared.catalog({}), NUMBER, {})
        self.known = Known()
        self.step = 0
        self.alive = [Cell(self.store, n, NUMBER, {}) for n in range(NUMBER)]
        self.said: list[tuple[Any, ...]] = []
        self.counts: dict[str, int] = {}

    def run(self, rows: dict[str, list[dict[str, Any]]], rng: random.Random, *, flush: bool = False) -> None:
        self.step += 1
        known, streams = self.known, self.declared.streams
        ends = dict.fromkeys(streams, max(known.newest.values(), default=0) + 1)
        header = {
            "step": self.step, "batch": self.step, "declared": 1, "updates": [], "sinks": ["q"], "views": [], "together": False,
            "watermarks": {n: known.watermarks.get(n, -(2**61)) for n in streams}, "flush": ends if flush else None,
            "inner": known.inner, "again": False, "asks": known.asks(self.plan),
            "sieves": known.sieves if known.inner["declared"] == 1 else {}, "promising": known.promising,
            "epoch": "", "run": "",
        }  # fmt: skip
        self.store.put("steps", self.step, header)
        given = self.routed(rows)
        answers = []
        for n in range(NUMBER):
            if rng.random() < 0.15:
                self.alive[n] = Cell(self.store, n, NUMBER, {})
            answers.append(self.alive[n].step(header, given[n]))
        known.note(header, answers, self.plan, {n: s.delay for n, s in streams.items()})
        for answer in answers:
            for name in answer["files"]:
                table = pq.read_table(self.store.out(self.step, answer["laid"]) / f"{name}.parquet")
                self.said += [tuple(row.values()) for row in table.to_pylist()]
        self.counts = summed([self.counts, *(a["partial"].get("q", {}) for a in answers)])
        self.store.put("done", self.step, known.json())
        self.known = Known(**self.store.get("done", self.step))

    def routed(self, rows: dict[str, list[dict[str, Any]]]) -> list[pa.Table]:
        """Each cell's rows in the columns that all streams share."""
        parts: list[list[pa.Table]] = [[] for _ in range(NUMBER)]
        layout, inner = self.plan.layout, self.known.inner
        for name, places in inner["laid"].items():
            laid = [pq.read_table(self.store.out(inner["step"], place)) for place in places]
            rows = {**rows, name.lower(): pa.concat_tables(laid).to_pylist()}
        for number, fed in enumerate(self.plan.inputs):
            given = rows.get(fed.stream, [])
            stream, strings = fed.input.stream, Strings()
            columns = read_rows(given, stream.schema, strings)
            for where, picked in Router(fed.input.routing, strings, {}).route(columns, len(given)):
                content: dict[str, pa.Array] = {INPUT: pa.array([number] * len(picked), pa.int32())}
                places = layout.places[fed.stream]
                for slot, kind in enumerate(layout.slots):
                    name = stream.schema[places.index(slot)].name if slot in places else None
                    values = [None if name is None else given[int(r)][name] for r in picked]
                    content[f"c{slot}"] = pa.array(values, kind.arrow)
                parts[where].append(pa.table(content))
        empty = pa.schema([(INPUT, pa.int32()), *((f"c{i}", t.arrow) for i, t in enumerate(layout.slots))])
        return [pa.concat_tables(p) if p else empty.empty_table() for p in parts]


def drawn(rng: random.Random, rows: int) -> dict[str, list[dict[str, Any]]]:
    """In b many keys that c has few of; now and then all that c has comes later, or c falls silent."""
    made: dict[str, list[dict[str, Any]]] = {"a": [], "b": [], "c": []}
    silent = rng.choice([0, 0, rows // 2])
    keys = rng.choice([4, 30, 30, 200])
    for i in range(rows):
        made["a"].append({"ts": i + rng.randrange(3), "x": rng.randrange(4), "y": rng.randrange(60)})
        made["b"].append({"ts": i, "x": rng.choice([0, 1, 2, 3, None]), "y": rng.randrange(keys)})
        if i >= silent:
            y = rng.choice([float(rng.randrange(keys)), float(rng.randrange(keys)) + 0.5, None])
            made["c"].append({"ts": i + rng.randrange(5), "x": rng.randrange(8), "y": y})
    return made


def straight(query: str, rows: dict[str, list[dict[str, Any]]]) -> pa.Table:
    session = penstock.connect()
    session.execute(STREAMS)
    asked = session.query(query, name="q")
    for name, part in rows.items():
        session.push(name, sorted(part, key=lambda row: row["ts"]))
    session.advance(max(r["ts"] for part in rows.values() for r in part))
    return asked.changes()


def played(
    root: Path, query: str, demand: Demand, rng: random.Random, rows: dict[str, list[dict[str, Any]]]
) -> Driver:
    driver = Driver(root, query, demand)
    size = len(rows["a"])
    cuts = [0, *sorted(rng.sample(range(1, size), min(9, size - 1))), size]
    for begin, end in pairwise(cuts):
        driver.run({name: part[begin:end] for name, part in rows.items()}, rng)
    for _ in range(3):
        driver.run({}, rng, flush=True)
    return driver


CASES = int(os.environ.get("PENSTOCK_SIEVE_CASES", "12"))


@pytest.mark.parametrize("seed", range(CASES))
def test_the_same_answers(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is kept back, cells are lost with it, or the gate opens and shuts."""
    rng = random.Random(seed)
    monkeypatch.setattr(cells, "LEAST_LOG", rng.choice([3000, 1 << 20]))
    monkeypatch.setattr(judged, "LEAST", rng.choice([20, 1 << 20]))
    monkeypatch.setattr(judged, "REST", 2)
    monkeypatch.setattr(flow_plan, "stages", cut)
    query, demand = QUERIES[seed % len(QUERIES)], Demand.DOE if seed % 5 == 4 else Demand.JIT
    rows = drawn(rng, 80)
    driver = played(tmp_path, query, demand, rng, rows)
    assert driver.plan.sieves
    assert sorted(driver.said, key=repr) == told(straight(query, rows))


def test_few_rows_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where c has one key in ten, few rows of a ⋈ b go to it."""
    monkeypatch.setattr(flow_plan, "stages", cut)
    rows = drawn(random.Random(3), 160)
    for row in rows["b"]:
        row["y"] = row["ts"] % 40
    for row in rows["c"]:
        row["y"] = row["ts"] % 4 * 10
    sent = {}
    for demand in Demand:
        driver = played(tmp_path / demand.value, QUERIES[0], demand, random.Random(1), rows)
        assert sorted(driver.said, key=repr) == told(straight(QUERIES[0], rows))
        sent[demand] = driver.counts
    off, doe, jit = (sent[d] for d in (Demand.OFF, Demand.DOE, Demand.JIT))
    assert off["shipped"] > 500
    assert "suppressed" not in off
    assert doe["shipped"] == off["shipped"], "there is always something in c"
    assert jit["shipped"] < 0.2 * off["shipped"]
    assert jit["suppressed"] - jit["resumed"] == off["shipped"] - jit["shipped"]


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Eight cells, so that a chain of three has two stages by itself."""
    rows = drawn(random.Random(2), 300)
    for row in rows["b"]:
        row["y"] = row["ts"] % 40
    for row in rows["c"]:
        row["y"] = row["ts"] % 4 * 10
    kept = Kept()
    there = penstock.connect(spark, checkpoint=str(tmp_path), cells=8)
    there.execute(STREAMS)
    there.query(QUERIES[0], name="q").foreach_batch(kept)
    handle = there.start(trigger={"processingTime": "0 seconds"})
    for begin in (0, 100, 200):
        for name, own in rows.items():
            there.push(name, own[begin : begin + 100])
        handle.processAllAvailable()
    there.flow.flush()
    handle.stop()
    expected = straight(QUERIES[0], rows)
    assert expected.num_rows > 200
    assert kept.rows(expected.column_names) == told(expected)
    sent = summed(p["queries"]["q"].get("partialResults", {}) for p in there.flow.progress)
    assert sent["shipped"] < 0.5 * (sent["shipped"] + sent["suppressed"] - sent["resumed"])
