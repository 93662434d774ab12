"""Figures 5.4 to 5.9 of Works (2013): aggregates from partial populations (TP-Ag)."""
