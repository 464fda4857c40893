# ranks: 1 2 4
"""Instances of classes that the program itself defines, by name in __main__."""

import dataclasses

from mpi4py import MPI


@dataclasses.dataclass(frozen=True)
class Task:
    """A piece of work."""

    number: int
    tags: tuple[str, ...] = ()


class Account:
    """A class with its own idea of pickling."""

    opened = 0

    def __init__(self, owner: str, balance: int) -> None:
        """Count the accounts opened in this process."""
        type(self).opened += 1
        self.owner, self.balance = owner, balance
        self.cache = lambda: None  # cannot be pickled

    def __getstate__(self) -> dict[str, object]:
        return {"owner": self.owner, "balance": self.balance}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.cache = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and self.owner == other.owner

    __hash__ = None


class Trouble(Exception):
    """An exception of the program."""


def double(value: int) -> int:
    """Return twice the value."""
    return 2 * value


comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size

print(f"rank {rank}: {comm.sendrecv(Task(rank, ('a', 'b')), dest=right, source=left)}")
account = comm.sendrecv(Account(f"owner {rank}", 10 * rank), dest=right, source=left)
print(f"rank {rank}: {account.owner} has {account.balance}, opened here {Account.opened}, cache {account.cache}")
print(f"rank {rank}: class is the same {type(account) is Account}, equal {account == Account(f'owner {left}', 0)}")
function = comm.sendrecv(double, dest=right, source=left)
print(f"rank {rank}: function {function(21)}, is {function is double}")
trouble = comm.sendrecv(Trouble("rank", rank), dest=right, source=left)
print(f"rank {rank}: {type(trouble).__name__} {trouble.args}")
tasks = comm.gather(Task(rank), root=0)
print(f"rank {rank}: gathered {tasks}")
print(f"rank {rank}: total {comm.allreduce(Task(rank).number)}")
