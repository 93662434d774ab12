"""What the driver adds to the watermarks that rows give: streams that are idle, `advance`, rows too far ahead.

All of it goes into the header of a step, so that a step that is repeated decides the same.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial

from penstock.errors import StreamWarning
from penstock.ingest.future_bound import AheadBound
from penstock.ingest.warnings import Lateness, far_notice_of, held_notice
from penstock.plan.catalog import Stream
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST, FIRST_INSTANT, LAST_MICROSECOND, LATEST

Instants = Mapping[str, int]
Streams = Mapping[str, Stream]
Groups = Collection[Collection[str]]
"""Streams that wait for each other."""

MANY = 10_000
"""Rows that wait for one stream when that is said."""


class StreamClocks:
    """Of one flow, in this process."""

    def __init__(self) -> None:
        self._heard: dict[str, float] = {}
        """By stream: when it had rows last, or the flow began without."""
        self._told: dict[str, int] = {}
        """By stream: what `advance` said since the last step."""
        self._lateness: dict[str, Lateness] = {}
        self._warned: set[tuple[str, str]] = set()

    # ------------------------------------------------------------------ watermarks

    def advance(self, until: int, streams: Collection[str]) -> None:
        """Nothing with ts <= until will come any more on these streams."""
        for name in streams:
            self._told[name] = max(self._told.get(name, EARLIEST), until + 1)

    def forget_told(self) -> None:
        """It is in a step's header now."""
        self._told = {}

    def raised(self, watermarks: Instants, streams: Streams, groups: Groups) -> dict[str, int]:
        """Watermarks as the next step has them: an idle stream holds none of those back that wait for it."""
        found = {name: max(mark, self._told.get(name, mark)) for name, mark in watermarks.items()}
        now = time.monotonic()
        silent = {name: now - self._heard.setdefault(name, now) for name, s in streams.items() if s.idle}
        idle = {name for name, since in silent.items() if 1e6 * since >= (streams[name].idle or 0)}
        for group in groups:
            active = [found[name] for name in group if name in found and name not in idle]
            for name in idle & set(group) & found.keys() if active else ():
                found[name] = max(found[name], min(active))
        return found

    def is_behind(self, watermarks: Instants, streams: Streams, groups: Groups) -> bool:
        """A step without rows would raise some clock."""
        if self._told:
            return True
        if not any(s.idle for s in streams.values()):
            return False
        raised = self.raised(watermarks, streams, groups)
        known = [[name for name in group if name in watermarks] for group in groups]
        return any(
            min(raised[n] for n in names) > min(watermarks[n] for n in names) for names in known if names
        )

    def ceilings(self, streams: Streams, newest: Instants) -> dict[str, int]:
        """By stream: rows of the next step beyond it are too far ahead, or outside the calendar."""
        made: dict[str, int] = {}
        for name, stream in streams.items():
            bound = AheadBound.of(stream)
            last = LAST_MICROSECOND if stream.time_type is Type.TIMESTAMP else LATEST
            made[name] = last if bound is None else min(last, bound.ceiling(newest.get(name)))
        return {name: ceiling for name, ceiling in made.items() if ceiling < LATEST}

    # ------------------------------------------------------------------ what is said

    def note(
        self,
        streams: Streams,
        groups: Groups,
        rows: Mapping[str, int],
        late: Mapping[str, int],
        ahead: Mapping[str, int],
        waiting: Mapping[str, int],
        watermarks: Instants,
    ) -> None:
        """A step is done."""
        now = time.monotonic()
        for name, count in rows.items():
            if count:
                self._heard[name] = now
        for name in ahead.keys() & streams.keys():
            self._warn("ahead", name, partial(far_notice_of, streams[name]))
        for name, count in rows.items():
            for told in self._lateness.setdefault(name, Lateness(name)).note(count, late.get(name, 0), 0):
                _say(told)
        for held, count in held_back_by(groups, waiting, watermarks).items():
            if count >= MANY and not rows.get(held):
                mark = watermarks[held]
                seen = None if mark in (EARLIEST, FIRST_INSTANT) else mark
                self._warn("held", held, partial(held_notice, streams[held], count, seen))

    def _warn(self, what: str, name: str, made: Callable[[], Warning]) -> None:
        """Once of a stream."""
        if (what, name) not in self._warned:
            self._warned.add((what, name))
            _say(made())


def held_back_by(groups: Groups, waiting: Mapping[str, int], watermarks: Instants) -> dict[str, int]:
    """Streams that rows of others wait for, and how many rows do."""
    found: dict[str, int] = {}
    for group in groups:
        known = [name for name in group if name in watermarks]
        held = min(known, key=lambda name: watermarks[name], default="")
        count = sum(waiting.get(name, 0) for name in known if name != held)
        if count:
            found[held] = count
    return found


def _say(told: Warning) -> None:
    """Warnings that were made errors must not stop the flow."""
    with suppress(StreamWarning):
        warnings.warn(told, stacklevel=4)
