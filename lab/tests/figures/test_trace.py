"""The made trace has the properties that the paper tells of the one it used."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock_lab.figures import trace

LARGEST = 200_000
MADE = trace.make(2 * LARGEST)


def window(link: int, length: int, at: int = 2 * LARGEST) -> pa.RecordBatch:
    return MADE.between(at - length, at)[f"link{link}"]


def per_source(rows: pa.RecordBatch, protocol: str | None = None) -> np.ndarray:
    if protocol is not None:
        rows = rows.filter(pc.equal(rows.column("protocol"), protocol))
    hosts = rows.column("src").to_numpy() % 2**16
    return np.bincount(hosts, minlength=sum(size for _, size in trace.POOLS))


def joined(protocol: str, length: int, at: int) -> int:
    left, right = (per_source(window(link, length, at), protocol) for link in (0, 1))
    return int((left * right).sum())


def mean_joined(protocol: str, length: int) -> float:
    """Over windows that lie side by side: short ones hold few ftp connections."""
    return float(np.mean([joined(protocol, length, at) for at in range(length, 2 * LARGEST + 1, length)]))


def test_the_same_seed_makes_the_same_trace_and_another_another() -> None:
    assert trace.make(500).links == trace.make(500).links
    assert trace.make(500).links != trace.make(500, seed=2).links


def test_rows_come_in_time_order_one_a_unit_on_every_link() -> None:
    for rows in MADE.links:
        ts = rows.column("ts").to_numpy()
        assert (np.diff(ts) >= 0).all()
        halves = np.histogram(ts, bins=2, range=(0, 2 * LARGEST))[0] / LARGEST
        assert halves == pytest.approx(1, abs=0.01)


def test_between_takes_each_row_once() -> None:
    edges = [0, 7, 7, 1000, 2 * LARGEST]
    cut = [MADE.between(a, b)["link1"] for a, b in pairwise(edges)]
    assert pa.Table.from_batches(cut).combine_chunks().to_batches() == [MADE.links[1]]


def test_a_destination_belongs_to_one_link() -> None:
    for link, rows in enumerate(MADE.links):
        assert set((rows.column("dst").to_numpy() % trace.LINKS).tolist()) == {link}


def test_a_link_has_two_thousand_sources_and_ten_times_as_many_pairs() -> None:
    for link in range(trace.LINKS):
        rows = window(link, LARGEST)
        sources = pc.count_distinct(rows.column("src")).as_py()
        pairs = pa.Table.from_batches([rows]).group_by(["src", "dst"]).aggregate([]).num_rows
        assert sources == pytest.approx(2000, rel=0.02)
        assert pairs / sources == pytest.approx(10, rel=0.05)


def test_pools_share_out_the_sources_of_every_link() -> None:
    for link in range(trace.LINKS):
        assert sum(size for seen, size in trace.POOLS if link in seen) == trace.SOURCES


def test_at_any_moment_sources_are_skewed_as_zipf_says() -> None:
    """Within one turn: the ranks of the largest pool, whose counts fall with rank as a power near -ZIPF."""
    counts = np.zeros(800)
    for start in range(0, 2 * LARGEST, trace.TURN):
        rows = MADE.between(start, start + trace.TURN)["link0"].column("src").to_numpy() % 2**16
        own = rows[rows < 800]
        counts += np.bincount((own - start // trace.TURN) % 800, minlength=800)
    ranks = np.array([1, 3, 10, 30, 100, 300])
    slope = np.polyfit(np.log(ranks + 0.5), np.log(counts[ranks - 1]), 1)[0]
    assert slope == pytest.approx(-trace.ZIPF, abs=0.1)
    assert counts[0] > 20 * counts[49]


@pytest.mark.parametrize("length", [2_000, 20_000, LARGEST])
def test_telnet_joins_ten_times_as_often_as_ftp(length: int) -> None:
    assert 5 < mean_joined("telnet", length) / mean_joined("ftp", length) < 20


@pytest.mark.parametrize("length", [2_000, 20_000, LARGEST])
def test_ftp_joins_are_about_as_many_as_their_inputs(length: int) -> None:
    inputs = trace.PROTOCOLS["ftp"] * length
    assert 0.2 < mean_joined("ftp", length) / inputs < 2.5


def test_tails_are_heavy() -> None:
    rows = MADE.links[0]
    for column, share in (("duration", 0.25), ("payload", 0.3)):
        values = np.sort(rows.column(column).to_numpy())
        assert values[-len(values) // 100 :].sum() > share * values.sum()
        assert values.mean() > 2 * np.median(values)
