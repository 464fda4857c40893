# number of ranks: 6
# quirk: * *.barrier OTHER is PROC_FAILED -- Open MPI's barrier may report another class at the first rank
"""Failures one after the other, each followed by MPI_Comm_shrink: order is kept, the dead are gone, old ones stay."""

from ft import attempt, comm, die, failed, finish, phase, rank, report, world_ranks

current = comm
for victim in (2, 0, 5):
    if rank == victim:
        die()
    attempt(f"{victim}.barrier", current.Barrier)
    phase()
    current = attempt(f"{victim}.shrink", current.Shrink)
    report(f"{victim}.members", world_ranks(current.Get_group()))
    report(f"{victim}.place", f"{current.rank} of {current.size}")
    report(f"{victim}.failed", failed(current))
    report(f"{victim}.gathered", current.allgather(rank))
report("world.failed", failed())
finish()
