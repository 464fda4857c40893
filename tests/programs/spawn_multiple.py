# ranks: 1 2 4
"""MPI_Comm_spawn_multiple: several programs in one new COMM_WORLD."""

import os
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spawned.py")
ROOT = MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL


def say(*what):
    print(" ".join(map(str, (comm.rank, *what))), flush=True)


codes = []
lines = [[CHILD, "report", "first"], [CHILD, "report", "second"]]
inter = comm.Spawn_multiple([sys.executable] * 2, lines, [1, 2], errcodes=codes)
say("inter", inter.size, inter.remote_size, codes)
for told in inter.gather(None, root=ROOT) or []:
    say(told)
inter.Disconnect()

here = comm.rank == 0
info = [MPI.INFO_NULL, MPI.Info.Create({"wdir": "/tmp"})]
inter = comm.Spawn_multiple(
    [sys.executable] * 2 if here else None,
    [[CHILD, "report", "--folder", "0"], [CHILD, "report", "--folder", "1"]] if here else None,
    1,
    info if here else MPI.INFO_NULL,
)
for told in inter.gather(None, root=ROOT) or []:
    say(told["app"], told["args"], told["folder"] == "tmp")
inter.Disconnect()
for wrong in ({"args": [[]]}, {"maxprocs": [1]}, {"info": [MPI.INFO_NULL]}):
    try:
        MPI.COMM_SELF.Spawn_multiple([sys.executable] * 2, **wrong)
    except ValueError as error:
        say(error)
