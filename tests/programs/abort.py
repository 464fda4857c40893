# ranks: 1 3
# alone
"""Abort ends all ranks with the given status, even those that wait for ever."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
print(f"rank {comm.rank}: before", flush=True)
comm.Barrier()
if comm.rank == comm.size - 1:
    comm.Abort(7)
comm.recv(source=comm.size - 1)
print(f"rank {comm.rank}: never printed", flush=True)
