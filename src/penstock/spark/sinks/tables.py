"""Sinks that are tables of Spark's catalog.

A catalog may forget its tables while their files stay, as Spark's default one does when the process
ends. A table that is not in the catalog is taken up again where its files are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.errors import DataError
from penstock.spark.hadoop import HadoopDirectory
from penstock.spark.sinks.contract import OutputSink
from penstock.spark.sinks.files import has_view, was_written_by

FORMATS = ("parquet", "orc")
"""Formats of tables whose files are read alike whatever options the table has."""

MakeSink = Callable[[str, str], OutputSink]
"""From a table's format and location to the sink that writes its files."""


class TableSink:
    """Writes into a table, made when the flow starts if it is not there."""

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        flow: str,
        make_sink: MakeSink,
        *,
        view: bool,
        options: Mapping[str, str],
    ) -> None:
        self._spark, self._name, self._flow, self._view = spark, name, flow, view
        self._options = dict(options)
        self._make_sink = make_sink
        self._schema = ""
        self._sink: OutputSink | None = None

    def prepare(self, schema: str) -> None:
        """Make the table, or take it up again."""
        self._schema = schema
        if not self._spark.catalog.tableExists(self._name):
            self._create(schema)
        kind, location = self._described()
        if kind != "delta" and kind not in FORMATS:
            raise DataError(
                f"table {self._name} is made of {kind}",
                hint=f"use {', '.join(FORMATS)}, delta, or foreach_batch",
            )
        self._sink = self._make_sink(kind, location)
        self._sink.prepare(schema)
        self._spark.catalog.refreshTable(self._name)

    def __call__(self, frame: DataFrame, step: int) -> None:
        if self._sink is None or not self._spark.catalog.tableExists(self._name):
            self.prepare(self._schema)  # it was dropped meanwhile
        assert self._sink is not None
        self._sink(frame, step)
        self._spark.catalog.refreshTable(self._name)

    def _create(self, schema: str) -> None:
        columns = cast("StructType", StructType.fromDDL(schema))
        options = {key: value for key, value in self._options.items() if key != "path"}
        path = self._options.get("path")

        def create(path: str | None) -> None:
            self._spark.catalog.createTable(self._name, path, "parquet", columns, **options)

        if path is not None:
            create(path)
            return
        try:
            create(None)
        except PySparkException as error:
            if error.getCondition() != "LOCATION_ALREADY_EXISTS":
                raise
            location = (error.getMessageParameters() or {})["location"].strip("'`\"")
            directory = HadoopDirectory(self._spark, location)
            if not (was_written_by(directory, self._flow) or (self._view and has_view(directory))):
                raise DataError(
                    f"table {self._name} is not in the catalog, and {location} holds files "
                    "that this flow has not written",
                    hint="remove that directory, or name another table",
                ) from error
            create(location)

    def _described(self) -> tuple[str, str]:
        """The table's format and location."""
        lines = self._spark.sql(f"DESCRIBE FORMATTED {self._name}")
        found = lines.where("col_name IN ('Location', 'Provider')").collect()
        # Columns of these names come first.
        about = {line["col_name"]: line["data_type"] for line in found}
        if "Location" not in about:
            raise DataError(
                f"table {self._name} has no location that files can be written to", hint="use foreach_batch"
            )
        return str(about.get("Provider")).lower(), about["Location"]
