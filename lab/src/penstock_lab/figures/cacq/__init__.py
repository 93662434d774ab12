"""Figures of Madden, Shah, Hellerstein and Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002.

`chart` is what a figure is made of, `catalogue` lists them; one file each for what they measure.
"""
