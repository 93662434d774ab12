"""Structures that state is made of: expiry calendars, live rows, value tables."""
