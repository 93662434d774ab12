"""The made market has what the dissertation tells of its data (§5.5.1, §6.7.1), and the Stock Market queries answer over it."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lab.tests.figures import duck

import penstock
from penstock_lab.figures.tp import market, queries, stocks
from penstock_lab.figures.tp.feed import times
from penstock_lab.figures.tp.load import Load

SECOND = 1_000_000
MADE = market.make()
TICKS = MADE.feed.streams["stock"]
DATA_SETS = ["DS25", "DS50", "DS75", "DS100"]


def listed(data_set: str, each: int = 25, seed: int = 1) -> stocks.Stocks:
    return stocks.listed(data_set, each, np.random.default_rng(seed))


def first_true(rows: pa.RecordBatch, text: str) -> np.ndarray:
    """The level of each tick by the query's own criteria, as DuckDB reads them."""
    cases = " ".join(f"WHEN {one} THEN {k}" for k, one in enumerate(duck.criteria(text), 1))
    found = duck.loaded({"stock": rows}).execute(f"SELECT CASE {cases} ELSE 0 END AS level FROM stock AS S")
    return found.fetchnumpy()["level"]


# ------------------------------------------------------------------ data


def test_there_are_five_hundred_stocks_in_ten_sectors() -> None:
    made = MADE.stocks
    assert len(set(made.symbol.to_pylist())) == stocks.STOCKS == 500
    assert np.bincount(made.sector).tolist() == list(stocks.SECTORS.values())
    assert (made.subsector % 10 == made.sector).all()
    assert made.subsector.max() < stocks.SUBSECTORS
    assert len(np.unique(made.subsector)) > 100


@pytest.mark.parametrize("each", [25, 23])
def test_data_set_1_has_as_many_stocks_at_each_level_from_nearly_all_sectors(each: int) -> None:
    drawn = [listed("DS1", each, seed) for seed in range(5)]
    for made in drawn:
        assert np.bincount(made.level).tolist() == [500 - 3 * each, each, each, each]
        assert len(np.unique(made.sector[made.level > 0])) >= 8
        assert all(len(np.unique(made.sector[made.level == k])) >= 5 for k in (1, 2, 3))
    assert len({tuple(made.level.tolist()) for made in drawn}) == 5


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_the_other_data_sets_have_their_share_of_two_sectors_and_none_elsewhere(data_set: str) -> None:
    made = listed(data_set)
    names = np.array(list(stocks.SECTORS))[made.sector]
    inside = np.isin(names, stocks.TWO)
    assert not made.level[~inside].any()
    for name in stocks.TWO:
        own = made.level[names == name]
        assert (own > 0).mean() == pytest.approx(int(data_set[2:]) / 100, abs=0.51 / len(own))
        assert (np.bincount(own, minlength=4)[1:] > 0).all()
    counts = np.bincount(made.level)[1:]
    assert counts.max() - counts.min() <= 1


def test_an_unknown_data_set_is_refused() -> None:
    with pytest.raises(ValueError, match="DS1, DS25"):
        market.make("DS30")


@pytest.mark.parametrize("data_set", ["DS1", *DATA_SETS])
def test_ticks_have_the_levels_of_their_stocks_by_the_criteria_themselves(data_set: str) -> None:
    made = market.make(data_set, 60.0)
    rows = made.feed.streams["stock"].slice(0, 2500)
    level = first_true(rows, queries.stock_aggregate())
    assert np.bincount(level, minlength=4).tolist() == (5 * np.bincount(made.stocks.level)).tolist()
    by_symbol = dict(zip(made.stocks.symbol.to_pylist(), made.stocks.level.tolist(), strict=True))
    assert [by_symbol[s] for s in rows.column("symbol").to_pylist()] == level.tolist()


def test_criteria_need_both_of_their_halves() -> None:
    rows = pa.Table.from_batches([TICKS])
    for style in ("aggressive", "conservative"):
        assert pc.sum(pc.and_(rows[style], pc.invert(rows["owned_by_company"]))).as_py() > 0
    owned = rows.filter(rows["owned_by_company"])
    assert set(owned["aggressive"].to_pylist()) == {True, False}
    assert pc.all(pc.xor(rows["aggressive"], rows["conservative"])).as_py()


def test_prices_of_a_sector_are_normal_about_its_level() -> None:
    """Skewness and kurtosis over many markets near those of the normal distribution; no price is below nothing."""
    made = [listed("DS1", seed=seed) for seed in range(40)]
    deviations = []
    for one in made:
        assert one.price.min() > 0
        for sector in range(10):
            own = one.price[one.sector == sector]
            deviations.append((own - own.mean()) / own.mean())
    z = np.concatenate(deviations)
    assert z.std() == pytest.approx(stocks.SPREAD, rel=0.05)
    z = z / z.std()
    assert abs((z**3).mean()) < 0.15
    assert (z**4).mean() == pytest.approx(3, abs=0.4)
    levels = [one.price[one.sector == s].mean() for one in made for s in range(10)]
    assert 40 < np.median(levels) < 60


def test_prices_walk_geometrically() -> None:
    """Steps of equal size at every price, each independent of the one before; every tick goes on from the last."""
    made = market.make(seconds=20.0, load=Load(5000.0))
    rows = made.feed.streams["stock"]
    assert rows.num_rows > 90_000
    index = {s: i for i, s in enumerate(made.stocks.symbol.to_pylist())}
    which = np.array([index[s] for s in rows.column("symbol").to_pylist()])
    order = np.argsort(which, kind="stable")
    logs = np.log(rows.column("price").to_numpy()[order])
    paces = np.diff(logs)[np.diff(which[order]) == 0]
    assert paces.std() == pytest.approx(market.RETURN, rel=0.1)  # quotes are in cents
    assert np.abs(paces).max() < 10 * market.RETURN
    apart = np.array([logs[which[order] == i][-1] - logs[which[order] == i][0] for i in range(500)])
    many = rows.num_rows / 500
    assert apart.std() == pytest.approx(market.RETURN * np.sqrt(many), rel=0.15)


def test_the_seed_decides_everything() -> None:
    made = [market.make(seconds=5.0, seed=seed).feed for seed in (1, 1, 2)]
    assert duck.same_rows(made[0], made[1])
    assert not duck.same_rows(made[0], made[2])


def test_posts_are_of_any_subsector_and_of_its_sector() -> None:
    posts = market.make(seconds=600.0, posts=Load(50.0)).feed.streams["news"]
    found = pa.Table.from_batches([posts]).group_by("subsector").aggregate([("sector", "count_distinct")])
    assert found.num_rows == stocks.SUBSECTORS
    assert set(found["sector_count_distinct"].to_pylist()) == {1}
    counts = np.array(list(pc.value_counts(posts.column("subsector")).field("counts").to_pylist()))
    assert counts.min() > 0.6 * counts.mean()


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_the_promised_share_of_posts_is_promising_in_any_thousand(share: float) -> None:
    made = market.make(posts=Load(10.0), promising=share, streams=("news", "blogs"), each=23)
    ticks = made.feed.streams["stock"]
    level = first_true(ticks, queries.stock_join())
    hot = pc.unique(ticks.column("subsector").filter(pa.array(level > 0)))
    for name in ("news", "blogs"):
        promising = pc.is_in(made.feed.streams[name].column("subsector"), hot).to_numpy(zero_copy_only=False)
        thousands = [promising[i : i + 1000].mean() for i in range(0, len(promising) - 1000, 100)]
        assert thousands == pytest.approx([share] * len(thousands))
        assert len(thousands) > 30


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_as_many_of_the_subsectors_that_matter_are_posted_about_as_is_said(data_set: str) -> None:
    """In any thousand posts all of those that are named, the same in both streams; of the promised share of posts."""
    share = int(data_set[2:]) / 100
    streams = ("news", "blogs")
    made = market.make(posts=Load(10.0), promising=0.15, named=share, streams=streams, each=23)
    ticks = made.feed.streams["stock"]
    level = first_true(ticks, queries.stock_join())
    hot = set(pc.unique(ticks.column("subsector").filter(pa.array(level > 0))).to_pylist())
    assert len(hot) == len(market.significant(made.stocks)) > 40
    posted = [np.array(made.feed.streams[name].column("subsector").to_pylist()) for name in streams]
    named = hot & set(posted[0])
    assert len(named) == round(share * len(hot))
    assert hot & set(posted[1]) == named
    for rows in posted:
        for begin in range(0, len(rows) - 1000, 500):
            window = rows[begin : begin + 1000]
            assert named <= set(window)
            assert np.isin(window, list(named)).mean() == pytest.approx(0.15)


def test_a_broad_stream_posts_about_any_sector_and_each_stream_as_often_as_is_said() -> None:
    loads = {"news": Load(20.0), "blogs": Load(5.0)}
    made = market.make(streams=("news", "blogs"), posts=loads, broad=("blogs",), promising=0.15)
    rows = made.feed.streams
    assert rows["news"].num_rows == pytest.approx(12_000, rel=0.05)
    assert rows["blogs"].num_rows == pytest.approx(3_000, rel=0.1)
    counts = pc.value_counts(rows["blogs"].column("sector")).field("counts").to_numpy()
    assert len(counts) == len(stocks.SECTORS)
    assert counts.min() > 0.7 * counts.mean()


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_by_sector_the_promised_share_of_partners_matters(data_set: str) -> None:
    """Two sectors are promising at rank 1; of the ticks that a post about them meets, so many have a level."""
    made = market.make(data_set, 60.0, streams=("news",), posts=Load(50.0))
    ticks = made.feed.streams["stock"].slice(0, 2500)
    level = first_true(ticks, queries.stock_join(sector=True))
    sector = np.array(ticks.column("sector").to_pylist())
    assert set(sector[level == 1]) == set(stocks.TWO)
    partners = level[np.isin(sector, stocks.TWO)]
    assert (partners > 0).mean() == pytest.approx(int(data_set[2:]) / 100, abs=0.01)
    posts = np.array(made.feed.streams["news"].column("sector").to_pylist())
    assert np.isin(posts, stocks.TWO).mean() == pytest.approx(0.2, abs=0.04)


def test_posts_alone_are_the_only_ones_of_their_sector_in_a_window() -> None:
    feed = market.make(seconds=7200.0, load=Load(1.0), alone=600.0).feed
    for name in ("news", "research"):
        rows = feed.streams[name]
        ts, sector = times(rows), np.array(rows.column("sector").to_pylist())
        assert (np.diff(ts) >= 0).all()
        gaps = np.concatenate([np.diff(ts[sector == s]) for s in stocks.SECTORS])
        assert gaps.min() >= 600 * SECOND
        assert len(gaps) > 60


def test_a_million_ticks_are_made_without_a_loop_over_them() -> None:
    market.make(seconds=1.0)
    begin = time.process_time()
    made = market.make(seconds=1000.0, load=Load(1000.0), posts=Load(100.0))
    assert made.feed.streams["stock"].num_rows > 990_000
    assert time.process_time() - begin < 3


# ------------------------------------------------------------------ queries


def asked(texts: list[str], streams: tuple[str, ...]) -> tuple[penstock.Session, list[penstock.Query]]:
    session = penstock.connect()
    session.execute(market.declarations(streams))
    return session, [session.query(text) for text in texts]


WINDOWS = {"news": 600 * SECOND, "research": 900 * SECOND}


@pytest.mark.parametrize("alone", [None, 600.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_stock_aggregate_answers_as_duckdb_does_joined_or_by_distinct_sectors(
    alone: float | None, seed: int
) -> None:
    """Both texts: at any instant the mean is the same whether a tick is counted once or once for each pair of posts."""
    made = market.make("DS1", 1500.0, load=Load(2.0), posts=Load(0.01), alone=alone, seed=seed)
    texts = [queries.stock_aggregate(window=40_000, slide=10_000, joined=joined) for joined in (False, True)]
    session, (once, joined) = asked(texts, market.STREAMS)
    sectors = set()
    for until, rows in made.feed.pushes(73.0):
        for name, part in rows.items():
            session.push(name, part)
        session.advance(until)
        relations = {
            name: duck.alive(part, WINDOWS.get(name, 40 * SECOND), until, 10 * SECOND)
            for name, part in made.feed.between(made.feed.start, until + 1).items()
        }
        expected = duck.answer(texts[0], relations)
        assert duck.answer(texts[1], relations) == expected
        assert duck.shown(once.snapshot()) == expected
        assert duck.shown(joined.snapshot()) == expected
        sectors.add(expected.total())
    assert len(sectors) > 1 and max(sectors) > 3


def test_plain_joins_count_a_tick_once_where_posts_are_alone_and_often_where_not() -> None:
    text = queries.stock_aggregate(window=40_000, slide=10_000, joined=True).replace(
        "AVG(S.price)", "COUNT(*)"
    )
    for alone, often in ((900.0, False), (None, True)):
        made = market.make("DS1", 700.0, load=Load(2.0), posts=Load(0.2), alone=alone)
        session, (query,) = asked([text], market.STREAMS)
        for name, rows in made.feed.streams.items():
            session.push(name, rows)
        session.advance(made.feed.stop - 1)
        counted = sum(query.snapshot()["price"].to_pylist())
        held = duck.alive(made.feed.streams["stock"], 40 * SECOND, made.feed.stop - 1, 10 * SECOND).num_rows
        assert (counted > 5 * held) if often else (0 < counted <= held)


@pytest.mark.parametrize(("joins", "sector"), [(2, False), (2, True), (4, False), (8, False)])
def test_stock_join_answers_as_duckdb_does(joins: int, sector: bool) -> None:
    streams = queries.POSTS[:joins]
    posts = Load(2.0 if sector else 12.0)
    made = market.make("DS1", 24.0, load=Load(5.0), streams=streams, posts=posts, promising=0.15)
    window = 10_000
    text = queries.stock_join(joins, window=window, sector=sector)
    assert ("subsector" in text) is not sector
    session, (query,) = asked([text], streams)
    total = 0
    for until, rows in made.feed.pushes(4.7):
        for name, part in rows.items():
            session.push(name, part)
        session.advance(until)
        alive = {
            name: duck.alive(part, window * 1000, until)
            for name, part in made.feed.between(made.feed.start, until + 1).items()
        }
        expected = duck.answer(text, alive)
        assert duck.shown(query.snapshot()) == expected
        total += expected.total()
    assert total > 100


@pytest.mark.parametrize("paths", queries.PATHS)
def test_paths_are_runs_of_joins_on_one_attribute(paths: int) -> None:
    text = queries.stock_join(8, paths=paths)
    _session, (query,) = asked([text], queries.POSTS)
    by = ["S.subsector" in line for line in text.splitlines() if line.startswith("JOIN")]
    turns = sum(a != b for a, b in itertools.pairwise(by))
    assert len(by) == 8
    assert turns == paths - 1
    assert by[0]
    assert [rank.level for rank in query.ranks] == [1, 2, 3]
    posted = [name for name, sub in zip(queries.POSTS, by, strict=True) if not sub]
    assert list(queries.broad(paths)) == posted


def test_other_numbers_of_joins_and_paths_are_refused() -> None:
    for wrong in ({"joins": 3}, {"paths": 3}):
        with pytest.raises(ValueError, match="joins are one of"):
            queries.stock_join(**wrong)


def test_a_window_is_a_number_and_nothing_else() -> None:
    with pytest.raises(ValueError, match="format code"):
        queries.stock_aggregate(window="1]; DROP QUERY q --")  # type: ignore[arg-type]
