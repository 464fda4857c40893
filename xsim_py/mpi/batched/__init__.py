"""Collectives at array speed: values and times of all ranks of a call at once, where that changes nothing.

`meeting` is where the ranks of a call meet; the other files are loaded when the first one does.
"""
