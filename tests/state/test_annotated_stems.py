"""Notes beside links: neither writes over the other, however rows move."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.kernels.hash.mix import spread
from penstock.kernels.join import chains
from penstock.state.annotated_stems import SHORT, NotedStems
from penstock.state.arena import Arena
from penstock.state.stems import Stems
from penstock.types.batch import Batch


def found(stems: Stems, edge: int, index: int, key: int) -> list[int]:
    """Live slots with a key, newest first, by the index."""
    number = int(stems.first_index[edge]) + index
    heads, shift, field, link = stems.indexes[number, [chains.HEADS, chains.SHIFT, chains.FIELD, chains.LINK]]
    slot = int(stems.head[heads + int(spread(np.int64(key), shift))])
    made = []
    while slot >= stems.edges[edge, chains.TAIL]:
        if stems.table(edge)[slot, field] == key:
            made.append(slot)
        slot = int(stems.table(edge).view(np.int32)[slot, link])
    return made


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize(("keys", "notes"), [(1, 1), (1, 3), (1, 4), (2, 1), (3, 3), (2, 5), (1, 0)])
def test_rows_keep_their_notes_and_are_found(keys: int, notes: int, short: bool) -> None:
    """Two edges; the second is admitted to, expires, slides and grows, and is compared with plain lists."""
    rng = np.random.default_rng(keys * 10 + notes)
    stems = NotedStems(Arena(), "stems", [[], []], [1, keys], [1, notes], short=short)
    halves = (notes + 1) // 2 if short else notes
    assert stems.edges[1, chains.WIDTH] == 1 + 2 * keys + max(halves - keys + 1, 0) // 2
    kept: list[tuple[int, list[int], list[int]]] = []
    for ts in range(40):
        n = int(rng.integers(1, 30))
        own_keys = [rng.integers(0, 7, n) for _ in range(keys)]
        own_notes = [rng.integers(0, SHORT if short else 2**31, n) for _ in range(notes)]
        stems.reserve([0, n])
        times = np.full(n, ts)
        first = stems.admit(1, Batch(times, times, ()), [], own_keys)
        for at, note in enumerate(own_notes):
            stems.note(1, at)[first : first + n] = note
        stems.link(1, first, first + n)
        kept += [(ts, [int(k[i]) for k in own_keys], [int(m[i]) for m in own_notes]) for i in range(n)]
        stems.expire(ts - int(rng.integers(2, 9)))
        tail, used = (int(stems.edges[1, f]) for f in (chains.TAIL, chains.USED))
        kept = kept[len(kept) - (used - tail) :]
        for index in range(keys):
            for key in range(7):
                slots = [tail + i for i, row in enumerate(kept) if row[1][index] == key]
                assert found(stems, 1, index, key) == slots[::-1]
        for at in range(notes):
            assert stems.note(1, at)[tail:used].tolist() == [row[2][at] for row in kept]
            half, shift, mask = stems.place(1, at)
            read = stems.table(1).view(np.int32)[tail:used, half].astype(np.int64) >> shift & mask
            assert read.tolist() == [row[2][at] for row in kept], "as walks read it"
        assert stems.table(1)[tail:used, 0].tolist() == [row[0] for row in kept]


@pytest.mark.parametrize("keys", [1, 2, 3, 4, 5])
def test_rows_without_notes_are_found(keys: int) -> None:
    """Links by twos: none writes over a key or another link, however rows move; a row of two keys never lies on two lines."""
    rng = np.random.default_rng(keys)
    stems = Stems(Arena(), "stems", [[], []], [1, keys])
    kept: list[tuple[int, list[int]]] = []
    for ts in range(40):
        n = int(rng.integers(1, 30))
        own_keys = [rng.integers(-(2**63), 2**63, 7)[rng.integers(0, 7, n)] for _ in range(keys)]
        stems.reserve([1, n])
        times = np.full(n, ts)
        first = stems.admit(1, Batch(times, times, ()), [], own_keys)
        stems.link(1, first, first + n)
        kept += [(ts, [int(k[i]) for k in own_keys]) for i in range(n)]
        stems.expire(ts - int(rng.integers(2, 9)))
        tail, used = (int(stems.edges[1, f]) for f in (chains.TAIL, chains.USED))
        kept = kept[len(kept) - (used - tail) :]
        assert stems.table(1)[tail:used, 0].tolist() == [row[0] for row in kept]
        for index in range(keys):
            for key in {row[1][index] for row in kept}:
                slots = [tail + i for i, row in enumerate(kept) if row[1][index] == key]
                assert found(stems, 1, index, key) == slots[::-1]
    assert keys != 2 or (stems.edges[1, chains.WIDTH] == 4 and stems.edges[1, chains.BASE] % 8 == 0)
