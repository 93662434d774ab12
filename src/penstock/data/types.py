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

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy type a column of this type is held in."""
        return _DTYPES[self]

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type a column of this type leaves as."""
        return _ARROW[self]

    @property
    def is_integer(self) -> bool:
        return self in INTEGERS

    @property
    def is_float(self) -> bool:
        return self in (Type.FLOAT, Type.DOUBLE)

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_float

    def __str__(self) -> str:
        return self.value


INTEGERS = (Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT)

_DTYPES: dict[Type, np.dtype[np.generic]] = {
    Type.BOOLEAN: np.dtype(np.bool_),
    Type.TINYINT: np.dtype(np.int8),
    Type.SMALLINT: np.dtype(np.int16),
    Type.INT: np.dtype(np.int32),
    Type.BIGINT: np.dtype(np.int64),
    Type.FLOAT: np.dtype(np.float32),
    Type.DOUBLE: np.dtype(np.float64),
    Type.STRING: np.dtype(np.int32),
    Type.TIMESTAMP: np.dtype(np.int64),
    Type.DATE: np.dtype(np.int32),
    Type.INTERVAL: np.dtype(np.int64),
    Type.NULL: np.dtype(np.bool_),
}

_ARROW: dict[Type, pa.DataType] = {
    Type.BOOLEAN: pa.bool_(),
    Type.TINYINT: pa.int8(),
    Type.SMALLINT: pa.int16(),
    Type.INT: pa.int32(),
    Type.BIGINT: pa.int64(),
    Type.FLOAT: pa.float32(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.TIMESTAMP: pa.timestamp("us"),
    Type.DATE: pa.date32(),
    Type.INTERVAL: pa.duration("us"),
    Type.NULL: pa.null(),
}
