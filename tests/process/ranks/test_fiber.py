"""A rank's thread of control."""

import sys
import weakref
from contextvars import ContextVar
from typing import Any

import greenlet

from xsim_py import simulate
from xsim_py.process.ranks.shard import Control


def test_a_thread_of_the_operating_system_that_waits_in_mpi_is_told_so() -> None:
    def program() -> str | None:
        from multiprocessing.pool import ThreadPool

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank:
            return None

        def receive() -> str:
            try:
                return str(comm.recv(source=1))
            except NotImplementedError as error:
                return str(error)

        with ThreadPool(1) as pool:
            return pool.apply(receive)

    result = simulate(program, ranks=2)
    assert result.ended == "finished"
    assert result.values[0].startswith("rank 0 calls MPI from a thread of the operating system")


def test_collectives_that_do_not_block_share_a_greenlet_and_nothing_else() -> None:
    said = ContextVar("said", default="nothing")
    seen: list[tuple[Any, str]] = []

    def program() -> None:
        from mpi4py import MPI

        def fold(a: Any, b: Any, datatype: MPI.Datatype) -> None:
            seen.append((weakref.ref(greenlet.getcurrent()), said.get()))
            said.set("something")

        op = MPI.Op.Create(fold)
        for _ in range(3):
            MPI.COMM_WORLD.Iallreduce(bytearray(1), bytearray(1), op).Wait()
        assert said.get() == "nothing"

    assert simulate(program, ranks=2).ended == "finished"
    workers = [worker for worker, _ in seen]
    assert len(workers) == 6
    assert len(set(map(id, workers))) < 6
    assert {what for _, what in seen} == {"nothing"}
    assert all(worker() is None for worker in workers)


def test_ranks_that_end_before_others_begin_share_a_greenlet_and_nothing_else() -> None:
    said = ContextVar("said", default="nothing")
    seen: list[tuple[Any, str]] = []

    def program() -> None:
        seen.append((weakref.ref(greenlet.getcurrent()), said.get()))
        said.set("something")

    assert simulate(program, ranks=3).ended == "finished"
    workers = [worker for worker, _ in seen]
    assert len(set(map(id, workers))) == 1
    assert [what for _, what in seen] == ["nothing"] * 3
    assert all(worker() is None for worker in workers)


def test_the_greenlet_of_the_simulator_is_never_freed() -> None:
    """At the end of a thread `greenlet` may free it while others refer to it, and the next collection would crash."""
    before = sys.getrefcount(greenlet.getcurrent())
    Control()
    after = sys.getrefcount(greenlet.getcurrent())
    assert after == before + 1
