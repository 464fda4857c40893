"""What `mpi4py.rc` and the environment say when a process imports MPI holds for that process."""

from __future__ import annotations

import os
import warnings

import pytest

from tests.mpi4py.ranks import values_of
from xsim_py.mpi.constants import THREAD_MULTIPLE, THREAD_SINGLE

OPTIONS = ("initialize", "threads", "thread_level", "finalize", "fast_reduce", "recv_mprobe", "irecv_bufsz", "errors")


def handlers_of_new_objects(options, variables):
    """The program: which error handlers objects begin with."""
    import mpi4py

    os.environ.update(variables)
    mpi4py.rc(**options)
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    objects = [MPI.COMM_SELF, comm, comm.Dup(), comm.Create_cart([2]), MPI.Session.Init()]
    objects += [comm.Create_group(comm.Get_group()), comm.Idup()[0], comm.Split()]
    objects += [MPI.Win.Create(None, comm=MPI.COMM_SELF), MPI.File.Open(MPI.COMM_SELF, os.devnull)]
    known = [("return", MPI.ERRORS_RETURN), ("fatal", MPI.ERRORS_ARE_FATAL), ("abort", MPI.ERRORS_ABORT)]
    names = [next(name for name, handler in known if each.Get_errhandler() == handler) for each in objects]
    return set(names[:-1]), names[-1]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("exception", ({"return"}, "return")),
        ("fatal", ({"fatal"}, "fatal")),
        ("abort", ({"abort"}, "abort")),
        ("default", ({"fatal"}, "return")),  # what MPI itself gives
    ],
)
@pytest.mark.parametrize("how", ["rc", "environment"])
def test_new_objects_have_the_error_handler_that_is_asked_for(word, expected, how):
    said = ({"errors": word}, {}) if how == "rc" else ({}, {"MPI4PY_RC_ERRORS": word.upper()})
    assert values_of(handlers_of_new_objects, *said, ranks=2) == [expected] * 2


def test_an_error_on_one_rank_ends_the_job_where_errors_are_fatal():
    from xsim_py import simulate

    code = "import mpi4py; mpi4py.rc.errors = 'fatal'; from mpi4py import MPI; MPI.COMM_WORLD.rank or "
    code += "MPI.COMM_WORLD.send(0, 7)"
    result = simulate(code, kind="code", ranks=2)
    assert result.exit_status == 6  # ERR_RANK
    assert "MPI_ERRORS_ARE_FATAL at rank 0" in result.report


def test_what_cannot_be_understood_gives_a_warning_on_each_rank_that_imports():
    def program():
        import importlib

        import mpi4py

        for name in OPTIONS:
            setattr(mpi4py.rc, name, -5)
        with warnings.catch_warnings(record=True) as seen:
            importlib.import_module("mpi4py.MPI")
        from mpi4py import MPI

        return sorted(str(each.message) for each in seen), MPI.Is_initialized(), MPI.Query_thread()

    texts = sorted(f"mpi4py.rc.{name}: unexpected value -5" for name in OPTIONS)
    assert values_of(program, ranks=2) == [(texts, True, THREAD_MULTIPLE)] * 2


def test_the_environment_speaks_louder_than_rc_and_is_written_into_it():
    def program():
        import mpi4py

        os.environ.update(MPI4PY_RC_THREADS="no", MPI4PY_RC_IRECV_BUFSZ="7", MPI4PY_RC_THREAD_LEVEL="Funneled")
        os.environ.update(MPI4PY_PICKLE_PROTOCOL="3", MPI4PY_PICKLE_THRESHOLD="1024")
        mpi4py.rc(irecv_bufsz=8, threads=True)
        from mpi4py import MPI

        rc = mpi4py.rc
        return (
            MPI.Query_thread(),
            rc.threads,
            rc.irecv_bufsz,
            rc.thread_level,
            MPI.pickle.PROTOCOL,
            (
                MPI.Pickle().PROTOCOL,
                MPI.pickle.THRESHOLD,
                MPI.pickle.dumps(1)[:2],
            ),
        )

    expected = (THREAD_SINGLE, False, 7, "funneled", 3, (3, 1024, b"\x80\x03"))
    assert values_of(program, ranks=2) == [expected] * 2


def test_a_program_may_throw_rc_away():
    def program():
        import sys

        import mpi4py

        del mpi4py.rc
        del sys.modules["mpi4py.rc"]
        from mpi4py import MPI

        return MPI.Is_initialized()

    assert values_of(program, ranks=3) == [True] * 3


def test_one_rank_sets_its_own_options_only():
    def program():
        import mpi4py

        odd = os.getpid() % 2
        if odd:
            mpi4py.rc.errors = "fatal"
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()
        return odd == (MPI.COMM_WORLD.Get_errhandler() == MPI.ERRORS_ARE_FATAL), odd

    found = values_of(program, ranks=4)
    assert all(right for right, _ in found)
    assert {odd for _, odd in found} == {0, 1}
