"""Execution under a budget: the most important results first (Works 2013)."""
