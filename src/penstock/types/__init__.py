"""Columns, batches, schemas and time: what every other room speaks in."""
