"""Figures on proactive promotion."""
