# ranks: 1 2 3
# alone
"""MPI from several threads of a process at once."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size
print(f"rank {rank}: {MPI.Query_thread() == MPI.THREAD_MULTIPLE} {MPI.Is_thread_main()}")


def together(*functions) -> list:
    """What functions return that run in threads of their own at the same time."""
    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in [pool.submit(function) for function in functions]]


# Each thread has a communicator of its own for collectives.
comms = [comm.Dup() for _ in range(3)]


def collectives(number: int) -> list:
    """Several collectives one after the other, in the order of this thread."""
    mine = comms[number]
    total = np.zeros(1, "i")
    mine.Allreduce(np.array([rank + number], "i"), total)
    mine.Barrier()
    return [int(total[0]), mine.bcast(f"{number}", root=size - 1), mine.gather(rank * number, root=0), mine.scan(1)]


print(f"rank {rank}: {together(*(lambda number=number: collectives(number) for number in range(3)))}")


# A message to the process itself, and one round the ring, all of them larger than a buffer.
def send(dest: int, tag: int) -> bool:
    """Send from one thread."""
    comm.Send(np.full(100_000, float(rank + tag)), dest, tag)
    return MPI.Is_thread_main()


def receive(source: int, tag: int) -> float:
    """Receive in another."""
    data = np.empty(100_000)
    comm.Recv(data, source, tag)
    return float(data.mean())


print(
    f"rank {rank}:",
    together(
        lambda: receive(rank, 1),
        lambda: send(rank, 1),
        lambda: send(right, 2),
        lambda: receive(left, 2),
    ),
)


# Several threads take messages of any source: each message comes to one of them.
def take(_: int) -> list:
    """Receive what comes."""
    status = MPI.Status()
    value = comm.recv(source=MPI.ANY_SOURCE, tag=3, status=status)
    return [status.source, value]


with ThreadPoolExecutor(4) as pool:
    taken = [pool.submit(take, number) for number in range(size)]
    for dest in range(size):
        comm.send(rank * 10 + dest, dest, tag=3)
    print(f"rank {rank}: {sorted(future.result() for future in taken)}")


# The same with matching probes.
def matched() -> tuple:
    """Match, then receive."""
    message = comm.mprobe(MPI.ANY_SOURCE, 4)
    return message.recv()


requests = [comm.isend((rank, number), right, 4) for number in range(3)]
print(f"rank {rank}: {sorted(together(matched, matched, matched))}")
MPI.Request.Waitall(requests)

# A request is waited for by one thread while another sends what it is for.
results: queue.Queue = queue.Queue()
request = comm.irecv(source=left, tag=5)
thread = threading.Thread(target=lambda: results.put(request.wait()))
thread.start()
comm.send({"from": rank}, right, tag=5)
print(f"rank {rank}: {results.get(timeout=60)}")
thread.join()

# A generalized request is completed by a thread.
grequest = MPI.Grequest.Start()
timer = threading.Timer(0.01, grequest.Complete)
timer.start()
grequest.Wait()
timer.join()
print(f"rank {rank}: {grequest == MPI.REQUEST_NULL}")

# A thread serves the others until it is told to stop.
service = comm.Dup()


def serve() -> None:
    """Answer with the next number."""
    status = MPI.Status()
    count = 0
    while service.recv(source=MPI.ANY_SOURCE, tag=1, status=status):
        service.send(count, status.source, 2)
        count += 1


if rank == 0:
    server = threading.Thread(target=serve)
    server.start()
numbers = []
for _ in range(3):
    service.send(True, 0, 1)
    numbers.append(service.recv(source=0, tag=2))
everybody = comm.gather(numbers)
if rank == 0:
    service.send(False, 0, 1)
    server.join()
    print(f"rank 0: {sorted(number for numbers in everybody for number in numbers)}")

# One-sided communication from two threads.
windows = [MPI.Win.Create(np.zeros(1, "i"), comm=each) for each in comms[:2]]


def add(window: MPI.Win, amount: int) -> int:
    """Add to what rank 0 has."""
    window.Lock(0, MPI.LOCK_SHARED)
    window.Accumulate(np.array([amount], "i"), 0)
    window.Unlock(0)
    return amount


print(f"rank {rank}: {together(lambda: add(windows[0], 1), lambda: add(windows[1], 10))}")
comm.Barrier()
values = []
for window in windows:
    window.Lock(rank)
    values.append(int(np.frombuffer(window.tomemory(), "i")[0]))
    window.Unlock(rank)
    window.Free()
print(f"rank {rank}: {values}")
