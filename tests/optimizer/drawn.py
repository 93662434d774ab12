"""Queries full of what the rules look for, and rows that make them tell: small domains, NULLs, ties, short windows."""

from __future__ import annotations

import random

from penstock.plan.statistics import Statistics

STREAMS = ("a", "b", "c", "d")
DDL = ";".join(
    f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0" for name in STREAMS
)
Columns = tuple[str, str]
"""Two INT columns, by which a source can be asked."""


class Maker:
    """Every relation has the columns k and v, both INT."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0

    def query(self) -> str:
        text = self.relation(2)
        return f"{self.rng.choice(('ISTREAM', 'DSTREAM'))}({text})" if self.chance(0.08) else text

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def relation(self, depth: int) -> str:
        kinds = [self.plain, self.join, self.negated, self.negated, self.keys, self.keys]
        if depth:
            kinds += [self.distinct, self.again, self.set_operation, self.group, self.nested]
        return str(self.rng.choice(kinds)(depth))

    # ------------------------------------------------------------------ FROM

    def source(self, depth: int) -> tuple[str, Columns]:
        self.count += 1
        alias = f"r{self.count}"
        if depth > 0 and self.chance(0.6):
            return f"({self.relation(depth - 1)}) AS {alias}", (f"{alias}.k", f"{alias}.v")
        return f"{self.rng.choice(STREAMS)} {self.window()} AS {alias}", (f"{alias}.x", f"{alias}.y")

    def window(self) -> str:
        length = self.rng.choice((1, 2, 3, 5, 8))
        return self.rng.choice(
            [f"[RANGE {length}]"] * 7
            + [f"[RANGE {length} SLIDE 3]", "[UNBOUNDED]", f"[ROWS {length}]"]
            + ["[PARTITION BY x ROWS 1]", "[PARTITION BY x, y ROWS 1]"]
        )

    def joined(self, depth: int, ways: int) -> tuple[str, list[Columns]]:
        text, columns = self.source(depth)
        found = [columns]
        for _ in range(ways - 1):
            right, columns = self.source(depth - 1)
            anti = self.chance(0.25)
            text += f" {'LEFT ANTI JOIN' if anti else 'JOIN'} {right} ON {self.matching(found, columns)}"
            if not anti:
                found.append(columns)
        return text, found

    def matching(self, left: list[Columns], right: Columns) -> str:
        parts = [f"{self.rng.choice(left)[0]} = {right[0]}"]
        if self.chance(0.3):
            parts.append(f"{self.rng.choice(left)[1]} {self.rng.choice(('=', '<', '<>'))} {right[1]}")
        if self.chance(0.2):
            parts.append(f"{right[1]} > {self.rng.randint(0, 2)}")
        return " AND ".join(parts)

    def where(self, columns: list[Columns], share: float = 0.4) -> str:
        if not self.chance(share):
            return ""
        one, other = self.rng.choice(columns), self.rng.choice(columns)
        number = self.rng.randint(0, 3)
        return " WHERE " + self.rng.choice(
            (
                f"{one[0]} > {number}",
                f"{one[1]} <= {number}",
                f"{one[0]} <> {other[1]}",
                f"{one[0]} IN (1, 2)",
            )
        )

    def items(self, columns: list[Columns]) -> str:
        found = []
        for name in "kv":
            item = self.rng.choice(self.rng.choice(columns))
            found.append(f"CAST({item} + 1 AS INT) AS {name}" if self.chance(0.1) else f"{item} AS {name}")
        return ", ".join(found)

    # ------------------------------------------------------------------ SELECT

    def plain(self, depth: int) -> str:
        text, columns = self.source(depth)
        return f"SELECT {self.items([columns])} FROM {text}{self.where([columns])}"

    def join(self, depth: int) -> str:
        text, columns = self.joined(depth, self.rng.choice((2, 2, 3)))
        distinct = "DISTINCT " if self.chance(0.3) else ""
        return f"SELECT {distinct}{self.items(columns)} FROM {text}{self.where(columns, 0.3)}"

    def negated(self, depth: int) -> str:
        text, columns = self.joined(depth, self.rng.choice((1, 2, 2, 3)))
        where = self.where(columns, 0.3)
        for _ in range(self.rng.choice((1, 1, 2))):
            right, its = self.source(depth - 1)
            asked = f" WHERE {self.matching(columns, its)}" if self.chance(0.9) else ""
            where += (" AND " if where else " WHERE ") + f"NOT EXISTS (SELECT 1 FROM {right}{asked})"
        return f"SELECT {self.items(columns)} FROM {text}{where}"

    def keys(self, depth: int) -> str:
        """DISTINCT of the key of a join, or of nearly that."""
        (text, one), (right, other) = self.source(depth - 1), self.source(depth - 1)
        on, pairs = f"{one[0]} = {other[0]}", [(one[0], other[0])]
        if self.chance(0.5):
            on, pairs = f"{on} AND {other[1]} = {one[1]}", [*pairs, (one[1], other[1])]
        if self.chance(0.3):
            third, its = self.source(depth - 1)
            right += f" ON {on} JOIN {third}"
            on = f"{self.rng.choice(pairs[0])} = {its[0]}"
        items = [self.rng.choice(p) for p in pairs] * (1 if len(pairs) == 2 else 2)
        return f"SELECT DISTINCT {items[0]} AS k, {items[1]} AS v FROM {text} JOIN {right} ON {on}"

    def distinct(self, depth: int) -> str:
        text, columns = self.source(depth)
        return f"SELECT DISTINCT {self.items([columns])} FROM {text}{self.where([columns])}"

    def again(self, depth: int) -> str:
        """DISTINCT of what may have no copies."""
        self.count += 1
        inner = self.rng.choice((self.distinct, self.set_operation, self.keys))(depth)
        one, other = self.rng.choice((("k", "v"), ("v", "k"), ("k", "k")))
        return f"SELECT DISTINCT {one} AS k, {other} AS v FROM ({inner}) AS r{self.count}"

    def set_operation(self, depth: int) -> str:
        op = self.rng.choice(("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"))
        return f"{self.plain(depth - 1)} {op} {self.plain(depth - 1)}"

    def group(self, depth: int) -> str:
        text, (k, v) = self.source(depth)
        having = f" HAVING {k} > {self.rng.randint(0, 2)}" if self.chance(0.4) else ""
        count = self.rng.choice(("COUNT(*)", f"MAX({v})", f"SUM({v})"))
        return f"SELECT {k} AS k, CAST({count} AS INT) AS v FROM {text} GROUP BY {k}{having}"

    def nested(self, depth: int) -> str:
        """A selection above anything."""
        return f"SELECT k, v FROM ({self.relation(depth)}) AS q{self.count}{self.where([('k', 'v')], 0.9)}"


Row = tuple[int, int | None, int | None]


def rows(rng: random.Random, instants: int) -> list[dict[str, list[Row]]]:
    """For each instant the rows of each stream."""
    busy = {name: rng.choice((0.3, 0.8, 1.6)) for name in STREAMS}
    return [
        {
            name: [(ts, _value(rng), _value(rng)) for _ in range(_copies(rng, share))]
            for name, share in busy.items()
        }
        for ts in range(instants)
    ]


def _copies(rng: random.Random, share: float) -> int:
    return sum(rng.random() < share / 2 for _ in range(2)) if share <= 1 else rng.choice((0, 1, 2, 3))


def _value(rng: random.Random) -> int | None:
    return None if rng.random() < 0.06 else rng.randint(0, 3)


def statistics(rng: random.Random) -> Statistics:
    """Far from each other, so that rules choose now this and now that."""
    return Statistics(
        rates={name: rng.choice((0.01, 1.0, 50.0)) for name in STREAMS},
        distincts={(name, column): rng.choice((1.0, 4.0, 2000.0)) for name in STREAMS for column in "xy"},
    )
