"""One caller at a time: threads that use a session wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def alone(method: Method) -> Method:
    """The method, while no other thread is in one under the same `lock` of its object; a method may call others."""

    @wraps(method)
    def called(self: Any, *given: Any, **named: Any) -> Any:
        with self.lock:
            return method(self, *given, **named)

    return cast("Method", called)
