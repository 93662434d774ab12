"""What is run against a broker; see test_kafka.py."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it
from scripts import kafka

import penstock
from penstock.spark.checkpoint import read_json, write_json
from penstock.spark.local import local_spark
from penstock.spark.sinks import formats
from penstock.spark.sinks import kafka as kafka_sink

SCHEMA = "ts TIMESTAMP, symbol STRING, price DOUBLE, size INT"
SECOND = timedelta(seconds=1)
BEGIN = datetime(2026, 1, 1)

QUERIES = {
    "bought": "SELECT symbol, price FROM trades [RANGE 10 SECONDS] WHERE size > 2",
    "quoted": """SELECT t.symbol, t.price, q.price AS quote FROM trades [RANGE 4 SECONDS] AS t, quotes [RANGE 2 SECONDS] AS q
                 WHERE t.symbol = q.symbol AND t.price > q.price""",
    "silent": "SELECT symbol FROM quotes [RANGE 3 SECONDS] EXCEPT SELECT symbol FROM trades [RANGE 1 SECONDS]",
    "volume": "SELECT symbol, SUM(size) AS volume, COUNT(*) AS n FROM trades [RANGE 8 SECONDS] GROUP BY symbol",
    "sizes": "SELECT MAX(price) AS best FROM trades [RANGE 8 SECONDS] GROUP BY symbol, size",
    "open": "SELECT symbol, price FROM trades WHERE size = 4",
}
"""MONOTONIC, WEAKEST, WEAK and STRICT; a key that is not selected; changes that never end."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    jars = ",".join(map(str, kafka.connector()))
    # Most of the time goes into code that runs once.
    quick = "--driver-java-options '-XX:TieredStopAtLevel=1 -Xss16m'"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars} {quick} pyspark-shell"
    made = local_spark("local[2,4]", "penstock kafka tests")  # tasks are repeated, as on a cluster
    yield made
    made.stop()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with kafka.Broker() as broker:
        yield broker.servers


class Topics:
    """Topics of a test, under names that no other test has."""

    def __init__(self, spark: SparkSession, servers: str) -> None:
        self.spark = spark
        self.servers = servers
        self.at = {"kafka.bootstrap.servers": servers}
        self._own = uuid.uuid4().hex[:8]

    def name(self, topic: str) -> str:
        return f"{topic}-{self._own}"

    def make(self, topic: str, partitions: int) -> None:
        java = self.spark._jvm
        admin = java.org.apache.kafka.clients.admin
        settings = java.java.util.HashMap()
        settings.put("bootstrap.servers", self.servers)
        client = admin.AdminClient.create(settings)
        wanted = java.java.util.Collections.singleton(
            admin.NewTopic(self.name(topic), partitions, java.java.lang.Short.parseShort("1"))
        )
        client.createTopics(wanted).all().get()
        client.close()

    def send(self, topic: str, values: Iterable[str | None], partitions: int = 1) -> None:
        """In turn to every partition."""
        rows = [(i, i % partitions, value) for i, value in enumerate(values)]
        frame = self.spark.createDataFrame(rows, "i INT, partition INT, value STRING").coalesce(1)
        frame.drop("i").write.format("kafka").options(**self.at, topic=self.name(topic)).save()

    def read(self, topic: str) -> list[Any]:
        """Messages by partition and offset."""
        reader = self.spark.read.format("kafka").options(**self.at, subscribe=self.name(topic))
        text = [F.col(c).cast("string").alias(c) for c in ("key", "value")]
        return reader.load().select("partition", "offset", *text).orderBy("partition", "offset").collect()

    def session(self, checkpoint: Path, streams: Iterable[str], options: str = "") -> Any:
        session = penstock.connect(self.spark, checkpoint=str(checkpoint), cells=2)
        for stream in streams:
            session.execute(
                f"""CREATE STREAM {stream} ({SCHEMA}) USING kafka
                    OPTIONS (subscribe '{self.name(stream)}', kafka.bootstrap.servers '{self.servers}',
                             startingOffsets 'earliest' {options})
                    WATERMARK ts DELAY OF INTERVAL 5 SECONDS"""
            )
        return session


@pytest.fixture
def topics(spark: SparkSession, servers: str) -> Topics:
    return Topics(spark, servers)


def embedded(queries: Iterable[str]) -> tuple[Any, dict[str, Any]]:
    session = penstock.connect()
    for stream in ("trades", "quotes"):
        session.execute(f"CREATE STREAM {stream} ({SCHEMA}) WATERMARK ts DELAY OF INTERVAL 5 SECONDS")
    return session, {name: session.query(QUERIES[name], name=name) for name in queries}


def drawn(seed: int, rows: int, start: datetime) -> list[dict[str, Any]]:
    """A row about every 200 ms, up to two seconds out of order; a key may be NULL."""
    rng = random.Random(seed)
    return [
        {
            "ts": start + timedelta(microseconds=200_000 * i + rng.randrange(2_000_000)),
            "symbol": rng.choice(["A", "B", "C", "Ü", None]),
            "price": rng.randrange(1, 400) / 4,
            "size": rng.randrange(1, 5),
        }
        for i in range(rows)
    ]


def message(row: dict[str, Any]) -> str:
    return json.dumps({**row, "ts": row["ts"].isoformat()})


def told(messages: Iterable[Any]) -> Counter[tuple[Any, ...]]:
    """Changes as the messages tell them."""
    return Counter(_comparable(json.loads(m["value"])) for m in messages)


def expected(changes: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(_comparable(row) for row in changes.to_pylist())


def _comparable(row: dict[str, Any]) -> tuple[Any, ...]:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return tuple((k, plain(v)) for k, v in value.items())
        return value

    times = {n: row[n] for n in ("__ts", "__exp")}
    for name, value in times.items():
        if isinstance(value, str):
            times[name] = datetime.fromisoformat(value).astimezone(UTC).replace(tzinfo=None)
        elif value is not None:
            times[name] = value.replace(tzinfo=None)
    return tuple((k, plain(v)) for k, v in {**row, **times}.items())


def run(session: Any, **how: Any) -> Any:
    handle = session.start(trigger={"availableNow": True}, **how)
    handle.awaitTermination()
    handle.stop()
    return handle


def test_from_topics_to_topics_with_a_restart_between(topics: Topics, tmp_path: Path) -> None:
    here, queries = embedded(QUERIES)
    for topic in ("trades", "quotes", *QUERIES):
        topics.make(topic, 3)
    rows = {name: drawn(seed, 120, BEGIN) for seed, name in enumerate(("trades", "quotes"))}
    for part in range(2):
        for name in rows:
            given = rows[name][60 * part : 60 * part + 60]
            here.push(name, given)
            topics.send(name, map(message, given), 3)
        there = topics.session(tmp_path, rows, ", maxOffsetsPerTrigger 40" if part else "")
        for name, text in QUERIES.items():
            query = there.query(text, name=name)
            query.write(format="kafka", topic=topics.name(name), **topics.at)
        there.write(format="kafka", topic=topics.name("all"), **topics.at)
        run(there, flush=part == 1)
    here.advance(max(row["ts"] for given in rows.values() for row in given))
    assert {q.pattern for q in queries.values()} == {"MONOTONIC", "WEAKEST", "WEAK", "STRICT"}
    together = Counter(m["key"] for m in topics.read("all"))
    for name, query in queries.items():
        messages = topics.read(name)
        changes = query.changes()
        assert together[f'{{"__query":"{name}"}}'] == changes.num_rows, name
        assert told(messages) == expected(changes), name
        assert changes.num_rows > 20, name
        _what_happens_to_a_row_is_in_order(messages)
    keys = {m["key"] for m in topics.read("volume")}
    assert keys == {
        json.dumps({"symbol": s}, separators=(",", ":"), ensure_ascii=False)
        for s in ("A", "B", "C", "Ü", None)
    }
    assert all("k0" in json.loads(m["key"])["__key"] for m in topics.read("sizes"))


def _what_happens_to_a_row_is_in_order(messages: list[Any]) -> None:
    """One partition for a key; for a row in it, a '-' after the '+' it ends."""
    assert len({(m["key"], m["partition"]) for m in messages}) == len({m["key"] for m in messages})
    shown: Counter[str] = Counter()
    for m in messages:
        change = json.loads(m["value"])
        row = json.dumps({k: v for k, v in change.items() if k not in ("__op", "__ts")})
        shown[row] += 1 if change["__op"] == "+" else -1
        assert shown[row] >= 0, change


def test_messages_that_are_not_rows_are_left_out_and_counted(topics: Topics, tmp_path: Path) -> None:
    topics.make("trades", 1)
    good = drawn(5, 30, BEGIN)
    bad = [
        "not JSON",
        '{"ts": "2026-01-01T00:00:0',
        '[{"ts": "2026-01-01T00:00:01"}]',
        '{"symbol": "A", "price": 1.0, "size": 4}',
        '{"ts": null, "symbol": "A", "price": 1.0, "size": 4}',
        '{"ts": "yesterday", "symbol": "A", "price": 1.0, "size": 4}',
        "\x00\ud7ff",
        "",
        None,
    ]
    odd = '{"ts": "2026-01-01T00:00:03", "symbol": "A", "price": "dear", "size": 4, "more": true}'
    mixed = [message(row) for row in good]
    for i, value in enumerate([*bad, odd]):
        mixed.insert(3 * i, value)
    topics.send("trades", bad)  # a first batch with nothing in it
    here, queries = embedded(["volume", "bought"])
    here.push("trades", [*good, {"ts": BEGIN + 3 * SECOND, "symbol": "A", "price": None, "size": 4}])
    here.advance(max(row["ts"] for row in good))
    counts: Counter[str] = Counter()
    for _ in range(2):
        there = topics.session(tmp_path, ["trades"])
        for name in queries:
            there.query(QUERIES[name], name=name).write(format="kafka", topic=topics.name(name), **topics.at)
        handle = run(there)
        for step in handle.recentProgress:
            unread = step["unread"].get("trades", {})
            counts.update({k: n for k, n in unread.items() if k != "example"})
            assert not unread or unread["example"] in [*bad, odd]
        topics.send("trades", mixed)
        mixed = []
    assert counts == {"unplaced": 2 * len(bad), "malformed": 2 * len(bad) + 1}
    assert there.late("trades").count() == 0
    for name, query in queries.items():
        assert told(topics.read(name)) == expected(query.changes()), name


def test_a_flow_can_be_told_to_stop_at_such_a_message(topics: Topics, tmp_path: Path) -> None:
    topics.send("trades", ["not JSON"])
    session = topics.session(tmp_path, ["trades"], ", mode 'FAILFAST'")
    session.query(QUERIES["bought"], name="bought")
    with pytest.raises(penstock.StateError, match=r"(?i)malformed"):
        run(session)


def test_a_step_repeated_after_it_was_written_sends_nothing(topics: Topics, tmp_path: Path) -> None:
    """A sink behind Kafka's fails: Spark asks for the batch again, and the flow gives the step again."""
    topics.make("trades", 2)
    rows = drawn(7, 40, BEGIN)
    topics.send("trades", map(message, rows), 2)
    here, queries = embedded(["volume"])
    here.push("trades", rows)
    here.advance(max(row["ts"] for row in rows))
    seen: list[int] = []

    def fails_at_first(_: Any, step: int) -> None:
        seen.append(step)
        if len(seen) == 1:
            raise OSError("no room")

    for attempt in range(2):
        there = topics.session(tmp_path, ["trades"])
        query = there.query(QUERIES["volume"], name="volume")
        query.write(format="kafka", topic=topics.name("volume"), **topics.at).foreach_batch(fails_at_first)
        if attempt == 0:
            with pytest.raises(penstock.StateError, match="no room"):
                run(there)
        else:
            run(there)
    assert seen[0] == seen[1], "the step was repeated"
    assert told(topics.read("volume")) == expected(queries["volume"].changes())


def test_of_a_step_half_written_only_the_rest_is_sent(topics: Topics, tmp_path: Path) -> None:
    """A crash in the middle of a write, as the checkpoint and the topic would show it."""
    session = topics.session(tmp_path, ["trades"])
    session.query(QUERIES["bought"], name="bought")
    options = {**topics.at, "topic": topics.name("out"), "key": "price, symbol"}
    sink = formats.writer(session.flow, "bought", "kafka", None, False, options)
    at = BEGIN.replace(tzinfo=UTC)
    copies = [("+", at, at + SECOND, "A", 1.0)] * 3
    changes = [*copies, ("+", at + SECOND, None, "B", 2.0), ("-", at + SECOND, None, "A", 1.0)]
    columns = "__op STRING, __ts TIMESTAMP, __exp TIMESTAMP, symbol STRING, price DOUBLE"
    frame = topics.spark.createDataFrame(changes, columns)
    whole = expected(frame.toArrow())

    sink(frame.limit(2), 7)
    (place,) = (tmp_path / "sinks").glob("bought-*.json")
    note = read_json(place)
    assert note["step"] == 7 and note["written"]
    sink(frame, 7)
    assert len(topics.read("out")) == 2, "what is noted as written is not looked at again"
    write_json(place, {**note, "written": False})
    sink(frame, 7)
    assert told(topics.read("out")) == whole
    sink(frame, 8)
    assert told(topics.read("out")) == whole + whole, "the same changes in another step are others"
    assert {m["key"] for m in topics.read("out")} == {
        '{"price":1.0,"symbol":"A"}',
        '{"price":2.0,"symbol":"B"}',
    }

    write_json(place, {"step": 9, "written": False, "begun": int(1000 * time.time())})
    gone = formats.writer(
        session.flow, "bought", "kafka", None, False, {**options, "topic": topics.name("new")}
    )
    place.rename(gone._note)
    gone(frame, 9)
    assert told(topics.read("new")) == whole, "the crash came before there was a topic"


@pytest.mark.parametrize("where", ["before", "behind"])
def test_a_task_that_is_repeated_sends_no_message_twice(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The first attempt fails after some messages: `before` they are in order, or `behind`, in the middle of sending."""
    session = topics.session(tmp_path / "checkpoint", ["trades"])
    session.query(QUERIES["bought"], name="bought")
    options = {**topics.at, "topic": topics.name("out")}
    sink: Any = formats.writer(session.flow, "bought", "kafka", None, False, options)
    at = BEGIN.replace(tzinfo=UTC)
    changes = [("+", at + i * SECOND, None, "A" if i % 2 else "B", 1.0 * (i // 4)) for i in range(10)]
    columns = "__op STRING, __ts TIMESTAMP, __exp TIMESTAMP, symbol STRING, price DOUBLE"
    frame = topics.spark.createDataFrame(changes, columns).coalesce(1)
    whole = expected(frame.toArrow())
    failed = tmp_path / "failed"
    topics.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
    try:
        if where == "before":
            frame = frame.mapInArrow(failing_once(str(failed)), frame.schema)
        else:
            save = kafka_sink.Topic._save

            def fails_while_sending(topic: Any, messages: Any, step: int) -> None:
                save(topic, messages.mapInArrow(failing_once(str(failed)), messages.schema), step)

            monkeypatch.setattr(kafka_sink.Topic, "_save", fails_while_sending)
        sink(frame, 1)
        sink(frame, 1)
    finally:
        topics.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert failed.exists(), "the first attempt failed"
    messages = topics.read("out")
    assert told(messages) == whole
    _what_happens_to_a_row_is_in_order(messages)
    assert not list((tmp_path / "checkpoint" / "sinks").glob("*.claims/*"))


def failing_once(mark: str) -> Any:
    """Fails in front of the second batch, the first time."""

    def fails(batches: Any) -> Any:
        for number, batch in enumerate(batches):
            if number and not Path(mark).exists():
                Path(mark).touch()
                raise OSError("lost")
            yield batch

    return fails


def test_the_same_message_has_the_same_header_in_every_repetition(topics: Topics, tmp_path: Path) -> None:
    """A reader can leave out what a producer that was cut off sends once more."""
    session = topics.session(tmp_path, ["trades"])
    session.query(QUERIES["bought"], name="bought")
    options = {**topics.at, "topic": topics.name("out")}
    sink = formats.writer(session.flow, "bought", "kafka", None, False, options)
    at = BEGIN.replace(tzinfo=UTC)
    changes = [("+", at, None, symbol, price) for symbol in "AAB" for price in (1.0, 2.0, 2.0)]
    columns = "__op STRING, __ts TIMESTAMP, __exp TIMESTAMP, symbol STRING, price DOUBLE"
    frame = topics.spark.createDataFrame(changes, columns)
    sink(frame.repartition(3), 1)
    (place,) = (tmp_path / "sinks").glob("bought-*.json")
    place.unlink()
    sink(frame.orderBy(F.col("price").desc()).coalesce(1), 1)
    reader = topics.spark.read.format("kafka").options(**topics.at, subscribe=topics.name("out"))
    name = F.expr("CAST(headers[0].value AS STRING)").alias("name")
    text = [F.col(c).cast("string").alias(c) for c in ("key", "value")]
    found = reader.option("includeHeaders", "true").load().select(*text, name).collect()
    assert len(found) == 2 * len(changes)
    assert {found.count(message) for message in found} == {2}
    own = [message["name"].rpartition("/") for message in found if '"A"' in message["key"]]
    assert sorted(int(number) for _, _, number in own) == sorted([*range(1, 7)] * 2)


def test_what_a_topic_cannot_be_is_refused(topics: Topics, tmp_path: Path) -> None:
    session = topics.session(tmp_path, ["trades"])
    query = session.query(QUERIES["bought"], name="bought")
    with pytest.raises(penstock.DataError, match="needs topic"):
        query.write(format="kafka", **topics.at)
    with pytest.raises(penstock.DataError, match=r"needs kafka\.bootstrap\.servers"):
        query.write(format="kafka", topic="t")
    with pytest.raises(penstock.DataError, match="no column ts to be the key"):
        query.write(format="kafka", topic="t", key="symbol, ts", **topics.at)
    with pytest.raises(penstock.DataError, match="takes changes"):
        query.write(format="kafka", topic="t", mode="view", **topics.at)


def test_the_broker_goes_with_whoever_started_it() -> None:
    script = "import time; from scripts import kafka; b = kafka.Broker().__enter__(); print(b.servers, b._holder.pid, flush=True); time.sleep(60)"
    starter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline().split()[1])
        starter.kill()
    until = time.monotonic() + 20
    while kafka._is_holder(pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not kafka._is_holder(pid)
