"""What a rank changes about its process is its own, and gone after the run."""

import os
import sys
from pathlib import Path

import pytest

from tests.process.launch import launch, simulated


def test_the_directory_is_private(tmp_path: Path):
    before = os.getcwd()
    done = launch(
        tmp_path,
        """
        import os
        if rank < 2:
            folder = os.path.join(os.path.dirname(__file__), f"rank{rank}")
            os.makedirs(folder)
            os.chdir(folder)
        comm.Barrier()
        with open(f"written-by-{rank}", "w") if rank < 2 else open(os.devnull) as file:
            pass
        print(os.path.basename(os.getcwd()) if rank < 2 else os.getcwd())
        """,
        ranks=3,
    )
    assert done.lines == ["rank0", "rank1", before] or sorted(done.lines) == sorted(["rank0", "rank1", before])
    assert (tmp_path / "rank0" / "written-by-0").exists()
    assert (tmp_path / "rank1" / "written-by-1").exists()
    assert os.getcwd() == before


def test_the_environment_is_private_once_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XSIM_TEST_OLD", "old")
    done = launch(
        tmp_path,
        """
        import os
        if rank == 0:
            os.environ["XSIM_TEST_NEW"] = "zero"
            del os.environ["XSIM_TEST_OLD"]
        elif rank == 1:
            os.environ.update(XSIM_TEST_NEW="one")
        comm.Barrier()
        print(rank, os.environ.get("XSIM_TEST_NEW"), os.getenv("XSIM_TEST_OLD"), len(os.environ) > 3)
        """,
        ranks=3,
    )
    assert sorted(done.lines) == ["0 zero None True", "1 one old True", "2 None old True"]
    assert "XSIM_TEST_NEW" not in os.environ
    assert os.environ["XSIM_TEST_OLD"] == "old"
    assert os.popen("echo $XSIM_TEST_NEW $XSIM_TEST_OLD").read() == "old\n"


def test_arguments_and_path_are_private(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import sys
        sys.argv.append(str(rank))
        sys.path.append(f"/{rank}")
        comm.Barrier()
        sys.argv = sys.argv + ["assigned"]
        comm.Barrier()
        print(sys.argv[1:], sys.path[-1], sys.modules["__main__"].rank)
        """,
        ranks=2,
        args=["--flag", "value with spaces"],
    )
    assert sorted(done.lines) == [
        f"['--flag', 'value with spaces', '{rank}', 'assigned'] /{rank} {rank}" for rank in (0, 1)
    ]


def test_nothing_is_left_of_a_run(tmp_path: Path):
    def state() -> list[object]:
        names = ("argv", "path", "stdin", "stdout", "stderr", "meta_path", "excepthook", "__class__", "settrace")
        return [*(getattr(sys, name) for name in names), list(sys.path), list(sys.argv), sys.modules["__main__"]]

    before, modules = state(), set(sys.modules)
    for text in ("import helper", "import helper; 1 / 0", "import helper; comm.recv(source=0)"):
        launch(tmp_path, text, ranks=2, files={"helper.py": "import sys; sys.argv = []; sys.excepthook = None"})
    assert state() == before
    assert not {name for name in set(sys.modules) - modules if not name.startswith(("numpy", "xsim_py"))}


def test_functions_share_what_one_process_shares():
    """A callable runs in the caller's own modules: only what belongs to MPI is a rank's own."""
    seen: list[int] = []

    def function(limit: int) -> list[int]:
        from mpi4py import MPI

        seen.append(MPI.COMM_WORLD.rank)
        MPI.COMM_WORLD.Barrier()
        return sorted(seen)[:limit]

    assert simulated(function, ranks=3, args=[2]).result.values == [[0, 1]] * 3


def test_modules_made_during_and_after_a_run_are_ordinary_ones(tmp_path: Path):
    before = type(sys)
    done = launch(
        tmp_path,
        """
        import importlib.util, sys, types
        made = importlib.util.module_from_spec(importlib.machinery.ModuleSpec("made", None))
        made.path = "its own"
        print(type(made) is types.ModuleType, made.path)
        """,
        ranks=1,
    )
    assert done.lines == ["True its own"]
    assert type(sys) is before
