"""Which declarations a checkpoint can go on with: those it holds, and changes that its state can follow.

Accepted    another text of a query with the same meaning; another delay; integer columns that become wider; more columns
            of a stream; more streams, tables and queries; fewer queries. Functions that no earlier query calls.
Refused     what would make an answer something else under its name. Every error says what would work instead.

A stream with other columns takes other state: its cells are made anew from the logged rows (`rescale`).
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import PenstockError, StateError
from penstock.plan.catalog import Catalog, Function, Stream, Table
from penstock.plan.fingerprint import describe
from penstock.plan.nodes import Node
from penstock.plan.query_root import top
from penstock.plan.rank_levels import Levels
from penstock.spark.declarations_log import Declared, called, planned
from penstock.types.data_type import Type

_INTEGERS = (Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT)


def follow(now: Declared, before: Declared, functions: Mapping[str, Function]) -> bool:
    """Refuse what the checkpoint's state cannot follow; whether cells must be made anew.

    A query that means the same keeps the text it has in the checkpoint.
    """
    now.must_follow(before)
    for key, table in now.tables.items():
        if key in before.tables:
            _check_table(before.tables[key], table)
    for key, stream in before.streams.items():
        if key not in now.streams:
            raise StateError(
                f"stream {stream.name} is in the checkpoint and is not declared",
                hint="declare it as before, even if no query reads it: Spark knows its sources by their order",
            )
        _check_stream(stream, now.streams[key])
    anew = any(now.streams[key].schema != stream.schema for key, stream in before.streams.items())
    catalogs = (before.catalog(functions), now.catalog(functions))
    for name, text in now.queries.items():
        known = before.queries.get(name)
        if known is not None and (anew or known != text):
            _check_query(name, known, text, *catalogs)
            now.queries[name] = known
    _check_functions(now, before)
    return anew


def streams_changed(now: Declared, before: Declared) -> Declared:
    """What the checkpoint holds, with the columns that its streams are to have; queries that end here are left out."""
    made = Declared.of(before.json())
    made.streams = {key: now.streams[key] for key in before.streams}
    made.tables |= now.tables
    gone = [name for name, text in made.queries.items() if now.queries.get(name) != text]
    for name in gone:
        made.forget(name)
    return made


# ---------------------------------------------------------------------- streams and tables


def _check_stream(known: Stream, declared: Stream) -> None:
    what = f"stream {declared.name} is not what the checkpoint holds"
    there = {f.name.lower(): f for f in known.schema}
    here = {f.name.lower(): f for f in declared.schema}
    times = [stream.schema[stream.time] for stream in (known, declared)]
    if times[0].name.lower() != times[1].name.lower() or times[0].type is not times[1].type:
        raise StateError(
            f"{what}: its time is {times[0]} there, {times[1]} here",
            hint="declare the same time column, or declare the stream under another name",
        )
    for name, field in there.items():
        if name not in here:
            raise StateError(
                f"{what}: column {field.name} is missing",
                hint=f"declare {field} still (a source without it gives NULLs), or declare the stream under another name",
            )
        if not is_wider(field.type, here[name].type):
            raise StateError(
                f"{what}: column {field.name} is {field.type} there, {here[name].type} here",
                hint="an integer column may become wider and keeps its type otherwise; cast it in the queries, "
                "or add a column of the new type under another name",
            )


def is_wider(was: Type, now: Type) -> bool:
    """Whether every value of a type is one of another, and computes to the same.

    Not FLOAT to DOUBLE: sums and products round otherwise, and results given before could not be taken back.
    """
    if was in _INTEGERS and now in _INTEGERS:
        return _INTEGERS.index(was) <= _INTEGERS.index(now)
    return was is now


def _check_table(known: Table, declared: Table) -> None:
    was, is_ = (_told(table) for table in (known, declared))
    if was.lower() != is_.lower():
        raise StateError(
            f"table {declared.name} is not what the checkpoint holds: {was} there, {is_} here",
            hint="declare it as before, or declare the new one under another name and let new queries read that",
        )


def _told(table: Table) -> str:
    kind = "RETROACTIVE TABLE" if table.retroactive else "TABLE"
    return f"{kind} ({', '.join(map(str, table.schema))})"


# ---------------------------------------------------------------------- queries and functions


def _check_query(name: str, known: str, text: str, before: Catalog, now: Catalog) -> None:
    """Refuse a text that does not mean what the text in the checkpoint does."""
    begin_anew = f'or drop it here (s.drop("{name}")) and register it again: it then begins anew'
    try:
        was, is_ = _meaning(known, now), _meaning(text, now)
    except PenstockError as error:
        raise StateError(
            f"query {name} is not what the checkpoint holds: {known} ({error})",
            hint=f"register the new one under another name, {begin_anew}",
        ) from error
    if was != is_:
        raise StateError(
            f"query {name} is not what the checkpoint holds: {known}",
            hint=f"register the new one under another name, {begin_anew}",
        )
    columns = [_columns(known, catalog) for catalog in (before, now)]
    if columns[0] != columns[1]:
        raise StateError(
            f"query {name} would have other columns than in the checkpoint: {', '.join(columns[0])} there, "
            f"{', '.join(columns[1])} here",
            hint=f"name its columns instead of *, in a query of another name, {begin_anew}",
        )


def _meaning(text: str, catalog: Catalog) -> tuple[str, list[str], Levels]:
    """What a query computes, what its columns are called, and what it says of ranks."""
    node, levels = planned(text, catalog)
    return describe(node), _names(node), levels


def _columns(text: str, catalog: Catalog) -> list[str]:
    return _names(planned(text, catalog)[0])


def _names(node: Node) -> list[str]:
    return [field.name for field in top(node).said]


def _check_functions(now: Declared, before: Declared) -> None:
    """Refuse other code under the name of a function that a query of the checkpoint calls."""
    for name, was in before.functions.items():
        is_ = now.functions.get(name)
        users = [q for q in now.queries if q in before.queries and called(name, before.queries[q])]
        if users and is_ is None:
            raise StateError(
                f"function {name} is not registered, and query {users[0]} calls it",
                hint="call create_function with the same name before start",
            )
        if users and is_ != was:
            raise StateError(
                f"function {name}, which query {users[0]} calls, is not the one the checkpoint was made with:"
                f" {was} there, {is_} here",
                hint=_function_hint(was, str(is_)),
            )


def _function_hint(was: str, now: str) -> str:
    """What works for a function that is not the one of the checkpoint."""
    versions = [text.partition(":python ")[2].partition(":")[0] for text in (was, now)]
    if all(versions) and versions[0] != versions[1]:
        return (
            f"hashes of code are of one version of Python: run this checkpoint with Python {versions[0]}; with"
            " create_function(…, version=…) from the start a function is known by its version instead"
        )
    return (
        "register it under another name and call that in queries of other names, or drop the queries that call it"
        " and register them again: they then begin anew"
    )
