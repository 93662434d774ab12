"""A query that fails on a row stops with its error; the others go on, and so does the query once it is mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from tests.spark.test_sessions import A, Kept

GOOD = "SELECT x, COUNT(*) AS n FROM a [RANGE 10] GROUP BY x"
BAD = {
    "selected": "SELECT x, inverse(y) AS z FROM a [RANGE 10]",
    "filtered": "SELECT x FROM a [RANGE 10] WHERE inverse(y) > 0",
    "two stages": (
        "SELECT n, COUNT(*) AS m FROM (SELECT x, SUM(inverse(y)) AS n FROM a [RANGE 10] GROUP BY x) AS g GROUP BY n"
    ),
    "above a cut": (
        "SELECT inverse(n) AS i, COUNT(*) AS m FROM (SELECT x, MIN(y) AS n FROM a [RANGE 10] GROUP BY x) AS g"
        " GROUP BY inverse(n)"
    ),
}


def inverse(value: int) -> float:
    return 1 / value


def mended(value: int) -> float:
    return 1 / value if value else 0.0


Connect = Callable[..., Any]


@pytest.fixture
def connect(spark: SparkSession, tmp_path: Path) -> Connect:
    def made(
        function: Callable[[int], float] | None = inverse, good: str | None = GOOD, bad: str | None = None
    ) -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)
        session.execute(A)
        if function is not None:
            session.create_function("inverse", function)
        for name, text in (("good", good), ("bad", bad)):
            if text is not None:
                session.query(text, name=name)
        return session

    return made


def rows(begin: int, *, zero: bool = False) -> list[dict[str, Any]]:
    """Twenty rows; of one of them y is 0."""
    return [
        {"ts": ts, "x": ts % 5, "y": 0 if zero and ts == begin + 7 else 1 + ts % 3, "s": None}
        for ts in range(begin, begin + 20)
    ]


def run(session: Any, *, flush: bool = True) -> Any:
    handle = session.start(trigger={"availableNow": True}, flush=flush)
    handle.awaitTermination()
    handle.stop()
    return handle


def answers(session: Any, kept: dict[str, Kept]) -> None:
    for name, query in session.queries.items():
        query.foreach_batch(kept.setdefault(name, Kept()))


def expected(text: str, given: list[dict[str, Any]], until: int) -> list[tuple[Any, ...]]:
    here = penstock.connect()
    here.execute(A)
    here.create_function("inverse", mended)
    query = here.query(text)
    here.push("a", given)
    here.advance(until)
    return sorted((tuple(row.values()) for row in query.changes().to_pylist()), key=repr)


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_the_others_go_on(connect: Connect, bad: str) -> None:
    kept: dict[str, Kept] = {}
    together = Kept()
    session = connect(bad=bad)
    answers(session, kept)
    session.foreach_batch(together)
    columns = ["__op", "__ts", "__exp", "x", "n"]
    session.push("a", rows(0))
    run(session)
    before = dict(kept["bad"].steps)
    assert before
    session.push("a", rows(20, zero=True))
    handle = run(session)
    error = session.queries["bad"].exception()
    assert isinstance(error, penstock.DataError)
    assert "function inverse failed on (0" in str(error)
    assert "function inverse failed" in handle.lastProgress["queries"]["bad"]["error"]
    assert session.queries["good"].exception() is None
    told = {step: table.num_rows for step, table in kept["bad"].steps.items()}
    assert [row for row in together.rows(["__query"]) if row == ("bad",)] == [("bad",)] * sum(told.values())
    # As it was: the others go on, and the query stays stopped.
    again = connect(bad=bad)
    answers(again, kept)
    again.push("a", rows(40))
    run(again)
    assert isinstance(again.queries["bad"].exception(), penstock.DataError)
    assert {step: table.num_rows for step, table in kept["bad"].steps.items()} == told
    # Mended it begins anew, with the rows after those that have come.
    last = connect(mended, bad=bad)
    fresh: dict[str, Kept] = {"good": kept["good"]}
    answers(last, fresh)
    last.push("a", rows(80, zero=True))
    run(last)
    assert last.queries["bad"].exception() is None
    names = list(next(iter(fresh["bad"].steps.values())).column_names)
    assert fresh["bad"].rows(names) == expected(bad, rows(80, zero=True), 99)
    given = rows(0) + rows(20, zero=True) + rows(40) + rows(80, zero=True)
    assert kept["good"].rows(columns) == expected(GOOD, given, 99)


def test_a_flow_of_one_query_goes_on_with_the_mended_function(connect: Connect) -> None:
    """The step that failed is repeated: nothing is lost."""
    kept: dict[str, Kept] = {}
    text = BAD["two stages"]
    for begin, zero in ((0, False), (20, True)):
        session = connect(good=None, bad=text)
        answers(session, kept)
        session.push("a", rows(begin, zero=zero))
        if zero:
            with pytest.raises(penstock.DataError, match=r"function inverse failed on \(0\)"):
                run(session)
            session.flow.close()
        else:
            run(session, flush=False)
    retried = connect(good=None, bad=text)
    answers(retried, kept)
    with pytest.raises(penstock.DataError, match=r"function inverse failed on \(0\)"):
        run(retried)
    retried.flow.close()
    retried.create_function("inverse", mended)
    retried.push("a", rows(40))
    run(retried)
    names = list(next(iter(kept["bad"].steps.values())).column_names)
    assert kept["bad"].rows(names) == expected(text, rows(0) + rows(20, zero=True) + rows(40), 59)


def test_the_query_is_dropped_with_its_function(connect: Connect) -> None:
    """Also if the driver was lost in the step that it failed in, or all of its queries had failed."""
    kept: dict[str, Kept] = {}
    first = connect(good=None, bad=BAD["selected"])
    answers(first, kept)
    first.push("a", rows(0, zero=True))
    with pytest.raises(penstock.DataError, match=r"function inverse failed on \(0\)"):
        run(first)
    first.flow.close()
    then = connect(None)
    answers(then, kept)
    then.push("a", rows(20))
    run(then)
    assert kept["good"].rows(["__op", "__ts", "__exp", "x", "n"]) == expected(GOOD, rows(20), 39)
    assert not kept["bad"].steps


def test_a_stopped_query_is_registered_again_while_the_flow_runs(connect: Connect) -> None:
    kept: dict[str, Kept] = {}
    session = connect(bad=BAD["selected"])
    answers(session, kept)
    handle = session.start(trigger={"processingTime": "0 seconds"})
    session.push("a", rows(0, zero=True))
    handle.processAllAvailable()
    assert session.queries["bad"].exception() is not None
    session.drop("bad")
    session.query("SELECT x, y FROM a [RANGE 10]", name="bad").foreach_batch(kept.setdefault("new", Kept()))
    assert session.queries["bad"].exception() is None
    session.push("a", rows(20))
    handle.processAllAvailable()
    session.push("a", rows(40))
    handle.processAllAvailable()
    handle.stop()
    assert [row[0] for row in kept["new"].rows(["__ts"])][:3] == [20, 21, 22]


def test_an_embedded_query_says_why_it_stopped() -> None:
    session = penstock.connect()
    session.execute(A)
    session.create_function("inverse", inverse)
    query = session.query(BAD["selected"])
    assert query.exception() is None
    with pytest.raises(penstock.DataError):
        session.push("a", rows(0, zero=True))
    assert isinstance(query.exception(), penstock.DataError)
