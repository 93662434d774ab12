"""A step of the engine is done whole, or nothing goes on.

Invariant  nothing changes in the middle of a step. If one is interrupted (Ctrl-C, no memory), which queries have had which
           rows is unknown: from then on every call is refused.
State      whether a step is under way, how many have begun, and what interrupted one.
"""

from __future__ import annotations

from types import TracebackType

from penstock.errors import PenstockError, StateError

_ANEW = "connect anew and push the rows again"


class Stepping:
    """`with stepping:` is a step; `with stepping.guard:` is what else must not be left half done."""

    def __init__(self) -> None:
        self.now = False
        """A step is under way, or was interrupted before it could say so."""
        self.begun = 0
        """Steps so far."""
        self.cut: BaseException | None = None
        """What has ended a step in its middle."""
        self.guard = Guard(self)

    def __enter__(self) -> None:
        self.now = True
        self.begun += 1

    def __exit__(
        self, kind: type[BaseException] | None, cut: BaseException | None, trace: TracebackType | None
    ) -> None:
        if cut is not None and not isinstance(cut, PenstockError):
            self.cut = cut
        self.now = False

    def check_whole(self) -> None:
        if self.cut is not None:
            raise StateError(f"a step was cut short by {self.cut!r}", hint=_ANEW) from self.cut

    def check_idle(self) -> None:
        """Nothing may change in the middle of a step; a Python function of a query might try."""
        self.check_whole()
        if self.now:
            raise StateError(
                "the session is in the middle of a step",
                hint=f"a function in a query cannot use its session; if a step was interrupted, {_ANEW}",
            )


class Guard:
    """Work between steps: if it is interrupted, every later call is refused."""

    def __init__(self, stepping: Stepping) -> None:
        self._stepping = stepping

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, cut: BaseException | None, trace: TracebackType | None
    ) -> None:
        if cut is not None and not isinstance(cut, PenstockError):
            self._stepping.cut = cut
