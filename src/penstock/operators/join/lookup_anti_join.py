"""Rows for which a plain table has no match when they come: the part of a LEFT JOIN that inner joins leave out.

Paper      Golab & Özsu 2005, §4.2 (non-retroactive relations): a table is looked up as of a row's ts.
Invariant  a row is shown for as long as it lives exactly if no version of the table at its ts matches it.
Pattern    as the left input, which announces its ends; `operators.join.anti_join` where rows may be taken back.
State      the table by version; of the left input nothing.
Cost       O(rows that come × matches met).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.kernels.join import chains
from penstock.operators.capabilities import Holding
from penstock.operators.contract import Site
from penstock.operators.join.predicates import KeyMaker, Tester, take_apart
from penstock.plan.edge import Edge
from penstock.plan.expressions import Expression, columns
from penstock.plan.update_pattern import Pattern
from penstock.state.indexed_live_rows import LinkedRoster
from penstock.types import limits
from penstock.types.batch import ABSENT, Array, Batch, Column, Ints, Mask
from penstock.types.schema import Schema


class LookupAntiJoin:
    def __init__(self, site: Site, schemas: tuple[Schema, Schema], predicates: Sequence[Expression]) -> None:
        equalities, residuals = take_apart(predicates, schemas)
        self._tester = Tester(site)
        self._tests = [r.whole for r in residuals]
        if len(equalities) > 1:  # several keys are one hash: equality is tested again
            self._tests += [e.whole for e in equalities]
        self._width = len(schemas[0])
        self._whole = self._width + len(schemas[1])
        self._keys = [KeyMaker(site), KeyMaker(site)]
        for i, keys in enumerate(self._keys):
            keys.index([e.side(i) for e in equalities])
        # Keys too: a '-' ends a version with its values, and those that agree in all that is read are alike.
        read = {c.index for t in (*self._tests, *(e.whole for e in equalities)) for c in columns(t)}
        self._stored = tuple(k for k in range(len(schemas[1])) if self._width + k in read)
        types = [schemas[1][k].type for k in self._stored] + self._keys[1].strings
        self._table = LinkedRoster(
            site.arena, f"{site.name}.table", types, 1, Edge(Pattern.STRICT), site.upkeep, tells=False, lazy=False
        )  # fmt: skip

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        left, right = inputs
        self._enter(right, now)
        matched = self._matched(left)
        self._table.finish()
        return left.take(np.flatnonzero(~matched)) if matched.any() else left

    def holdings(self) -> list[Holding]:
        return [Holding("table", f"hash chains over a {self._table.roster.structure}", len(self._table))]

    def shrink(self, coming: int) -> None:
        self._table.shrink(coming)

    def _enter(self, batch: Batch, now: int) -> None:
        batch, (key,) = self._keys[1].clean(batch)
        stored = tuple(batch.columns[k] for k in self._stored) + self._keys[1].held(batch)
        if batch.sign is not None:
            key = key[batch.sign > 0]
        self._table.step(batch.with_columns(stored), [key], now)

    def _matched(self, batch: Batch) -> Mask:
        """Which rows the table, as it was at their ts, has a match for."""
        matched: Mask = np.zeros(len(batch), np.bool_)
        if not len(batch):
            return matched
        clean, (keys,) = self._keys[0].clean(batch)
        rows, slots = self._probe(keys, clean.ts)
        for test in self._tests:
            if not len(rows):
                break
            both: list[Column] = [
                c if c is ABSENT else c.take(rows) for c in clean.columns[: self._width]
            ] + [ABSENT] * (self._whole - self._width)
            for k, column in zip(self._stored, self._table.columns(slots), strict=False):
                both[self._width + k] = column
            passed = self._tester.test(test, both, clean.ts[rows])
            rows, slots = rows[passed], slots[passed]
        if len(clean) == len(batch):
            matched[rows] = True
        else:
            matched[np.flatnonzero(self._keys[0].can_match(batch))[rows]] = True
        return matched

    def _probe(self, keys: Ints, times: Ints) -> tuple[Array, Array]:
        index = self._table.indexes[0]
        n, done, total, room = len(keys), 0, 0, max(1024, 2 * len(keys))
        found_rows, found_slots = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        while done < n:
            row, slot = np.empty(room, np.int32), np.empty(room, np.int32)
            before = done
            done, made = chains.probe(
                keys, times, done, index.key, index.head, index.chain,
                self._table.ts, self._table.end, True, row, slot,
            )  # fmt: skip
            found_rows.append(row[:made])
            found_slots.append(slot[:made])
            total += made
            limits.check_results(total)
            if done == before:
                room *= 2
        return np.concatenate(found_rows), np.concatenate(found_slots)
