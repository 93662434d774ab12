"""Hash functions and cardinality estimation."""
