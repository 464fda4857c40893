# ranks: 1 2 3 5
"""The lower-case collectives, with callables as operations."""

import operator

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

comm.barrier()
print(f"rank {rank}: bcast {comm.bcast(('root', 3.5) if rank == size - 1 else None, root=size - 1)}")
print(f"rank {rank}: scatter {comm.scatter([[peer] * peer for peer in range(size)] if rank == 0 else None, root=0)}")
print(f"rank {rank}: gather {comm.gather('ab'[rank % 2] * 3, root=0)}")
print(f"rank {rank}: allgather {comm.allgather({rank})}")
print(f"rank {rank}: alltoall {comm.alltoall([f'{rank}>{peer}' for peer in range(size)])}")

print(f"rank {rank}: sum {comm.allreduce(rank)}, product {comm.allreduce(rank + 1, op=MPI.PROD)}")
print(f"rank {rank}: largest {comm.allreduce(-rank, op=MPI.MAX)}, smallest {comm.allreduce(rank, MPI.MIN)}")
print(f"rank {rank}: lists {comm.allreduce([rank, None])}")
print(f"rank {rank}: callable {comm.allreduce({rank}, op=operator.or_)}")
print(f"rank {rank}: reduce {comm.reduce((rank,), op=operator.add, root=size - 1)}")
print(f"rank {rank}: logic {comm.allreduce(rank > 0, op=MPI.LAND)} {comm.allreduce(rank > 0, op=MPI.LOR)}")
print(f"rank {rank}: bits {comm.allreduce(1 << rank, op=MPI.BOR)} {comm.allreduce(rank, op=MPI.BXOR)}")


def merge(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    """Add up two tables of counts."""
    return {key: left.get(key, 0) + right.get(key, 0) for key in sorted({*left, *right})}


text = "the more the merrier the better the rank the run"
words = text.split()[rank::size]
table = comm.reduce({word: words.count(word) for word in words}, op=merge, root=0)
print(f"rank {rank}: words {table}")
print(f"rank {rank}: not commutative {comm.allreduce(str(rank), op=lambda left, right: left + right)}")
print(f"rank {rank}: scan {comm.scan(str(rank), op=lambda left, right: f'({left}{right})')}")
print(f"rank {rank}: exscan {comm.exscan(str(rank), op=operator.add)}")
print(f"rank {rank}: where {comm.allreduce(((7 * rank) % 5, rank), op=MPI.MAXLOC)}")
