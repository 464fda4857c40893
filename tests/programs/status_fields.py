# ranks: 1 2
"""What a Status says, and what can be put into it."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.rank
peer = comm.size - 1 - rank

status = MPI.Status()
print(f"rank {rank}: fresh source any {status.source == MPI.ANY_SOURCE}, tag any {status.tag == MPI.ANY_TAG}")
print(f"rank {rank}: fresh error {status.error == MPI.SUCCESS}, cancelled {status.cancelled}, count {status.count}")

request = comm.Isend(np.arange(6, dtype="i4"), dest=peer, tag=17)
box = np.zeros(10, dtype="i4")
comm.Recv(box, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
request.Wait()
print(f"rank {rank}: source {status.Get_source()}, tag {status.Get_tag()}, error {status.Get_error()}")
print(f"rank {rank}: bytes {status.Get_count()}, ints {status.Get_count(MPI.INT)}")
print(f"rank {rank}: shorts {status.Get_count(MPI.SHORT)}, doubles {status.Get_count(MPI.DOUBLE)}")
print(f"rank {rank}: cancelled {status.Is_cancelled()}")

# 6 ints are one and a half elements of a type of 4 ints.
four = MPI.INT.Create_contiguous(4).Commit()
undefined = status.Get_count(four) == MPI.UNDEFINED
print(f"rank {rank}: undefined {undefined}, basic elements {status.Get_elements(four)}")
two = MPI.INT.Create_contiguous(2).Commit()
print(f"rank {rank}: pairs {status.Get_count(two)}, basic elements {status.Get_elements(two)}")

status.Set_elements(MPI.INT, 9)
status.Set_cancelled(True)
status.Set_source(3)
status.tag = 4
status.error = MPI.ERR_TAG
print(f"rank {rank}: set: {status.Get_count(MPI.INT)} {status.Is_cancelled()} {status.source} {status.tag}")
print(f"rank {rank}: set error {status.Get_error() == MPI.ERR_TAG}")

copy = MPI.Status(status)
copy.source = 77
print(f"rank {rank}: a copy is another: {copy.source} {status.source != 77}")
four.Free()
two.Free()
