"""The string pool: equal strings, equal codes; sweeping keeps what is marked and gives the rest out again."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.state.strings import Strings

ALPHABET = ["a", "b", "é", "日", "😀", "\x00", " "]


def words(rng: random.Random, count: int) -> list[str | None]:
    return [
        None if rng.random() < 0.1 else "".join(rng.choices(ALPHABET, k=rng.choice((0, 1, 2, 3, 8, 17))))
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_round_trip_and_equality(seed: int) -> None:
    rng = random.Random(seed)
    pool = Strings()
    known: dict[str, int] = {}
    for _ in range(20):
        given = words(rng, rng.randrange(200))
        array = pa.array(given, rng.choice((pa.string(), pa.large_string())))
        if rng.random() < 0.5:
            array = array.dictionary_encode()
        start = rng.randrange(len(given) + 1)
        column = pool.encode(array.slice(start))
        assert pool.decode(column.values, column.valid).to_pylist() == given[start:]
        for text, code in zip(given[start:], column.values.tolist(), strict=True):
            if text is not None:
                assert known.setdefault(text, code) == code
                assert pool.text(code) == text
    assert len(set(known.values())) == len(known)
    assert all(pool.code(text) == code for text, code in known.items())


@pytest.mark.parametrize("seed", range(5))
def test_sweep_keeps_live_codes_and_reuses_the_rest(seed: int) -> None:
    rng = random.Random(seed)
    pool = Strings()
    pinned = {text: pool.pin(text) for text in ("kept", "pinned")}
    live: dict[str, int] = {}
    highest = 0
    for _ in range(30):
        for text in words(rng, 100):
            if text is not None:
                live[text] = pool.code(text)
        highest = max(highest, pool.capacity)
        keep = {text for text in live if rng.random() < 0.5}
        marks = np.zeros(pool.capacity, np.bool_)
        marks[[live[text] for text in keep]] = True
        before, size = len(pool), pool.epoch
        freed = pool.sweep(marks)
        assert len(pool) == before - freed
        assert pool.epoch == size + (freed > 0)
        live = {text: code for text, code in live.items() if text in keep}
        for text, code in {**live, **pinned}.items():
            assert pool.text(code) == text
            assert pool.code(text) == code
    assert pool.capacity <= 2 * highest
    for text in ("", "kept"):
        assert pool.text(pool.code(text)) == text


def test_a_swept_pool_stays_small() -> None:
    pool = Strings()
    sizes = []
    for batch in range(50):
        pool.encode(pa.array([f"batch {batch} row {row}" for row in range(2000)]))
        pool.sweep(np.zeros(pool.capacity, np.bool_))
        sizes.append(pool.size_bytes)
    assert len(pool) == 1
    assert max(sizes) < 2_000_000


@pytest.mark.parametrize("seed", range(3))
def test_order_is_that_of_bytes(seed: int) -> None:
    rng = random.Random(seed)
    pool = Strings()
    for step in range(8):
        codes = np.array([pool.code(w) for w in words(rng, 50) if w is not None], np.int32)
        if step == 5:
            pool.sweep(np.isin(np.arange(pool.capacity), codes[::2]))
            codes = codes[::2].copy()
        ranks = pool.order()
        texts = [pool.text(int(code)).encode() for code in codes]
        by_rank = sorted(range(len(codes)), key=lambda i: (int(ranks[codes[i]]), i))
        by_text = sorted(range(len(codes)), key=lambda i: (texts[i], i))
        assert by_rank == by_text
        others = codes[::-1].copy()
        expected = [(a > b) - (a < b) for a, b in zip(texts, reversed(texts), strict=True)]
        assert pool.compare(codes, others).tolist() == expected


def test_codes_under_null_may_be_anything() -> None:
    pool = Strings()
    codes = np.array([-5, 2**31 - 1, 0], np.int32)
    valid = np.array([False, False, True])
    assert pool.decode(codes, valid).to_pylist() == [None, None, ""]
    assert pool.lengths(codes).tolist() == [0, 0, 0]


def test_unknown_codes_have_no_text() -> None:
    pool = Strings()
    with pytest.raises(KeyError):
        pool.text(99)
    with pytest.raises(ValueError, match="marks for"):
        pool.sweep(np.empty(0, np.bool_))
