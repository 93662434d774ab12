"""Frequent values in bounded memory, against counting all of them."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from penstock.state.frequent_values import Frequent, Table


@pytest.mark.parametrize("seed", range(6))
def test_a_frequent_value_is_there_and_its_count_is_not_far_off(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    sketch, truth = Frequent(20, 2), [Counter[int](), Counter[int]()]
    for _ in range(200):
        side = int(drawn.integers(2))
        keys = drawn.zipf(1.3, int(drawn.integers(0, 40)))
        sketch.count(side, keys)
        truth[side].update(keys.tolist())
    both = truth[0] + truth[1]
    n = both.total()
    found = dict(zip(sketch.values.tolist(), zip(sketch.counts, sketch.sure, strict=True), strict=True))
    assert len(found) == 20 and sketch.total.tolist() == [t.total() for t in truth]
    for value, (count, sure) in found.items():
        assert sure <= both[value] <= count <= both[value] + n / 20
        place = sketch.values.tolist().index(value)
        for side in (0, 1):
            assert sketch.counted(side)[place] <= truth[side][value]
    assert {value for value, count in both.items() if count > n / 20} <= set(found)


def test_memory_does_not_grow_with_the_number_of_values() -> None:
    sketch = Frequent(16, 3)
    sizes = set()
    for part in range(50):
        sketch.count(0, np.arange(1000 * part, 1000 * (part + 1)))
        sketch.meet(1, np.arange(1000 * (part + 1)))
        held = [a for a in vars(sketch).values() if isinstance(a, np.ndarray)]
        sizes.add(sum(a.nbytes for a in held))
        assert len(sketch) == 16
        assert len(json.dumps(sketch.save())) < 16 * 9 * 30
    assert len(sizes) == 1


def test_what_comes_is_counted_for_the_values_that_are_there() -> None:
    sketch = Frequent(4, 2)
    sketch.meet(1, np.array([7, 7, 9]))
    sketch.count(0, np.array([7, 8, 8]))
    sketch.meet(1, np.array([7, 8, 9, 8, 10]))
    assert sketch.values.tolist() == [7, 8]
    assert sketch.met(1).tolist() == [1, 2] and sketch.met(0).tolist() == [0, 0]
    assert sketch.counted(0).tolist() == [1, 2] and sketch.came.tolist() == [0, 8]


def test_what_is_forgotten_makes_room_for_what_is_new() -> None:
    sketch = Frequent(4, 1)
    sketch.count(0, np.repeat([1, 2, 3, 4], 100))
    for _ in range(30):
        sketch.fade(0.5)
        sketch.count(0, np.array([5]))
    assert sketch.values.tolist() == [5]
    assert sketch.counts[0] == pytest.approx(2, rel=1e-3) and sketch.sure[0] == pytest.approx(2, rel=1e-3)


def test_a_sketch_goes_on_where_it_was() -> None:
    drawn = np.random.default_rng(3)
    whole = Frequent(8, 2)
    for _ in range(40):
        copy = Frequent(8, 2)
        copy.take_up(json.loads(json.dumps(whole.save())))
        keys, side = drawn.integers(0, 20, 10), int(drawn.integers(2))
        for one in (whole, copy):
            one.count(side, keys, 1.5)
            one.meet(1 - side, keys + 1)
            one.fade(0.9)
        assert whole.save() == copy.save()


def test_a_table_finds_what_was_laid_into_it() -> None:
    drawn = np.random.default_rng(5)
    for n in (1, 3, 64, 200):
        values = np.unique(drawn.integers(-(1 << 62), 1 << 62, n))
        numbers = drawn.integers(0, 128, len(values))
        known = dict(zip(values.tolist(), numbers.tolist(), strict=True))
        keys = drawn.permutation(np.concatenate([values, values + 1, drawn.integers(0, 1 << 62, 50)]))
        assert Table(values, numbers).find(keys).tolist() == [known.get(k, -1) for k in keys.tolist()]
