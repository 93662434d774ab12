"""A client's view of a query: what the changes say is true, and what they may not say.

Within an instant: rows whose `__exp` has come vanish, then '-' remove, then '+' add. Where a group's newer row
replaces the older one, the view is keyed. Any breach of the contract raises `Breach`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tests.oracle.scalar import Value

Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Change:
    op: str
    ts: int
    exp: int | None
    row: Row
    key: Value = None

    def __str__(self) -> str:
        shown = ", ".join("NULL" if v is None else repr(v) for v in self.row)
        return f"{self.op} [{self.ts}, {'∞' if self.exp is None else self.exp}) ({shown})"


class Breach(AssertionError):
    """The changes say something they may not."""


@dataclass
class View:
    """Live rows by (row, exp); by key if `keyed`."""

    keyed: bool = False
    live: Counter[tuple[Row, int | None]] = field(default_factory=Counter)
    by_key: dict[Value, tuple[Row, int | None]] = field(default_factory=dict)

    def rows(self, tau: int) -> list[Row]:
        self.expire(tau)
        if self.keyed:
            return [row for row, _ in self.by_key.values()]
        return [row for (row, _), n in self.live.items() for _ in range(n)]

    def expire(self, tau: int) -> None:
        if self.keyed:
            self.by_key = {k: v for k, v in self.by_key.items() if v[1] is None or v[1] > tau}
        else:
            gone = [held for held in self.live if held[1] is not None and held[1] <= tau]
            for held in gone:
                del self.live[held]

    def instant(self, ts: int, changes: Sequence[Change]) -> None:
        """All changes of one instant."""
        self.expire(ts)
        minus = [c for c in changes if c.op == "-"]
        plus = [c for c in changes if c.op == "+"]
        both = Counter((c.row, c.exp, c.key) for c in minus) & Counter((c.row, c.exp, c.key) for c in plus)
        if both:
            raise Breach(f"'+' and '-' of the same row at {ts}: {next(iter(both))}")
        for c in minus:
            self.remove(c)
        keys = set()
        for c in plus:
            if c.exp is not None and c.exp <= ts:
                raise Breach(f"a row with an empty lifetime: {c}")
            if self.keyed:
                if c.key in keys:
                    raise Breach(f"two rows for one key in one instant: {c}")
                keys.add(c.key)
                self.by_key[c.key] = (c.row, c.exp)
            else:
                self.live[c.row, c.exp] += 1

    def remove(self, c: Change) -> None:
        held = (c.row, c.exp)
        if self.keyed:
            if self.by_key.get(c.key) != held:
                raise Breach(
                    f"'-' of a row that is not shown: {c}; shown for its key: {self.by_key.get(c.key)}"
                )
            del self.by_key[c.key]
        elif self.live[held] == 0:
            raise Breach(f"'-' of a row that is not shown: {c}")
        else:
            self.live[held] -= 1
            if self.live[held] == 0:
                del self.live[held]


def views(changes: list[Change], keyed: bool, taus: list[int]) -> Iterator[tuple[int, list[Row]]]:
    """The view at each τ (ascending)."""
    view = View(keyed)
    instants = [(ts, list(group)) for ts, group in groupby(changes, key=lambda c: c.ts)]
    done = 0
    for tau in taus:
        while done < len(instants) and instants[done][0] <= tau:
            view.instant(*instants[done])
            done += 1
        yield tau, view.rows(tau)
    for ts, group in instants[done:]:
        view.instant(ts, group)
