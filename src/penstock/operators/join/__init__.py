"""Joins: multiway, FIFO, trees, anti joins, and how their predicates are taken apart."""
