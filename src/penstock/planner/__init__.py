"""From a logical plan to operators and their state."""
