"""Schemas: a few streams and tables with small domains, so that joins and duplicates hit."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pyarrow as pa

from tests.oracle.scalar import Micros, Value, interval, moment

Columns = tuple[tuple[str, str], ...]
Row = tuple[Value, ...]

STRINGS = ("", "a", "b", "ab", "ba", "A", "o'k", "é", " a ", "100%")
TYPES = {
    "k": "INT", "x": "INT", "y": "BIGINT", "d": "DOUBLE", "s": "STRING", "b": "BOOLEAN",
    "t": "TINYINT", "h": "SMALLINT", "f": "FLOAT", "e": "DATE", "m": "TIMESTAMP",
}  # fmt: skip
USUAL, OTHERS = "xydsb", "thfem"
"""Columns that most schemas have some of, and those of the feature `types`."""
ARROW = {
    "INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string(), "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "FLOAT": pa.float32(), "TIMESTAMP": pa.timestamp("us"), "DATE": pa.date32(),
}  # fmt: skip

_WHOLE = {pa.timestamp("us"): pa.int64(), pa.date32(): pa.int32()}


@dataclass(frozen=True, slots=True)
class Stream:
    name: str
    columns: Columns
    delay: int = 0

    @property
    def time(self) -> int:
        return next(i for i, (_, kind) in enumerate(self.columns) if kind == "TIME")


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: Columns
    retroactive: bool
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Schema:
    streams: tuple[Stream, ...]
    tables: tuple[Table, ...] = ()
    timestamps: bool = False

    @property
    def unit(self) -> int:
        """One tick of the generator's clock."""
        return Micros(1_000_000) if self.timestamps else 1

    def units(self, n: int) -> int:
        return Micros(n * 1_000_000) if self.timestamps else n

    def stream(self, name: str) -> Stream:
        return next(s for s in self.streams if s.name == name)

    def table(self, name: str) -> Table:
        return next(t for t in self.tables if t.name == name)

    def ddl(self) -> str:
        """The streams; tables are created through `create_table`."""
        time = "TIMESTAMP" if self.timestamps else "BIGINT"
        lines = []
        for stream in self.streams:
            columns = ", ".join(f"{n} {time if t == 'TIME' else t}" for n, t in stream.columns)
            delay = interval(stream.delay) if self.timestamps and stream.delay else str(stream.delay)
            ahead = " AHEAD UNLIMITED" if self.timestamps else ""  # drawn times may be of any year
            lines.append(
                f"CREATE STREAM {stream.name} ({columns}) WATERMARK ts DELAY OF INTERVAL {delay}{ahead}"
            )
        return ";\n".join(lines)

    def arrow(self, columns: Columns, rows: list[Row]) -> pa.Table:
        """Rows as the engine takes them."""
        time = pa.timestamp("us") if self.timestamps else pa.int64()
        fields = [pa.field(n, time if t == "TIME" else ARROW[t]) for n, t in columns]
        arrays = []
        for i, one in enumerate(fields):
            values = [r[i] for r in rows]
            whole = _WHOLE.get(one.type) if any(isinstance(v, int) for v in values) else None
            made = pa.array(values, whole or one.type)  # drawn instants and dates are integers
            arrays.append(made.cast(one.type))
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def make(rng: random.Random, enabled: frozenset[str]) -> Schema:
    """Two to four streams, at most one table of each kind."""
    timestamps = "timestamp" in enabled and rng.random() < 0.2
    schema = Schema((), (), timestamps)
    streams = []
    pool = USUAL + (OTHERS if "types" in enabled and rng.random() < 0.3 else "")
    for name in "abcd"[: rng.randint(2, 4)]:
        columns = [("k", "INT"), *((n, TYPES[n]) for n in rng.sample(pool, rng.randint(1, 4)))]
        columns.insert(rng.choice((0, 0, 0, len(columns))), ("ts", "TIME"))
        streams.append(Stream(name, tuple(columns), schema.units(rng.choice((0, 0, 0, 1, 3, 10)))))
    tables = []
    for name, feature in (("n", "nrr"), ("r", "retroactive")):
        if feature in enabled and rng.random() < 0.5:
            columns = [
                ("k", "INT"),
                *((c, TYPES[c]) for c in rng.sample("xsd" if pool == USUAL else "xsdhem", rng.randint(1, 2))),
            ]
            rows = {row(rng, tuple(columns), 4) for _ in range(rng.randint(0, 6))}
            tables.append(Table(name, tuple(columns), feature == "retroactive", tuple(sorted(rows, key=str))))
    return Schema(tuple(streams), tuple(tables), timestamps)


def row(
    rng: random.Random, columns: Columns, keys: int, ts: int = 0, nulls: float = 0.1, nan: float = 0.0
) -> Row:
    """One row with skewed keys."""
    return tuple(value(rng, name, kind, keys, ts, nulls, nan) for name, kind in columns)


def value(rng: random.Random, name: str, kind: str, keys: int, ts: int, nulls: float, nan: float) -> Value:
    if kind == "TIME":
        return ts
    if rng.random() < nulls:
        return None
    match kind:
        case "STRING":
            return rng.choice(STRINGS[: 2 + keys])
        case "BOOLEAN":
            return rng.random() < 0.5
        case "DOUBLE":
            return float("nan") if rng.random() < nan else rng.randint(-4, 8) / 4
    if name == "k":
        return min(int(rng.paretovariate(1.0)), keys)
    drawn = rng.randint(-2, 6)
    return {"FLOAT": drawn / 4, "TIMESTAMP": Micros(drawn * 1_500_000)}.get(kind, drawn)


def native(kind: str, value: Value) -> Value:
    """A value as users would put it into a dict: drawn dates and instants are integers."""
    if not isinstance(value, int) or kind not in ("DATE", "TIMESTAMP"):
        return value
    return moment(value) if kind == "TIMESTAMP" else moment(value * 86_400_000_000).date()
