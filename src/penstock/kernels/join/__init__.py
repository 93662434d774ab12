"""Probe loops over hash chains."""
