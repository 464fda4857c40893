# number of ranks: 5
# arguments of a run: 4@0; 0@0; 1@0 3@1
"""A Dup that gives a communicator to all or to nobody (ulfm-testing, 06): all count the same that were made."""

from survive import MPI, attempt, die_at, finish, first, report, shrink, uniformly, until_agreed

outcomes = []


def work(comm):
    for step in range(3):
        die_at(step)
        made, well = attempt(uniformly, comm, MPI.Intracomm.Dup)
        outcomes.append(well)
        if well:
            made.Free()
    copy = uniformly(comm, MPI.Intracomm.Dup)
    seen, well = attempt(copy.allgather, outcomes)
    if not well:
        copy.Revoke()
        raise MPI.Exception(MPI.ERR_REVOKED)
    return seen


seen, comm = until_agreed(first, work, shrink)
report("members", comm.size)
report("outcomes", seen[0])
report("result", f"all saw the same: {all(each == seen[0] for each in seen)}; the last three: {seen[0][-3:]}")
finish()
