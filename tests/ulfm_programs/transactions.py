# number of ranks: 4
# arguments of a run: 3@1; 0@1 2@2; 1@3
"""Blocks that all do or nobody, one in the other, by an agreement at the end of each (ulfm-testing, 13)."""

from survive import FAILURES, MPI, agree, attempt, die_at, finish, first, report, uniformly


class Transaction:
    """A block on a communicator; an error about a failure ends with it, where all know what has become of it."""

    def __init__(self, comm):
        self.comm = comm

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is not None:
            if not isinstance(error, MPI.Exception) or error.Get_error_class() not in FAILURES:
                return False
            self.comm.Revoke()
        self.committed = agree(self.comm, kind is None)
        return True


def transfer(comm, account, amount):
    """Return the account with an amount more, if all have got it, and whether they have."""
    with Transaction(comm) as outer:
        copy = uniformly(comm, MPI.Intracomm.Dup)
        with Transaction(copy) as inner:
            die_at(amount)
            got = copy.bcast(amount if copy.rank == 0 else None, root=0)
        if not inner.committed:
            raise MPI.Exception(MPI.ERR_REVOKED)
        copy.Barrier()
    return (account + got, True) if outer.committed else (account, False)


comm, account, amount = first, 0, 1
while True:
    if amount <= 3:
        account, well = transfer(comm, account, amount)
        amount += well
    else:
        accounts, well = attempt(comm.allgather, account)
        well = agree(comm, well)
        if well:
            break
    if not well:
        comm.Revoke()
        comm = comm.Shrink()
report("members", comm.size)
report("result", f"all have {set(accounts)}")
finish()
