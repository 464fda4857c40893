"""Checks of a program's use of MPI, while it runs: what `xsim check` and ``simulate(check=True)`` report.

A `Monitor` follows the calls of all ranks from outside of the library: it is told of each call before and after it
(`calls`), and by the transport which message met which receive (`mpi.transport.observed`). It changes neither values
nor times.
"""
