"""Large cases: streams of up to a million rows, made and checked without a Python step per row.

1. `draw.make(seed, most)` draws streams (`data`), queries (`queries`) and a course of events (`draw`).
2. `play.record` runs the engine through its public API and keeps what it returns as Arrow.
3. `check.judge` lets DuckDB evaluate every query over the rows alive at some instants and compares bags: with
   the snapshots, and with what the changes up to the instant add up to.
4. `shrink.smallest` makes a failing case small; `report.script` prints it as a program of its own.
"""
