# number of ranks: 5
# arguments of a run: 0@0
# only here: Open MPI 5 hangs, or crashes, in Create_from_group with a dead process in the group
# rule: 1,2,3 1.made False -- a member is dead
# rule: 1,2,3 2.made True -- no member of the group is dead, though one of the first communicator is
# rule: 1,2,3,4 group 3 -- all but the dead member
# rule: 1,2,3,4 result banana -- what the first one has said
"""Some make a communicator from a group, in which processes have died, without the others (Legio, noncoll_test)."""

from survive import MPI, agree, attempt, die_at, finish, first, missing, rank, report

MEMBERS = 4
tries = 0
living = first
while True:
    die_at(tries)
    group = first.group.Incl([one for one in range(MEMBERS) if one not in missing(first, living)])
    tries += 1
    heard, well = None, True
    if rank < MEMBERS:
        made, well = attempt(MPI.Intracomm.Create_from_group, group, f"try {tries}")
        report(f"{tries}.made", well)
        if well:
            heard, well = attempt(made.bcast, "banana" if made.rank == 0 else None, root=0)
            if not well:
                made.Revoke()
    if agree(living, well):
        break
    living = first.Shrink()
report("group", group.size)
report("result", heard if rank < MEMBERS else "banana")
finish()
