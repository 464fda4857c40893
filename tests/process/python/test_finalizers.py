"""Finalizers run in the rank whose objects end, at times that do not depend on other ranks."""

from pathlib import Path

import pytest

from tests.process.launch import launch


@pytest.mark.parametrize("shards", [1, 2])
def test_a_finalizer_that_calls_mpi_runs_in_its_own_rank_whoever_collects(tmp_path: Path, shards: int):
    """The lines are those of a real MPI, also for what is left at the end."""
    text = """
        import gc
        class Cycle:
            def __init__(self, name): self.me, self.name = self, name
            def __del__(self): print("end of", self.name, rank, comm.allreduce(1))
        Cycle("first")
        for _ in range(2):
            comm.Barrier()
            gc.collect()
        last = [Cycle("last")]
        """
    done = launch(tmp_path, text, ranks=3, shards=shards)
    assert sorted(done.lines) == [f"end of {name} {rank} 3" for name in ("first", "last") for rank in range(3)]
    assert (done.err, done.result.ended) == ("", "finished")


def test_what_the_collector_finds_by_itself_waits_until_its_rank_asks_for_it(tmp_path: Path):
    text = """
        import gc, weakref
        class Cycle:
            def __init__(self): self.me = self
            def __del__(self): print(rank, "end", comm.allreduce(1))
        class Plain: pass
        Cycle()
        each = Plain()
        each.me = each
        weakref.finalize(each, print, rank, "finalized")
        del each
        if rank == 0:
            many = [[] for _ in range(100000)]
        comm.Barrier()
        print(rank, "goes on")
        gc.collect()
        """
    lines = launch(tmp_path, text, ranks=2).lines
    for rank in range(2):
        first, *others = [line for line in lines if line.startswith(str(rank))]
        assert first == f"{rank} goes on"
        assert sorted(others) == [f"{rank} end 2", f"{rank} finalized"]


def test_what_one_rank_collects_waits_until_the_other_asks_or_ends(tmp_path: Path):
    text = """
        import gc, weakref
        class Cycle:
            def __init__(self): self.me = self
            def __del__(self): print(rank, "del")
        class Plain: pass
        Cycle()
        each = Plain()
        each.me = each
        weakref.finalize(each, print, rank, "finalized")
        del each
        if rank == 0:
            gc.collect()
        comm.Barrier()
        print(rank, "goes on")
        """
    lines = launch(tmp_path, text, ranks=2).lines
    assert [line for line in lines if line[0] == "0"] in (
        ["0 del", "0 finalized", "0 goes on"],
        ["0 finalized", "0 del", "0 goes on"],
    )
    assert [line for line in lines if line[0] == "1"] == ["1 goes on", "1 finalized", "1 del"]


def test_generators_and_finalizers_that_are_left_end_with_their_rank_and_not_in_one_that_has_died(tmp_path: Path):
    text = """
        import os, weakref
        class Thing: pass
        def kept():
            try:
                yield 1
            finally:
                print("closed", rank)
        left, thing = kept(), Thing()
        next(left)
        weakref.finalize(thing, print, "finalized", rank)
        if rank == 1:
            os._exit(0)
        """
    done = launch(tmp_path, text, ranks=2)
    assert done.lines == ["finalized 0", "closed 0"]


def test_an_error_in_a_finalizer_shows_the_lines_of_the_program_only(tmp_path: Path):
    text = """
        class Bad:
            def __del__(self): comm.send(1, dest=99)
        Bad()
        bad = Bad()
        """
    done = launch(tmp_path, text)
    assert done.err.count("Exception ignored in: <function Bad.__del__>\nTraceback") == 2
    assert "xsim_py" not in done.err
    assert done.result.exit_status == 0


def test_what_is_made_in_a_function_of_an_installed_package_at_exit_belongs_to_the_rank(tmp_path: Path):
    text = """
        import types, numpy
        text = "import atexit\\ndef enter(comm): atexit.register(lambda: print('bye of', comm.rank))"
        package = types.ModuleType("pool")
        exec(compile(text, numpy.__file__, "exec"), vars(package))
        package.enter(comm)
        """
    assert sorted(launch(tmp_path, text, ranks=2).lines) == ["bye of 0", "bye of 1"]


def test_weakref_finalizers_run_among_the_functions_of_atexit_where_the_first_was_made(tmp_path: Path):
    """The order is that of CPython."""
    text = """
        import atexit, weakref
        class Thing: pass
        first, second, late = Thing(), Thing(), Thing()
        atexit.register(lambda: weakref.finalize(late, print, "never"))
        atexit.register(print, "before")
        weakref.finalize(first, print, "first")
        atexit.register(print, "after")
        weakref.finalize(second, print, "second")
        """
    assert launch(tmp_path, text).lines == ["after", "second", "first", "before"]


def test_what_a_package_keeps_for_all_ranks_is_not_finalized_with_the_first_rank(tmp_path: Path):
    """Such as the functions that numba has compiled for one rank, which the next one calls."""
    package = """
        import weakref
        class Thing: alive = True
        def end(thing): thing.alive = False
        def keep(thing=Thing(), finalized=[]):
            if not finalized:
                finalized.append(weakref.finalize(thing, end, thing))
            return thing
        """
    text = f"""
        import sys
        sys.path.insert(0, {str(tmp_path / "site-packages")!r})
        import keeps_for_all
        print(keeps_for_all.keep().alive)
        """
    assert launch(tmp_path, text, ranks=2, files={"site-packages/keeps_for_all.py": package}).lines == ["True", "True"]


def test_no_object_is_asked_for_its_class(tmp_path: Path):
    text = """
        class Asked:
            @property
            def __class__(self):
                print("asked")
                return object
        class Finalized:
            def __del__(self): print("finalized")
        asked, one = Asked(), Finalized()
        """
    assert launch(tmp_path, text).lines == ["finalized"]
