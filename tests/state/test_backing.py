"""Rows that are not backed have no partner alive in their leaf, whoever walks and whatever moves."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.demand.hurried import hurried

import penstock
from penstock.kernels import chains
from penstock.operators.fifo_join import FifoJoin, _alike
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
    for a, c, index, back in backing.pairs.tolist():
        keys = []
        for edge, own in ((a, index), (c, back)):
            tail, used = (int(stems.edges[edge, f]) for f in (chains.TAIL, chains.USED))
            keys.append(stems.table(edge)[tail:used, int(stems.indexes[own, chains.FIELD])])
        begin = int(backing.at[a, c]) + int(stems.edges[a, chains.TAIL])
        backed = backing.backed[begin : begin + len(keys[0])]
        assert not np.isin(keys[0][backed == 0], keys[1]).any(), (a, c)
        spared, rows = spared + int((backed == 0).sum()), rows + len(backed)
    return spared, rows


@pytest.mark.parametrize("text", [STAR, CHAIN], ids=["star", "chain"])
@pytest.mark.parametrize("seed", range(4))
def test_who_is_not_backed_has_nobody(text: str, seed: int) -> None:
    drawn = np.random.default_rng(seed)
    names = "abc" if text is STAR else "abcd"
    session = penstock.connect(join="mjoin")
    for name in names:
        session.execute(f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0")
    session.query(text, name="q")
    spared = rows = asked = 0
    with hurried(seed, 0.3):  # trials of questions come and go
        for step in range(60):
            busy = 40 if step % 20 < 10 else 4  # room grows, rows slide
            for name in names:
                n = int(drawn.integers(1, busy))
                ts = np.sort(drawn.integers(step * 50, step * 50 + 50, n))
                x, y = drawn.integers(0, 30, n), drawn.integers(0, 900, n)
                session.push(name, {"ts": ts, "x": x.astype("i4"), "y": y.astype("i4")})
            session.advance(step * 50 + 49)
            (join,) = (
                operator
                for tail in session.engine.tails.values()
                for operator, _ in tail.pipeline.stages
                if isinstance(operator, FifoJoin)
            )
            found = check(join)
            spared, rows, asked = spared + found[0], rows + found[1], join.counted()["asked"]
    assert 0 < spared < rows
    assert asked, "some rows came by walks that do not tell"


def test_indexes_that_are_compared_lie_side_by_side() -> None:
    from penstock.data.types import Type
    from penstock.state.arena import Arena

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
