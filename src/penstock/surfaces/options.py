"""Session options: plain names, checked when given. They change when work is done, never what is true."""

from __future__ import annotations

from dataclasses import dataclass, fields

from penstock.errors import StateError

_CHOICES = {
    "join": ("auto", "eddy", "tree", "mjoin"),
    "demand": ("jit", "doe", "off"),
    "expiry": ("upa", "direct", "negative"),
    "allocation": ("prefer", "promote", "semantic", "random", "fifo"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """`budget`: work units per step (None: no limit)."""

    join: str = "auto"
    demand: str = "jit"
    expiry: str = "upa"
    allocation: str = "prefer"
    budget: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise StateError(f"option {name}={value!r} is unknown", hint=f"one of {', '.join(allowed)}")
        for name in ("budget", "seed"):
            value = getattr(self, name)
            wrong = not isinstance(value, int) or isinstance(value, bool) or value < 0
            if wrong and not (name == "budget" and value is None):
                raise StateError(f"option {name}={value!r} is not a whole number from 0")


def options(given: dict[str, object]) -> Options:
    """Options from keyword arguments."""
    known = [f.name for f in fields(Options)]
    for name in given:
        if name not in known:
            raise StateError(f"unknown option {name!r}", hint=f"options are {', '.join(known)}")
    return Options(**given)  # type: ignore[arg-type]
