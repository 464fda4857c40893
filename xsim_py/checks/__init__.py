"""Checks of a program's use of MPI while it runs.

`xsim check` and ``simulate(check=True)`` report them.

A `Monitor` follows the calls of all ranks from outside the library: `calls` notifies it before and after each call, and
`mpi.transport.observed` when a message matches a receive. It changes neither values nor times.
"""
