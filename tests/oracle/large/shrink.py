"""Makes a failing large case small: fewer options, queries, events and rows, then less query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..algebra import ToStream
from ..algebra import streams as streams_of
from ..shrink import least, simplified
from .course import Advance, Case, Drop, Event, Look, Push, Register


def smallest(case: Case, fails: Callable[[Case], bool], seconds: float = 60.0) -> Case:
    return least(case, fails, _steps, seconds)


def _steps(case: Case) -> Iterator[Case]:
    if len(case.queries) > 1:
        for i in range(len(case.queries)):
            if (fewer := _without(case, i)) is not None:
                yield fewer
    read = {s.stream for q in case.queries for s in streams_of(q)}
    unread = [s for s in case.streams if s.name not in read]
    if unread:
        kept = tuple(e for e in case.events if not (isinstance(e, Push) and e.stream not in read))
        yield replace(case, streams=tuple(s for s in case.streams if s.name in read), events=kept)
    for i in range(len(case.options)):
        yield replace(case, options=case.options[:i] + case.options[i + 1 :])
    for portion in (2, 4, 8):
        for stream in case.streams:
            size = len(stream.positions)
            if size >= portion:
                for j in range(portion):
                    lost = size * j // portion, size * (j + 1) // portion
                    if lost[0] == 0:
                        yield _cut(case, stream.name, lost[1], size, 1)
                    elif lost[1] == size:
                        yield _cut(case, stream.name, 0, lost[0], 1)
        if portion == 2:
            for stream in case.streams:
                if len(stream.positions) > 1:
                    yield _cut(case, stream.name, 0, len(stream.positions), 2)
    for i, event in enumerate(case.events):
        others = case.events[:i] + case.events[i + 1 :]
        if isinstance(event, Look | Advance):
            yield replace(case, events=others)
        if isinstance(event, Push) and event.batches > 1:
            yield replace(case, events=(*case.events[:i], replace(event, batches=1), *case.events[i + 1 :]))
    for i, query in enumerate(case.queries):
        for simpler in simplified(query):
            if not isinstance(simpler, ToStream) and _reads_all(case, i, simpler):
                yield replace(case, queries=(*case.queries[:i], simpler, *case.queries[i + 1 :]))


def _cut(case: Case, name: str, start: int, stop: int, step: int) -> Case:
    made = tuple(s.cut(start, stop, step) if s.name == name else s for s in case.streams)
    return replace(case, streams=made)


def _reads_all(case: Case, index: int, query: object) -> bool:
    """Every stream must stay in use: the clock depends on it."""
    queries = [query if i == index else q for i, q in enumerate(case.queries)]
    first = {e.query for e in case.events if isinstance(e, Register)}
    read = {s.stream for i, q in enumerate(queries) if i in first for s in streams_of(q)}  # type: ignore[arg-type]
    return read >= {s.name for s in case.streams}


def _without(case: Case, index: int) -> Case | None:
    """The case without one query, and without streams that nothing reads any more."""
    events: list[Event] = []
    for event in case.events:
        if isinstance(event, Register | Drop | Look):
            if event.query != index:
                events.append(replace(event, query=event.query - (event.query > index)))
        else:
            events.append(event)
    queries = case.queries[:index] + case.queries[index + 1 :]
    begun = [e.query for e in events if isinstance(e, Register)][:1]
    if not begun or not isinstance(events[0], Register):
        return None
    read = {s.stream for q in queries for s in streams_of(q)}
    kept = tuple(e for e in events if not (isinstance(e, Push) and e.stream not in read))
    return replace(
        case, queries=queries, events=kept, streams=tuple(s for s in case.streams if s.name in read)
    )
