"""Times that come as whole numbers since 1970: in the unit that a stream declares, or refused.

Without a declared unit a number of seconds or of milliseconds would silently become a time in January 1970.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import DataError
from penstock.ingest.convert import read_rows
from penstock.plan.catalog import Stream
from penstock.state.arrow_columns import Misfit, instants
from penstock.state.strings import Strings
from penstock.types.batch import Column
from penstock.types.data_type import Type
from penstock.types.event_time import MICROSECONDS

_UNITS = {MICROSECONDS["SECOND"]: "s", MICROSECONDS["MILLISECOND"]: "ms", MICROSECONDS["MICROSECOND"]: "us"}
IMPLAUSIBLE = (10**8, 10**14)
"""Numbers that as microseconds are in the years 1970 to 1973, and as seconds or milliseconds in the lifetime of computers."""


def hint(stream: Stream) -> str:
    """What works for times that are whole numbers."""
    time = stream.schema[stream.time].name
    return f'whole numbers need a unit: WATERMARK {time} UNIT MILLISECONDS, or create_stream(…, unit="milliseconds")'


def read_stream(data: object, stream: Stream, strings: Strings) -> tuple[Column, ...]:
    """Rows of a stream; times that are whole numbers count the unit that it declares."""
    field, required = stream.schema[stream.time], frozenset([stream.time])
    if field.type is not Type.TIMESTAMP:
        return read_rows(data, stream.schema, strings, required)
    if stream.unit is None:
        try:
            return read_rows(data, stream.schema, strings, required)
        except DataError as error:
            if f"column {field.name}: " in error.message and "int" in error.message:
                raise DataError(error.message, hint=hint(stream)) from None
            raise
    counted = (
        *stream.schema[: stream.time],
        replace(field, type=Type.BIGINT),
        *stream.schema[stream.time + 1 :],
    )
    try:
        columns = read_rows(data, counted, strings, required)
    except DataError:
        return read_rows(data, stream.schema, strings, required)  # times, or the error of them
    numbers = columns[stream.time]
    try:
        times = Column(instants(numbers.values, _UNITS[stream.unit], numbers.valid), numbers.valid)
    except Misfit as misfit:
        raise DataError(
            f"row {misfit.row}, column {field.name}: {misfit.why}",
            hint="check the UNIT of the stream's times",
        ) from None
    return (*columns[: stream.time], times, *columns[stream.time + 1 :])


def in_microseconds(number: int, stream: Stream, where: str) -> int:
    """A time that is a whole number, where microseconds are meant if no unit is declared."""
    if stream.unit is not None:
        return number * stream.unit
    if IMPLAUSIBLE[0] <= abs(number) < IMPLAUSIBLE[1]:
        raise DataError(f"{where}: {number} microseconds since 1970 is not a likely time", hint=hint(stream))
    return number
