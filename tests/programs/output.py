# ranks: 1 2 4
"""The ways to write: print in pieces, sys.stdout.write, long lines, no newline at the end, and the standard error."""

import io
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.rank

print("rank", rank, "several", "words", sep=" ", end="")
print(" then the rest")
sys.stdout.write(f"rank {rank}: written\nrank {rank}: in one go\n")
sys.stdout.writelines([f"rank {rank}: line\n", f"rank {rank}: lines\n"])
print(f"rank {rank}: {'long ' * 500}")
print(f"rank {rank}: ünïcode, 日本, tab\there")
print(f"rank {rank}: on the other stream", file=sys.stderr)
buffer = io.StringIO()
print(f"rank {rank}: caught", file=buffer)
comm.Barrier()
print(buffer.getvalue(), end="", flush=True)
print(f"rank {rank}: the end", end="")
sys.stdout.flush()
print()
