# number of ranks: 4
"""The first processes die one by one and are replaced, until one is left (ulfm-testing, revshrinkkillrecover)."""

from survive import WORDS, die, finish, is_new, joined, report, until_agreed

STEPS = int(WORDS[0]) if WORDS else 3
reached = 0


def work(comm):
    global reached
    reached = max(comm.allgather(reached))
    while reached < STEPS:
        if comm.rank == reached + 1 and not is_new:
            die()
        comm.Barrier()
        reached += 1
    return comm.allgather(not is_new), reached


(first_ones, steps), comm = until_agreed(joined(), work)
report("first ones", first_ones.count(True))
report("result", f"{comm.size} processes after {steps} steps")
finish()
