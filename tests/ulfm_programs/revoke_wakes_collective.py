# number of ranks: 4
"""Ranks that wait in a collective operation when the missing one revokes: REVOKED at those who waited for it."""

import time

from ft import attempt, comm, finish, phase, rank, report, total

CALLS = {
    "Barrier": lambda world: world.Barrier(),
    "Allreduce": lambda world: total(world, rank),
    "allgather": lambda world: world.allgather(rank),
    "Ibarrier": lambda world: world.Ibarrier().Wait(),
}

for number, name in enumerate(("Barrier", "Allreduce", "allgather", "Ibarrier")):
    world = comm.Dup()
    phase()
    if rank == number:
        time.sleep(0.2)
        attempt(f"{name}.revoke", world.Revoke)
    else:
        attempt(name, CALLS[name], world)
    phase()
    attempt(f"{name}.next", world.Barrier)
    report(f"{name}.revoked", world.Is_revoked())
    new = world.Shrink()
    report(f"{name}.shrunk", total(new, rank))
finish()
