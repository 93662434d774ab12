"""The oracle: what every standing query must answer, said twice and independently of the engine.

The life of a case:

1. `case.make(seed)` draws a schema (`schema`), queries (`queries`) and a world of arrivals (`streams`).
2. `model.play` follows the watermarks through the arrivals: which rows are late, where the clock stands.
3. `duck.answers` (DuckDB) and `twin.answer` (plain Python) say what Q(τ) is; they are checked on each other.
4. `trace.record` runs the engine through its public API under some cut of the arrivals into pushes.
5. `check.judge` holds the trace against the answers: snapshots, replayed changes, the contract.
6. `shrink.smallest` makes a failing case small; `report` prints it, also as an example to keep.
"""
