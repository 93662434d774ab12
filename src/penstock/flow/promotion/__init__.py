"""Proactive promotion: which levels are active, and at which classifier each determinant is evaluated.

`model` says what a placement is worth; `exact` finds the best, `rop` is the paper's greedy search, `exhaustive` tries all.
"""
