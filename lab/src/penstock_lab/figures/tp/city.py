"""Prisoners under home arrest and patrol cars on the streets of a city (the dissertation's §1.3.1 and §4.5.1).

The movement data of Portland that the dissertation used is not shipped; this is made, and has what §4.5.1 tells of it.

Prisoners  Everybody has a home and a job and goes by a timetable of his own: to work, on an errand, back to work, out after
           work, home. By day the job is the place where he is permitted to be, by night his home. So whoever travels or is on an
           errand is at an improper place: about half of all at the hour at which people leave work.
Data sets  '5-10-15': 5 % of the prisoner stream's tuples are of level 1, 10 % of level 2, 15 % of level 3. Prisoners are drawn
           at random for each level, nobody for two; they report in rounds, so that tuples have the shares of prisoners.
Level 1    Violent, and a mile or more from the permitted place: those drawn have escaped, and roam about a place two miles
           or more from home and job. `DOCILE` percent of those without a level are violent, too, and keep within a mile.
Others     A mark in prisonerInfo for each level, in the order of `MARKS`.
Officers   The city is cut into `REGIONS` squares; an officer patrols one, along its streets, at random.
Time       Microseconds; the day is 18 July 2012. prisonerInfo changes at seven in the morning and in the evening.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock_lab.figures.tp.feed import Feed, stamps
from penstock_lab.figures.tp.load import MICROSECONDS, Floats, Ints, Load, rounds
from penstock_lab.figures.tp.streets import BLOCKS, SIZE, Journeys, corners, patrols, planned

DAY = 1_342_569_600
"""Seconds from the epoch to 18 July 2012."""
MORNING, EVENING = 7 * 3600.0, 19 * 3600.0
LEAVING = 17.5 * 3600
"""Seconds into the day: when most have left work, or are about to."""
REGIONS = 16
DOCILE = 5
MARKS = (
    "committed_violent_offense",
    "recently_found_in_wrong_location",
    "known_flight_risk",
    "missed_check_in",
    "newly_released",
    "bracelet_tampered",
)
"""Columns of prisonerInfo: of each level one, that of level 1 only with the distance."""

DECLARATIONS = f"""
CREATE STREAM prisonerLocation (ts TIMESTAMP, prisonerid INT, x DOUBLE, y DOUBLE)
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS;
CREATE STREAM officerLocation (ts TIMESTAMP, officerid INT, x DOUBLE, y DOUBLE)
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS;
CREATE TABLE prisonerInfo (prisonerid INT, x DOUBLE, y DOUBLE, {", ".join(f"{m} BOOLEAN" for m in MARKS)});
"""

_SEED = 2013
_NEAR = BLOCKS // 2
"""How far a docile prisoner goes from home at most, along either street."""
_HIDEOUT = BLOCKS // 2
"""The same for one who has escaped, about the place where he hides."""


@dataclass(frozen=True, slots=True)
class City:
    """`levels`: of each prisoner, 0 for none. `info`: prisonerInfo and from which instant on, the first from the start."""

    feed: Feed
    levels: Ints
    info: tuple[tuple[int, pa.Table], ...]


def make(
    data_set: str = "5-10-15",
    seconds: float = 600.0,
    *,
    prisoners: int = 1000,
    officers: int = 64,
    load: Load | None = None,
    patrol: Load | None = None,
    begin: float = LEAVING,
    seed: int = _SEED,
) -> City:
    """So many seconds from `begin` (seconds into the day); `load` is of the prisoners' stream, `patrol` of the officers'."""
    random = np.random.default_rng(seed)
    levels = _levels(shares(data_set), prisoners, random)
    docile = (levels == 0) & (random.random(prisoners) < DOCILE / 100)
    home, job = corners(prisoners, random), corners(prisoners, random)
    job[docile] = home[docile]
    days = _days(home, job, docile, random)
    escaped = np.flatnonzero(levels == 1)
    hideouts = patrols(*_about(_hideouts(home[escaped], job[escaped], random)), seconds, random)
    beats = patrols(*_regions(officers), seconds, random)

    at = (load or Load(50.0)).arrivals(seconds, random)
    who = rounds(len(at), prisoners, random)
    passed = at / MICROSECONDS
    x, y = days.at(who, (begin + passed) % 86_400)
    away = levels[who] == 1
    x[away], y[away] = hideouts.at(np.searchsorted(escaped, who[away]), passed[away])
    start = int((DAY + begin) * MICROSECONDS)
    seen = _locations("prisonerid", start + at, who, x, y)

    at = (patrol or Load(5.0)).arrivals(seconds, random)
    who = rounds(len(at), officers, random)
    cars = _locations("officerid", start + at, who, *beats.at(who, at / MICROSECONDS))
    feed = Feed(start, seconds, {"prisonerLocation": seen, "officerLocation": cars})
    marks = {mark: pa.array(levels == level) for level, mark in enumerate(MARKS, 1)}
    marks[MARKS[0]] = pa.array((levels == 1) | docile)
    return City(feed, levels, _permitted(feed, home, job, marks))


def shares(data_set: str) -> tuple[int, ...]:
    """Percent of the tuples at each level.

    >>> shares("5-10-15")
    (5, 10, 15)
    """
    found = tuple(int(share) for share in data_set.split("-"))
    if len(found) > len(MARKS) or sum(found) > 100:
        raise ValueError(f"{data_set}: up to {len(MARKS)} levels, together up to 100 percent")
    return found


def _levels(percent: tuple[int, ...], prisoners: int, random: np.random.Generator) -> Ints:
    ends = np.rint(np.cumsum(percent) * prisoners / 100)
    place = random.permutation(prisoners)
    level = np.searchsorted(ends, place, side="right") + 1
    return np.where(level > len(percent), 0, level)


def _days(home: Ints, job: Ints, docile: NDArray[np.bool_], random: np.random.Generator) -> Journeys:
    """Everybody's way through the day. The docile stay near home."""
    many = len(home)
    errand, evening = corners(many, random), corners(many, random)
    for place in (errand, evening):
        near = np.clip(home + random.integers(-_NEAR, _NEAR + 1, (many, 2)), 0, SIZE)
        place[docile] = near[docile]
    stops = np.stack([home, job, errand, job, evening, home], axis=1)
    to_work = random.normal(6.5, 0.5, many)
    off = random.uniform(9.0, 15.0, many)
    back = off + random.uniform(0.5, 1.5, many)
    out = random.normal(17.5, 1.0, many)
    homeward = out + random.uniform(0.5, 3.0, many)
    leaves = np.stack([to_work, off, back, out, homeward], axis=1) * 3600
    return planned(stops[:, :, 0], stops[:, :, 1], leaves)


def _hideouts(home: Ints, job: Ints, random: np.random.Generator) -> Ints:
    """For each a place two miles or more from home and job, and not at the city's edge: the first of 64 that will do."""
    drawn = random.integers(_HIDEOUT, SIZE - _HIDEOUT + 1, (len(home), 64, 2))
    far = np.ones(drawn.shape[:2], dtype=np.bool_)
    for place in (home, job):
        far &= ((drawn - place[:, None, :]) ** 2).sum(axis=2) >= (2 * BLOCKS) ** 2
    first: Ints = drawn[np.arange(len(home)), far.argmax(axis=1)]
    return first


def _about(place: Ints) -> tuple[Ints, Ints]:
    return place - _HIDEOUT, place + _HIDEOUT


def _regions(officers: int) -> tuple[Ints, Ints]:
    """The corners of each officer's region; regions are given out in turn."""
    across = round(REGIONS**0.5)
    side = SIZE // across
    number = np.arange(officers) % REGIONS
    low = np.stack([number % across, number // across], axis=1) * side
    return low, low + side


def _locations(key: str, ts: Ints, who: Ints, x: Floats, y: Floats) -> pa.RecordBatch:
    columns = [stamps(ts), pa.array(who.astype(np.int32)), pa.array(x), pa.array(y)]
    return pa.RecordBatch.from_arrays(columns, names=["ts", key, "x", "y"])


def _permitted(
    feed: Feed, home: Ints, job: Ints, marks: dict[str, pa.Array]
) -> tuple[tuple[int, pa.Table], ...]:
    """prisonerInfo as it stands at the start, and from each morning and evening until the end of the feed."""
    ids = pa.array(np.arange(len(home), dtype=np.int32))
    tables = [
        pa.table({"prisonerid": ids, "x": place[:, 0] / BLOCKS, "y": place[:, 1] / BLOCKS, **marks})
        for place in (home, job)
    ]
    days = np.arange(-1, feed.seconds // 86_400 + 2)[:, None] * 86_400
    turns = ((DAY + days + [MORNING, EVENING]).reshape(-1) * MICROSECONDS).astype(np.int64)
    first = int(np.searchsorted(turns, feed.start, side="right")) - 1
    kept = [i for i in range(first, len(turns)) if turns[i] < feed.stop]
    return tuple((max(int(turns[i]), feed.start), tables[(i + 1) % 2]) for i in kept)
