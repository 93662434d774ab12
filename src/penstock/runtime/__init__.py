"""Running plans: in this process (`embedded`); the same cell runs inside Spark."""
