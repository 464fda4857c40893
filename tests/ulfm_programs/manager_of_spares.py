# number of ranks: 6
# arguments of a run: 0@1; 0@1 3@3; 5@0 1@2
"""The first ranks compute, the others wait for one of them to die (Bosilca, in the review of mpi4py's ULFM)."""

from survive import die_at, finish, first, lost, report, shrink, until_agreed, with_parts

ACTIVE, STEPS = 4, 4
state = (0, 0)


def team_of(comm):
    if comm.size < ACTIVE:
        lost(comm, "more processes than there were spares")
    return (comm.Split(int(comm.rank >= ACTIVE), comm.rank),)


def use(comm, team):
    """Compute, or wait until that is done."""
    global state
    if comm.rank < ACTIVE:
        step, total = max(team.allgather(state))
        while step < STEPS:
            die_at(step)
            total += step * sum(team.allgather(team.rank + 1))
            step += 1
            state = (step, total)
    comm.Barrier()
    return comm.bcast(state, root=0)


def work(comm):
    return with_parts(comm, team_of, use)


die_at(0)
(step, total), comm = until_agreed(first, work, shrink)
report("rank", comm.rank)
report("result", f"{step} steps, {total}")
finish()
