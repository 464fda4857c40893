# ranks: 2 3 4
"""Polling with Iprobe until messages are there: time must go on while a rank polls."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

if rank == 0:
    waiting = set(range(1, size))
    polls = 0
    total = 0
    while waiting:
        status = MPI.Status()
        if comm.Iprobe(source=MPI.ANY_SOURCE, tag=1, status=status):
            total += comm.recv(source=status.source, tag=1)
            waiting.discard(status.source)
        polls += 1
    print(f"rank {rank}: total {total}, polled {polls >= size - 1}")
    for peer in range(1, size):
        comm.send("go", dest=peer, tag=2)
    print(f"rank {rank}: nothing more: {comm.iprobe(source=MPI.ANY_SOURCE, tag=1)}")
else:
    comm.send(rank * rank, dest=0, tag=1)
    while not comm.iprobe(source=0, tag=2):
        pass
    print(f"rank {rank}: {comm.recv(source=0, tag=2)}")

# Iprobe does not take the message away, and tells tags apart.
comm.Barrier()
request = comm.isend("own", dest=rank, tag=3)
while not comm.Iprobe(source=rank, tag=3):
    pass
print(f"rank {rank}: still there {comm.Iprobe(source=rank, tag=3)}, other tag {comm.Iprobe(source=rank, tag=4)}")
print(f"rank {rank}: {comm.recv(source=rank, tag=3)}, gone {not comm.Iprobe(source=rank, tag=3)}")
request.wait()
