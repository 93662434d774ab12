"""Figures of the papers, drawn anew: trace and queries, a runner, a table of figures, verdicts computed from the data."""
