"""Rows that are not backed have no partner alive in their leaf, whoever walks and whatever moves."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.demand.hurried import hurried

import penstock
from penstock.kernels.join import chains
from penstock.operators.join.fifo_join import FifoJoin, _alike
from penstock.state.stems import Stems

STAR = "SELECT a.ts FROM a [RANGE 400], b [RANGE 300], c [RANGE 500] WHERE a.x = b.x AND a.y = c.y"
CHAIN = (
    "SELECT a.ts FROM b [RANGE 300], a [RANGE 400], c [RANGE 500], d [RANGE 60]"
    " WHERE a.x = b.x AND a.y = c.y AND c.x = d.x"
)


def check(join: FifoJoin) -> tuple[int, int]:
    """Alive rows that are not backed, and all."""
    backing, stems = join._backing, join._stems
    spared = rows = 0
    missing: dict[int, set[int]] = {k: set() for k in range(len(stems.indexes))}
    for a, c, index in backing.pairs.tolist():
        tail, used = (int(stems.edges[a, f]) for f in (chains.TAIL, chains.USED))
        backed = backing.backed[backing.at[a, c] + tail : backing.at[a, c] + used]
        keys = stems.table(a)[tail:used, stems.indexes[index, chains.FIELD]]
        theirs = stems.table(c)[stems.edges[c, chains.TAIL] : stems.edges[c, chains.USED], 1]
        assert not np.isin(keys[backed == 0], theirs).any(), (a, c)
        spared, rows = spared + int((backed == 0).sum()), rows + len(backed)
        for other in range(*stems.first_index[a : a + 2].tolist()):
            if other != index:
                missing[other] |= {tail + int(n) for n in np.flatnonzero(backed == 0)}
    for index, out in missing.items():
        edge = int(stems.indexes[index, chains.OWNER])
        tail, used = (int(stems.edges[edge, f]) for f in (chains.TAIL, chains.USED))
        assert reached(stems, index) == sorted(set(range(tail, used)) - out), index
        assert backing.there(edge, index) == used - tail - len(out)
    return spared, rows


def reached(stems: Stems, index: int) -> list[int]:
    """Live rows in the chains of an index; in each the newest first."""
    edge = int(stems.indexes[index, chains.OWNER])
    tail, halves = int(stems.edges[edge, chains.TAIL]), stems._parts(edge, np.int32)
    found = []
    for s in stems._buckets(index).tolist():
        before = 1 << 31
        while s >= tail:
            assert s < before
            found.append(s)
            before, s = s, int(halves[s, stems.indexes[index, chains.LINK]])
    return sorted(found)


class Run:
    """Steps of rows, some of many and some of few, so that rooms grow and rows slide."""

    def __init__(self, text: str, seed: int) -> None:
        self.names = "abc" if text is STAR else "abcd"
        self.session = penstock.connect(join="mjoin")
        for name in self.names:
            self.session.execute(
                f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0"
            )
        self.session.query(text, name="q")
        self.drawn = np.random.default_rng(seed)

    def step(self, number: int) -> FifoJoin:
        for name in self.names:
            n = int(self.drawn.integers(1, 40 if number % 20 < 10 else 4))
            ts = np.sort(self.drawn.integers(number * 50, number * 50 + 50, n))
            x, y = (self.drawn.integers(0, most, n).astype("i4") for most in (30, 900))
            self.session.push(name, {"ts": ts, "x": x, "y": y})
        self.session.advance(number * 50 + 49)
        (join,) = (
            operator
            for tail in self.session.engine.tails.values()
            for operator, _ in tail.pipeline.stages
            if isinstance(operator, FifoJoin)
        )
        return join


@pytest.mark.parametrize("text", [STAR, CHAIN], ids=["star", "chain"])
@pytest.mark.parametrize("seed", range(4))
def test_who_is_not_backed_has_nobody(text: str, seed: int) -> None:
    run = Run(text, seed)
    spared = rows = 0
    with hurried(seed, 0.3):  # trials of questions come and go
        for number in range(60):
            join = run.step(number)
            found = check(join)
            spared, rows = spared + found[0], rows + found[1]
    assert 0 < spared < rows
    assert join.counted()["asked"], "some rows came by walks that do not tell"


def test_all_enter_if_horizons_are_raised_by_them() -> None:
    run = Run(STAR, 11)
    for number in range(30):
        join = run.step(number)
    assert not join._backing.fit([])
    assert check(join)[0] > 0
    assert join._backing.fit(join._indexes)
    assert check(join)[0] == 0


def test_indexes_that_are_compared_lie_side_by_side() -> None:
    from penstock.state.arena import Arena
    from penstock.types.data_type import Type

    drawn = random.Random(1)
    star = {(0, 1): 0, (0, 2): 1, (1, 0): 2, (2, 0): 3}
    assert _alike(star) == [(0, 2), (1, 3)]
    assert _alike({(0, 1): 0, (1, 0): 1, (0, 2): 0, (2, 0): 2}) == [(0, 1)], "one key for both"
    stems = Stems(Arena(), "s", [[Type.INT]] * 3, [2, 1, 1], alike=_alike(star))
    for _ in range(30):
        stems.reserve([drawn.randrange(200), drawn.randrange(200), drawn.randrange(4000)])
        cells = [set(range(*_bounds(stems, k))) for k in range(4)]
        assert all(not one & two for i, one in enumerate(cells) for two in cells[:i])
        assert max(map(max, cells)) < len(stems.head)
        near = stems.indexes[0, chains.HEADS] + 1 == stems.indexes[2, chains.HEADS]
        assert near == (len(cells[0]) == len(cells[2]) and min(cells[0]) % 2 == 0)
    assert len(cells[1]) < len(cells[3]), "one much larger than the other is by itself"


def _bounds(stems: Stems, index: int) -> tuple[int, int, int]:
    heads, shift = int(stems.indexes[index, chains.HEADS]), int(stems.indexes[index, chains.SHIFT])
    return heads, heads + (chains.CELLS << 64 - shift), chains.CELLS
