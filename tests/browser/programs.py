"""What runs for the pages that a browser looks at."""

RING = """
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
for step in range(3):
    time.sleep(10e-6 * (1 + comm.rank % 3))
    request = comm.isend(bytes(100 * (comm.rank % 5 + 1)), dest=(comm.rank + 1) % comm.size)
    comm.recv(source=comm.rank - 1 if comm.rank else comm.size - 1)
    request.wait()
    comm.allreduce(step)
"""

UNFRIENDLY = "a<b>&amp;'\"<!--<script>.py"
"""The name of a program that HTML, JSON in a script, and the texts of figures could each misread."""

STEPS = """
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
for _ in range(10):
    time.sleep(1e-3 / comm.size)
    comm.allreduce(1)
"""

STUDY = """
name: steps
program: steps.py
sweep: {ranks: [1, 4, 16], machine: [gige, shmem]}
plots:
  - {file: time.png, x: ranks, y: virtual_time_s, x_scale: log2, y_scale: log}
  - {file: speedup.png, x: ranks, y: virtual_time_s, show: speedup, x_scale: log2, y_scale: log2}
"""
