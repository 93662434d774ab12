"""The statistics of samples: the paper's numbers, flags against the naive twin, and intervals that hold what they promise."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.operators.sampled_aggregate import inference
from penstock.operators.sampled_aggregate.inference import Answer, Inference, Strata, Values
from tests.overload import naive
from tests.overload.naive import Level


def test_the_papers_sample_sizes() -> None:
    """§5.3.4: 984 rows are too few of 1984 with deviation 7.9, and enough of 1000 with deviation 5.9."""
    wanted = inference.required(np.array([1984.0, 1000.0]), np.array([7.9, 5.9]), 0.1)
    assert np.floor(wanted).tolist() == [1832, 930]  # as printed there; a sample takes the next whole number
    # By level: 984 and 3 rows, of 1000 and 984; squares that make the deviations 5.9, and 7.9 together.
    n = np.array([[984.0, 3.0]])
    first = 983 * 5.9**2
    values = Values(n, np.zeros((1, 2)), np.array([[first, 986 * 7.9**2 - first]]))
    rows, expired = n.cumsum(axis=1), np.array([[16.0, 997.0]])
    ok = inference.enough(rows, expired, inference.merged(values), 0.1)
    assert ok.tolist() == [[True, False]]
    assert inference.largest(ok, n, np.array([[16.0, 981.0]])).tolist() == [1]


@pytest.mark.parametrize(
    ("n", "population", "deviation", "error", "good"),
    [
        (2, 2.0, 9.0, 0.1, True),  # nothing expired
        (1, 1.0, 0.0, 0.1, True),
        (1, 1.5, 0.0, 9.0, False),  # one value has no deviation
        (0, 3.0, 0.0, 9.0, False),
        (0, 0.0, 0.0, 9.0, False),  # nothing to tell
        (2, 1000.0, 0.0, 0.1, True),  # all alike
        (100, 100.5, 5.0, 0.0, False),  # without any error all are needed
        (4, 1e9, 1.0, 0.98, True),  # z²σ²/ε² = 4.0
        (4, 1e9, 1.0, 0.97, False),
    ],
)
def test_edges_of_reliability(n: int, population: float, deviation: float, error: float, good: bool) -> None:
    rows, expired = np.array([[float(n)]]), np.array([[population - n]])
    values = Values(rows, np.ones((1, 1)), np.array([[deviation**2 * max(n - 1, 0)]]))
    ok = inference.enough(rows, expired, values, error)
    assert inference.largest(ok, rows, expired).tolist() == [int(good)]


def test_flags_are_the_twins() -> None:
    """Tables of random groups at once, and the twin group by group."""
    rng = Random(5)
    levels, seen = 4, set()
    for error, relative in ((2.0, False), (6.0, False), (0.02, True), (0.1, True)):
        groups = []
        for _ in range(300):
            groups.append(
                [
                    Level(
                        [{"p": rng.gauss(100 - 9 * k, 9)} for _ in range(rng.choice((0, 1, 5, 40)))],
                        rng.choice((0.0, 0.0, 0.5, 3.0, 30.0)),
                        0.0,
                    )
                    for k in range(levels)
                ]
            )
        values = Values(*(np.array([[one(v.values("p")) for v in g] for g in groups]) for one in _MOMENTS))
        expired = np.array([[v.expired for v in g] for g in groups])
        so_far = values.n.cumsum(axis=1), expired.cumsum(axis=1)
        ok = inference.enough(*so_far, inference.merged(values), error, relative=relative)
        found = inference.largest(ok, values.n, expired).tolist()
        assert found == [naive.used(g, [("avg", "p")], error, relative) for g in groups]
        for group, levels_used in zip(groups, found, strict=True):
            # A flag claims no level of which rows expired and none was seen.
            assert all(v.rows or not v.expired for v in group[:levels_used])
        seen |= set(found)
    assert seen == set(range(levels + 1))


def _squares(values: list[float]) -> float:
    return float(np.var(values) * len(values)) if values else 0.0


_MOMENTS: Any = (lambda v: float(len(v)), lambda v: float(np.mean(v)) if v else 0.0, _squares)


class Windows(NamedTuple):
    """Windows of prices, [windows × levels × rows], of which some rows expired before they were processed."""

    prices: Any
    due: Any
    """Rows that the query asks for."""
    seen: Any
    """Those of them that were processed."""
    expired: Any
    variance: Any


def drawn(rng: np.random.Generator, most: int, *, vague: bool, levels: int = 4) -> Windows:
    """Levels differ in size, mean, deviation and in how much of them expires. `vague`: an expired row would have passed what
    was left of the query with some probability; only that is known."""
    shape = (10_000, levels)
    size = rng.integers(3, most, shape)[..., None]
    mean, deviation = rng.uniform(50, 150, shape)[..., None], rng.uniform(2, 20, shape)[..., None]
    every = (*shape, most)
    prices = rng.normal(mean, deviation, every)
    came = np.arange(most) < size
    passes = rng.uniform(0.3, 1.0, shape) if vague else np.ones(shape)
    due = came & (rng.random(every) < passes[..., None])
    late = came & (rng.random(every) < rng.uniform(0.0, 0.9, shape)[..., None])
    expired = late.sum(axis=2) * passes
    return Windows(prices, due, due & ~late, expired, expired * (1.0 - passes))


@pytest.mark.parametrize("vague", [False, True])
@pytest.mark.parametrize(("most", "error"), [(12, 1000.0), (60, 10.0), (200, 4.0)])
def test_intervals_hold_the_truth(most: int, error: float, vague: bool) -> None:
    """In at least 93 % of windows of which something expired, for every aggregate, where 95 % are promised."""
    rng = np.random.default_rng(11)
    windows = drawn(rng, most, vague=vague)
    n = windows.seen.sum(axis=2).astype(np.float64)
    mean = np.where(windows.seen, windows.prices, 0.0).sum(axis=2) / np.maximum(n, 1.0)
    squares = np.where(windows.seen, (windows.prices - mean[..., None]) ** 2, 0.0).sum(axis=2)
    values = Values(n, mean, squares)
    so_far = n.cumsum(axis=1), windows.expired.cumsum(axis=1)
    ok = inference.enough(*so_far, inference.merged(values), error)
    chosen = inference.largest(ok, n, windows.expired)
    used = np.arange(n.shape[1]) < chosen[:, None]
    strata = Strata(n * used, windows.expired * used, windows.variance * used)
    inferred = Inference(strata, Values(n * used, mean * used, squares * used))
    due = windows.due & used[..., None]
    count = due.sum(axis=(1, 2))
    total = np.where(due, windows.prices, 0.0).sum(axis=(1, 2))
    truth = total / np.maximum(count, 1)
    off = np.where(due, windows.prices - truth[:, None, None], 0.0)
    deviation = np.sqrt((off**2).sum(axis=(1, 2)) / np.maximum(count - 1, 1))
    some = (strata.expired > 0.0).any(axis=1)
    assert some.sum() > 5_000
    for name, answer, real in (
        ("avg", inferred.mean(), truth),
        ("sum", inferred.total(), total),
        ("count", inference.count(strata), count),
        ("stddev", inferred.deviation(), deviation),
    ):
        held = _holds(answer, real)[some].mean()
        assert held >= 0.93, (name, held)
        if vague or name != "count":  # an exact number of expired rows leaves nothing to chance
            assert held <= 0.99, (name, held)
    # What expired only below the levels used leaves no doubt.
    sure = (chosen > 0) & ~some
    for answer in (inferred.mean(), inferred.total()):
        assert np.allclose(answer.low[sure], answer.high[sure])


def _holds(answer: Answer, truth: Any) -> Any:
    slack = 1e-9 * np.abs(truth)
    return (answer.low - slack <= truth) & (truth <= answer.high + slack)


def test_small_samples_are_as_unsure_as_student_says() -> None:
    """The papers' formula with z would be 1.96: of three values it takes 4.30."""
    assert inference.student(np.array([1.0, 2.0, 5.0, 1e9])).round(2).tolist() == [12.71, 4.30, 2.57, 1.96]
    one = Strata(np.array([[3.0]]), np.array([[7.0]]), np.zeros((1, 1)))
    mean = Inference(one, Values(one.rows, np.array([[10.0]]), np.array([[2.0]]))).mean()
    assert mean.value[0] == 10.0
    assert np.isclose(mean.high[0] - 10.0, 4.3027 * 1.0 / np.sqrt(3) * np.sqrt(7 / 9))


def test_sums_over_levels_lose_nothing() -> None:
    total, rest = inference.pair_sum(np.array([[1e17, 1.0, -1e17]]), np.array([[0.5, 0.0, 0.25]]))
    assert total[0] + rest[0] == 1.75
    assert np.isnan(inference.pair_sum(np.array([[np.inf, -np.inf]]), np.zeros((1, 2)))[0][0])
    assert inference.pair_sum(np.array([[np.inf, 1.0]]), np.zeros((1, 2)))[0][0] == np.inf
    big = 2**63 - 1
    whole, fits = inference.whole_sum(np.array([[big, 1, -1], [big, 1, 0], [-big, -1, -1], [-5, 3, 1]]))
    assert fits.tolist() == [True, False, False, True]
    assert whole[fits].tolist() == [big, -1]
