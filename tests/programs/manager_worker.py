# ranks: 1 2 3 5
"""A manager hands out tasks to whoever asks; which worker does which task is free, the results are not."""

from mpi4py import MPI

TASK, RESULT, STOP = 1, 2, 3


def work(number: int) -> int:
    """Return the length of the Collatz sequence of a number."""
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def manager(comm: MPI.Comm, tasks: list[int]) -> dict[int, int]:
    """Keep all workers busy and collect their results."""
    results: dict[int, int] = {}
    waiting = list(reversed(tasks))
    active = 0
    for worker in range(1, comm.size):
        if waiting:
            comm.send(waiting.pop(), dest=worker, tag=TASK)
            active += 1
    while active:
        status = MPI.Status()
        number, steps = comm.recv(source=MPI.ANY_SOURCE, tag=RESULT, status=status)
        results[number] = steps
        if waiting:
            comm.send(waiting.pop(), dest=status.source, tag=TASK)
        else:
            active -= 1
    for worker in range(1, comm.size):
        comm.send(None, dest=worker, tag=STOP)
    return results


def worker(comm: MPI.Comm) -> int:
    """Work until told to stop and return the number of tasks done."""
    done = 0
    status = MPI.Status()
    while True:
        task = comm.recv(source=0, tag=MPI.ANY_TAG, status=status)
        if status.tag == STOP:
            return done
        comm.send((task, work(task)), dest=0, tag=RESULT)
        done += 1


def main() -> None:
    """Split the ranks into one manager and workers."""
    comm = MPI.COMM_WORLD
    tasks = list(range(1, 31))
    if comm.size == 1:
        results, done = {task: work(task) for task in tasks}, len(tasks)
    elif comm.rank == 0:
        results, done = manager(comm, tasks), 0
    else:
        results, done = {}, worker(comm)
    if comm.rank == 0:
        print(f"rank 0: {sorted(results.items())}")
    print(f"rank {comm.rank}: all done {comm.allreduce(done) == len(tasks)}")


if __name__ == "__main__":
    main()
