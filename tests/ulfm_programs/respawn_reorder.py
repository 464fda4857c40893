# number of ranks: 4
# arguments of a run: 2@0; 0@0; 1@0 3@1
"""Who dies is replaced in its place: neighbours on a ring stay neighbours (ulfm-testing, 11)."""

from survive import die_at, finish, is_new, joined, rank, report, until_agreed


def work(comm):
    die_at(0)
    passed, left, right = comm.rank, (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    for _ in range(comm.size - 1):
        passed = 10 * comm.sendrecv(passed, dest=right, source=left) + comm.rank
    die_at(1)
    return comm.allgather(passed), comm.allgather(-1 if is_new else rank)


result, comm = until_agreed(joined(), work)
passed, members = result
report("rank", comm.rank)
report("members", members)
report("result", passed)
finish()
