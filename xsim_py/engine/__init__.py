"""The engine (layer 3): event queue, shards and windows.

It knows neither message costs nor messages.
"""

from .kernel import INFINITY_PS, LATE, MAX_ORIGINS, UNBOUNDED_PS, Halted, Kernel, first_key
from .limits import MOST_PROCESSES, most_shards, problem_of_processes, problem_of_shards, processes_of
from .transport import OF_VIRTUAL_RANK, RANK_VARIABLES, forget_launcher, launched_by_mpiexec, make_transport
from .windows import AT_ONCE_PS, Lookahead, Loopback, ShardProtocol, Transport, shortest_times

__all__ = [
    "AT_ONCE_PS",
    "INFINITY_PS",
    "LATE",
    "MAX_ORIGINS",
    "MOST_PROCESSES",
    "OF_VIRTUAL_RANK",
    "RANK_VARIABLES",
    "UNBOUNDED_PS",
    "Halted",
    "Kernel",
    "Lookahead",
    "Loopback",
    "ShardProtocol",
    "Transport",
    "first_key",
    "forget_launcher",
    "launched_by_mpiexec",
    "make_transport",
    "most_shards",
    "problem_of_processes",
    "problem_of_shards",
    "processes_of",
    "shortest_times",
]
