"""Vectorised collectives: values and times of all ranks of a call at once, with unchanged results.

`instance` is one collective instance; the other files are loaded when the first one begins.
"""
