"""Every error a user can meet: what is wrong, where, and what would be right."""

from __future__ import annotations


class PenstockError(Exception):
    """Base of all errors raised on purpose.

    `line` and `column` (1-based) say where in SQL text; `hint` says what would be right.
    """

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        text: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.line = line
        self.column = column
        self.text = text
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}, column {self.column}: "
        near = "" if not self.text else f" (at {self.text!r})"
        hint = "" if not self.hint else f"; {self.hint}"
        return f"{place}{self.message}{near}{hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.line, self.column, self.text, self.hint))


def _rebuild(
    kind: type[PenstockError],
    message: str,
    line: int | None,
    column: int | None,
    text: str | None,
    hint: str | None,
) -> PenstockError:
    return kind(message, line=line, column=column, text=text, hint=hint)


class ParseError(PenstockError):
    """The text is not a statement of the language."""


class BindError(PenstockError):
    """A name is unknown or types do not fit."""


class PlanError(PenstockError):
    """The statement is well typed but has no exact plan."""


class DataError(PenstockError):
    """Rows, schemas or files that do not fit what was declared."""


class StateError(PenstockError):
    """The session, query or checkpoint is not in a state that allows this."""


class OverloadWarning(UserWarning):
    """What waits for a query grows without end."""


class StreamWarning(UserWarning):
    """Rows of a stream are set aside, or hold others back."""


class UnreadWarning(UserWarning):
    """The unread changes of a query take much memory."""
