"""A program has greenlets of its own, and MPI in them."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import greenlet as greenlets  # by another name than the simulator looks for
import pytest
from mpi4py import MPI

from tests.process.launch import launch
from xsim_py import simulate


def test_a_call_that_waits_comes_back_to_the_greenlet_that_made_it(tmp_path: Path):
    text = """
        import greenlet
        def body(x):
            comm.Barrier()
            y = main.switch(("first", rank, x))
            try:
                main.switch(comm.allreduce(y))
            except ValueError as error:
                main.switch(("thrown", str(error), comm.bcast(rank, 1)))
            finally:
                print(rank, "finally", comm.allreduce(1))
        main = greenlet.getcurrent()
        own = greenlet.greenlet(body)
        print(rank, own.switch(5), own.switch(rank), own.throw(ValueError("v")), own.parent is main, bool(own))
        print(rank, repr(own.throw(greenlet.GreenletExit)), own.dead)
        """
    done = launch(tmp_path, text, ranks=3)
    assert sorted(done.lines) == sorted(
        line
        for rank in range(3)
        for line in (
            f"{rank} ('first', {rank}, 5) 3 ('thrown', 'v', 1) True True",
            f"{rank} finally 3",
            f"{rank} GreenletExit() True",
        )
    )


def test_greenlets_take_turns_around_a_hub_while_ranks_wait(tmp_path: Path):
    text = """
        from greenlet import greenlet
        order = []
        def work(number):
            for step in range(2):
                comm.sendrecv(rank, (rank + 1) % 2, source=(rank + 1) % 2)
                order.append((number, step))
                hub.switch()
        def turns():
            ready = [(greenlet(work, hub), number) for number in range(2)]
            while ready:
                for each, number in ready:
                    each.switch(*[] if each else [number])
                ready = [(each, number) for each, number in ready if not each.dead]
            return "done"
        hub = greenlet(turns)
        print(rank, hub.switch(), order)
        """
    done = launch(tmp_path, text, ranks=2)
    assert sorted(done.lines) == [f"{rank} done [(0, 0), (1, 0), (0, 1), (1, 1)]" for rank in range(2)]


def test_a_rank_that_dies_or_stalls_in_a_greenlet_of_its_own_is_told_of_with_its_line(tmp_path: Path):
    text = """
        import greenlet
        def body():
            try:
                comm.recv()
            finally:
                print("never")
        greenlet.greenlet(body).switch()
        """
    done = launch(tmp_path, text, ranks=2)
    assert (done.out, done.result.ended) == ("", "stalled")
    assert "prog.py:8 in body" in done.result.report
    ended = launch(tmp_path, text.replace("comm.recv()", "__import__('os')._exit(3)"), ranks=2)
    assert (ended.out, ended.result.exit_status) == ("", 3)
    assert launch(tmp_path, text, ranks=2, fail=["rank=0@1us", "rank=1@1us"]).out == ""


def test_greenlets_imported_between_runs_are_seen(monkeypatch: pytest.MonkeyPatch):
    """As in a notebook: a module that was there for earlier runs gets the name later."""

    def program() -> str:
        comm = MPI.COMM_WORLD
        comm.send(comm.rank, 1 - comm.rank)
        found: list[int] = []
        inner = host.greenlet(lambda: found.append(comm.recv()))
        inner.switch()
        return str(found)

    host: Any = ModuleType("host_of_greenlets")
    monkeypatch.setitem(sys.modules, host.__name__, host)
    simulate(lambda: None, ranks=2)
    host.greenlet = greenlets.greenlet
    assert simulate(program, ranks=2).values == ["[1]", "[0]"]
