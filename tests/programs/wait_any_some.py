# ranks: 2 3 4
"""Waitany, Waitsome and Waitall, in both spellings."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
others = [peer for peer in range(size) if peer != rank]


def send_all(tag: int) -> list[MPI.Request]:
    """Send a number to every other rank."""
    return [comm.isend(rank * 10 + tag, dest=peer, tag=tag) for peer in others]


sends = send_all(1)
requests = [comm.irecv(source=peer, tag=1) for peer in others]
got = {}
for _ in others:
    status = MPI.Status()
    index, value = MPI.Request.waitany(requests, status)
    got[others[index]] = (value, status.source == others[index])
print(f"rank {rank}: waitany {sorted(got.items())}")
MPI.Request.waitall(sends)
index, _ = MPI.Request.waitany(requests)
print(f"rank {rank}: none active: {index == MPI.UNDEFINED}")

boxes = np.zeros((len(others), 2), dtype="i8")
requests = [comm.Irecv(boxes[place], source=peer, tag=2) for place, peer in enumerate(others)]
sends = [comm.Isend(np.array([rank, peer]), dest=peer, tag=2) for peer in others]
done: list[int] = []
while len(done) < len(others):
    statuses = [MPI.Status() for _ in others]
    finished = MPI.Request.Waitsome(requests, statuses)
    assert finished is not None
    done += finished
print(f"rank {rank}: Waitsome {sorted(done)} {boxes.tolist()}")
print(f"rank {rank}: then {MPI.Request.Waitsome(requests)}")
MPI.Request.Waitall(sends)

requests = [comm.Irecv(boxes[place], source=peer, tag=3) for place, peer in enumerate(others)]
sends = [comm.Isend(np.array([peer, rank]), dest=peer, tag=3) for peer in others]
order = sorted(MPI.Request.Waitany(requests) for _ in others)
print(f"rank {rank}: Waitany {order} {boxes.tolist()}, then {MPI.Request.Waitany(requests) == MPI.UNDEFINED}")
MPI.Request.Waitall(sends)

sends = send_all(4)
requests = [comm.irecv(source=peer, tag=4) for peer in others]
values: list[int] = []
while len(values) < len(others):
    finished, part = MPI.Request.waitsome(requests)
    values += part or []
print(f"rank {rank}: waitsome {sorted(values)}, then {MPI.Request.waitsome(requests)}")
MPI.Request.waitall(sends)
