"""A checkpoint knows Python functions by a hash: the same in every process, another for another meaning."""

from __future__ import annotations

import decimal
import enum
import functools
import json
import operator
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from penstock.plan.function_hash import function_hash

LIMIT = 10


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Scale:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: float) -> float:
        return x * self.by

    def times(self, x: float) -> float:
        return self(x)


def helper(x: int) -> int:
    return x + LIMIT


def calls_helper(x: int) -> int:
    return helper(x)


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


def closed(value: Any) -> Callable[[Any], Any]:
    return lambda x: (x, value)


def with_default(value: Any) -> Callable[..., Any]:
    def made(x: Any, by: Any = value, *, more: Any = value) -> Any:
        return (x, by, more)

    return made


def functions() -> dict[str, Callable[..., Any]]:
    return {
        "lambda": lambda x: x + 1,
        "nested lambda": lambda x: sorted(x, key=lambda y: -y),
        "comprehension": lambda x: [y for y in range(x) if y in {"a", "b", "c", 1, 2}],
        "set constant": lambda x: x in {"red", "green", "blue", "white"},
        "closed over a set": closed({"red", "green", "blue"}),
        "closed over a dict": closed({"red": {1, 2}, "green": {"x", "y"}}),
        "closed over an object": closed(Scale(2.0)),
        "closed over a class": closed(Scale),
        "closed over a pattern": closed(re.compile("a+b")),
        "closed over an array": closed(np.arange(10)),
        "closed over an enum": closed(Colour.RED),
        "closed over a decimal": closed(decimal.Decimal("1.5")),
        "closed over a lock": closed(__import__("threading").Lock()),
        "partial": functools.partial(helper, 3),
        "partial of a lambda": functools.partial(lambda x, y: x + y, y={"a", "b"}),
        "cached": functools.lru_cache(helper),
        "method": Scale(2.0).times,
        "object": Scale(3.0),
        "builtin": abs,
        "method of a value": "{}".format,
        "operator": operator.itemgetter(1),
        "calls others": calls_helper,
        "recursive": even,
        "default": with_default({"a", "b"}),
    }


def test_a_hash_is_the_same_in_every_process() -> None:
    here = {name: function_hash(fn) for name, fn in functions().items()}
    assert len(set(here.values())) == len(here)
    script = (
        "import json; from penstock.plan.function_hash import function_hash;"
        "from tests.plan.test_function_hash import functions;"
        "print(json.dumps({name: function_hash(fn) for name, fn in functions().items()}))"
    )
    for seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(["src", "."])},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(told.stdout) == here


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (closed(1), closed(2)),
        (closed({"a"}), closed({"b"})),
        (closed([1, 2]), closed([2, 1])),
        (closed(Scale(1.0)), closed(Scale(2.0))),
        (closed(np.arange(3)), closed(np.arange(3.0))),
        (closed(re.compile("a")), closed(re.compile("a", re.IGNORECASE))),
        (closed(closed(1)), closed(closed(2))),
        (with_default(1), with_default(2)),
        (functools.partial(helper, 1), functools.partial(helper, 2)),
        (functools.partial(helper), functools.partial(odd)),
        (Scale(1.0), Scale(2.0)),
        (Scale(1.0).times, Scale(2.0).times),
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: [y + 1 for y in x], lambda x: [y + 2 for y in x]),
        (lambda x: x in {1, 2}, lambda x: x in {1, 3}),
        (lambda x: x in {1, 2}, lambda x: x in {1.0, 2}),
        (lambda x: x.real, lambda x: x.imag),
        (lambda x: 0.0, lambda x: -0.0),
        (abs, len),
    ],
)
def test_another_meaning_has_another_hash(one: Callable[..., Any], other: Callable[..., Any]) -> None:
    assert function_hash(one) != function_hash(other)


def test_globals_that_a_function_reads_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = function_hash(calls_helper)
    monkeypatch.setattr(f"{__name__}.LIMIT", 11)
    changed = function_hash(calls_helper)
    assert changed != before
    monkeypatch.undo()
    monkeypatch.setattr(f"{__name__}.helper", lambda x: x - LIMIT)
    assert function_hash(calls_helper) not in (before, changed)
    monkeypatch.undo()
    assert function_hash(calls_helper) == before


def test_names_places_and_docstrings_do_not_count() -> None:
    texts = (
        "def f(x):\n    return x + 1\n",
        "\n\n# moved and renamed\ndef g(x):\n    # a comment\n    return x + 1\n",
        "def h(x: int) -> int:\n    'It adds.'\n    return x + 1\n",
        "def h(x: int) -> int:\n    'It adds one.'\n    return x + 1\n",
    )
    found = set()
    for number, text in enumerate(texts):
        space: dict[str, Any] = {"__name__": "made"}
        exec(compile(text, f"file {number}", "exec"), space)
        found.add(function_hash(next(v for k, v in space.items() if not k.startswith("__"))))
    assert len(found) == 1
