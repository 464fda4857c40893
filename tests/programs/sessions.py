# ranks: 1 2 4
"""Sessions: process sets, groups and communicators that are made of them."""

from mpi4py import MPI

rank = MPI.COMM_WORLD.rank


def say(*what):
    print(" ".join(map(str, (rank, *what))), flush=True)


def attempt(label, call, *args):
    try:
        say(label, call(*args))
    except MPI.Exception as error:
        say(label, MPI.Get_error_class(error.Get_error_code()) == MPI.ERR_ARG)


session = MPI.Session.Init()
other = MPI.Session.Init(errhandler=MPI.ERRORS_RETURN)
names = [session.Get_nth_pset(n) for n in range(session.Get_num_psets())]
say("sets", sorted(names))
for name in names:
    group = session.Create_group(name)
    say(name, session.Get_pset_info(name).Get("mpi_size"), group.size, group.rank)
    comm = MPI.Intracomm.Create_from_group(group, f"tests.{name}")
    say(name, comm.rank, comm.size, comm.allreduce(rank))
    comm.Free()
    group.Free()
say("group", MPI.Group.Create_from_session_pset(other, "mpi://SELF").size)
attempt("negative", session.Get_nth_pset, -1)
attempt("too many", session.Get_nth_pset, 99)
attempt("no such set", session.Get_pset_info, "nobody")
attempt("no such group", session.Create_group, "nobody")
say("equal", session == other, session == MPI.Session(session))
session.Finalize()
say("over", session == MPI.SESSION_NULL, other != MPI.SESSION_NULL)
other.Finalize()
