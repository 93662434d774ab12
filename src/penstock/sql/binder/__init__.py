"""Resolves names and types: from a parsed statement to a plan."""
