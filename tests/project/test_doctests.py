"""Examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "penstock.plan.fingerprint",
    "penstock.optimizer.flatten_joins",
    "penstock.optimizer.push_down_predicates",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
