"""Runs inside one real MPI job and walks through one program after the other, as tests.fuzz.real asks for them.

    mpiexec -n N python -m tests.fuzz.serve SOCKET

Each rank waits for its next program at a socket of its own: waiting within MPI would keep all processors busy.
"""

import json
import socket
import sys

from mpi4py import MPI

from tests.fuzz.steps import Run


def main() -> None:
    """Serve until there is nobody to serve any more."""
    rank = MPI.COMM_WORLD.rank
    groups = [
        MPI.COMM_WORLD.Split(0 if rank < size else MPI.UNDEFINED, rank) for size in range(MPI.COMM_WORLD.size + 1)
    ]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(sys.argv[1])
        stream = connection.makefile("rw", encoding="utf-8")
        print(rank, file=stream, flush=True)
        for line in stream:
            request = json.loads(line)
            log = Run(MPI, groups[request["ranks"]]).walk(request["steps"])
            print(json.dumps(log), file=stream, flush=True)


if __name__ == "__main__":
    main()
