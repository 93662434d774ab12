"""A step of the engine is done whole, or nothing goes on.

Invariant  nothing changes in the middle of a step. If one is cut short (Ctrl-C, no memory) nobody knows which queries have had which
           rows: from then on every call says so.
State      whether a step is under way, and what cut one short.
"""

from __future__ import annotations

from types import TracebackType

from penstock.errors import PenstockError, StateError


class Stepping:
    """`with stepping:` is a step."""

    def __init__(self) -> None:
        self.now = False
        """A step is under way."""
        self.cut: BaseException | None = None
        """What has ended a step in its middle."""

    def __enter__(self) -> None:
        self.now = True

    def __exit__(
        self, kind: type[BaseException] | None, cut: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.now = False
        if cut is not None and not isinstance(cut, PenstockError):
            self.cut = cut

    def check_whole(self) -> None:
        if self.cut is not None:
            raise StateError(f"a step was cut short by {self.cut!r}", hint="connect anew") from self.cut

    def check_idle(self) -> None:
        """Nothing may change in the middle of a step; a Python function of a query might try."""
        self.check_whole()
        if self.now:
            raise StateError(
                "the session is in the middle of a step", hint="a function in a query cannot use its session"
            )
