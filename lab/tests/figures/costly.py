"""Criteria that cost a hundred times what an operator does: `python -m lab.tests.figures.costly` shows all loads of `penstock figure pp-costly`."""

from __future__ import annotations

import sys
from dataclasses import replace

import penstock
from penstock.overload.policy.promote import Promote
from penstock_lab.figures.pp.costly import LOADS, WAYS, told

STEPS = 80


def main() -> None:
    for name, load in LOADS.items():
        whole = told(replace(load, budget=10**9), Promote, penstock.connect, STEPS)
        made = {way: told(load, kind, penstock.connect, STEPS) for way, kind in WAYS.items()}
        sys.stdout.write(f"{name}: {made} of {whole}\n")


if __name__ == "__main__":
    main()
