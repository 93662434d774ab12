"""Answers from samples, end to end: rows that were processed and estimates of others as two streams of one session.

What the engine says is compared at every instant with the naive twin, which looks at the rows alive then.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock
from penstock.errors import PlanError
from penstock.optimizer import optimize
from penstock.partitioning.stages import Stages, stages, two_stages
from penstock.plan.explain import explain
from penstock.plan.expressions import Column, Literal
from penstock.plan.fingerprint import fingerprint
from penstock.plan.function_signatures import call
from penstock.plan.nodes import Aggregate, Filter, Node, Reliable
from penstock.plan.query_root import Root, top
from penstock.plan.sample_columns import sampled
from penstock.plan.traversal import every
from penstock.plan.update_pattern import Pattern, judge_query
from penstock.sql import Select, bind, parse
from penstock.testing.local_cells import Cells
from penstock.types.data_type import Type
from tests.overload import naive
from tests.overload.naive import Level

DDL = """
CREATE STREAM a (ts BIGINT, g INT, s STRING, p DOUBLE, x INT, r INT) WATERMARK ts DELAY OF 0;
CREATE STREAM e (ts BIGINT, g INT, s STRING, r INT, w DOUBLE, v DOUBLE, d DOUBLE) WATERMARK ts DELAY OF 0;
"""
ASKED: tuple[tuple[str, str | None], ...] = (
    ("count", None), ("count", "p"), ("sum", "p"), ("avg", "p"), ("stddev", "p"),
    ("sum", "x"), ("avg", "x"), ("min", "p"), ("max", "s"),
)  # fmt: skip
TYPES = {"g": int, "s": str}
END = 70


def bound(session: Any, text: str) -> Node:
    statement = bind(parse(text)[0], session.catalog)
    assert isinstance(statement, Select)
    return statement.query.root


def planned(
    session: Any,
    window: str,
    keys: tuple[str, ...],
    asked: tuple[tuple[str, str | None], ...] = ASKED,
    *,
    levels: int = 2,
    variance: bool = True,
    **options: Any,
) -> Reliable:
    calls = [f"{f}({c or '*'}) AS o{i}" for i, (f, c) in enumerate(asked)]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    text = f"SELECT {', '.join((*keys, *calls))} FROM a [{window}]{group}"
    (aggregate,) = [n for n in every(bound(session, text)) if isinstance(n, Aggregate)]
    place = [f.name for f in aggregate.input.schema].index("r")
    columns = (*keys, "r", "w", *(["v", "d"] if variance else []))
    gone = bound(session, f"SELECT {', '.join(columns)} FROM e [{window}]")
    rank = Column(place, aggregate.input.schema[place].type, "r")
    return sampled(aggregate, rank, levels, gone, **options)


class Case:
    """Random rows, processed or expired."""

    def __init__(self, seed: int, *, sheds: bool = True) -> None:
        rng = Random(seed)
        self.rng = rng
        self.window = rng.choice(("RANGE 7", "RANGE 20", "RANGE 12 SLIDE 4", "RANGE 5 SLIDE 10"))
        self.keys = rng.choice(((), ("g",), ("s",), ("g", "s")))
        self.levels = rng.randint(1, 3)
        self.error = rng.choice((0.5, 5.0, 20.0, 1000.0))
        self.relative = rng.random() < 0.3
        self.variance = rng.random() < 0.5
        wild = rng.random() < 0.3
        self.rows: dict[str, list[dict[str, Any]]] = {"a": [], "e": []}
        for _ in range(rng.choice((40, 150, 400))):
            ts = rng.randint(1, END - 25)
            rank = rng.choice((None, *range(1, self.levels + 2)))
            name = f"n{rng.randint(0, 3)}"
            key = {"ts": ts, "g": rng.randint(0, 2), "s": name, "r": rank}
            if sheds and rng.random() < 0.25:
                w = rng.choice((0.25, 1.0, 3.5, 0.0))
                self.rows["e"].append({**key, "w": w, "v": rng.choice((0.0, 0.3, 2.0)), "d": w / 2})
            else:
                p = None if rng.random() < 0.1 else rng.gauss(100.0, 1e-3 if wild else 10.0)
                x = None if rng.random() < 0.1 else rng.randint(-50, 50)
                self.rows["a"].append({**key, "p": p, "x": x})
        for rows in self.rows.values():
            rows.sort(key=lambda r: r["ts"])

    def alive(self, stream: str, tau: int) -> list[dict[str, Any]]:
        words = self.window.split()
        length, slide = int(words[1]), int(words[3]) if len(words) > 2 else 1

        def edge(t: int) -> int:
            return -(-t // slide) * slide

        return [r for r in self.rows[stream] if edge(r["ts"]) <= tau < edge(r["ts"] + length)]

    def answers(self, tau: int) -> list[tuple[Any, ...]]:
        """What the twin says."""
        groups: dict[tuple[Any, ...], list[Level]] = {}
        rows, gone = self.alive("a", tau), self.alive("e", tau)
        keys = {tuple(r[k] for k in self.keys) for r in (*rows, *gone)} if self.keys else {()}
        for key in keys:
            groups[key] = [
                self.level(
                    [r for r in rows if self.belongs(r, key, k)], [r for r in gone if self.belongs(r, key, k)]
                )
                for k in range(1, self.levels + 2)
            ]
        return [row for key, found in groups.items() for row in self.answer(key, found)]

    def belongs(self, row: dict[str, Any], key: tuple[Any, ...], level: int) -> bool:
        own = row["r"] if row["r"] in range(1, self.levels + 1) else self.levels + 1
        return own == level and tuple(row[k] for k in self.keys) == key

    def level(self, rows: list[dict[str, Any]], gone: list[dict[str, Any]]) -> Level:
        guessed = [r["w"] * (1 - r["w"]) if r["w"] <= 1 else r["w"] for r in gone]
        variance = sum(guessed)
        if self.variance:  # what rows have in doubt they have together
            variance = sum(r["v"] for r in gone) + sum(r["d"] for r in gone) ** 2
        return Level(rows, sum(r["w"] for r in gone), variance)

    def answer(self, key: tuple[Any, ...], levels: list[Level]) -> list[tuple[Any, ...]]:
        k = naive.used(levels, ASKED, self.error, self.relative)
        sample, expired = sum(len(v.rows) for v in levels), sum(v.expired for v in levels)
        if not self.keys and sample == expired == 0:
            k = len(levels)
        if k == 0:
            return []
        chosen = levels[:k]
        said = [naive.answer(chosen, f, c) for f, c in ASKED]
        best = next((i + 1 for i, level in enumerate(chosen) if level.rows), self.levels + 1)
        here = sum(len(v.rows) for v in chosen)
        return [
            (
                *key,
                *(v for v, _, _ in said),
                best if best <= self.levels else None,
                "1" * k + "0" * (len(levels) - k),
                here + sum(v.expired for v in chosen),
                here,
                *(end for _, low, high in said for end in (low, high)),
                expired / (sample + expired) if expired else 0.0,
            )
        ]


class Fed:
    """A plan that runs, and what it has said so far."""

    def __init__(self, case: Case, placing: Any = None, **options: Any) -> None:
        self.session: Any = penstock.connect(**options)
        if placing is not None:
            self.session.engine = Cells(self.session.catalog, 3, placing=placing)
        self.session.execute(DDL)
        self.plan = planned(
            self.session, case.window, case.keys, levels=case.levels, error=case.error,
            relative=case.relative, variance=case.variance,
        )  # fmt: skip
        self.standing = self.session.engine.register("q", top(self.plan), keep=True)
        self.said: list[tuple[Any, ...]] = []

    def feed(self, case: Case, cuts: list[int]) -> None:
        start = 0
        for cut in cuts:
            for stream, rows in case.rows.items():
                news = [r for r in rows if start < r["ts"] <= cut]
                if news:
                    self.session.push(stream, news)
            self.session.advance(cut)
            self.session.engine.settle()
            self.session.engine.check(self.standing)
            table = self.standing.answer.changes()
            self.said += zip(*(c.to_pylist() for c in table.columns), strict=True)
            start = cut

    def alive(self, tau: int) -> list[tuple[Any, ...]]:
        """The answer at an instant, from what was said; every '-' must end a row that is there."""
        live: Counter[tuple[Any, ...]] = Counter()
        for op, ts, exp, *row in sorted(self.said, key=lambda c: (c[1], c[0] != "-")):
            if ts > tau:
                break
            live = Counter({k: n for k, n in live.items() if k[0] is None or k[0] > ts or op == "-"})
            live[(exp, *row)] += 1 if op == "+" else -1
            assert live[(exp, *row)] >= 0, "a row ends that is not there"
        return [k[1:] for k, n in live.items() for _ in range(n) if k[0] is None or k[0] > tau]


def cuts(rng: Random) -> list[int]:
    return sorted({*rng.sample(range(1, END), rng.choice((0, 3, 20))), END})


def close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float | int):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    if isinstance(one, int) and isinstance(other, float):  # a rounded estimate
        return abs(one - other) <= 0.5 + 1e-6
    return bool(one == other)


def assert_alike(said: list[tuple[Any, ...]], expected: list[tuple[Any, ...]], keys: int, tau: int) -> None:
    by = {row[:keys]: row for row in expected}
    assert len(said) == len(by) and {r[:keys] for r in said} == set(by), (tau, said, expected)
    for row in said:
        other = by[row[:keys]]
        wrong = [(i, a, b) for i, (a, b) in enumerate(zip(row, other, strict=True)) if not close(a, b)]
        assert not wrong, (tau, wrong, row, other)


@pytest.mark.parametrize("seed", range(40))
def test_random_streams_say_what_the_twin_says(seed: int) -> None:
    case = Case(seed)
    expiry = case.rng.choice(("upa", "upa", "negative", "direct", "hybrid"))
    fed = Fed(case, expiry=expiry)
    fed.feed(case, cuts(case.rng))
    for tau in range(1, END):
        assert_alike(fed.alive(tau), case.answers(tau), len(case.keys), tau)


@pytest.mark.parametrize("seed", range(8))
def test_cuts_change_nothing(seed: int) -> None:
    case = Case(100 + seed)
    said = []
    for cut in ([END], list(range(1, END + 1)), cuts(case.rng)):
        fed = Fed(case)
        fed.feed(case, cut)
        said.append(Counter(fed.said))
    assert said[0] == said[1] == said[2]


def cut_anywhere(root: Root, cells: int, name: str, **how: Any) -> Stages:
    """Cut where it can be done, whether or not that is worth it; often below the answers."""
    found = list(two_stages(root, cells, name, **how))
    return Random(str(root)).choice(found) if found else stages(root, cells, name, **how)


@pytest.mark.parametrize("placing", [stages, cut_anywhere])
@pytest.mark.parametrize("seed", range(6))
def test_cells_say_the_same(seed: int, placing: Any) -> None:
    case = Case(400 + seed)
    case.keys = case.keys or ("g",)
    alone, several = Fed(case), Fed(case, placing)
    for fed in (alone, several):
        fed.feed(case, cuts(Random(seed)))
    assert Counter(several.said) == Counter(alone.said)


@pytest.mark.parametrize("seed", range(12))
def test_where_nothing_expires_it_is_the_plain_group_by(seed: int) -> None:
    """The same changes at the same instants, bit for bit but for a deviation over several levels."""
    case = Case(200 + seed, sheds=False)
    case.keys = case.keys or ("g",)
    if seed % 3 == 0:
        for row in case.rng.sample(case.rows["a"], 9):
            row["p"] = case.rng.choice((math.inf, -math.inf, math.nan, 1e300, -0.0))
    fed = Fed(case)
    calls = ", ".join(f"{f}({c or '*'}) AS o{i}" for i, (f, c) in enumerate(ASKED))
    text = f"SELECT {', '.join(case.keys)}, {calls} FROM a [{case.window}] GROUP BY {', '.join(case.keys)}"
    plain = fed.session.query(f"{text} HAVING COUNT(*) > 0", name="plain")
    fed.feed(case, cuts(case.rng))
    table = plain.changes()
    width = 3 + len(case.keys) + len(ASKED)
    deviation = 3 + len(case.keys) + ASKED.index(("stddev", "p"))

    def told(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
        found = {repr(row[:deviation] + row[deviation + 1 : width]): row[deviation] for row in rows}
        assert len(found) == len(rows)
        return found

    mine, other = told(fed.said), told(list(zip(*(c.to_pylist() for c in table.columns), strict=True)))
    assert mine.keys() == other.keys()
    assert [(k, mine[k], other[k]) for k in mine if not close(mine[k], other[k])] == []
    flags = {row[width + 1] for row in fed.said}
    assert flags == {"1" * (case.levels + 1)} and {row[-1] for row in fed.said} == {0.0}


@pytest.mark.parametrize("seed", range(6))
def test_a_restart_changes_nothing(seed: int, tmp_path: Path) -> None:
    from penstock.durability.snapshot import dump, read, restore, write

    case = Case(300 + seed)
    whole, fed = Fed(case), Fed(case)
    middle = case.rng.randint(5, END - 30)
    whole.feed(case, [middle, END])
    fed.feed(case, [middle])
    write(dump(fed.session.engine), tmp_path / "state")
    again = restore(fed.session.catalog, [("q", fed.standing.root, True)], read(tmp_path / "state"))
    fed.session.engine, fed.standing = again, again.queries["q"]
    case.rows = {n: [r for r in rows if r["ts"] > middle] for n, rows in case.rows.items()}
    fed.feed(case, [END])
    assert Counter(fed.said) == Counter(whole.said)


def test_a_group_without_a_reliable_sample_has_no_answer() -> None:
    """The story of one group: all rows, then some of level 2 expire and only level 1 is used, then of level 1, too."""
    session = penstock.connect()
    session.execute(DDL)
    plan = planned(session, "RANGE 10", ("g",), (("avg", "x"), ("max", "x")), levels=1, error=1.0)
    standing = session.engine.register("q", top(plan), keep=True)
    row = {"g": 7, "s": "a", "p": 0.0}
    session.push("a", [{**row, "ts": 1, "x": 10, "r": 1}, {**row, "ts": 1, "x": 30, "r": None}])
    gone = {"g": 7, "s": "a", "w": 2.0, "v": 0.0, "d": 0.0}
    session.push("e", [{**gone, "ts": 3, "r": 2}, {**gone, "ts": 5, "r": 1}])
    session.advance(20)
    session.engine.settle()
    said = [tuple(r.values()) for r in standing.answer.changes().to_pylist()]
    assert said == [
        ("+", 1, 11, 7, 20.0, 30, 1, "11", 2.0, 2, 20.0, 20.0, 30, 30, 0.0),
        ("-", 3, 11, 7, 20.0, 30, 1, "11", 2.0, 2, 20.0, 20.0, 30, 30, 0.0),
        ("+", 3, 11, 7, 10.0, 10, 1, "10", 1.0, 1, 10.0, 10.0, 10, 10, 0.5),
        ("-", 5, 11, 7, 10.0, 10, 1, "10", 1.0, 1, 10.0, 10.0, 10, 10, 0.5),
    ]


def test_extremes_alone_take_levels_of_which_nothing_expired() -> None:
    session = penstock.connect()
    session.execute(DDL)
    plan = planned(session, "RANGE 10", ("g",), (("min", "x"),), levels=1)
    standing = session.engine.register("q", top(plan), keep=True)
    row = {"ts": 1, "g": 7, "s": "a", "p": 0.0}
    session.push("a", [{**row, "x": 10, "r": 1}, {**row, "x": 3, "r": 2}, {**row, "x": 4, "r": 2}])
    session.push("e", [{"ts": 1, "g": 7, "s": "a", "r": 2, "w": 1.0, "v": 0.0, "d": 0.0}])
    session.advance(1)
    session.engine.settle()
    assert [tuple(r.values())[4:9] for r in standing.answer.changes().to_pylist()] == [(10, 1, "10", 1.0, 1)]


@pytest.mark.parametrize("seed", range(4))
def test_rules_change_nothing(seed: int) -> None:
    """Over a join, below a filter: as it was written, and as the rules make it."""
    case = Case(500 + seed)
    session: Any = penstock.connect()
    session.execute(DDL)
    text = (
        "SELECT u.g, AVG(u.p) AS m, MAX(b.x) AS x FROM (SELECT g, p, x + 0 AS y, r FROM a [RANGE 7]) AS u, a [RANGE 9] AS b "
        "WHERE u.y = b.x AND b.g < 2 GROUP BY u.g"
    )
    (aggregate,) = [n for n in every(bound(session, text)) if isinstance(n, Aggregate)]
    place = [f.name for f in aggregate.input.schema].index("r")
    gone = bound(session, "SELECT g, r, w FROM e [RANGE 7] WHERE w > 0.5")
    plan = sampled(aggregate, Column(place, Type.INT, "r"), case.levels, gone, error=case.error)
    kept: Node = Filter(plan, call(">", Column(0, Type.INT, "g"), Literal(0, Type.INT)))
    better = optimize(kept)
    assert better != kept
    standing = [
        session.engine.register(name, top(one), keep=False) for name, one in (("p", kept), ("q", better))
    ]
    for stream, rows in case.rows.items():
        session.push(stream, rows)
    session.advance(END)
    session.engine.settle()
    said = [one.answer.changes().to_pylist() for one in standing]
    one, other = (Counter(tuple(r.values()) for r in rows) for rows in said)
    assert one == other and len(one) > 10


def test_the_greatest_number_is_a_value() -> None:
    session = penstock.connect()
    session.execute(DDL)
    session.execute("CREATE STREAM b (ts BIGINT, y BIGINT, r INT) WATERMARK ts DELAY OF 0")
    root = bound(session, "SELECT MIN(y) AS y FROM b [RANGE 5]")
    (aggregate,) = [n for n in every(root) if isinstance(n, Aggregate)]
    plan = sampled(aggregate, Column(2, Type.INT, "r"), 1, bound(session, "SELECT r, w FROM e [RANGE 5]"))
    standing = session.engine.register("q", top(plan), keep=True)
    session.push("b", [{"ts": 1, "y": 2**63 - 1, "r": 2}])
    session.advance(1)
    session.engine.settle()
    assert standing.answer.changes()["MIN(y)"].to_pylist()[-1] == 2**63 - 1


def test_plans_say_what_they_do() -> None:
    session = penstock.connect()
    session.execute(DDL)
    plan = planned(session, "RANGE 10", ("g",), (("avg", "p"),), error=0.05, relative=True)
    assert judge_query(plan).pattern is Pattern.STRICT
    text = explain(plan)
    assert text.splitlines()[0].startswith(
        "reliable AVG(p) by g of 2 levels and insignificant rows, within 0.05 of the mean  [STRICT: "
    )
    assert text.splitlines()[-1].startswith("  GROUP BY with ranks: no other window helps")
    other = planned(session, "RANGE 10", ("g",), (("avg", "p"),), error=0.05)
    assert fingerprint(plan) != fingerprint(other)
    assert plan == planned(session, "RANGE 10", ("g",), (("avg", "p"),), error=0.05, relative=True)


def test_distinct_values_are_not_told_from_a_sample() -> None:
    session = penstock.connect()
    session.execute(DDL)
    root = bound(session, "SELECT COUNT(DISTINCT x) AS n FROM a [RANGE 5]")
    (aggregate,) = [n for n in every(root) if isinstance(n, Aggregate)]
    gone = bound(session, "SELECT r, w FROM e [RANGE 5]")
    with pytest.raises(PlanError, match="cannot be told from a sample"):
        sampled(aggregate, Column(5, aggregate.input.schema[5].type, "r"), 2, gone)
