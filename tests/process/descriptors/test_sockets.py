"""Sockets between ranks: what is read and written, and when, does not depend on how ranks are spread over shards."""

import select
import socket
from pathlib import Path

import pytest
from mpi4py import MPI

from xsim_py import simulate

# Each rank serves its left neighbour and reads from its right one, in one loop: in reality, every poll is a race.
PROGRAM = """
import os, selectors, socket
from mpi4py import MPI

comm = MPI.COMM_WORLD
me, size = comm.rank, comm.size
listening = socket.socket(socket.AF_UNIX)
listening.bind(f"{me}")
listening.listen()
comm.Barrier()
there = socket.socket(socket.AF_UNIX)
there.connect(f"{(me + 1) % size}")
here, _ = listening.accept()
for each in (there, here):
    each.setblocking(False)
selector = selectors.DefaultSelector()
selector.register(here, selectors.EVENT_WRITE)
selector.register(there, selectors.EVENT_READ)
left, got, rounds = memoryview(bytes(300_000 * (me + 1))), 0, 0
while left or got < 300_000 * ((me + 1) % size + 1):
    for key, _ in selector.select():
        rounds += 1
        if key.fileobj is here:
            left = left[here.send(left[:50_000]):]
            if not left:
                selector.unregister(here)
        else:
            got += len(data := there.recv(50_000))
            if not data:
                selector.unregister(there)
print(me, got, rounds, MPI.Wtime())
os.unlink(f"{me}")
"""


@pytest.mark.parametrize("spread", [{"shards": 3}, {"isolation": "process:3"}])
def test_what_a_rank_finds_on_a_socket_does_not_depend_on_the_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread: dict[str, object]
):
    monkeypatch.chdir(tmp_path)
    path = Path("ring.py")
    path.write_text(PROGRAM)
    alone, spread_out = (simulate(path, ranks=5, machine="torus3d", **how) for how in ({}, spread))
    assert alone.ended == "finished"
    assert spread_out.digest == alone.digest
    assert spread_out.virtual_time_exact_s == alone.virtual_time_exact_s


def test_a_loop_of_polls_of_a_bound_socket_lets_others_run(tmp_path: Path):
    path = str(tmp_path / "bound")

    def body() -> bytes:
        comm = MPI.COMM_WORLD
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            if comm.rank:
                comm.recv()
                return b"%d" % end.sendto(b"abc", path)
            end.bind(path)
            comm.send(1, 1)
            while not select.select([end], [], [], 0)[0]:
                pass
            return end.recv(9)

    assert simulate(body, ranks=2).values == [b"abc", b"3"]
