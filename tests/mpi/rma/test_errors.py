"""What the calls of windows refuse where MPICH says less than the standard, and what its crash leaves open."""

from pathlib import Path

import pytest

from tests.process.launch import launch

WINDOW = "import numpy as np\none, memory = np.ones(1), np.zeros(4)\nwin = MPI.Win.Create(memory, 8, comm=comm)\n"
DYNAMIC = "import numpy as np\none, memory = np.ones(1), np.zeros(4)\nwin = MPI.Win.Create_dynamic(comm=comm)\n"


def refused(tmp_path: Path, text: str, before: str = WINDOW, ranks: int = 2) -> list[str]:
    """What each rank is told when it executes the last line, in the order of ranks."""
    *lines, last = text.strip().split("\n")
    program = (
        f"{before}{chr(10).join(lines)}\ntry:\n    {last}\nexcept MPI.Exception as error:\n    print(rank, error)\n"
    )
    done = launch(tmp_path, program, ranks=ranks)
    assert done.result.ended == "finished", done.result.report
    assert done.err == ""
    return sorted(done.lines)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("win.Lock(0, 77)", "MPI_ERR_LOCKTYPE"),
        ("win.Lock(0, MPI.LOCK_SHARED, MPI.MODE_NOPUT)", "MPI_ERR_ASSERT"),
        ("win.Lock_all(MPI.MODE_NOSTORE)", "MPI_ERR_ASSERT"),
        ("win.Fence(MPI.MODE_NOCHECK)", "MPI_ERR_ASSERT"),
        ("win.Start(win.group, MPI.MODE_NOPUT)", "MPI_ERR_ASSERT"),
        ("win.Post(win.group, MPI.MODE_NOPRECEDE)", "MPI_ERR_ASSERT"),
        ("win.Fence()\nwin.Accumulate(one, 0, op=MPI.BAND)", "MPI_ERR_OP"),
        ("win.Fence()\nwin.Accumulate(one, 0, op=MPI.OP_NULL)", "MPI_ERR_OP"),
        ("win.Fence()\nwin.Put(one, 0, 4)", "MPI_ERR_RMA_RANGE"),
        ("win.Fence()\nwin.Put(np.ones(2), 0, 3)", "MPI_ERR_RMA_RANGE"),
        ("win.Fence()\nwin.Get(one, 1, 1 << 40)", "MPI_ERR_RMA_RANGE"),
        ("win.Fence()\nwin.Put(np.ones(2), 0, [0, 1])", "MPI_ERR_TRUNCATE"),
        ("win.Fence()\nwin.Get(one, 0, [0, 2])", "MPI_ERR_TRUNCATE"),
        ("win.Fence()\nwin.Accumulate(one, 0, [0, 2])", "MPI_ERR_TRUNCATE"),
        ("win.Detach(memory)", "MPI_ERR_RMA_FLAVOR"),
        ("win.Shared_query(2)", "MPI_ERR_RANK"),
        ("win.Start(MPI.GROUP_NULL)", "MPI_ERR_GROUP"),
        ("win.Set_errhandler(MPI.Comm.Create_errhandler(lambda comm, code: None))", "MPI_ERR_ERRHANDLER"),
    ],
)
def test_calls_that_can_not_be_are_refused(tmp_path: Path, text: str, name: str):
    assert [line.split(":")[0] for line in refused(tmp_path, text)] == [f"0 {name}", f"1 {name}"]


def test_what_is_refused_says_where(tmp_path: Path):
    assert refused(tmp_path, "win.Fence()\nwin.Put(np.ones(2), 1, 3)", ranks=2)[0] == (
        "0 MPI_ERR_RMA_RANGE: memory outside the window (Win.Put: bytes 24 to 40 of a window of 32 bytes at rank 1)"
    )
    assert refused(tmp_path, "win.Lock_all()\nwin.Fence()")[0] == (
        "0 MPI_ERR_RMA_SYNC: wrong synchronisation of window accesses (Win.Fence in an epoch of Win.Lock_all)"
    )
    assert refused(tmp_path, "win.Lock(0, MPI.LOCK_SHARED)\nwin.Put(one, 1)")[0] == (
        "0 MPI_ERR_RMA_SYNC: wrong synchronisation of window accesses "
        "(Win.Put on rank 1, which this epoch is not about)"
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("win.Detach(memory)", "MPI_ERR_RMA_ATTACH"),
        ("win.Attach(memory)\nwin.Attach(memory[1:])", "MPI_ERR_RMA_ATTACH"),
        ("win.Shared_query(0)", "MPI_ERR_RMA_FLAVOR"),
        ("win.Lock(0)\nwin.Put(one, 0, MPI.Get_address(memory))\nwin.Unlock(0)", "MPI_ERR_RMA_RANGE"),
        ("win.Lock(1, MPI.LOCK_SHARED)\nwin.Get(one, 1, 8)\nwin.Flush(1)", "MPI_ERR_RMA_RANGE"),
        ("win.Fence()\nwin.Accumulate(one, 1, 8)\nwin.Fence()", "MPI_ERR_RMA_RANGE"),
        ("win.Lock_all()\nr = win.Rget(one, 1, 8)\nr.Wait()\nwin.Unlock_all()", "MPI_ERR_RMA_RANGE"),
    ],
)
def test_memory_that_is_not_attached_is_refused_where_the_operation_completes(tmp_path: Path, text: str, name: str):
    assert {line.split(":")[0].split()[1] for line in refused(tmp_path, text, DYNAMIC)} == {name}


def test_shared_memory_needs_one_node(tmp_path: Path):
    assert refused(tmp_path, "MPI.Win.Allocate_shared(8, comm=comm)", "") == [
        f"{rank} MPI_ERR_RMA_SHARED: memory cannot be shared (the ranks are on several nodes, which share no memory: "
        "take --machine shmem, or more machine.cores_per_node, or the ranks of one node by Split_type)"
        for rank in range(2)
    ]


def test_a_handler_sees_what_is_refused_and_the_program_goes_on(tmp_path: Path):
    program = """
        win = MPI.Win.Allocate(8, comm=comm)
        seen = []
        win.Set_errhandler(MPI.Win.Create_errhandler(lambda found, code: seen.append((found == win, code))))
        win.Lock(7)
        print(win.Test(), win.Unlock(0), seen == [(True, code) for code in (6, 50, 50)], MPI.ERR_RANK, MPI.ERR_RMA_SYNC)
    """
    assert launch(tmp_path, program).lines == ["False None True 6 50"]


def test_a_fatal_error_ends_the_job(tmp_path: Path):
    done = launch(
        tmp_path,
        "win = MPI.Win.Allocate(8, comm=comm)\nwin.Set_errhandler(MPI.ERRORS_ARE_FATAL)\nwin.Fence()\nwin.Lock(5)",
        ranks=2,
    )
    assert done.result.ended == "aborted"
    assert "MPI_ERRORS_ARE_FATAL at rank 0 on a window of 2 ranks: MPI_ERR_RANK" in done.result.report
