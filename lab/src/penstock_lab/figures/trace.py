"""A trace like the one the figures were first drawn from: wide-area TCP connections, seen on three outgoing links.

The paper's trace (Internet Traffic Archive, LBL) is not shipped; this one is made, and has what §6.1 and §6.4 tell of it.

Links      A destination belongs to one link (`dst % LINKS`); each link has on average one tuple a time unit, at random.
Protocols  (telnet : ftp)² = 10, so that a join on the source has ten times the results with telnet.
Sources    2,000 a link, in pools: a pool's sources are seen on one link, on two or on all three. 40 % of a link's tuples
           are of sources that a second link sees too: of the results of link0 EXCEPT ALL link1 the other 60 % can never end
           early, which puts premature ends near the paper's 40 %.
Skew       Zipf at any moment; whose turn it is moves on by one source every `TURN` units, as hosts become busy and fall
           silent. So the ftp join has about as many results as inputs at every window: in a short one the few that are
           busy meet, in a long one all sources do. With a skew that stood still it would have a hundred times as many for
           a hundred times the window.
Pairs      A source talks to ten destinations on a link: ten times as many pairs as sources in a window that sees all.
Tails      Durations log-normal, payloads Pareto with α near 1, as Paxson and Floyd found for wide-area TCP (1995).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

LINKS = 3
SOURCES = 2_000
"""On each link."""
DESTINATIONS = 10
"""Of one source on one link."""
ZIPF = 1.2
TURN = 300

PROTOCOLS = {"ftp": 0.05, "telnet": 0.16, "smtp": 0.32, "nntp": 0.22, "finger": 0.13, "domain": 0.12}
"""How often each is seen."""

POOLS: tuple[tuple[tuple[int, ...], int], ...] = (
    ((0,), 800),
    ((1,), 800),
    ((2,), 800),
    ((0, 1), 400),
    ((0, 2), 400),
    ((1, 2), 400),
    ((0, 1, 2), 400),
)
"""Which links see a pool's sources, and how many sources it has: on its links it has that share of `SOURCES`."""

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("duration", pa.float64()),
        ("protocol", pa.string()),
        ("payload", pa.int64()),
        ("src", pa.int64()),
        ("dst", pa.int64()),
    ]
)

DECLARATIONS = "\n".join(
    f"CREATE STREAM link{i} (ts BIGINT, duration DOUBLE, protocol STRING, payload BIGINT, src BIGINT, dst BIGINT)"
    f" WATERMARK ts DELAY OF {1 << 40};"
    for i in range(LINKS)
)
"""Rows wait until `advance`, so that reading them and running the query can be timed apart."""

_SEED = 1993
_NETWORK = 131 << 24 | 243 << 16
"""Sources are of 131.243.0.0/16."""
_TARGETS = 4_999
"""Destinations of a link; prime, so that a source's ten differ."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Trace:
    """The rows of every link, in time order."""

    units: int
    links: tuple[pa.RecordBatch, ...]
    _ts: tuple[Ints, ...]

    def between(self, start: int, stop: int) -> dict[str, pa.RecordBatch]:
        """The rows with start <= ts < stop, by stream."""
        made = {}
        for i, (rows, ts) in enumerate(zip(self.links, self._ts, strict=True)):
            first, last = np.searchsorted(ts, (start, stop)).tolist()
            made[f"link{i}"] = rows.slice(first, last - first)
        return made


def make(units: int, seed: int = _SEED) -> Trace:
    """What the links see in so many time units; a longer trace does not begin with a shorter one."""
    random = np.random.default_rng(seed)
    links = tuple(_link(link, units, random) for link in range(LINKS))
    return Trace(units, links, tuple(rows.column("ts").to_numpy() for rows in links))


def _link(link: int, units: int, random: np.random.Generator) -> pa.RecordBatch:
    ts = np.sort(random.integers(0, units, units))
    n = len(ts)
    host = _hosts(link, ts, random)
    target = (host * 7 + random.integers(0, DESTINATIONS, n) * 401) % _TARGETS
    protocol = random.choice(len(PROTOCOLS), n, p=list(PROTOCOLS.values()))
    names = pa.array(list(PROTOCOLS))
    columns = [
        pa.array(ts),
        pa.array(random.lognormal(2.0, 1.8, n)),
        names.take(pa.array(protocol)),
        pa.array(np.minimum(random.pareto(1.06, n) * 400 + 40, 1e9).astype(np.int64)),
        pa.array(host + _NETWORK),
        pa.array(target * LINKS + link),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _hosts(link: int, ts: Ints, random: np.random.Generator) -> Ints:
    """Whose connection each is: a pool by its share, and in it the source whose rank is drawn, as ranks stand then."""
    sizes = np.array([size for _, size in POOLS])
    here = np.flatnonzero([link in seen for seen, _ in POOLS])
    pool = random.choice(here, len(ts), p=sizes[here] / SOURCES)
    size = sizes[pool]
    rank = _ranks(size, random.random(len(ts)))
    first = np.cumsum(sizes) - sizes
    host: Ints = first[pool] + (rank + ts // TURN) % size
    return host


def _ranks(size: Ints, drawn: NDArray[np.float64]) -> Ints:
    """Ranks 0 … size - 1 with densities falling as rank^-ZIPF: the inverse of the bounded Pareto distribution."""
    least = (size + 1.0) ** (1 - ZIPF)
    rank: Ints = ((1 - drawn * (1 - least)) ** (1 / (1 - ZIPF))).astype(np.int64) - 1
    return np.minimum(rank, size - 1)
