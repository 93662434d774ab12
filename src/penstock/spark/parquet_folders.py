"""Streams that are folders of parquet files: Spark says which files are new, and whoever wants their rows reads them.

Spark's part of such a batch is one row a file, made from the scan's own account of what it reads (`_metadata`), so that offsets, limits
and counts stay Spark's. If cells cannot read a batch's files as Spark would (see `files.fits`), Spark reads the same files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.plan.catalog import Stream
from penstock.spark import parquet_reader
from penstock.spark.filesystem import literal
from penstock.spark.shuffle import STREAM, laid_out, united
from penstock.spark.union_layout import Layout
from penstock.types.data_type import Type

PATH = "path"
_OPTIONS = {
    "path", "maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "filenameonly", "maxcachedfiles",
    "cleansource", "sourcearchivedir",
}  # fmt: skip
"""Of a reader: those that say which files are read when, and not how. Files go once Spark has noted their batch as done, and cells have
logged what they read by then."""
_SETTINGS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.caseSensitive": "false",
}
"""With which Spark reads as cells do."""
_SAME: dict[Type, type[T.DataType]] = {
    Type.BOOLEAN: T.BooleanType, Type.TINYINT: T.ByteType, Type.SMALLINT: T.ShortType, Type.INT: T.IntegerType,
    Type.BIGINT: T.LongType, Type.FLOAT: T.FloatType, Type.DOUBLE: T.DoubleType, Type.STRING: T.StringType,
    Type.TIMESTAMP: T.TimestampType, Type.DATE: T.DateType,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Folder:
    """A stream, and the frame that reads it."""

    stream: Stream
    frame: DataFrame
    path: str

    def names(self, number: int) -> DataFrame:
        """One row a file."""
        first = self.frame.where("_metadata.row_index = 0")
        return first.select(F.lit(number).alias(STREAM), F.col("_metadata.file_path").alias(PATH))

    def rows(self, spark: SparkSession, paths: Iterable[str], watch: Observation) -> DataFrame:
        """Files as Spark reads them, but for rows without a time."""
        read = spark.read.schema(self.frame.schema).option("basePath", self.path)
        found = read.parquet(*map(literal, paths))
        time = F.col(f"`{self.stream.schema[self.stream.time].name}`")
        return found.observe(watch, F.count_if(time.isNull()).alias("unplaced")).where(time.isNotNull())


def folder(frame: DataFrame, stream: Stream) -> Folder | None:
    """The folder that a frame reads; None if it reads anything else, or does more than that."""
    try:
        plan = frame._jdf.queryExecution().analyzed()
        if plan.getClass().getSimpleName() != "StreamingRelation":
            return None
        source = plan.dataSource()
        kind, options = source.className(), _options(source.options())
    except (Py4JError, AttributeError):
        return None  # another Spark, or one that is elsewhere
    conf = frame.sparkSession.conf
    path = options.get("path", "")
    there = {f.name.lower(): f.dataType for f in frame.schema.fields}
    plain = (
        kind.lower() == "parquet"
        and source.paths().isEmpty()
        and options.keys() <= _OPTIONS
        and _is_mounted(path, frame.sparkSession)
        and not re.search(r"[\[\]{}*?\\=]", path)
        and all(conf.get(key, value) == value for key, value in _SETTINGS.items())
        and all(_same(there.get(f.name.lower()), f.type) for f in stream.schema)
    )
    return Folder(stream, frame, path) if plain else None


def _same(found: T.DataType | None, kind: Type) -> bool:
    return found is not None and found == _SAME[kind]()


def _is_mounted(path: str, spark: SparkSession) -> bool:
    """Whether every machine has the folder under its name."""
    scheme = urlsplit(path).scheme
    if not scheme:
        java: Any = spark._jsc
        scheme = urlsplit(str(java.hadoopConfiguration().get("fs.defaultFS"))).scheme
    return scheme == "file"


def _options(told: Any) -> dict[str, str]:
    found, each = {}, told.iterator()
    while each.hasNext():
        pair = each.next()
        found[str(pair._1()).lower()] = str(pair._2())
    return found


class Folders:
    """All streams of a flow, if each is a folder."""

    def __init__(self, spark: SparkSession, found: list[Folder], layout: Layout) -> None:
        self._spark = spark
        self._found = {one.stream.name.lower(): one for one in found}
        self._layout = layout
        self.odd: dict[str, Observation] = {}
        """By stream, what Spark counted of the last batch if it read the rows."""

    def names(self) -> DataFrame:
        """One row a file, of all streams."""
        return united([one.names(number) for number, one in enumerate(self._found.values())])

    def listed(self, batch: DataFrame) -> parquet_reader.Files:
        """The files of a batch by stream, in the order of their names."""
        streams = list(self._found)
        listed: dict[str, list[str]] = {}
        for number, path in sorted((row[0], row[1]) for row in batch.collect()):
            listed.setdefault(streams[number], []).append(re.sub("^file:/+", "/", unquote(path)))
        return listed

    def fit(self, listed: parquet_reader.Files, cells: int) -> bool:
        """Whether cells are to read them."""
        return cells <= parquet_reader.MOST_CELLS and all(
            parquet_reader.fits(path, self._found[name].stream.schema)
            for name, paths in listed.items()
            for path in paths
        )

    def rows(self, listed: parquet_reader.Files) -> DataFrame | None:
        """The rows of files in the columns that all streams share, as Spark reads them; None: there are none."""
        self.odd = {name: Observation() for name in listed}
        parts = []
        for number, (name, one) in enumerate(self._found.items()):
            if name in listed:
                read = one.rows(self._spark, listed[name], self.odd[name])
                parts.append(laid_out(read, one.stream, number, self._layout))
        return united(parts) if parts else None
