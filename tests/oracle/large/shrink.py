"""Makes a failing large case small: fewer options, queries, events and rows, then less query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.oracle.algebra import Query
from tests.oracle.algebra import streams as streams_of
from tests.oracle.algebra import tables as tables_of
from tests.oracle.large.course import Advance, Case, Drop, Event, Look, Push, Register, Update
from tests.oracle.large.data import Rows
from tests.oracle.shrink import least, simplified


def smallest(case: Case, fails: Callable[[Case], bool], seconds: float = 60.0) -> Case:
    return least(case, fails, _steps, seconds)


def _steps(case: Case) -> Iterator[Case]:
    if len(case.queries) > 1:
        for i in range(len(case.queries)):
            if (fewer := _without(case, i)) is not None:
                yield fewer
    if (bare := _without_unread(case)) != case:
        yield bare
    for i in range(len(case.options)):
        yield replace(case, options=case.options[:i] + case.options[i + 1 :])
    if case.cells:
        yield replace(case, cells=0)
    yield from _fewer_rows(case)
    for i, event in enumerate(case.events):
        others = case.events[:i] + case.events[i + 1 :]
        if isinstance(event, Look | Advance):
            yield replace(case, events=others)
        if isinstance(event, Push) and event.start == event.stop:
            yield replace(case, events=others)
        if isinstance(event, Push) and event.batches > 1:
            yield _instead(case, i, replace(event, batches=1))
        if isinstance(event, Update):
            yield from (one for one in _updates(case, i, event) if consistent(one))
    for i, query in enumerate(case.queries):
        for simpler in simplified(query):
            if _reads_all(case, i, simpler):
                yield replace(case, queries=(*case.queries[:i], simpler, *case.queries[i + 1 :]))


def _instead(case: Case, place: int, *events: Event) -> Case:
    return replace(case, events=(*case.events[:place], *events, *case.events[place + 1 :]))


def _updates(case: Case, place: int, event: Update) -> Iterator[Case]:
    yield _instead(case, place)
    for name in ("insert", "delete"):
        start, stop = getattr(event, name)
        if start < stop:
            yield _instead(case, place, replace(event, **{name: (start, start)}))
    if event.ahead is not None:
        yield _instead(case, place, replace(event, ahead=None))


def consistent(case: Case) -> bool:
    """Every deleted table row is there, no inserted one is."""
    held = {t.name: set(range(t.first)) for t in case.tables}
    for event in case.events:
        if isinstance(event, Update):
            gone, new, there = set(range(*event.delete)), set(range(*event.insert)), held[event.table]
            if not gone <= there or new & there:
                return False
            held[event.table] = (there - gone) | new
    return True


def _fewer_rows(case: Case) -> Iterator[Case]:
    every: tuple[Rows, ...] = (*case.streams, *case.tables)
    for portion in (2, 4, 8):
        for rows in every:
            size = len(rows.positions)
            if size >= portion:
                for j in range(portion):
                    lost = size * j // portion, size * (j + 1) // portion
                    if lost[0] == 0:
                        yield _cut(case, rows.name, lost[1], size, 1)
                    elif lost[1] == size:
                        yield _cut(case, rows.name, 0, lost[0], 1)
        if portion == 2:
            for rows in every:
                if len(rows.positions) > 1:
                    yield _cut(case, rows.name, 0, len(rows.positions), 2)


def _cut(case: Case, name: str, start: int, stop: int, step: int) -> Case:
    streams = tuple(s.cut(start, stop, step) if s.name == name else s for s in case.streams)
    tables = tuple(t.cut(start, stop, step) if t.name == name else t for t in case.tables)
    return replace(case, streams=streams, tables=tables)


def _reads_all(case: Case, index: int, query: Query) -> bool:
    """Every stream must stay in use from the beginning on: the clock depends on it."""
    queries = [query if i == index else q for i, q in enumerate(case.queries)]
    begun = _begun(case.events)
    read = {s.stream for i in begun for s in streams_of(queries[i])}
    return read >= {s.name for s in case.streams}


def _begun(events: tuple[Event, ...]) -> set[int]:
    """Queries that are registered before anything comes, and stay."""
    gone = {e.query for e in events if isinstance(e, Drop)}
    first = next((i for i, e in enumerate(events) if not isinstance(e, Register)), len(events))
    return {e.query for e in events[:first] if isinstance(e, Register)} - gone


def _without_unread(case: Case) -> Case:
    """The case without streams that no query keeps in use, and without tables that none reads."""
    read = {s.stream for q in case.queries for s in streams_of(q)}
    looked_up = {t.table for q in case.queries for t in tables_of(q)}
    events = tuple(
        e
        for e in case.events
        if not (isinstance(e, Push) and e.stream not in read)
        and not (isinstance(e, Update) and e.table not in looked_up)
    )
    return replace(
        case,
        streams=tuple(s for s in case.streams if s.name in read),
        tables=tuple(t for t in case.tables if t.name in looked_up),
        events=events,
    )


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
    fewer = _without_unread(replace(case, queries=queries, events=tuple(events)))
    read = {s.stream for i in _begun(fewer.events) for s in streams_of(queries[i])}
    return fewer if fewer.streams and read >= {s.name for s in fewer.streams} else None
