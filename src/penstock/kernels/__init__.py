"""Numba kernels: arrays in, arrays out; the only loops per row in the engine.

Conventions: times are int64, slots and group ids int32 with -1 for none, signs int8. A kernel that may
run out of room stops *before* the row that does not fit and returns how far it came; the caller makes
room and calls again. Kernels import nothing of ours but each other.
"""
