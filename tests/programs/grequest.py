# ranks: 1 2
"""Generalized requests: operations of one's own behind MPI's Wait and Test."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.rank
log: list[str] = []


def query(status: MPI.Status, name: str) -> None:
    """Fill the status of the finished operation."""
    log.append(f"query {name}")
    status.Set_source(rank)
    status.Set_tag(7)
    status.Set_elements(MPI.INT, 3)
    status.Set_cancelled(False)


def free(name: str) -> None:
    """Note that the request is gone."""
    log.append(f"free {name}")


def cancel(completed: bool, name: str) -> None:
    """Note that somebody wants to cancel."""
    log.append(f"cancel {name} {completed}")


request = MPI.Grequest.Start(query, free, cancel, args=("first",))
print(f"rank {rank}: not yet {request.Test()}")
request.Complete()
status = MPI.Status()
request.Wait(status)
print(f"rank {rank}: {status.source} {status.tag} {status.Get_count(MPI.INT)} {log}")
print(f"rank {rank}: gone {request == MPI.REQUEST_NULL}")
log.clear()

request = MPI.Grequest.Start(query, free, cancel, args=("second",))
request.Cancel()
print(f"rank {rank}: {log}")
request.Complete()
print(f"rank {rank}: done {request.Test(status)} {status.Get_tag()} {log}")

# Together with ordinary requests.
own = MPI.Grequest.Start(query, free, cancel, args=("third",))
send = comm.isend("message", dest=rank, tag=1)
receive = comm.irecv(source=rank, tag=1)
own.Complete()
print(f"rank {rank}: together {MPI.Request.Waitall([own, send])} {receive.wait()}")
plain = MPI.Grequest.Start(None, None, None)
plain.Complete()
print(f"rank {rank}: no callbacks {plain.Wait()}")
