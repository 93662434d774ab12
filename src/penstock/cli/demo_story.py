"""The demonstration's story: an hour on two network links, watched by standing queries.

Every query stands beside the plain Python that says what its answer must be at an instant: a loop over the
rows alive then. The two share nothing but the data.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, field

import numpy as np
import pyarrow as pa

HOSTS = 240
PROTOCOLS = ("http", "telnet", "ftp", "smtp", "nntp")
OWNERS = ("physics", "chemistry", "library", "guests")
RATE = 12
"""Connections a second on each link."""

DECLARATIONS = """
CREATE STREAM north (ts BIGINT, src INT, dst INT, protocol STRING, bytes INT)
  WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM south (ts BIGINT, src INT, dst INT, protocol STRING, bytes INT)
  WATERMARK ts DELAY OF INTERVAL 0;
"""


@dataclass(frozen=True, slots=True)
class Flow:
    """One connection seen on a link."""

    ts: int
    src: int
    dst: int
    protocol: str
    bytes: int


@dataclass(slots=True)
class World:
    """All that has happened so far: the rows of both links and who owned a host from when on."""

    north: list[Flow] = field(default_factory=list)
    south: list[Flow] = field(default_factory=list)
    owners: list[tuple[int, dict[int, str]]] = field(default_factory=list)
    added: dict[str, int] = field(default_factory=dict)
    """The clock at which a query was added: it sees later rows only."""

    def owner(self, flow: Flow) -> str | None:
        """The owner as the table stood when the row came."""
        now = [table for since, table in self.owners if since <= flow.ts]
        return now[-1].get(flow.src)


def alive(flows: list[Flow], window: int, tau: int) -> Iterable[Flow]:
    """The rows of a window at τ."""
    return [f for f in flows if f.ts <= tau < f.ts + window]


Answer = Counter[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Watch:
    """A standing query, in words, in SQL and in plain Python."""

    name: str
    about: str
    sql: str
    answer: Callable[[World, int], Answer]


def _heavy(world: World, tau: int) -> Answer:
    return Counter((f.src, f.dst, f.bytes) for f in alive(world.north, 600, tau) if f.bytes > 60_000)


def _telnet_both(world: World, tau: int) -> Answer:
    south = defaultdict(list)
    for s in alive(world.south, 120, tau):
        if s.protocol == "telnet":
            south[s.src].append(s.dst)
    return Counter(
        (n.src, n.dst, dst)
        for n in alive(world.north, 120, tau)
        if n.protocol == "telnet"
        for dst in south[n.src]
    )


def _talkers(world: World, tau: int) -> Answer:
    return Counter({(f.src,) for f in alive(world.north, 60, tau)})


def _north_only(world: World, tau: int) -> Answer:
    south = {f.src for f in alive(world.south, 60, tau)}
    return Counter({(f.src,) for f in alive(world.north, 60, tau) if f.src not in south})


def _load(world: World, tau: int) -> Answer:
    sizes = defaultdict(list)
    for f in alive(world.north, 600, tau):
        sizes[f.protocol].append(f.bytes)
    return Counter((p, len(s), sum(s)) for p, s in sizes.items())


def _owners(world: World, tau: int) -> Answer:
    counts = Counter(world.owner(f) for f in alive(world.south, 600, tau))
    return Counter((owner, n) for owner, n in counts.items() if owner is not None)


def _unanswered(world: World, tau: int) -> Answer:
    back = {(s.dst, s.src) for s in alive(world.south, 60, tau)}
    return Counter((n.src, n.dst) for n in alive(world.north, 60, tau) if (n.src, n.dst) not in back)


def _latest(world: World, tau: int) -> Answer:
    # Of connections in the same second the last by content: on Spark rows have no order of arrival.
    latest = {f.protocol: f for f in sorted(world.north, key=astuple) if f.ts <= tau}
    return Counter((f.protocol, f.src, f.bytes) for f in latest.values())


def _busy(world: World, tau: int) -> Answer:
    seen = (f for f in alive(world.north, 300, tau) if f.ts > world.added["busy"])
    counts = Counter(f.src for f in seen)
    return Counter((src, n) for src, n in counts.items() if n > 40)


WATCHES = (
    Watch(
        "heavy",
        "transfers above 60 kB",
        "SELECT src, dst, bytes FROM north [RANGE 600] WHERE bytes > 60000",
        _heavy,
    ),
    Watch(
        "telnet_both",
        "telnet from one host on both links",
        "SELECT n.src, n.dst AS there, s.dst AS here FROM north [RANGE 120] AS n, south [RANGE 120] AS s"
        " WHERE n.src = s.src AND n.protocol = 'telnet' AND s.protocol = 'telnet'",
        _telnet_both,
    ),
    Watch("talkers", "hosts heard in the last minute", "SELECT DISTINCT src FROM north [RANGE 60]", _talkers),
    Watch(
        "north_only",
        "hosts on the north link and not on the south",
        "SELECT src FROM north [RANGE 60] EXCEPT SELECT src FROM south [RANGE 60]",
        _north_only,
    ),
    Watch(
        "load",
        "traffic by protocol, ten minutes",
        "SELECT protocol, COUNT(*) AS flows, SUM(bytes) AS total FROM north [RANGE 600] GROUP BY protocol",
        _load,
    ),
    Watch(
        "owners",
        "connections by owner, looked up as they come",
        "SELECT h.owner, COUNT(*) AS flows FROM south [RANGE 600] AS s, hosts AS h"
        " WHERE s.src = h.host GROUP BY h.owner",
        _owners,
    ),
    Watch(
        "unanswered",
        "calls nobody has answered",
        "SELECT n.src, n.dst FROM north [RANGE 60] AS n WHERE NOT EXISTS"
        " (SELECT 1 FROM south [RANGE 60] AS s WHERE s.src = n.dst AND s.dst = n.src)",
        _unanswered,
    ),
    Watch(
        "latest",
        "the last connection of each protocol",
        "SELECT protocol, src, bytes FROM north [PARTITION BY protocol ROWS 1]",
        _latest,
    ),
)

BUSY = Watch(
    "busy",
    "hosts with more than 40 connections in five minutes",
    "SELECT src, COUNT(*) AS flows FROM north [RANGE 300] GROUP BY src HAVING COUNT(*) > 40",
    _busy,
)


class Traffic:
    """Connections of a minute at a time; a few hosts talk most, and some calls on north are answered on south."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def minute(self, number: int) -> tuple[list[Flow], list[Flow]]:
        north = self._link(number)
        south = self._link(number)
        answered = self._random.random(len(north)) < 0.3
        for i, answer in enumerate(answered):
            if answer:
                call = north[i]
                south[i] = Flow(south[i].ts, call.dst, call.src, call.protocol, south[i].bytes)
        return north, south

    def _link(self, number: int) -> list[Flow]:
        random, n = self._random, 60 * RATE
        ts = np.sort(random.integers(60 * number, 60 * (number + 1), n))
        src, dst = (np.minimum(random.zipf(1.3, n) - 1, HOSTS - 1) for _ in "sd")
        protocol = random.choice(len(PROTOCOLS), n, p=[0.5, 0.1, 0.1, 0.2, 0.1])
        size = np.minimum(random.pareto(1.2, n) * 900 + 40, 5_000_000).astype(int)
        rows = zip(ts.tolist(), src.tolist(), dst.tolist(), protocol.tolist(), size.tolist(), strict=True)
        return [Flow(t, s, d, PROTOCOLS[p], b) for t, s, d, p, b in rows]


def first_owners() -> dict[int, str]:
    """Every host has an owner, but for the last forty."""
    return {host: OWNERS[host % len(OWNERS)] for host in range(HOSTS - 40)}


def arrow(flows: list[Flow]) -> pa.RecordBatch:
    """Rows as a batch of the streams' columns."""
    return pa.RecordBatch.from_pydict(
        {
            "ts": pa.array([f.ts for f in flows], pa.int64()),
            "src": pa.array([f.src for f in flows], pa.int32()),
            "dst": pa.array([f.dst for f in flows], pa.int32()),
            "protocol": pa.array([f.protocol for f in flows], pa.string()),
            "bytes": pa.array([f.bytes for f in flows], pa.int32()),
        }
    )
