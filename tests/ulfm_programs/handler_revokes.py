# number of ranks: 4
"""A handler that revokes the communicator at the first failure: the others' operations end with REVOKED."""

from ft import MPI, attempt, class_of, comm, die, finish, phase, rank, report

world = comm.Dup()
seen = []


def handler(of, code):
    """Revoke at the first error; the error goes on to whoever called MPI."""
    seen.append(class_of(code))
    if seen == ["PROC_FAILED"]:
        of.Revoke()


own = MPI.Comm.Create_errhandler(handler)
world.Set_errhandler(own)
if rank == 3:
    die()
attempt("recv", world.recv, source=3 if rank == 0 else 0)
report("first", seen[0])
phase()
attempt("null", world.Recv, bytearray(1), source=MPI.PROC_NULL)
report("then", seen[-1])
report("shrunk", world.Shrink().size)
finish()
