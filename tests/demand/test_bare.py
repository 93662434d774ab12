"""A tree may keep its partial results or find them anew: answers are the same, whenever it changes, and it does so by what it measures."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.kernels.tree import climb as kernel
from penstock.operators.join.tree_join import TreeJoin
from penstock_lab.figures.jit.plans import BUSHY, Setting
from tests.demand.drawn import GRAPHS, Case, Changes, answers, make, push, pushes, session, trees
from tests.demand.hurried import change
from tests.demand.test_equal import joins
from tests.demand.test_gate import run, snapshots
from tests.equivalence.test_restarts import Restarts


def with_changes(case: Case, rng: random.Random, share: float, **options: object) -> tuple[Changes, set[int]]:
    """As `answers`, where the tree changes before the first push and a share of the others; and whether it kept its partial results, push by push."""
    made = session(case, join="tree", demand="jit", **options)
    query = made.query(case.query, name="q")
    (join,) = joins(made)
    said: Changes = []
    kept = set()
    for number, piece in enumerate(pushes(case, rng.choice((1, 4, 20)))):
        if number == 0 or rng.random() < share:
            change(join)
        push(made, piece)
        said += [tuple(row.values()) for row in query.changes().to_pylist()]
        kept.add(join.counted()["kept"])
    made.advance(case.last + 100)
    said += [tuple(row.values()) for row in query.changes().to_pylist()]
    counted = join.counted()
    kept.add(counted["kept"])
    if None not in case.windows:
        assert {counted[what] for what in ("partials", "blacklist", "buffer")} == {0}
    return sorted(said, key=repr), kept


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("sources", range(3, 9))
def test_every_graph_and_number_of_sources(graph: str, sources: int) -> None:
    case = make(950_000 + sources, sources, graph)
    rng = random.Random(f"bare {graph} {sources}")
    shape = trees(rng, case)
    plain, _ = answers(case, None, join="tree", demand="off", tree=shape)
    ways = [with_changes(case, rng, share, tree=shape) for share in (0.1, 0.5)]
    assert [found == plain for found, _ in ways] == [True, True], str(case)
    assert 0 in {kept for _, every in ways for kept in every}


def test_what_is_left_when_windows_have_passed() -> None:
    """While nothing is kept, nothing is: not a partial result, not a row aside, not a key that is waited for."""
    found = 0
    for seed in range(951_000, 951_010):
        case = make(seed, 3 + seed % 4)
        made = session(case, join="tree", demand="jit")
        query = made.query(case.query, name="q")
        (join,) = joins(made)
        change(join)
        for piece in pushes(case, 20):
            push(made, piece)
            query.changes()
            counted = join.counted()
            if counted["kept"] == 0:
                found += counted["suppressed"]
                assert {counted[what] for what in ("partials", "blacklist", "buffer")} == {0}
                assert "found anew" in {holding.structure for holding in join.holdings()}
    assert found > 100


def test_snapshots_are_duckdb_s() -> None:
    assert snapshots(952_000, lambda join, rng: change(join) if rng.random() < 0.5 else None) > 20


def with_restarts(case: Case, path: Path, **options: object) -> tuple[Changes, set[int]]:
    """A change before every third push, and a restart after every one."""
    made = session(case, **options)
    restart = Restarts(lambda: session(case, **options), path)
    made.query(case.query, name="q")
    said: Changes = []
    kept = set()
    for number, piece in enumerate(pushes(case, 30)):
        if number % 3 == 0:
            change(joins(made)[0])
        push(made, piece)
        said += [tuple(row.values()) for row in made.queries["q"].changes().to_pylist()]
        before = joins(made)[0].counted()["kept"]
        made = restart(made)
        assert joins(made)[0].counted()["kept"] == before
        kept.add(before)
    made.advance(case.last + 100)
    said += [tuple(row.values()) for row in made.queries["q"].changes().to_pylist()]
    return sorted(said, key=repr), kept


def test_a_restart_while_nothing_is_kept(tmp_path: Path) -> None:
    for seed in range(953_000, 953_008):
        case = make(seed, 3 + seed % 4)
        options = {"join": "tree", "demand": "jit", "tree": "left-deep"}
        straight, _ = answers(case, 30, **options)
        found, kept = with_restarts(case, tmp_path / "state", **options)
        assert found == straight, str(case)
        assert kept == {0, 1}


# ---------------------------------------------------------------------- when it changes


def test_a_tree_that_makes_nothing_keeps_nothing() -> None:
    join, _ = run(replace(BUSHY, sources=4, window=600, rate=2.7), 3000)
    counted = join.counted()
    assert (counted["kept"], counted["partials"]) == (0, 0)
    assert counted["suppressed"] > 10 * counted["made"]
    assert join._state.counter(kernel.RESTING) == 0


def test_users_see_what_is_suspended_resumed_and_spared() -> None:
    made = penstock.connect(join="tree", tree="bushy", demand="jit", share=False, replan=False)
    setting = replace(BUSHY, sources=4, window=60, values=12)
    made.execute(setting.declaration())
    query = made.query(setting.query())
    for clock, tables in setting.pushes(900):
        for name, rows in tables.items():
            made.push(name, rows)
        made.advance(clock)
    told, (join,) = query.partial_results, joins(made)
    counted = join.counted()
    assert {what: counted[what] for what in told} == told
    assert min(told["suppressed"], told["suspended"], told["resumed"]) > 0
    assert told["spared"] == 32 * (told["suppressed"] - told["resumed"])
    assert f"{told['suspended']:,} suspended" in query.explain()
    assert f"; {told['spared']:,} bytes spared" in query.explain()


def test_a_tree_whose_answers_become_many_keeps_again() -> None:
    """Values are drawn from 200, then from 4, then from 200; it changes twice, makes what REF makes, and no answer twice."""
    told: dict[str, tuple[int, list[int]]] = {}
    for demand in ("off", "jit"):
        made = penstock.connect(join="tree", tree="bushy", demand=demand, share=False, replan=False)
        setting = replace(BUSHY, sources=3, window=120)
        made.execute(setting.declaration())
        query = made.query(setting.query())
        (join,) = joins(made)
        kept = []
        for values, begin, seconds in ((200, 0, 900), (4, 900, 900)):
            for clock, tables in replace(setting, values=values).pushes(seconds):
                for name, rows in tables.items():
                    later = pa.chunked_array([(rows["ts"].to_numpy() + begin)])
                    made.push(name, rows.set_column(0, "ts", later))
                made.advance(begin + clock)
                kept.append(join.counted()["kept"])
        told[demand] = query.matched, kept
    assert told["jit"][0] == told["off"][0] > 10_000
    assert told["off"][1] == [1] * 6
    assert told["jit"][1][:3] == [1, 0, 0]
    assert told["jit"][1][-1] == 1


def test_it_keeps_again_when_no_row_is_alive() -> None:
    """It is to change after a row that has ended before the next one of the same step comes."""
    made = penstock.connect(join="tree", tree="bushy", demand="jit", share=False, replan=False)
    setting = replace(BUSHY, sources=3, window=5)
    made.execute(setting.declaration())
    query = made.query(setting.query())
    (join,) = joins(made)
    change(join)
    for at, name in ((1, "a"), (2, "b"), (3, "c")):
        made.push(name, {"ts": [at], **{key: [1] for key in setting.columns("abc".index(name))}})
    made.advance(50)
    assert (join.counted()["kept"], query.matched) == (0, 1)
    change(join)
    made.push("a", {"ts": [110, 200], **{key: [1, 1] for key in setting.columns(0)}})
    made.advance(300)
    assert (join.counted()["kept"], query.matched) == (1, 1)


def test_it_keeps_for_long_before_it_tries_again() -> None:
    join, _ = run(replace(BUSHY, sources=4, window=600, rate=2.7), 3000)
    state = join._state
    before = state.counter(kernel.PATIENCE)
    times, sides, numbers = state.keep(3000)
    assert len(times) == len(sides) == len(numbers) == sum(len(state.live(i)) for i in range(4)) > 0
    assert state.counter(kernel.KEPT) >= max(before, 8 * len(times) // 1024)
    assert state.counter(kernel.PATIENCE) == 2 * before


def test_searched_states_are_kept() -> None:
    """As the paper's are: there a partial result costs as much as all it is searched for."""
    assert kept_after(replace(BUSHY, sources=3, window=60), "nested") == 1
    assert kept_after(replace(BUSHY, sources=3, window=60), "index") == 0


def kept_after(setting: Setting, probing: str) -> int:
    made = penstock.connect(join="tree", tree="bushy", demand="jit", probing=probing, share=False)
    made.execute(setting.declaration())
    made.query(setting.query())
    for clock, tables in setting.pushes(1200):
        for name, rows in tables.items():
            made.push(name, rows)
        made.advance(clock)
    join: TreeJoin = joins(made)[0]
    return join.counted()["kept"]
