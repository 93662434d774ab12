"""Errors that say nothing of the step: the process has no memory, or gets no more threads.

A worker process that meets one ends, and another, which begins with little, is asked for the same step. Only if that is of no use
either the error counts: a query needs more than there is.
"""

from __future__ import annotations

import errno

ENDED = 71
"""Exit status of a worker process that ends for this reason."""
_NUMBERS = (errno.ENOMEM, errno.EAGAIN)
_TEXTS = ("Failed to launch worker thread", "can't start new thread", "Cannot allocate memory")
"""What Arrow and Python say in errors of no kind of their own."""


def is_shortage(error: BaseException | None) -> bool:
    """Whether an error is one, or was caused by one."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, OSError) and error.errno in _NUMBERS:
            return True
        if any(text in str(error) for text in _TEXTS):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False
