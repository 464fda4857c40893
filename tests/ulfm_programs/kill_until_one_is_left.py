# number of ranks: 6
"""The last of those that are left dies at its third barrier, until one is left (ulfm-testing, revshrinkkill)."""

from survive import attempt, die, finish, first, report

comm, repairs = first, 0
while comm.size > 1:
    for barrier in range(3):
        if barrier == 2 and comm.rank == comm.size - 1:
            die()
        _, well = attempt(comm.Barrier)
        if not well:
            comm.Revoke()
            comm = comm.Shrink()
            repairs += 1
            break
report("repairs", repairs)
report("result", f"{comm.size} is left")
finish()
