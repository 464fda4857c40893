import io

import numpy as np
import pytest

from tests.mpi4py.ranks import values_of
from xsim_py import simulate
from xsim_py.failure import CallSite
from xsim_py.mpi4py.door import Handlers, Tool, is_mpi_call, known_calls, open_door
from xsim_py.mpi4py.tools import FailingCalls
from xsim_py.process import lifecycle
from xsim_py.process.ranks.patches import Patches


class Watch(Tool):
    """Keeps (rank, name, begin, end, error) of each outermost call, in the order of their ends."""

    def __init__(self, names=None):
        self.names = names
        self.begun, self.made = {}, []

    def handlers(self, method):
        if not is_mpi_call(method):
            return None
        if self.names is not None and method.name not in self.names:
            return Handlers()
        return Handlers(self.before, lambda call, _: self.ended(call, None), self.ended)

    def before(self, call):
        assert call.is_open
        if call.outer is None:
            assert call.fiber not in self.begun
            self.begun[call.fiber] = call.name, call.fiber.clock_ps

    def ended(self, call, error):
        assert not call.is_open
        if call.outer is None:
            started, start_ps = self.begun.pop(call.fiber)
            assert started == call.name
            self.made.append((call.fiber.rank.number, call.name, start_ps, call.fiber.clock_ps, error))


def calls_of(program, *, ranks=2, names=None, **options):
    tool = Watch(names)
    with Patches() as patches:
        open_door(patches, [tool])
        simulate(program, ranks=ranks, **options)
    return tool.made


def names_of(calls, rank=0):
    return [call[1] for call in calls if call[0] == rank]


def exchange():
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    peer = 1 - comm.Get_rank()
    room = np.zeros(3)
    requests = [comm.Irecv(room, peer), comm.Isend(np.ones(3), peer)]
    MPI.Request.Waitall(requests)
    comm.allreduce(peer)
    comm.bcast(room if peer else None)
    duplicate = comm.Dup()
    duplicate.Free()


def test_the_outermost_calls_are_seen_in_the_order_in_which_they_are_made():
    expected = ["Get_rank", "Irecv", "Isend", "Waitall", "allreduce", "bcast", "Dup", "Free"]
    calls = calls_of(exchange)
    assert (names_of(calls, 0), names_of(calls, 1)) == (expected, expected)


def test_calls_take_the_virtual_time_that_they_take():
    def program():
        import time

        from mpi4py import MPI

        time.sleep(2e-6)
        MPI.COMM_WORLD.Barrier()

    calls = calls_of(program, machine="gige")
    assert sorted(call[:3] for call in calls) == [(rank, "Barrier", 2_000_000) for rank in range(2)]
    assert all(end_ps >= 22_000_000 for *_, end_ps, _ in calls)


def test_only_the_wanted_names_are_reported_and_only_outermost():
    def program():
        from mpi4py import MPI

        def add(a, b, _):
            MPI.COMM_SELF.Barrier()
            np.frombuffer(b, "i8")[:] += np.frombuffer(a, "i8")

        comm = MPI.COMM_WORLD
        total = np.zeros(1, "i8")
        comm.Allreduce(np.ones(1, "i8"), total, MPI.Op.Create(add))
        comm.Iallreduce(np.ones(1, "i8"), total, MPI.Op.Create(add)).Wait()
        comm.Barrier()
        assert total[0] == 2

    assert names_of(calls_of(program, names={"Barrier"})) == ["Barrier"]


def test_a_call_that_raises_is_left_with_its_error():
    def program():
        from mpi4py import MPI

        with pytest.raises(MPI.Exception):
            MPI.COMM_WORLD.Send(b"", 7)
        MPI.COMM_WORLD.Barrier()

    first, second = (call for call in calls_of(program, ranks=1))
    assert (first[1], type(first[4]).__name__) == ("Send", "Exception")
    assert second[1:] == ("Barrier", second[2], second[3], None)


def test_watching_changes_neither_times_nor_digest_and_ends_with_its_patches():
    from xsim_py.mpi4py import MPI

    before = MPI.Comm.Send, MPI.Request.Wait, MPI.Finalize
    with Patches() as patches:
        open_door(patches, [Watch()])
        assert before != (MPI.Comm.Send, MPI.Request.Wait, MPI.Finalize)
        watched = simulate(exchange, ranks=2)
    plain = simulate(exchange, ranks=2)
    assert (watched.digest, watched.virtual_time_s, watched.events) == (
        plain.digest,
        plain.virtual_time_s,
        plain.events,
    )
    assert before == (MPI.Comm.Send, MPI.Request.Wait, MPI.Finalize)


def kept_or_initialised(init):
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    init()
    return MPI.Is_initialized()


def test_a_function_that_was_kept_beyond_the_run_is_no_longer_watched():
    from xsim_py.mpi4py import MPI

    tool = Watch()
    with Patches() as patches:
        open_door(patches, [tool])
        kept = MPI.Init
        values_of(kept_or_initialised, kept, ranks=1)
    assert "Init" in names_of(tool.made)
    del tool.made[:]
    values_of(kept_or_initialised, kept, ranks=1)
    assert not tool.made


def test_measured_work_has_passed_when_a_call_begins():
    def program():
        from mpi4py import MPI

        sum(range(200_000))
        MPI.COMM_WORLD.Barrier()

    result = simulate(program, ranks=1, compute="measured", trace=True)
    (span,) = result.trace.spans
    assert 0 < span.start_ps <= span.end_ps


def test_known_calls_are_mpi4pys_own_spellings():
    known = known_calls()
    assert {"Send", "Recv", "allreduce", "Wait", "Waitall", "Shrink", "Revoke", "Split", "Put", "call"} <= known
    assert not {"send_", "Get_processor_name", "rank", "py2f", "_comm", "MPI_Send"} & known


# --------------------------------------------------------------------------------------- failures by call site


def ended_at(*sites):
    """Return what the first site that is reached says, and how many steps were done by then."""
    steps = []

    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        for step in range(3):
            comm.Barrier()
            comm.bcast(step)
            if comm.rank == 1:
                steps.append(step)

    with Patches() as patches:
        tool = FailingCalls(lambda fiber, cause: lifecycle.leave(9, f"{cause} at {fiber.clock_ps}"))
        tool.begin(sites)
        open_door(patches, [tool])
        result = simulate(program, ranks=3, machine="gige", stdout=io.StringIO())
    return result, len(steps)


def site(name, count, *, before=True, rank=1):
    return CallSite(rank, before, count, name)


@pytest.mark.parametrize(
    ("where", "steps"),
    [
        (site("Barrier", 1), 0),
        (site("Barrier", 2), 1),
        (site("bcast", 2, before=False), 1),
        (site("Barrier", 3, before=False), 2),
        (site("call", 3), 1),
        (site("call", 6, before=False), 2),
    ],
)
def test_a_rank_is_killed_at_its_nth_call_of_a_name(where, steps):
    result, done = ended_at(where)
    assert (result.ended, result.exit_status, done) == ("aborted", 9, steps)
    assert where.cause in result.report
    assert result.report.startswith("rank 1 ")


def test_before_and_after_a_call_are_at_its_two_ends():
    before, after = (ended_at(site("Barrier", 1, before=before))[0].report for before in (True, False))
    assert "its 1st Barrier at 0\n" in f"{before}\n"
    assert "its 1st Barrier at 0\n" not in f"{after}\n"


def test_a_site_that_is_not_reached_changes_nothing():
    plain, steps = ended_at()
    for where in (site("Barrier", 4), site("Recv", 1), site("Barrier", 1, rank=7)):
        result, done = ended_at(where)
        assert (result.ended, result.digest, done) == ("finished", plain.digest, steps)


def test_several_sites_count_by_themselves_and_the_first_wins():
    result, done = ended_at(site("Barrier", 3), site("call", 4), site("bcast", 1, rank=5))
    assert "its 4th call" in result.report
    assert done == 1


def test_after_a_call_is_also_after_its_error():
    def program():
        from mpi4py import MPI

        try:
            MPI.COMM_WORLD.Send(b"", 99)
        except MPI.Exception:
            print("not reached")

    output = io.StringIO()
    with Patches() as patches:
        tool = FailingCalls(lambda _, cause: lifecycle.leave(9, cause))
        tool.begin([site("Send", 1, before=False, rank=0)])
        open_door(patches, [tool])
        result = simulate(program, ranks=1, stdout=output)
    assert (result.ended, output.getvalue()) == ("aborted", "")


def test_a_rank_that_fails_before_a_call_has_computed_until_then():
    def program():
        from mpi4py import MPI

        sum(range(200_000))
        MPI.COMM_WORLD.Barrier()

    output = io.StringIO()
    fail = ["rank=0 before its 1st Barrier"]
    result = simulate(program, ranks=1, compute="measured", fail=fail, stdout=output, stderr=output)
    assert result.failures[0]["time_s"] > 0


def test_the_door_of_a_run_that_is_over_notifies_no_tool_of_a_later_run():
    kept = {}

    def program():
        from mpi4py import MPI

        barrier = kept.setdefault("barrier", MPI.Comm.Barrier)
        for _ in range(3):
            MPI.COMM_WORLD.Get_size()
            barrier(MPI.COMM_WORLD)

    output = io.StringIO()
    first = simulate(program, ranks=2, fail=["rank=1 before its 4th Barrier"], stdout=output, stderr=output)
    second = simulate(program, ranks=2, trace=True)
    assert (first.ended, second.ended) == ("finished", "finished")


def test_a_function_of_an_installed_package_that_is_called_back_passes_the_door(tmp_path):
    package = tmp_path / "site-packages" / "called_back.py"
    package.parent.mkdir()
    package.write_text("def total(comm):\n    return comm.allreduce(1)\n", encoding="utf-8")
    (tmp_path / "program.py").write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(package.parent)!r})\n"
        "from mpi4py import MPI\n"
        "import called_back\n"
        "comm = MPI.COMM_WORLD\n"
        "key = MPI.Comm.Create_keyval(delete_fn=lambda *_: print(called_back.total(comm)))\n"
        "other = MPI.COMM_SELF.Dup()\n"
        "other.Set_attr(key, 1)\n"
        "other.Free()\n",
        encoding="utf-8",
    )
    output = io.StringIO()
    simulate(tmp_path / "program.py", ranks=3, resilience="legio", ft=True, fail=["rank=2@0s"], stdout=output)
    assert output.getvalue().split() == ["2", "2"]
