"""Asking or not is nobody's business but the clock's: answers are the same whenever a tree stops asking, and begins again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import penstock
from penstock.kernels.tree import climb as kernel
from penstock.operators.join.tree_join import TreeJoin
from penstock_lab.figures.jit.plans import BUSHY, Setting, fruitful
from tests.demand.drawn import Case, Changes, answers, make, push, pushes, session, trees
from tests.demand.test_duck import alive
from tests.demand.test_equal import joins

SEEDS = range(940_000, 940_060)


def rest(join: TreeJoin, events: int) -> None:
    """Let nobody be asked for so many events."""
    state = join._state
    state.regs[int(state.spec[kernel.COUNT]) + kernel.RESTING] = events


def with_rests(case: Case, rng: random.Random, **options: object) -> tuple[Changes, TreeJoin]:
    """As `answers`, with questions stopped and begun at random."""
    made = session(case, **options)
    query = made.query(case.query, name="q")
    (join,) = joins(made)
    said: Changes = []
    for piece in pushes(case, rng.choice((1, 4, 20))):
        if rng.random() < 0.3:
            rest(join, rng.choice((0, 0, 1, 3, 10, 1000)))
        push(made, piece)
        said += [tuple(row.values()) for row in query.changes().to_pylist()]
    made.advance(case.last + 100)
    said += [tuple(row.values()) for row in query.changes().to_pylist()]
    return sorted(said, key=repr), join


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, 20))
def test_questions_that_stop_and_begin_change_no_answer(first: int) -> None:
    made = suppressed = 0
    for seed in range(first, first + 20):
        case = make(seed)
        rng = random.Random(f"rests {seed}")
        shape = trees(rng, case)
        plain, _ = answers(case, None, join="tree", demand="off", tree=shape)
        found, join = with_rests(case, rng, join="tree", demand="jit", tree=shape)
        assert found == plain, str(case)
        counted = join.counted()
        made, suppressed = made + counted["made"], suppressed + counted["suppressed"] + counted["suspended"]
        if None not in case.windows:
            assert {counted[what] for what in ("partials", "blacklist", "buffer")} == {0}
    assert made > 0
    assert suppressed > 0


def snapshots(first: int, disturb: Callable[[TreeJoin, random.Random], None]) -> int:
    """Trees that are disturbed between pushes have the rows that DuckDB finds over the windows; how many."""
    found = 0
    for seed in range(first, first + 6):
        case = make(seed, 3 + seed % 3)
        rng = random.Random(f"disturbed {seed}")
        made = session(case, join="tree", tree="bushy", demand="jit")
        query = made.query(case.query, keep=True)
        (join,) = joins(made)
        ahead = sorted(case.rows, key=lambda one: one[1]["ts"])
        times = sorted({row["ts"] for _, row in ahead})
        for clock in times[:: max(len(times) // 8, 1)]:
            disturb(join, rng)
            push(made, [one for one in ahead if one[1]["ts"] <= clock])
            ahead = [one for one in ahead if one[1]["ts"] > clock]
            made.advance(clock)
            got = sorted(tuple(row.values()) for row in query.snapshot().to_pylist())
            assert got == alive(case, clock), f"{case} at {clock}"
            found += len(got)
    return found


def test_snapshots_are_duckdb_s_while_questions_stop_and_begin() -> None:
    assert snapshots(941_000, lambda join, rng: rest(join, rng.choice((0, 5, 1000)))) > 20


def run(setting: Setting, seconds: int, demand: str = "jit") -> tuple[TreeJoin, int]:
    """A tree after so much time, and how many answers there were."""
    made = penstock.connect(join="tree", tree="bushy", demand=demand, share=False, replan=False)
    made.execute(setting.declaration())
    query = made.query(setting.query())
    for clock, tables in setting.pushes(seconds):
        for name, rows in tables.items():
            made.push(name, rows)
        made.advance(clock)
    return joins(made)[0], query.matched


def test_a_tree_whose_partial_results_are_all_needed_stops_asking() -> None:
    join, answers = run(fruitful(4), 5000)
    counted = join.counted()
    assert join._state.counter(kernel.RESTING) > 0
    assert (counted["blacklist"], counted["buffer"]) == (0, 0), "what waited has ended"
    plain, others = run(fruitful(4), 5000, "off")
    assert answers == others > 5000
    assert counted["made"] == plain.counted()["made"]


def test_it_does_so_before_its_windows_are_full() -> None:
    join, _ = run(fruitful(3), 599)
    assert join._state.counter(kernel.STEADY) == 0
    assert join._state.counter(kernel.RESTING) > 0


def test_a_tree_that_spares_much_goes_on_asking() -> None:
    """And makes now and then one that is wanted, so that it keeps them."""
    join, _ = run(replace(BUSHY, sources=3, window=600, rate=2.7), 3000)
    counted = join.counted()
    assert join._state.counter(kernel.STEADY) > 1
    assert join._state.counter(kernel.RESTING) == 0
    assert counted["kept"] == 1
    assert counted["suppressed"] > counted["made"]


def test_the_same_rows_stop_asking_at_the_same_events() -> None:
    """No clock is asked: two runs hold the same numbers."""
    registers = []
    for _ in range(2):
        case = make(942_000, 4, "clique")
        made = session(case, join="tree", demand="jit")
        made.query(case.query)
        (join,) = joins(made)
        for piece in pushes(case, 40):
            push(made, piece)
        registers.append(join._state.regs.copy())
    assert np.array_equal(*registers)
