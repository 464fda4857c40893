"""MPI from several threads of a rank; tests/programs/threads.py is the same under a real MPI."""

import itertools
from pathlib import Path

import pytest

from tests.mpi4py.ranks import values_of
from tests.process.launch import launch
from xsim_py import simulate

SHARDS = pytest.mark.parametrize("shards", [1, 2, 3])
PROGRAM = Path(__file__).parent.parent / "programs" / "threads.py"


@SHARDS
def test_two_runs_are_the_same(shards: int):
    runs = [simulate(PROGRAM, ranks=4, shards=count, stdout=None) for count in (1, shards)]
    assert runs[0].digest == runs[1].digest
    assert (runs[0].virtual_time_s, runs[0].events) == (runs[1].virtual_time_s, runs[1].events)


def test_a_message_wakes_all_threads_that_probe_for_it():
    def program():
        import threading

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        seen = []

        def probe():
            status = MPI.Status()
            comm.Probe(MPI.ANY_SOURCE, 3, status)
            seen.append((status.source, status.Get_count(MPI.INT), MPI.Wtime()))

        threads = [threading.Thread(target=probe) for _ in range(3)]
        if comm.rank == 0:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            comm.Recv(bytearray(8), 1, 3)
        else:
            comm.Send([b"12345678", MPI.BYTE], 0, 3)
        return len(set(seen)), len(seen)

    assert values_of(program, ranks=2)[0] == (1, 3)


def test_threads_that_match_share_the_messages():
    def program():
        import threading

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        seen = []
        threads = [threading.Thread(target=lambda: seen.append(comm.mprobe(tag=3).recv())) for _ in range(3)]
        if comm.rank == 0:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            for number in range(3):
                comm.send(number, 0, tag=3)
        return seen

    assert values_of(program, ranks=2)[0] == [0, 1, 2]


def test_messages_of_two_threads_leave_one_after_the_other():
    """They share the rank's interface, whatever the order in which the threads come to it."""

    def program():
        import threading

        import numpy as np
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        data = np.zeros(100_000, "b")
        if comm.rank == 0:
            threads = [threading.Thread(target=comm.Send, args=(data, 1, tag)) for tag in (1, 2)]
            for thread in threads:
                thread.start()
            return None
        comm.Recv(data, 0, 1)
        first = MPI.Wtime()
        comm.Recv(data, 0, 2)
        return MPI.Wtime() / first

    assert values_of(program, ranks=2)[1] == pytest.approx(2, abs=0.05)


def test_a_handler_sees_errors_of_threads():
    def program():
        import threading

        from mpi4py import MPI

        seen = []
        comm = MPI.COMM_SELF.Dup()
        handler = MPI.Comm.Create_errhandler(lambda comm, code: seen.append(MPI.Get_error_class(code)))
        comm.Set_errhandler(handler)
        thread = threading.Thread(target=comm.send, args=(1, 5))
        thread.start()
        thread.join()
        return seen == [MPI.ERR_RANK]

    assert values_of(program, ranks=1) == [True]


def test_calls_of_threads_count_as_call_sites(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import threading
        def work():
            print(comm.allreduce(1))
            try:
                print(comm.allreduce(1))
            finally:
                print("unwound")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """,
        ranks=1,
        fail=["rank=0 before its 2nd allreduce"],
    )
    assert done.lines == ["1"]
    assert [(row["rank"], row["time_s"]) for row in done.result.failures] == [(0, 0.0)]


def test_calls_of_threads_are_drawn_one_after_the_other(tmp_path: Path):
    text = """
    import threading, time
    comms = [comm.Dup() for _ in range(3)]
    def work(number):
        for _ in range(3):
            comms[number].Barrier()
            time.sleep(1e-6 * (number + rank))
    for number in range(3):
        threading.Thread(target=work, args=(number,)).start()
    """
    done = launch(tmp_path, text, ranks=3, trace=True)
    assert done.result.digest == launch(tmp_path, text, ranks=3).result.digest
    for rank in range(3):
        spans = sorted(span[2:4] for span in done.result.trace.spans if span.rank == rank)
        assert len(spans) > 5
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_a_window_is_locked_by_a_thread_of_each_rank():
    def program():
        import threading

        import numpy as np
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        memory = np.zeros(1, "i")
        window = MPI.Win.Create(memory, comm=comm)

        def add():
            for _ in range(3):
                window.Lock(0)
                value = np.zeros(1, "i")
                window.Get(value, 0)
                window.Flush(0)
                window.Put(value + 1, 0)
                window.Unlock(0)

        thread = threading.Thread(target=add)
        thread.start()
        total = comm.allreduce(1)
        thread.join()
        comm.Barrier()
        window.Free()
        return total, int(memory[0])

    assert values_of(program, ranks=3)[0] == (3, 9)


def test_a_thread_completes_what_another_one_waits_for_before_any_communicator_is_used():
    def program():
        import threading

        from mpi4py import MPI

        ended = []
        request = MPI.Grequest.Start(lambda status: None, lambda: ended.append("freed"), lambda done: None)
        thread = threading.Thread(target=request.Complete)
        thread.start()
        request.Wait()
        thread.join()
        return ended

    assert values_of(program, ranks=2) == [["freed"], ["freed"]]
