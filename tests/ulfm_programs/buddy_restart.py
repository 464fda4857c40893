# number of ranks: 5
# arguments of a run: 2@4; 1@3 4@3; 0@1 2@5
"""Checkpoints with a neighbour and a way back to them by an exception (ulfm-testing, 12: there it is a longjmp)."""

from survive import WORDS, Buddies, die_at, finish, joined, report, until_agreed

STEPS, EVERY = int(WORDS[0]) if WORDS else 6, 2


def iterate(comm, step, data):
    """Compute until the end, or until somebody dies."""
    while step < STEPS:
        if step % EVERY == 0:
            buddies.save(comm, step, data)
        step += 1
        die_at(step)
        given = comm.bcast(data[0] if comm.rank == step % comm.size else None, root=step % comm.size)
        data = [value + given * (comm.rank + 1) for value in data]
    return comm.allgather(data)


def work(comm):
    restored = buddies.restore(comm)
    return iterate(comm, *(restored or (0, [comm.rank + 1, comm.rank + 2])))


buddies = Buddies()
data, comm = until_agreed(joined(), work)
report("rank", comm.rank)
report("result", data)
finish()
