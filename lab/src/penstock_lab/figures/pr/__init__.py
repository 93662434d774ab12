"""Figures of preferential results and of PR-Join: Works 2013, chapters 6 and 7."""
