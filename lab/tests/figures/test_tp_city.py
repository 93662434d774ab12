"""The made city has what the dissertation tells of its data (§4.5.1), and the Home Arrest query answers over it."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from lab.tests.figures import duck

import penstock
from penstock_lab.figures.tp import city, queries
from penstock_lab.figures.tp.feed import times
from penstock_lab.figures.tp.load import Load, rounds
from penstock_lab.figures.tp.streets import BLOCKS, SIZE

HOUR = 3600.0
BUSY = city.make("5-10-15", 120.0, prisoners=400, load=Load(100.0), patrol=Load(20.0))


def columns(made: city.City, stream: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    who, x, y = (made.feed.streams[stream].column(i).to_numpy() for i in (1, 2, 3))
    return who, x, y


def first_true(made: city.City, levels: int) -> np.ndarray:
    """The level of each tuple of the prisoners' stream by the query's own criteria, as DuckDB reads them."""
    found = duck.criteria(queries.home_arrest(levels))
    cases = " ".join(f"WHEN {one} THEN {k}" for k, one in enumerate(found, 1))
    con = duck.loaded({"prisonerLocation": made.feed.streams["prisonerLocation"], "info": made.info[0][1]})
    text = f"""SELECT CASE {cases} ELSE 0 END AS level FROM prisonerLocation AS PL, info AS PI
               WHERE PL.prisonerid = PI.prisonerid"""
    return con.execute(text).fetchnumpy()["level"]


# ------------------------------------------------------------------ load


def test_bursts_come_when_they_should_and_are_as_heavy_as_they_should_be() -> None:
    load = Load(200.0, burst=5.0, every=60.0, lasts=12.0)
    at = load.arrivals(600.0, np.random.default_rng(1)) / 1e6
    assert (np.diff(at) >= 0).all()
    burst = at % 60 >= 48
    assert (~burst).sum() / 480 == pytest.approx(200, rel=0.03)
    assert burst.sum() / 120 == pytest.approx(1000, rel=0.03)
    edges = np.arange(0, 601, 7.0)
    counted = np.searchsorted(at, edges)
    expected = load.expected(edges)
    assert (np.abs(counted - expected) < 5 * np.sqrt(expected + 1)).all()


@pytest.mark.parametrize("wrong", [{"rate": 0.0}, {"rate": 1.0, "lasts": 61.0}, {"rate": 1.0, "burst": -1.0}])
def test_what_is_not_a_load_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="not a load"):
        Load(**wrong)


def test_everybody_has_one_tuple_a_round() -> None:
    drawn = rounds(1050, 100, np.random.default_rng(1))
    assert len(drawn) == 1050
    whole = drawn[:1000].reshape(10, 100)
    assert (np.sort(whole, axis=1) == np.arange(100)).all()
    assert (whole[0] != whole[1]).any()


# ------------------------------------------------------------------ data


@pytest.mark.parametrize("data_set", ["5-10-15", "15-5-5", "20-0-0", "50", "5-5-5-5-5-5"])
def test_tuples_have_the_promised_shares_by_the_criteria_themselves(data_set: str) -> None:
    """2,000 tuples by 400 prisoners are whole rounds: shares are exact, whenever and wherever they are."""
    made = city.make(data_set, 100.0, prisoners=400, load=Load(30.0))
    level = first_true(made, len(city.shares(data_set)))[:2000]
    counts = np.bincount(level, minlength=7)[1:7]
    assert counts.tolist() == [20 * s for s in (*city.shares(data_set), 0, 0, 0, 0, 0, 0)[:6]]
    assert made.levels[columns(made, "prisonerLocation")[0][:2000]].tolist() == level.tolist()


def test_levels_are_disjoint_marks_but_for_violent_prisoners_who_keep_near() -> None:
    marks = np.stack([BUSY.info[0][1][mark].to_numpy() for mark in city.MARKS])
    assert (marks.sum(axis=0) <= 1).all()
    docile = marks[0] & (BUSY.levels == 0)
    assert 5 < docile.sum() < 30
    who, x, y = columns(BUSY, "prisonerLocation")
    px, py = (BUSY.info[0][1][c].to_numpy()[who] for c in "xy")
    away = np.hypot(x - px, y - py)
    assert away[docile[who]].max() < 1
    assert (away[docile[who]] > 0).any()
    assert away[BUSY.levels[who] == 1].min() >= 1


def test_who_is_of_a_level_is_drawn_anew_with_the_seed() -> None:
    one, two = city.make(seconds=5.0), city.make(seconds=5.0, seed=2)
    assert duck.same_rows(one.feed, city.make(seconds=5.0).feed)
    assert not duck.same_rows(one.feed, two.feed)
    assert (one.levels != two.levels).any()
    assert np.bincount(one.levels).tolist() == np.bincount(two.levels).tolist() == [700, 50, 100, 150]


@pytest.mark.parametrize("stream", ["prisonerLocation", "officerLocation"])
def test_everybody_is_on_a_street_of_the_city(stream: str) -> None:
    _, x, y = columns(BUSY, stream)
    assert ((x * BLOCKS == np.rint(x * BLOCKS)) | (y * BLOCKS == np.rint(y * BLOCKS))).all()
    assert min(x.min(), y.min()) >= 0
    assert max(x.max(), y.max()) <= SIZE / BLOCKS


def test_officers_keep_to_their_regions_and_move() -> None:
    who, x, y = columns(BUSY, "officerLocation")
    across, side = 4, SIZE / BLOCKS / 4
    assert (np.abs(x - (who % 16 % across + 0.5) * side) <= side / 2).all()
    assert (np.abs(y - (who % 16 // across + 0.5) * side) <= side / 2).all()
    assert all(len(np.unique(x[who == o] + 100 * y[who == o])) > 5 for o in range(64))


def test_nobody_is_faster_than_the_speed_limit() -> None:
    for stream in BUSY.feed.streams:
        who, x, y = columns(BUSY, stream)
        order = np.argsort(who, kind="stable")
        same = np.diff(who[order]) == 0
        way = np.abs(np.diff(x[order])) + np.abs(np.diff(y[order]))
        hours = np.diff(times(BUSY.feed.streams[stream])[order]) / 1e6 / 3600
        assert (way[same] <= 25 * hours[same] + 1e-9).all()


def test_the_day_takes_people_to_work_and_home_again() -> None:
    """Where all should be and most are: at work in the late morning, at home by night."""

    def proper(begin: float) -> float:
        made = city.make("0", 60.0, begin=begin, load=Load(50.0))
        who, x, y = columns(made, "prisonerLocation")
        table = made.info[0][1]
        return float(((x == table["x"].to_numpy()[who]) & (y == table["y"].to_numpy()[who])).mean())

    assert proper(3 * HOUR) > 0.95
    assert proper(8.9 * HOUR) > 0.9
    assert 0.3 < proper(city.LEAVING) < 0.7
    assert proper(23.5 * HOUR) > 0.9


def test_the_table_of_permitted_places_turns_in_the_morning_and_in_the_evening() -> None:
    made = city.make("5-5-5", 13 * HOUR, begin=6.5 * HOUR, load=Load(0.1), patrol=Load(0.1))
    since = [(at / 1e6 - city.DAY) / HOUR for at, _ in made.info]
    assert since == [6.5, 7.0, 19.0]
    night, day, again = (table for _, table in made.info)
    assert night.equals(again)
    assert not night.equals(day)
    assert [len(city.make("5", 60.0, begin=b).info) for b in (0.0, 7 * HOUR, 23.9 * HOUR)] == [1, 1, 1]


def test_pushes_cut_the_feed_and_lose_nothing() -> None:
    for every in (0.37, 10.0, 1000.0):
        parts: dict[str, list[pa.RecordBatch]] = {name: [] for name in BUSY.feed.streams}
        before = BUSY.feed.start - 1
        for until, rows in BUSY.feed.pushes(every):
            for name, part in rows.items():
                ts = times(part)
                assert ((before < ts) & (ts <= until)).all()
                parts[name].append(part)
            before = until
        for name, rows in BUSY.feed.streams.items():
            assert pa.Table.from_batches(parts[name]).combine_chunks().to_batches() == [rows]


def test_a_hundred_times_the_tuples_take_far_less_than_a_loop_over_them() -> None:
    """A million tuples in less than three seconds of CPU: a loop in Python takes some microseconds for each column."""
    city.make(seconds=1.0)
    begin = time.process_time()
    made = city.make("5-10-15", 1000.0, load=Load(1000.0), patrol=Load(10.0))
    assert made.feed.streams["prisonerLocation"].num_rows > 990_000
    assert time.process_time() - begin < 3


@pytest.mark.parametrize("wrong", ["60-50", "1-1-1-1-1-1-1", "five"])
def test_what_is_not_a_data_set_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"levels|invalid literal"):
        city.shares(wrong)


# ------------------------------------------------------------------ query


def distance(a: float, b: float, c: float, d: float) -> float:
    return float(np.hypot(a - c, b - d))


def asked(text: str, made: city.City) -> tuple[penstock.Session, penstock.Query]:
    session = penstock.connect()
    session.execute(city.DECLARATIONS)
    session.update_table("prisonerInfo", insert=made.info[0][1])
    session.create_function("distance", distance, returns="DOUBLE")
    return session, session.query(text)


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_home_arrest_answers_as_duckdb_does_over_the_rows_alive(called: bool, seed: int) -> None:
    made = city.make("5-10-15", 25.0, prisoners=60, officers=8, load=Load(6.0), patrol=Load(2.0), seed=seed)
    text = queries.home_arrest(window=10_000, called=called)
    session, query = asked(text, made)
    assert query.pattern == "WEAK"
    sizes = []
    for until, rows in made.feed.pushes(2.9):
        for name, part in rows.items():
            session.push(name, part)
        session.advance(until)
        relations = {
            name: duck.alive(part, 10_000_000, until)
            for name, part in made.feed.between(made.feed.start, until + 1).items()
        }
        expected = duck.answer(text, {**relations, "prisonerInfo": made.info[0][1]})
        assert duck.shown(query.snapshot()) == expected
        sizes.append(expected.total())
    assert max(sizes) > 30


@pytest.mark.parametrize("levels", [0, 1, 3, 4, 5, 6])
def test_home_arrest_has_as_many_levels_as_are_asked_for(levels: int) -> None:
    for called in (False, True):
        _, query = asked(queries.home_arrest(levels, lifespan=7_500, called=called), BUSY)
        assert [rank.level for rank in query.ranks] == list(range(1, levels + 1))
        assert query.lifespan == 7_500
    with pytest.raises(ValueError, match="7 RANK clauses: there are 6"):
        queries.home_arrest(7)


def test_ten_minutes_have_about_as_many_results_as_the_dissertation_tells() -> None:
    """Some 750,000 (§4.5.1), of the prisoners of every level."""
    made = city.make("5-5-5")
    session, query = asked(queries.home_arrest(), made)
    seen = np.zeros(4, dtype=np.int64)
    for until, rows in made.feed.pushes(20.0):
        for name, part in rows.items():
            session.push(name, part)
        session.advance(until)
        who = query.changes().column("prisonerid").to_numpy()
        seen += np.bincount(made.levels[who], minlength=4)
    assert 500_000 < seen.sum() < 1_000_000
    assert (seen[1:] > 0.02 * seen.sum()).all()
