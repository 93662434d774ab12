"""Runs registered queries: streams in, a clock, answers out."""
