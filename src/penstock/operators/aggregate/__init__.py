"""GROUP BY."""
