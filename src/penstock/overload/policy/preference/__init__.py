"""Preferential results: which rows promise to meet significant ones, and at which classifiers that is looked up.

`attributes` says what joins have in common, `monitor` which values are frequent; `model` what a plan is worth, `search` finds one.
"""
