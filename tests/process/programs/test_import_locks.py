"""A module that is being imported is waited for, in virtual time."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.launch import Launched, launch

SLOW = "import time\nbefore = 1\ntime.sleep(1)\nfrom .late import value\n"
WAYS = "import sys; sys.path.append(__file__.replace('prog.py', 'site-packages'))\n"


@pytest.fixture
def _nothing_stays() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "zz_slow"]:
        del sys.modules[name]


def slow(folder: Path, text: str, *, init: str = SLOW, **told: object) -> Launched:
    files = {"site-packages/zz_slow/__init__.py": init, "site-packages/zz_slow/late.py": "value = 1"}
    return launch(folder, WAYS + text, files=files, **{"ranks": 3, **told})  # type: ignore[arg-type]


@pytest.mark.usefixtures("_nothing_stays")
@pytest.mark.parametrize("what", ["from zz_slow import value", "from zz_slow.late import value"])
@pytest.mark.parametrize("shards", [1, 2])
def test_other_ranks_wait_for_a_shared_module(tmp_path: Path, what: str, shards: int):
    done = slow(tmp_path, f"{what}\nprint(rank, value, MPI.Wtime())", shards=shards)
    assert sorted(done.lines) == ["0 1 1.0", "1 1 1.0", "2 1 1.0"]


@pytest.mark.usefixtures("_nothing_stays")
def test_the_deadlock_report_says_who_imports_it(tmp_path: Path):
    done = slow(tmp_path, "import zz_slow", init="import threading\nlock = threading.Lock()\nwith lock: lock.acquire()")
    assert done.result.ended == "stalled"
    assert "rank 0 to import zz_slow" in done.result.report


@pytest.mark.usefixtures("_nothing_stays")
@pytest.mark.parametrize("end", ["1 / 0", "import os; os._exit(3)"])
def test_where_the_import_fails_or_its_rank_dies_the_next_rank_imports_it(tmp_path: Path, end: str):
    init = f"import time; from mpi4py import MPI; time.sleep(1)\nif MPI.COMM_WORLD.rank == 0: {end}\nvalue = 1"
    text = "try:\n    import zz_slow\n    print(rank, zz_slow.value)\nexcept ZeroDivisionError: print('divided')"
    done = slow(tmp_path, text, init=init, ft=True, share="zz_slow")
    assert [line for line in done.lines if line != "divided"] == ["1 1", "2 1"]


@pytest.mark.usefixtures("_nothing_stays")
def test_what_was_in_the_making_at_the_end_of_a_run_is_imported_anew(tmp_path: Path):
    done = slow(tmp_path, "if rank: import zz_slow\nelse: comm.Abort(1)")
    assert done.result.ended == "aborted"
    assert "zz_slow" not in sys.modules


def test_threads_wait_for_each_other_s_imports_but_not_in_a_circle(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import threading
        def work():
            import first
            print("thread", first.value, MPI.Wtime())
        thread = threading.Thread(target=work)
        thread.start()
        import first
        thread.join()
        import circle
        print(circle.seen)
        """,
        files={
            "first.py": "import time\ntime.sleep(1)\nvalue = 1",
            "circle/__init__.py": """
            import threading
            seen = []
            def work():
                from circle.part import value
                seen.append(value)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            """,
            "circle/part.py": "value = 2",
        },
    )
    assert done.lines == ["thread 1 1.0", "[2]"]
