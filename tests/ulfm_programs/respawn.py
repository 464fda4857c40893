# number of ranks: 4
# arguments of a run: 2@0; 0@0; 1@0 3@0
"""Who dies is replaced at the end: the survivors close up, and all hear what the first one says (ulfm-testing, 10)."""

from survive import die_at, finish, is_new, joined, rank, replace, report, until_agreed

SAID = 42


def work(comm):
    heard = comm.bcast(SAID if comm.rank == 0 else None, root=0)
    return heard, comm.allgather(-1 if is_new else rank)


def repair(comm):
    return replace(comm, in_order=False)


comm = joined()
die_at(0)
result, comm = until_agreed(comm, work, repair)
heard, members = result
report("members", members)
report("result", f"{comm.size} processes heard {heard}")
finish()
