# ranks: 2 3 5
"""Ports: one half of the ranks accepts, the other connects; names that are published."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
server = comm.rank % 2 == 0
half = comm.Split(int(server), -comm.rank)
name = "tests of connections"


def say(*what):
    print(" ".join(map(str, (comm.rank, *what))), flush=True)


root = half.size - 1  # rank 0 and rank 1 of all
for turn in range(2):
    port = None
    if half.rank == root and server:
        port = MPI.Open_port()
        MPI.Publish_name(name, port)
        say("published", MPI.Lookup_name(name) == port)
    comm.barrier()
    if half.rank == root and not server:
        port = MPI.Lookup_name(name)
    inter = half.Accept(port, root=root) if server else half.Connect(port, root=root)
    say("inter", inter.rank, inter.size, inter.remote_size, inter.is_inter)
    say("allgather", inter.allgather((server, comm.rank)))
    if half.rank == 0:
        say("exchange", inter.sendrecv((turn, comm.rank), dest=0, source=0))
    both = inter.Merge(high=server)
    say("merged", both.allreduce([comm.rank]))
    both.Free()
    inter.Disconnect()
    if half.rank == root and server:
        MPI.Unpublish_name(name, port)
        MPI.Close_port(port)
    comm.barrier()
try:
    MPI.Lookup_name(name)
except MPI.Exception as error:
    say("gone", error.Get_error_class() == MPI.ERR_NAME)
