# number of ranks: 3
"""Error handlers see failures: ERRORS_RETURN raises, a handler of the program's own is called with the class."""

from ft import MPI, attempt, class_of, comm, die, finish, phase, rank, report


def handler(of, code):
    """Tell which class came, and on what."""
    report("handler", f"{class_of(code)} on {of.name}")


if rank == 1:
    die()
phase()
report("default", comm.Get_errhandler() == MPI.ERRORS_RETURN)
attempt("returned", comm.recv, source=1)
comm.Set_name("the world")
own = MPI.Comm.Create_errhandler(handler)
comm.Set_errhandler(own)
attempt("called", comm.Barrier)
report("same", comm.Get_errhandler() == own)
attempt("agree", comm.Agree, 1)
comm.Set_errhandler(MPI.ERRORS_RETURN)
attempt("returned.again", comm.recv, source=1)
new = comm.Shrink()
report("new", new.Get_errhandler() == MPI.ERRORS_RETURN)
finish()
