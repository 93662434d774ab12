"""Queries that stopped at an error of their own: the others go on without them.

A query fails in one cell, on one row. The step is done all the same, for the other queries; what the failed one said in it is
discarded in all cells, so that its sinks end with the step before. From the next step on no cell runs it. It begins anew once
it is declared otherwise: with another text, with a function that was mended, or dropped and registered again; one that
remembered too much also once a session allows another number of bytes.

If no query is left the flow ends, and its last step counts as not done: the next start repeats it with the functions of
then, and the queries go on as if it had not been tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import BindError, DataError, ParseError, PenstockError, PlanError, StateError
from penstock.spark.declarations_log import Declared, called
from penstock.types.limits import MemoryLimitError

_MEMORY = MemoryLimitError.__name__
_ERRORS = {e.__name__: e for e in (BindError, DataError, ParseError, PlanError, StateError)}

Failure = dict[str, Any]
"""`error`, `message` and `hint`: an error as cells report it."""
Noted = dict[str, Any]
"""A failure, and what the query was."""


def described(error: PenstockError) -> dict[str, Any]:
    """An error as answers carry it."""
    return {"error": type(error).__name__, "message": error.message, "hint": error.hint}


def error_of(told: Mapping[str, Any]) -> PenstockError:
    """The error that `described` was given."""
    return _ERRORS.get(told["error"], StateError)(told["message"], hint=told["hint"])


def failures(answers: Iterable[dict[str, Any]]) -> dict[str, Failure]:
    """By query, the error of the first cell in which it failed."""
    found: dict[str, Failure] = {}
    for answer in sorted((a for a in answers if "cell" in a), key=lambda a: int(a["cell"])):
        for name, failure in answer.get("failed", {}).items():
            found.setdefault(name, failure)
    return found


class Stopped:
    """The stopped queries of a flow."""

    def __init__(self) -> None:
        self.errors: dict[str, PenstockError] = {}
        """By query, why it stopped."""

    def noted(
        self, failed: Mapping[str, Failure], declared: Declared, step: int, query_bytes: int | None
    ) -> dict[str, Noted]:
        """What the checkpoint keeps of queries that failed in a step; those that are not declared any more are gone."""
        return {
            name: {
                **failure,
                "step": step,
                "sql": declared.queries[name],
                "weight": declared.weights.get(name),
                "kept": name in declared.kept,
                "since": declared.since.get(name),
                "functions": _called(declared.queries[name], declared),
                "query_bytes": query_bytes,
                "ended": failed.keys() >= declared.queries.keys(),
            }
            for name, failure in failed.items()
            if name in declared.queries
        }

    def take_out(self, noted: dict[str, Noted], declared: Declared) -> list[str]:
        """Declare stopped queries no more; those that are newly so."""
        new = [name for name in noted if name not in self.errors]
        for name in new:
            self.errors[name] = error_of(noted[name])
            declared.forget(name)
        return new

    def retry(self, noted: Mapping[str, Noted], declared: Declared, step: int) -> dict[str, Noted]:
        """At a start: the queries with which the flow ended in its last step, which is to be repeated; they go on with it."""
        ended = {name: was for name, was in noted.items() if was["ended"] and was["step"] == step}
        for name, was in ended.items():
            if name in self.errors:
                self._declare(name, was, declared)
                declared.since[name] = was["since"]
        return ended

    def begin_again(self, noted: dict[str, Noted], declared: Declared, query_bytes: int | None) -> list[str]:
        """At a start: the queries that are not as they were when they stopped; they are to begin anew, or are gone."""
        anew = []
        for name, was in noted.items():
            here = name in self.errors
            text = was["sql"] if here else declared.queries.get(name)
            other = text != was["sql"] or _called(text, declared) != was["functions"]
            if other or (was["error"] == _MEMORY and was.get("query_bytes") != query_bytes):
                anew.append(name)
                if here:
                    self._declare(name, was, declared)
        for name in anew:
            del noted[name]
            self.errors.pop(name, None)
        return anew

    def _declare(self, name: str, was: Noted, declared: Declared) -> None:
        """A query that this session declared, and that was taken out, is there again."""
        del self.errors[name]
        declared.queries[name] = was["sql"]
        if was["weight"] is not None:
            declared.weights[name] = was["weight"]
        if was["kept"]:
            declared.kept.append(name)

    def must_leave_some(self, declared: Declared) -> None:
        """A flow all of whose queries have stopped has nothing to do."""
        if self.errors and not declared.queries:
            name, error = next(iter(self.errors.items()))
            if len(self.errors) == 1:
                raise error
            raise StateError(f"every query has stopped, {name} at: {error}", hint=WHAT_WORKS) from error


WHAT_WORKS = (
    "the query begins anew once the function is registered mended (with another version, if it has one), "
    "or once the query is dropped and registered again"
)


def _called(text: str, declared: Declared) -> dict[str, str]:
    return {name: what for name, what in declared.functions.items() if called(name, text)}
