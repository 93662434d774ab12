"""Proactive promotion: which levels are active, and at which classifier each determinant is evaluated.

`model` says what a placement is worth; `exact` finds the best. Searches to compare with are in penstock-lab.
"""
