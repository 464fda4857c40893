"""Compiled programs: what they print and when, how they end, and what a report says of them."""

import io
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from xsim_py import simulate
from xsim_py.cli.cc import command_line

PROGRAMS = Path(__file__).parent / "programs"
SOURCES = [PROGRAMS / name for name in ("ends.c", "streams.cpp", "waits.c", "spin.c")]


def run(program: Path, *args: str, **options: Any) -> tuple[Any, str, str]:
    out, err = io.StringIO(), io.StringIO()
    before = len(os.listdir("/proc/self/fd"))
    result = simulate(program, ranks=3, args=args, stdout=out, stderr=err, **options)
    assert len(os.listdir("/proc/self/fd")) == before
    assert Path(f"/proc/self/task/{os.getpid()}/children").read_text() == ""
    return result, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("options", [{}, {"trace": True}, {"check": True}, {"shards": 2}], ids=str)
def test_output_appears_in_order_of_the_calls_between_it(built: Path, options: dict[str, Any]):
    result, out, err = run(built / "ends", **options)
    lines = ["before", "after, half a line", "raw", "3", "from a shell", "1 got 1", "2 got 2"]
    assert (result.ended, out.splitlines(), err) == ("finished", lines, "error\n"), result.report
    assert result.exit_status == 5


def test_streams_of_cpp_are_in_order_too(built: Path):
    (result, out, drawn), (_, _, drawn_again) = (run(built / "streams") for _ in range(2))
    assert drawn == drawn_again != ""
    assert (result.ended, out) == ("finished", "first\n0: 40\n1: 41\n2: 42\n"), result.report


ENDS = {
    "crash": ("aborted", "rank 1 ended the job at 40.128 us: killed by SIGSEGV"),
    "abort": ("aborted", "rank 1 ended the job at 40.128 us: killed by SIGABRT"),
    "exit": ("aborted", "rank 1 ended the job at 40.128 us: ended without MPI_Finalize"),
    "MPI_Abort": ("aborted", '    ends.c:13 in end: if (!strcmp(how, "MPI_Abort")) MPI_Abort(MPI_COMM_WORLD, 7);'),
    "hang": ("stalled", '  rank 1, ends.c:14 in end: if (!strcmp(how, "hang")) MPI_Recv('),
}


@pytest.mark.parametrize("how", ENDS)
def test_every_end_is_reported_with_its_place(built: Path, how: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(PROGRAMS)
    result, _, _ = run(built / "ends", how)
    ended, said = ENDS[how]
    assert result.ended == ended
    assert said in result.report


def test_a_rank_fails_before_a_call_of_its_program(built: Path):
    result, _, _ = run(built / "ends", fail=["rank=1 before its 1st Barrier"])
    (failure,) = result.failures
    assert (failure["rank"], failure["cause"]) == (1, "injected: rank=1 before its 1st Barrier")
    assert "ends.c:46 in main: MPI_Barrier(MPI_COMM_WORLD);" in result.report


def test_threads_wait_in_real_time(built: Path):
    _, out, _ = run(built / "waits")
    assert sorted(out.splitlines()) == sorted(f"{i}: in time" for i in range(4) for _ in range(3))


def test_a_line_of_the_program_that_only_reads_a_clock_waits(built: Path):
    """Its ticks grow, so an hour ends soon; those of a library, which reads for many lines, stay as they are."""
    result, out, _ = run(built / "spin")
    assert [float(line) for line in out.splitlines()] == pytest.approx([3600, 3600, 3600], rel=0.01)
    assert any("spin.c:8" in warning for warning in result.warnings)


FREED = """
#include <mpi.h>
static char data[100000];
int main(void) {
  int rank;
  MPI_Request request;
  MPI_Init(0, 0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1) MPI_Irecv(data, sizeof data, MPI_CHAR, 0, 10, MPI_COMM_WORLD, &request), MPI_Request_free(&request);
  if (rank == 0) MPI_Send(data, sizeof data, MPI_CHAR, 1, 10, MPI_COMM_WORLD);
  MPI_Finalize();
}
"""


def test_a_receive_whose_request_was_freed_outlasts_the_process(tmp_path: Path):
    (tmp_path / "freed.c").write_text(FREED)
    subprocess.run(command_line("cc", ["freed.c", "-o", "freed"]), check=True, cwd=tmp_path)
    result, out, err = run(tmp_path / "freed")
    assert (result.ended, result.exit_status, out, err) == ("finished", 0, "", "")


WAITING_CALLBACK = """
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *sleeps(void *unused) {
  int is_main = 1;
  MPI_Is_thread_main(&is_main);
  return is_main || usleep(1000) ? (void *)&sleeps : unused;
}
static int freed(MPI_Comm comm, int key, void *value, void *state) {
  pthread_t thread;
  void *wrong = NULL;
  return pthread_create(&thread, NULL, sleeps, NULL) || pthread_join(thread, &wrong) || wrong;
}
int main(void) {
  int key;
  MPI_Comm copy;
  MPI_Init(0, 0);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, freed, &key, NULL);
  MPI_Comm_dup(MPI_COMM_SELF, &copy);
  MPI_Comm_set_attr(copy, key, &key);
  double begin = MPI_Wtime();
  MPI_Comm_free(&copy);
  printf("%.0f us\\n", 1e6 * (MPI_Wtime() - begin));
  MPI_Finalize();
}
"""


def test_a_callback_may_wait_for_another_thread_that_calls_the_simulator(tmp_path: Path):
    """In the real mpi4py, a thread waits for the lock of the interpreter, whose owner reads a clock."""
    (tmp_path / "waiting.c").write_text(WAITING_CALLBACK)
    subprocess.run(command_line("cc", ["waiting.c", "-o", "waiting", "-lpthread"]), check=True, cwd=tmp_path)
    result, out, _ = run(tmp_path / "waiting", wall_limit=20)
    assert (result.ended, out) == ("finished", "1000 us\n" * 3)
