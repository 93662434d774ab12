"""The contract's rules, drawn by hand: rows in, and exactly which changes come out.

A change is (op, ts, exp, column, …). A failing random case becomes a named example here.
"""

from __future__ import annotations

import pytest

from tests.oracle.drawn import Drawn

A = "CREATE STREAM a (ts BIGINT, k INT, x INT) WATERMARK ts DELAY OF INTERVAL 0"
AB = f"{A}; CREATE STREAM b (ts BIGINT, k INT, x INT) WATERMARK ts DELAY OF INTERVAL 0"


def drawn(ddl: str, sql: str, **options: object) -> Drawn:
    play = Drawn(ddl)
    play.query(sql, **options)  # type: ignore[arg-type]
    return play


# -- windows ----------------------------------------------------------------------------------------------


def test_a_window_is_half_open() -> None:
    play = drawn(A, "SELECT x FROM a [RANGE 10]")
    assert play.pattern == "WEAKEST"
    play.push("a", (1, 0, 5))
    play.advance(1)
    play.sends(("+", 1, 11, 5))
    play.shows((5,))
    play.advance(10)
    play.shows((5,))
    play.advance(11)
    play.sends()
    play.shows()


def test_slide_rounds_both_edges_up() -> None:
    play = drawn(A, "SELECT x FROM a [RANGE 5 SLIDE 10]")
    play.push("a", (-3, 0, 1), (3, 0, 2), (7, 0, 3), (10, 0, 4))
    play.advance(30)
    play.sends(("+", 0, 10, 1), ("+", 10, 20, 3), ("+", 10, 20, 4))  # x = 2 would live in [10, 10)


def test_a_slide_shorter_than_the_range() -> None:
    play = drawn(A, "SELECT x FROM a [RANGE 10 SLIDE 4]")
    play.push("a", (0, 0, 1), (1, 0, 2), (4, 0, 3))
    play.advance(3)
    play.shows((1,))
    play.advance(4)
    play.shows((1,), (2,), (3,))
    play.advance(12)
    play.sends(("+", 0, 12, 1), ("+", 4, 12, 2), ("+", 4, 16, 3))
    play.shows((3,))


def test_now_lasts_one_unit() -> None:
    play = drawn(A, "SELECT x FROM a [NOW]")
    play.push("a", (4, 0, 1))
    play.advance(4)
    play.shows((1,))
    play.advance(5)
    play.sends(("+", 4, 5, 1))
    play.shows()


def test_unbounded_is_monotonic() -> None:
    play = drawn(A, "SELECT x FROM a", keep=True)
    assert play.pattern == "MONOTONIC"
    play.push("a", (4, 0, 1), (9, 0, 1))
    play.advance(1000)
    play.sends(("+", 4, None, 1), ("+", 9, None, 1))
    play.shows((1,), (1,))


def test_rows_breaks_ties_by_arrival() -> None:
    play = drawn(A, "SELECT x FROM a [ROWS 2]")
    assert play.pattern == "STRICT"
    play.push("a", (1, 0, 1), (1, 0, 2), (1, 0, 3))
    play.advance(1)
    play.sends(("+", 1, None, 2), ("+", 1, None, 3))  # the first is displaced in its own instant
    play.push("a", (2, 0, 4))
    play.advance(2)
    play.sends(("-", 2, None, 2), ("+", 2, None, 4))
    play.shows((3,), (4,))


def test_rows_counts_before_the_filter() -> None:
    play = drawn(A, "SELECT x FROM a [ROWS 2] WHERE x > 5")
    play.push("a", (1, 0, 9), (2, 0, 1), (3, 0, 2))
    play.advance(2)
    play.shows((9,))
    play.advance(3)
    play.shows()


def test_rows_follows_event_time_not_arrival() -> None:
    play = drawn(A.replace("INTERVAL 0", "INTERVAL 5"), "SELECT x FROM a [ROWS 1]")
    play.push("a", (5, 0, 1), (3, 0, 2))
    play.advance(5)
    play.sends(("+", 3, None, 2), ("-", 5, None, 2), ("+", 5, None, 1))
    play.shows((1,))


def test_partitioned_rows() -> None:
    play = drawn(A, "SELECT k, x FROM a [PARTITION BY k ROWS 1]")
    play.push("a", (1, 1, 1), (2, 2, 2), (3, 1, 3), (4, None, 4), (5, None, 5))
    play.advance(5)
    play.shows((1, 3), (2, 2), (None, 5))


def test_a_trailing_window_is_the_default_of_every_stream() -> None:
    play = drawn(AB, "SELECT a.x, b.x AS y FROM a, b [RANGE 2] WHERE a.k = b.k WINDOW 10")
    play.push("a", (1, 1, 1))
    play.push("b", (5, 1, 2))
    play.advance(6)
    play.sends(("+", 5, 7, 1, 2))


# -- joins ------------------------------------------------------------------------------------------------


def test_a_join_result_lives_while_all_its_parts_do() -> None:
    play = drawn(AB, "SELECT a.x, b.x AS y FROM a [RANGE 10], b [RANGE 3] WHERE a.k = b.k")
    assert play.pattern == "WEAK"
    play.push("a", (1, 1, 7), (2, 2, 8), (2, None, 9))
    play.push("b", (4, 1, 1), (11, 1, 2), (4, None, 3))
    play.advance(20)
    play.sends(("+", 4, 7, 7, 1))  # (11) meets nobody: the window of ts 1 ends there; NULL meets nobody ever


def test_a_row_pairs_with_itself() -> None:
    play = drawn(A, "SELECT s.x, t.x AS y FROM a [RANGE 10] AS s, a [RANGE 10] AS t WHERE s.k = t.k")
    play.push("a", (1, 1, 1), (3, 1, 2))
    play.advance(3)
    play.sends(("+", 1, 11, 1, 1), ("+", 3, 11, 1, 2), ("+", 3, 11, 2, 1), ("+", 3, 13, 2, 2))


def test_rows_of_one_instant_meet() -> None:
    play = drawn(AB, "SELECT a.x, b.x AS y FROM a [NOW], b [NOW] WHERE a.k = b.k")
    play.push("b", (5, 1, 2))
    play.push("a", (5, 1, 1))
    play.advance(5)
    play.sends(("+", 5, 6, 1, 2))


# -- duplicates and sets ----------------------------------------------------------------------------------


def test_distinct_shows_one_copy_and_then_the_longest_lived() -> None:
    play = drawn(A, "SELECT DISTINCT x FROM a [RANGE 10]")
    assert play.pattern == "WEAK"
    play.push("a", (1, 0, 7), (4, 0, 7), (6, 0, 7))
    play.advance(20)
    play.sends(("+", 1, 11, 7), ("+", 11, 16, 7))


def test_distinct_prefers_the_greatest_end_within_an_instant() -> None:
    sql = "SELECT DISTINCT x FROM (SELECT x FROM a [RANGE 2] UNION ALL SELECT x FROM b [RANGE 9]) AS u"
    play = drawn(AB, sql)
    play.push("a", (1, 0, 7))
    play.push("b", (1, 0, 7))
    play.advance(12)
    play.sends(("+", 1, 10, 7))


def test_union_of_unequal_windows_is_weak() -> None:
    assert drawn(AB, "SELECT x FROM a [RANGE 5] UNION ALL SELECT x FROM b [RANGE 5]").pattern == "WEAKEST"
    assert drawn(AB, "SELECT x FROM a [RANGE 5] UNION ALL SELECT x FROM b [RANGE 6]").pattern == "WEAK"


def test_intersect_all_pairs_again_when_a_copy_ends() -> None:
    play = drawn(AB, "SELECT x FROM a [RANGE 10] INTERSECT ALL SELECT x FROM b [RANGE 10]")
    assert play.pattern == "WEAK"
    play.push("a", (1, 0, 7), (3, 0, 7))
    play.push("b", (2, 0, 7))
    play.advance(20)
    play.sends(("+", 2, 11, 7), ("+", 11, 12, 7))


def test_intersect_all_shows_the_lesser_count() -> None:
    play = drawn(AB, "SELECT x FROM a [RANGE 10] INTERSECT ALL SELECT x FROM b [RANGE 10]")
    play.push("a", (1, 0, 7), (1, 0, 7), (1, 0, 7))
    play.push("b", (1, 0, 7), (1, 0, 7))
    play.advance(1)
    play.shows((7,), (7,))


def test_except_all_takes_back_the_oldest_and_hides_the_suppressed() -> None:
    play = drawn(AB, "SELECT x FROM a [RANGE 10] EXCEPT ALL SELECT x FROM b [RANGE 10]")
    assert play.pattern == "STRICT"
    play.push("a", (1, 0, 7), (5, 0, 7))
    play.push("b", (6, 0, 7))
    play.advance(20)
    # at 6 one copy is suppressed: the youngest stays; at 11 the suppressed one expires, so that one goes too
    play.sends(("+", 1, 11, 7), ("+", 5, 15, 7), ("-", 6, 11, 7), ("-", 11, 15, 7))


def test_except_all_shows_again_when_the_right_side_ends() -> None:
    play = drawn(AB, "SELECT x FROM a [RANGE 10] EXCEPT ALL SELECT x FROM b [RANGE 10]")
    play.push("b", (5, 0, 7))
    play.push("a", (10, 0, 7))
    play.advance(30)
    play.sends(("+", 15, 20, 7))


def test_an_instant_sends_only_its_net_difference() -> None:
    play = drawn(AB, "SELECT x FROM a [RANGE 10] EXCEPT ALL SELECT x FROM b [RANGE 10]")
    play.push("a", (5, 0, 7))
    play.push("b", (5, 0, 7))
    play.advance(30)
    play.sends()


def test_except_counts_values_once() -> None:
    play = drawn(AB, "SELECT x FROM a [RANGE 10] EXCEPT SELECT x FROM b [RANGE 10]")
    play.push("a", (1, 0, 7), (1, 0, 7), (1, 0, 8), (1, 0, None))
    play.push("b", (2, 0, 7))
    play.advance(1)
    play.shows((7,), (8,), (None,))
    play.advance(2)
    play.shows((8,), (None,))


# -- absence ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.x FROM a [RANGE 10] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 3] WHERE b.k = a.k AND b.x > a.x)",
        "SELECT a.x FROM a [RANGE 10] LEFT ANTI JOIN b [RANGE 3] ON b.k = a.k AND b.x > a.x",
    ],
)
def test_a_row_without_partner(sql: str) -> None:
    play = drawn(AB, sql)
    assert play.pattern == "STRICT"
    play.push("a", (1, 1, 5), (1, None, 6))
    play.push("b", (2, 1, 4), (3, 1, 9), (3, None, 9))
    play.advance(20)
    play.sends(("+", 1, 11, 5), ("+", 1, 11, 6), ("-", 3, 11, 5), ("+", 6, 11, 5))


# -- aggregates -------------------------------------------------------------------------------------------


def test_a_group_announces_its_next_expiry_and_replaces_by_key() -> None:
    play = drawn(A, "SELECT k, COUNT(*) AS n, SUM(x) AS t FROM a [RANGE 10] GROUP BY k", key=(0,))
    assert play.pattern == "WEAK"
    play.push("a", (1, 1, 5), (4, 1, 6))
    play.advance(20)
    play.sends(("+", 1, 11, 1, 1, 5), ("+", 4, 11, 1, 2, 11), ("+", 11, 14, 1, 1, 6))
    play.shows()


def test_a_hidden_key_travels() -> None:
    play = drawn(A, "SELECT COUNT(*) AS n FROM a [RANGE 10] GROUP BY k", key=None)
    play.push("a", (1, 1, 5), (2, 2, 6), (3, 1, 7))
    play.advance(3)
    play.shows((2,), (1,))
    assert all(c.key is not None for c in play.heard)


def test_a_global_aggregate_always_has_one_row() -> None:
    play = drawn(A, "SELECT COUNT(*) AS n, SUM(x) AS t, MIN(x) AS low FROM a [RANGE 10]", key=())
    assert play.pattern == "WEAK"
    play.advance(0)
    play.shows((0, None, None))
    play.heard.clear()  # the first row came at some very early time
    play.push("a", (1, 1, 5), (1, 1, None))
    play.advance(1)
    play.sends(("+", 1, 11, 2, 5, 5))
    play.advance(11)
    play.sends(("+", 11, None, 0, None, None))
    play.shows((0, None, None))


def test_having_ends_rows_without_successor() -> None:
    play = drawn(A, "SELECT k, COUNT(*) AS n FROM a [RANGE 10] GROUP BY k HAVING COUNT(*) < 2", key=(0,))
    assert play.pattern == "STRICT"
    play.push("a", (1, 1, 0), (3, 1, 0))
    play.advance(20)
    play.sends(("+", 1, 11, 1, 1), ("-", 3, 11, 1, 1), ("+", 11, 13, 1, 1))


def test_nulls_form_one_group_and_do_not_count() -> None:
    play = drawn(
        A, "SELECT k, COUNT(*) AS n, COUNT(x) AS m, AVG(x) AS mean FROM a [RANGE 10] GROUP BY k", key=(0,)
    )
    play.push("a", (1, None, 1), (1, None, None), (1, 2, None))
    play.advance(1)
    play.shows((None, 2, 1, 1.0), (2, 1, 0, None))


def test_min_falls_back_when_the_least_expires() -> None:
    play = drawn(A, "SELECT MIN(x) AS low, MAX(x) AS high FROM a [RANGE 10]", key=())
    play.push("a", (1, 0, 1), (2, 0, 5), (3, 0, 3))
    play.advance(3)
    play.shows((1, 5))
    play.advance(11)
    play.shows((3, 5))
    play.advance(12)
    play.shows((3, 3))


def test_stddev_is_that_of_a_sample() -> None:
    play = drawn(A, "SELECT STDDEV(x) AS s FROM a [RANGE 10]", key=())
    play.push("a", (1, 0, 1), (2, 0, 3))
    play.advance(1)
    play.shows((None,))
    play.advance(2)
    play.shows((2**0.5,))


# -- tables -----------------------------------------------------------------------------------------------


def test_an_nrr_is_read_as_it_was_at_the_results_ts() -> None:
    play = Drawn(A)
    play.table("n", (("k", "INT"), ("label", "STRING")), [(1, "old")])
    play.query("SELECT a.x, n.label FROM a [RANGE 10], n WHERE a.k = n.k")
    assert play.pattern == "WEAKEST"
    play.push("a", (5, 1, 1))
    play.advance(5)
    play.update("n", insert=[(1, "new")], delete=[(1, "old")])
    play.push("a", (7, 1, 2))
    play.advance(8)
    play.sends(("+", 5, 15, 1, "old"), ("+", 7, 17, 2, "new"))
    play.shows((1, "old"), (2, "new"))


def test_an_nrr_update_takes_effect_where_it_says() -> None:
    play = Drawn(A)
    play.table("n", (("k", "INT"), ("label", "STRING")), [(1, "old")])
    play.query("SELECT a.x, n.label FROM a [RANGE 10], n WHERE a.k = n.k")
    play.advance(0)
    play.update("n", insert=[(1, "new")], delete=[(1, "old")], at=6)
    play.push("a", (5, 1, 1), (6, 1, 2))
    play.advance(6)
    play.shows((1, "old"), (2, "new"))


def test_a_retroactive_table_reaches_back() -> None:
    play = Drawn(A)
    play.table("r", (("k", "INT"), ("cap", "INT")), [(1, 100)], retroactive=True)
    play.query("SELECT a.x, r.cap FROM a [RANGE 10], r WHERE a.k = r.k")
    assert play.pattern == "STRICT"
    play.push("a", (1, 1, 7))
    play.advance(3)
    play.update("r", insert=[(1, 200)], delete=[(1, 100)])
    play.advance(4)
    play.sends(("+", 1, 11, 7, 100), ("-", 4, 11, 7, 100), ("+", 4, 11, 7, 200))
    play.shows((7, 200))


# -- watermark, lateness, registration --------------------------------------------------------------------


def test_a_row_is_late_iff_its_time_has_passed() -> None:
    play = drawn(A.replace("INTERVAL 0", "INTERVAL 2"), "SELECT x FROM a [RANGE 100]")
    play.push("a", (10, 0, 1), (8, 0, 2), (7, 0, 3), (9, 0, 4))
    assert play.late("a") == 1
    play.advance(10)
    play.shows((1,), (2,), (4,))


def test_advance_makes_rows_late() -> None:
    play = drawn(A, "SELECT x FROM a [RANGE 100]")
    play.advance(10)
    play.push("a", (10, 0, 1), (11, 0, 2))
    assert play.late("a") == 1
    play.advance(11)
    play.shows((2,))


def test_the_slowest_stream_holds_the_clock() -> None:
    play = drawn(AB, "SELECT x FROM a [RANGE 5] UNION ALL SELECT x FROM b [RANGE 5]")
    play.push("a", (3, 0, 1), (9, 0, 2))
    play.sends()
    play.push("b", (4, 0, 3))
    play.sends(("+", 3, 8, 1))


def test_a_query_sees_rows_after_the_clock_of_its_registration() -> None:
    play = drawn(A, "SELECT x FROM a [RANGE 100]", name="first")
    play.push("a", (4, 0, 1))
    play.advance(5)
    play.push("a", (9, 0, 2))
    play.query("SELECT x FROM a [RANGE 100]")
    play.push("a", (9, 0, 3))
    play.advance(9)
    play.sends(("+", 9, 109, 2), ("+", 9, 109, 3))


def test_a_query_does_not_see_what_came_before_it_on_a_stream_nobody_read() -> None:
    play = drawn(AB, "SELECT x FROM a [RANGE 20]", name="first")
    play.push("a", (8, 0, 1))
    play.push("b", (7, 0, 2), (9, 0, 3))
    play.query("SELECT x FROM b [RANGE 20]")  # the clock shows 7
    play.advance(9)
    play.sends(("+", 9, 29, 3))


# -- relations to streams ---------------------------------------------------------------------------------


def test_istream_says_what_came() -> None:
    play = drawn(A, "ISTREAM(SELECT DISTINCT x FROM a [RANGE 10])", keep=True)
    assert play.pattern == "MONOTONIC"
    play.push("a", (1, 0, 7), (4, 0, 7), (20, 0, 7))
    play.advance(40)
    play.sends(("+", 1, None, 7), ("+", 20, None, 7))  # the successor at 11 has the same value: nothing came


def test_dstream_says_what_went() -> None:
    play = drawn(A, "DSTREAM(SELECT x FROM a [RANGE 10])", keep=True)
    play.push("a", (1, 0, 7), (4, 0, 8))
    play.advance(12)
    play.sends(("+", 11, None, 7))
    play.advance(14)
    play.sends(("+", 14, None, 8))


def test_rstream_repeats_everything_at_each_change() -> None:
    play = drawn(A, "RSTREAM(SELECT x FROM a [RANGE 10])", keep=True)
    play.push("a", (1, 0, 7), (4, 0, 8))
    play.advance(12)
    play.sends(("+", 1, None, 7), ("+", 4, None, 7), ("+", 4, None, 8), ("+", 11, None, 8))


# -- nesting ----------------------------------------------------------------------------------------------


def test_a_group_below_a_join_takes_its_old_row_back() -> None:
    sql = (
        "SELECT b.x, g.n FROM b [RANGE 10], (SELECT k, COUNT(*) AS n FROM a [RANGE 10] GROUP BY k) AS g "
        "WHERE b.k = g.k"
    )
    play = drawn(AB, sql)
    assert play.pattern == "STRICT"
    play.push("a", (1, 1, 0), (3, 1, 0))
    play.push("b", (2, 1, 5))
    play.advance(2)
    play.shows((5, 1))
    play.advance(3)
    play.shows((5, 2))
    play.advance(11)
    play.shows((5, 1))
    play.advance(12)
    play.shows()


# -- values -----------------------------------------------------------------------------------------------


def test_division_is_double_and_by_zero_is_null() -> None:
    play = drawn(A, "SELECT k / x AS q, k % x AS r FROM a [RANGE 10]")
    play.push("a", (1, 7, 2), (1, 7, 0), (1, -7, 2))
    play.advance(1)
    play.shows((3.5, 1), (None, None), (-3.5, -1))


def test_logic_has_three_values() -> None:
    play = drawn(A, "SELECT x FROM a [RANGE 10] WHERE k NOT IN (1, NULL) OR NOT (k > 2)")
    play.push("a", (1, 1, 1), (1, 3, 3), (1, None, 4))
    play.advance(1)
    play.shows((1,))


def test_timestamps_count_microseconds() -> None:
    play = Drawn("CREATE STREAM a (ts TIMESTAMP, x INT) WATERMARK ts DELAY OF INTERVAL 1 SECOND")
    play.query("SELECT x FROM a [RANGE 2 SECONDS SLIDE 1 SECOND]")
    play.push("a", (500_000, 1), (1_000_001, 2))
    play.advance(1_999_999)
    play.sends(("+", 1_000_000, 3_000_000, 1))
    play.advance(3_000_000)
    play.sends(("+", 2_000_000, 4_000_000, 2))
    play.shows((2,))


def test_a_sum_of_counted_arguments_is_not_sent_again() -> None:
    """One more 0 among arguments some of which were NULL changes neither the sum nor its end."""
    play = Drawn("CREATE STREAM a (ts BIGINT, k INT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    play.query("SELECT k, SUM(x) AS s FROM a [RANGE 40] GROUP BY k", key=(0,))
    play.push("a", (4, None, None), (4, 2, -2), (34, 2, 0), (75, 2, 5))
    play.sends(("+", 4, 44, None, None), ("+", 4, 44, 2, -2), ("+", 44, 74, 2, 0))


def test_another_query_on_the_same_joins_leaves_an_outer_join_as_it_is() -> None:
    """The first query goes on in the shared joins when the second comes: all of its joins do."""
    play = Drawn(AB, replan=False)
    play.query(
        "SELECT z.k AS c0, y.x AS c1 FROM a [RANGE 939] AS w LEFT JOIN b [RANGE 99] AS y ON w.k = y.k"
        " LEFT JOIN a [RANGE 324] AS z ON y.k = z.k"
    )
    play.push("a", (0, 1, 1))
    play.advance(0)
    play.query("SELECT a.k FROM a [RANGE 5], b [RANGE 7] WHERE a.k = b.k", name="other")
    play.push("b", (193, 1, 2))
    play.advance(1544)
    play.sends(
        ("+", 0, 939, None, None), ("-", 193, 939, None, None), ("+", 193, 292, 1, 2), ("+", 292, 939, None, None)
    )  # fmt: skip
