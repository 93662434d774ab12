"""Benchmarks: the engine, a hand-written limit and another engine on the same data in the same run."""
