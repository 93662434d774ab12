"""DISTINCT, INTERSECT and EXCEPT, with and without ALL."""
