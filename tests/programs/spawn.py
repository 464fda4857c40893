# ranks: 1 2 3
"""MPI_Comm_spawn: what the new processes are, and what the parents get."""

import os
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spawned.py")


def say(*what):
    print(" ".join(map(str, (comm.rank, *what))), flush=True)


say("parent", MPI.Comm.Get_parent() == MPI.COMM_NULL)
codes = []
inter = comm.Spawn(sys.executable, [CHILD, "report", "a", "b=2"], 3, root=comm.size - 1, errcodes=codes)
say("inter", inter.rank, inter.size, inter.remote_size, inter.is_inter, repr(inter.Get_name()), codes)
for number, told in enumerate(inter.gather(None, root=MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL) or []):
    say("child", number, told)
inter.Disconnect()
say("null", inter == MPI.COMM_NULL)

info = MPI.Info.Create({"wdir": "/tmp"}) if comm.rank == 0 else MPI.INFO_NULL
arguments = [CHILD, "report", "--folder"] if comm.rank == 0 else None
inter = comm.Spawn(sys.executable if comm.rank == 0 else None, arguments, 1, info=info)
for told in inter.gather(None, root=MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL) or []:
    say("in /tmp", told)
inter.Disconnect()

code = "from mpi4py import MPI; import sys; p = MPI.Comm.Get_parent(); p.gather(sys.argv, root=0); p.Disconnect()"
alone = MPI.COMM_SELF.Spawn(sys.executable, ["-c", code, "x"], 2)
say("alone", alone.size, alone.remote_size, alone.gather(None, root=MPI.ROOT))
alone.Disconnect()
for name, values in (("root", {"root": comm.size}), ("count", {"maxprocs": -1})):
    try:
        MPI.COMM_SELF.Spawn(sys.executable, ["-c", ""], **values)
    except MPI.Exception as error:
        say(name, MPI.Get_error_string(error.Get_error_class()) != "")
