"""Operators: each turns changes on its inputs into changes on its output. One file each."""
