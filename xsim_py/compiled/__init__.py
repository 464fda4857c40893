"""Compiled programs: executables that use MPI through the standard ABI (MPI 5.0, chapter 20), as virtual ranks.

The program of each rank is a real process, the child of the simulating one. It finds our ``libmpi_abi.so.1``, whose
functions write their arguments into a page shared with the simulator and wait for the reply (`library`). On this side
a greenlet of the rank serves these calls one after the other (`child`), converts their arguments (`convert`) and
calls the same methods as a Python program (`calls`). So a rank in C has the virtual time, failures, checks and traces
of one in Python; the names of its source files and lines come from its debug information (`places`).
"""
