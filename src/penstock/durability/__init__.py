"""Saving the state of an engine and restoring it."""
