# ranks: 2 3 4
"""Test, Testany, Testsome and Testall in polling loops."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
others = [peer for peer in range(size) if peer != rank]
boxes = np.zeros(len(others), dtype="i8")


def start(tag: int) -> tuple[list[MPI.Request], list[MPI.Request]]:
    """Post the receives and the sends of one round."""
    receives = [comm.Irecv(boxes[place : place + 1], source=peer, tag=tag) for place, peer in enumerate(others)]
    return receives, [comm.Isend(np.array([100 * tag + rank]), dest=peer, tag=tag) for peer in others]


receives, sends = start(1)
status = MPI.Status()
while not receives[0].Test(status):
    pass
print(f"rank {rank}: Test {boxes[0]} from {status.source}")
while not MPI.Request.Testall(receives):
    pass
print(f"rank {rank}: Testall {boxes.tolist()}, again {MPI.Request.Testall(receives)}")
MPI.Request.Waitall(sends)

receives, sends = start(2)
found = []
while len(found) < len(others):
    index, flag = MPI.Request.Testany(receives)
    if flag:
        found.append(index)
index, flag = MPI.Request.Testany(receives)
print(f"rank {rank}: Testany {sorted(found)} {boxes.tolist()}, then {index == MPI.UNDEFINED} {flag}")
MPI.Request.Waitall(sends)

receives, sends = start(3)
found = []
while len(found) < len(others):
    found += MPI.Request.Testsome(receives) or []
print(f"rank {rank}: Testsome {sorted(found)} {boxes.tolist()}, then {MPI.Request.Testsome(receives)}")
MPI.Request.Waitall(sends)

# The object forms return the messages.
sends = [comm.isend([rank, "all"], dest=peer, tag=4) for peer in others]
receives = [comm.irecv(source=peer, tag=4) for peer in others]
flag, messages = False, None
while not flag:
    flag, messages = MPI.Request.testall(receives)
print(f"rank {rank}: testall {messages}")
MPI.Request.waitall(sends)

sends = [comm.isend(rank, dest=peer, tag=5) for peer in others]
receive = comm.irecv(source=others[0], tag=5)
while not (answer := receive.test())[0]:
    pass
print(f"rank {rank}: test {answer}")
receives = [comm.irecv(source=peer, tag=5) for peer in others[1:]]
values = []
while len(values) < len(receives):
    index, flag, value = MPI.Request.testany(receives)
    values += [value] if flag else []
print(f"rank {rank}: testany {sorted(values)}")
MPI.Request.waitall(sends)

# Get_status looks without freeing the request.
request = comm.Isend(np.array([1]), dest=rank, tag=6)
box = np.array([0])
comm.Recv(box, source=rank, tag=6)
while not request.Get_status():
    pass
print(f"rank {rank}: not freed {request != MPI.REQUEST_NULL}, {request.Test()}, freed {request == MPI.REQUEST_NULL}")
