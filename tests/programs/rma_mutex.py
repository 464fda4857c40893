# ranks: 1 2 3
"""What mpi4py's own library builds on windows: counters, mutexes and conditions."""

import struct

from mpi4py import MPI
from mpi4py.util import sync

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

counter = sync.Counter(start=5, step=2, comm=comm)
taken = [counter.next() for _ in range(3)]
everything = sorted(number for some in comm.allgather(taken) for number in some)
print(f"rank {rank}: {everything} {taken == sorted(taken)}")
counter.free()

# Without the mutex, what one rank reads another would overwrite.
total = MPI.Win.Allocate(4 if rank == 0 else 0, 4, comm=comm)
view = memoryview(total)
print(f"rank {rank}: window of {len(view)} bytes, read only {view.readonly}")
if rank == 0:
    view[:] = struct.pack("i", 100)
comm.Barrier()
mutex = sync.Mutex(comm=comm)
value = bytearray(4)
for _ in range(4):
    with mutex:
        total.Lock(0, MPI.LOCK_SHARED)
        total.Get(value, 0)
        total.Flush(0)
        total.Put([struct.pack("i", struct.unpack("i", value)[0] + rank + 1), MPI.BYTE], 0, [0, 4, MPI.BYTE])
        total.Unlock(0)
comm.Barrier()
if rank == 0:
    print(f"rank {rank}: {struct.unpack('i', view)[0]}")
print(f"rank {rank}: held {mutex.locked()}")
view.release()
mutex.free()
total.Free()

condition = sync.Condition(comm=comm)
if size > 1:
    if rank == 0:
        notified = 0
        while notified < size - 1:
            with condition:
                notified += condition.notify()
    else:
        with condition:
            condition.wait()
print(f"rank {rank}: notified")
condition.free()
