"""Predicates of many queries over one expression, evaluated together (Madden et al. 2002, §3.1)."""
