"""SQL types and their NumPy and Arrow forms.

Inside the engine every value is a fixed-width number: strings are codes into the session's string
pool, timestamps and intervals are microseconds, dates are days.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import pyarrow as pa


class Type(Enum):
    """A SQL type. `NULL` is the type of a bare NULL literal and fits every other type."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    TIMESTAMP = "TIMESTAMP"
    DATE = "DATE"
    INTERVAL = "INTERVAL"
    NULL = "NULL"

    dtype: np.dtype[np.generic]
    """The NumPy type a column of this type is held in."""
    arrow: pa.DataType
    """The Arrow type a column of this type leaves as."""
    is_integer: bool
    is_float: bool
    is_numeric: bool

    def __str__(self) -> str:
        return str(self.value)


_FORMS: dict[Type, tuple[type[np.generic], pa.DataType]] = {
    Type.BOOLEAN: (np.bool_, pa.bool_()),
    Type.TINYINT: (np.int8, pa.int8()),
    Type.SMALLINT: (np.int16, pa.int16()),
    Type.INT: (np.int32, pa.int32()),
    Type.BIGINT: (np.int64, pa.int64()),
    Type.FLOAT: (np.float32, pa.float32()),
    Type.DOUBLE: (np.float64, pa.float64()),
    Type.STRING: (np.int32, pa.string()),
    Type.TIMESTAMP: (np.int64, pa.timestamp("us")),
    Type.DATE: (np.int32, pa.date32()),
    Type.INTERVAL: (np.int64, pa.duration("us")),
    Type.NULL: (np.bool_, pa.null()),
}
INTEGERS = (Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT)
for _type, (_held, _arrow) in _FORMS.items():
    # Attributes of the members: a look-up by member costs a call of Enum's own hash.
    _type.dtype, _type.arrow = np.dtype(_held), _arrow
    _type.is_integer, _type.is_float = _type in INTEGERS, _type in (Type.FLOAT, Type.DOUBLE)
    _type.is_numeric = _type.is_integer or _type.is_float
