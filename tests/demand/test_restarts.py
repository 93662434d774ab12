"""A tree of joins that leaves as a file and comes back goes on as if nothing had been; so does one whose rows are numbered anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.api.session import Session
from penstock.kernels.tree import climb as kernel
from penstock.types import sizes
from tests.demand.drawn import Case, Changes, answers, make, push, pushes, session
from tests.demand.test_equal import joins
from tests.equivalence.test_restarts import Restarts

SEEDS = range(920_000, 920_012)


def with_restarts(case: Case, path: Path, **options: object) -> tuple[Changes, Session]:
    """As `answers`, with a restart after every fourth piece."""
    made = session(case, **options)
    restart = Restarts(lambda: session(case, **options), path)
    made.query(case.query, name="q")
    said: Changes = []
    for number, piece in enumerate(pushes(case, 30)):
        push(made, piece)
        said += [tuple(row.values()) for row in made.queries["q"].changes().to_pylist()]
        if number % 4 == 1:
            made = restart(made)
    made.advance(case.last + 100)
    said += [tuple(row.values()) for row in made.queries["q"].changes().to_pylist()]
    return sorted(said, key=repr), made


@pytest.mark.parametrize("demand", ["off", "doe", "jit"])
def test_a_restart_changes_nothing(demand: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        case = make(seed, 3 + seed % 4)
        options = {"join": "tree", "demand": demand, "tree": "left-deep"}
        straight, _ = answers(case, 30, **options)
        again, after = with_restarts(case, tmp_path / "state", **options)
        assert straight == again, str(case)
        assert len(joins(after)) == 1, "it is still a tree"


@pytest.mark.parametrize("demand", ["off", "jit"])
def test_rows_numbered_anew_are_the_same_rows(demand: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every few hundred rows instead of every thousand million."""
    case = make(920_100, 4, "clique")
    options = {"join": "tree", "demand": demand, "tree": "bushy"}
    plain, _ = answers(case, 10, **options)
    monkeypatch.setattr(sizes, "current", replace(sizes.DEFAULT, tree_numbers=200))
    found, made = answers(case, 10, **options)
    assert found == plain
    (join,) = joins(made)
    assert int(join._state.sources[:, 0].max()) < len(case.rows) // 4 + 200


def test_indexes_that_nobody_asks_go_and_the_others_lie_elsewhere() -> None:
    """Let go of at every push, as if none had been asked for as long as rows live, or only those that have not been asked since the last."""
    gone = stayed = 0
    for seed in range(920_200, 920_206):
        case = make(seed, 4, "clique")
        options = {"join": "tree", "tree": "bushy"}
        plain, _ = answers(case, 10, demand="off", **options)
        made = session(case, demand="jit", **options)
        query = made.query(case.query, name="q")
        (join,) = joins(made)
        held = join._state
        said: Changes = []
        for number, piece in enumerate(pushes(case, 10)):
            push(made, piece)
            said += [tuple(row.values()) for row in query.changes().to_pylist()]
            kept = held.indexes[:, kernel.COLUMN] >= 0
            if kept.any():
                if number % 3 == 0:
                    held.indexes[kept, kernel.LINKED] = -1
                held._drop_indexes()
                left = int((held.indexes[:, kernel.COLUMN] >= 0).sum())
                gone, stayed = gone + int(kept.sum()) - left, stayed + left
        made.advance(case.last + 100)
        said += [tuple(row.values()) for row in query.changes().to_pylist()]
        assert sorted(said, key=repr) == plain, str(case)
    assert gone > 0
    assert stayed > 0
