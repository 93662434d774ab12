"""What users hold in Python: sessions, queries, options."""
