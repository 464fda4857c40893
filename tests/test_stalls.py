"""Nothing hangs: a program that cannot go on, or does not end, gives a deadlock report and its exit status."""

import re
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.campaign import CAMPAIGN
from tests.cases import ROOT
from tests.doc_blocks import blocks
from tests.process.launch import PRELUDE, Launched, launch, simulated, write
from tests.real_mpi import ENVIRONMENT, MPIEXEC
from xsim_py import simulate
from xsim_py.mpi.rma import operations as operate
from xsim_py.mpi4py import p2p

SHARDS = pytest.mark.parametrize("shards", [1, 2, 3])


def stall(tmp_path: Path, text: str, *, ranks: int = 2, shards: int = 1) -> str:
    """The report of a program that stalls: the text is the body of a function of its own."""
    done = launch(
        tmp_path, "def work():\n" + indent(dedent(text).strip(), "    ") + "\nwork()", ranks=ranks, shards=shards
    )
    assert (done.result.ended, done.result.exit_status) == ("stalled", 3)
    assert done.err == ""
    return re.sub(re.escape(str(tmp_path)) + "/", "", done.result.report)


HEAD = "deadlock at 0 s: no rank can make progress\n0 of 2 ranks have ended; the others:\n"


@SHARDS
def test_a_cycle_of_receives_is_shown(tmp_path: Path, shards: int):
    report = stall(tmp_path, "comm.recv(source=(rank + 1) % 3, tag=5)", ranks=3, shards=shards)
    assert report == (
        "deadlock at 0 s: no rank can make progress\n"
        "0 of 3 ranks have ended; the others:\n"
        "  ranks 0-2, prog.py:5 in work: comm.recv(source=(rank + 1) % 3, tag=5)\n"
        "      rank 0 at 0 s: Comm.recv on MPI_COMM_WORLD: a message from rank 1, tag 5\n"
        "      rank 1 at 0 s: Comm.recv on MPI_COMM_WORLD: a message from rank 2, tag 5\n"
        "      rank 2 at 0 s: Comm.recv on MPI_COMM_WORLD: a message from rank 0, tag 5\n"
        "cycle: rank 0 waits for rank 1 waits for rank 2 waits for rank 0"
    )


def test_code_without_a_file_is_found_by_who_executes_it(tmp_path: Path):
    report = stall(tmp_path, "exec('def wait(): comm.recv()', globals())\nwait()")
    assert "ranks 0-1, prog.py:6 in work: wait()" in report


@SHARDS
def test_receiving_from_a_rank_that_has_ended(tmp_path: Path, shards: int):
    report = stall(
        tmp_path,
        """
        import time
        if rank == 1:
            time.sleep(2)
        else:
            comm.recv(source=1)
        """,
        ranks=3,
        shards=shards,
    )
    assert "1 of 3 ranks has ended" in report
    assert "ranks 0, 2, prog.py:9 in work: comm.recv(source=1)" in report
    assert report.endswith("waited for, but ended already: rank 1 (at 2 s)")


@SHARDS
def test_large_sends_without_a_receive(tmp_path: Path, shards: int):
    report = stall(
        tmp_path,
        """
        import numpy
        comm.Send(numpy.zeros(10**6, "b"), dest=1 - rank, tag=4)
        """,
        shards=shards,
    )
    assert "rank 0 at 0 s: Comm.Send on MPI_COMM_WORLD: rank 1 to receive 1000000 bytes, tag 4" in report
    assert "cycle: rank 0 waits for rank 1 waits for rank 0" in report
    assert "2 messages were sent but never received" in report


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("comm.ssend('x', dest=1 - rank)", "Comm.ssend on MPI_COMM_WORLD: rank 1 to receive 16 bytes, tag 0"),
        ("comm.recv()", "Comm.recv on MPI_COMM_WORLD: a message from any source, any tag"),
        ("comm.probe(source=1 - rank, tag=3)", "Comm.Probe on MPI_COMM_WORLD: a message from rank 1, tag 3"),
        ("comm.mprobe()", "Comm.Mprobe on MPI_COMM_WORLD: a message from any source, any tag"),
        (
            "comm.irecv(source=1 - rank).wait()",
            "Request.wait: Comm.irecv on MPI_COMM_WORLD: a message from rank 1, any tag",
        ),
        (
            "MPI.Request.waitany([comm.irecv(tag=7), comm.irecv(tag=8)])",
            "Request.waitany: one of 2 requests; the first: Comm.irecv on MPI_COMM_WORLD: a message from any source",
        ),
        (
            "MPI.Request.waitall([comm.irecv(source=1 - rank, tag=tag) for tag in range(3)])",
            "Request.waitall: Comm.irecv on MPI_COMM_WORLD: a message from rank 1, tag 0, and 2 more requests",
        ),
        (
            "comm.sendrecv(1, dest=1 - rank, source=1 - rank, sendtag=rank, recvtag=rank)",
            "Comm.sendrecv on MPI_COMM_WORLD: a message from rank 1, tag 0",
        ),
        ("MPI.Request.Waitany([comm.Irecv(bytearray(1))])", "Request.Waitany: Comm.Irecv on MPI_COMM_WORLD: a message"),
        ("MPI.Request.Waitsome([comm.Irecv(bytearray(1))])", "Request.Waitsome: Comm.Irecv on MPI_COMM_WORLD: a mess"),
        ("MPI.Grequest.Start().wait()", "Request.wait: a generalized request, for this rank to call Grequest.Complete"),
    ],
)
def test_every_way_to_wait_says_for_what(tmp_path: Path, text: str, reason: str):
    report = stall(tmp_path, text)
    assert report.startswith(f"{HEAD}  ranks 0-1, prog.py:5 in work: {text}\n")
    assert f" at 0 s: {reason}" in report


def test_a_cycle_goes_through_several_requests(tmp_path: Path):
    report = stall(
        tmp_path,
        """
        if rank == 0:
            MPI.Request.waitall([comm.irecv(source=1), comm.irecv(source=2)])
        elif rank == 1:
            comm.send(None, dest=0)
            comm.recv(source=3)
        elif rank == 2:
            comm.probe(source=0)
        """,
        ranks=4,
    )
    assert "cycle: rank 0 waits for rank 2 waits for rank 0\n" in report
    assert "waited for, but ended already: rank 3 (at 0 s)" in report


def test_ranks_that_wait_for_the_same_are_one_line(tmp_path: Path):
    report = stall(tmp_path, "if rank: comm.recv(source=0, tag=9)", ranks=200)
    assert "  ranks 1-199, prog.py:5 in work" in report
    assert "      ranks 1-199 at 0 s: Comm.recv on MPI_COMM_WORLD: a message from rank 0, tag 9\n" in report
    assert len(report.splitlines()) == 5


def test_many_different_ones_are_cut_short(tmp_path: Path):
    report = stall(tmp_path, "comm.recv(source=(rank + 1) % 200)", ranks=200)
    lines = report.splitlines()
    assert lines[-2] == "      ... and 192 more"
    assert lines[-1].startswith("cycle: rank 0 waits for rank 1 waits for ")
    assert lines[-1].endswith(" waits for rank 199 waits for rank 0")
    assert len(lines[-1]) < 300


def test_a_collective_is_one_line_whatever_its_messages(tmp_path: Path):
    report = stall(tmp_path, "if rank != 3: comm.Barrier()", ranks=16)
    assert re.search("\n      ranks 0-2, 4-15 at 0 s to .*: Comm.Barrier\\(\\) on MPI_COMM_WORLD\n", report)
    assert "waited for, but ended already: rank 3 (at 0 s)" in report


def test_communicators_are_named_and_their_ranks_translated(tmp_path: Path):
    report = stall(
        tmp_path,
        """
        part = comm.Split(rank % 2)
        part.Set_name("halves")
        if rank == 3: part.recv(source=0)
        """,
        ranks=4,
    )
    assert "Comm.recv on halves: a message from rank 0, any tag; it is rank 1 of MPI_COMM_WORLD" in report


@SHARDS
def test_a_message_with_another_tag_is_named_with_the_line_of_its_send(tmp_path: Path, shards: int):
    report = stall(tmp_path, "comm.send(b'', dest=0, tag=4) if rank else comm.recv(source=1, tag=3)", shards=shards)
    assert report.endswith(
        "\n1 message was sent but never received: rank 1 to rank 0, tag 4, 15 bytes, sent at prog.py:5"
    )
    assert "a message from rank 1, tag 3; but here is one from rank 1, tag 4, sent at prog.py:5\n" in report


@pytest.mark.parametrize("call", ["send", "isend"])
def test_a_function_more_between_a_call_and_the_transport_changes_no_report(call: str, monkeypatch: pytest.MonkeyPatch):
    send = getattr(p2p, f"_{call}")
    monkeypatch.setattr(p2p, f"_{call}", lambda *words: (lambda: send(*words))())
    program = (
        f"from mpi4py import MPI\ncomm = MPI.COMM_WORLD\ncomm.{call}(b'', 0, 4) if comm.rank else comm.recv(tag=3)"
    )
    at_a_call = {"fail": ["rank=1 before its 99th send"], "ft": True}
    for tools in ({}, {"trace": True}, {"check": True}, at_a_call, {"resilience": "legio"}):
        result = simulate(program, kind="code", ranks=2, **tools)
        assert "tag 4, sent at <string>:3\n" in result.report, tools


@pytest.mark.parametrize(("shards", "compute"), [(1, "none"), (2, "none"), (1, "measured")])
def test_every_way_to_send_leaves_its_line(tmp_path: Path, shards: int, compute: str):
    ways = (
        "comm.send(1, dest=1)",
        "comm.Isend(bytearray(10**6), dest=1)",
        "comm.Sendrecv(bytearray(1), dest=1, recvbuf=bytearray(1), source=MPI.PROC_NULL)",
        "comm.Sendrecv(bytearray(1), dest=1, recvbuf=bytearray(9), source=0, recvtag=2)",
        "comm.Isendrecv(bytearray(1), dest=1, recvbuf=bytearray(1), source=0)",
        "(p := comm.Send_init(bytearray(1), dest=1)).Start()",
        "list(map(lambda dest: comm.send(1, dest=dest), [1]))",
        "sending.send(comm)",
    )
    library = {"venv/lib/site-packages/sending.py": "def send(comm): comm.send(1, dest=1)"}
    head = "import sys; sys.path.append(__file__[:-7] + 'venv/lib/site-packages'); import sending\n"
    text = "\n".join(("if rank == 0:", "  comm.isend(1, dest=0, tag=2)", *(f"  {way}" for way in ways)))
    done = launch(tmp_path, head + text, ranks=2, files=library, shards=shards, compute=compute)
    assert done.err == ""
    report = done.result.warnings[0]
    assert sorted(int(line) for line in re.findall(r"prog.py:(\d+)", report)) == [*range(7, 14)]
    assert "sending.py:1" in report


@SHARDS
def test_a_message_that_is_too_long_is_named_with_its_sender(tmp_path: Path, shards: int):
    text = """
    taken = (
        lambda: comm.Recv(bytearray(1), 0, 5),
        lambda: comm.Irecv(bytearray(1), 0, 5).Wait(),
        lambda: comm.Sendrecv(b"", MPI.PROC_NULL, 0, bytearray(1), 0, 5),
        lambda: comm.Mprobe(0, 5).Recv(bytearray(1)),
        lambda: comm.Gatherv(bytearray(2 - rank), [bytearray(3), [1, 1, 1]], root=1),
    )
    for each in taken if rank == 1 else ():
        try:
            each()
        except MPI.Exception as error:
            print(str(error).partition("takes ")[2])
    if rank == 0:
        for size in (2, 3, 100_000, 3):
            comm.Send(bytearray(size), 1, 5)
    if rank != 1:
        comm.Gatherv(bytearray(3), None, root=1)
    """
    done = launch(tmp_path, dedent(text), ranks=3, shards=shards)
    by_rank = "1; from rank 0, tag 5, sent at prog.py:19)\n"
    assert done.out == by_rank * 4 + "1; the block of rank 0)\n"


@SHARDS
def test_different_collectives_are_named(tmp_path: Path, shards: int):
    report = stall(tmp_path, "comm.reduce(1) if rank == 2 else comm.bcast(1)", ranks=3, shards=shards)
    assert "collective mismatch on MPI_COMM_WORLD" in report
    assert "Comm.bcast(root=0)" in report
    assert "Comm.Dup(for Comm.reduce)" in report  # what the first reduction of objects needs
    assert "ranks 0-1 in Comm.bcast(root=0), at prog.py:5; rank 2 in Comm.Dup(for Comm.reduce), at prog.py:5" in report


@SHARDS
def test_different_roots_are_named_with_all_ranks_where_they_are(tmp_path: Path, shards: int):
    text = "import numpy\ncomm.Reduce(numpy.zeros(4), numpy.zeros(4), root=rank // 3)\ncomm.Barrier()"
    report = stall(tmp_path, text, ranks=4, shards=shards)
    assert report.startswith("collective mismatch on MPI_COMM_WORLD: rank ")
    both = "Comm.Reduce(root=0, 32 bytes, SUM)", "Comm.Reduce(root=1, 32 bytes, SUM)"
    assert f"is in {both[0]} and gets a message of rank 3's {both[1]}" in report
    assert "0 of 4 ranks have ended; the others:" in report
    assert "prog.py:6 in work: comm.Reduce(numpy.zeros(4), numpy.zeros(4), root=rank // 3)" in report


LEAVES = {
    "objects": "comm.reduce(1, op=fail)",
    "numbers": "comm.Reduce(numpy.zeros(1), numpy.zeros(1), op=MPI.Op.Create(lambda *buffers: fail()))",
    "in the background": (
        "comm.Ireduce(numpy.zeros(1), numpy.zeros(1), op=MPI.Op.Create(lambda *buffers: fail())).Wait()"
    ),
    "a persistent one": (
        "again = comm.Reduce_init(numpy.zeros(1), numpy.zeros(1), op=MPI.Op.Create(lambda *buffers: fail()))\n"
        "    again.Start(), again.Wait()"
    ),
}


@SHARDS
@pytest.mark.parametrize("call", LEAVES.values(), ids=list(LEAVES))
def test_who_leaves_a_collective_by_an_exception_is_in_no_other_one(tmp_path: Path, call: str, shards: int):
    text = f"""
import numpy
def fail(*operands):
    if rank == 0: raise ValueError("here")
    return sum(operands)
try:
    {call}
except ValueError as error:
    print(rank, error)
print(comm.bcast("on", root=0))
"""
    done = launch(tmp_path, text, ranks=7, shards=shards)
    assert (done.result.ended, done.result.exit_status, done.result.report) == ("finished", 0, "")
    assert sorted(done.out.splitlines()) == ["0 here", *["on"] * 7]


def test_who_raises_before_a_collective_is_not_in_it(tmp_path: Path):
    text = "comm.reduce(1)\ntry:\n    if rank == 0: raise ValueError\n    comm.reduce(1)\nexcept ValueError: pass"
    report = stall(tmp_path, text, ranks=7)
    assert report.endswith("ranks 1-2, 4 in Comm.reduce(root=0); their messages of this collective were never received")
    done = launch(tmp_path, "comm.reduce(1)\nif rank == 0: raise SystemExit(5)\ncomm.reduce(1)", ranks=7)
    assert (done.result.ended, done.result.exit_status) == ("finished", 5)


OVERLAPPING = """\
deadlock at 24.08 us: no rank can make progress
2 of 6 ranks have ended; the others:
  ranks 0, 4, overlap.py:15 in <module>: green.Shrink()
      ranks 0, 4 at 12.04 us to 18.08 us: Comm.Shrink on green: rank 1 of MPI_COMM_WORLD to take part
  ranks 1-2, overlap.py:17 in <module>: orange.Shrink()
      rank 1 at 18.08 us: Comm.Shrink on orange: rank 4 of MPI_COMM_WORLD to take part
      rank 2 at 24.08 us: Comm.Shrink on orange: rank 1 of MPI_COMM_WORLD to take part
cycle: rank 1 waits for rank 4 waits for rank 1"""


def overlapping_shrinks() -> str:
    """The program that the guide to failures shows."""
    page = (ROOT / "docs" / "guides" / "failures-and-ulfm.md").read_text(encoding="utf-8")
    (program,) = (block.body for block in blocks(page) if block.file == "overlap.py")
    return program


@SHARDS
def test_overlapping_communicators_that_are_shrunk_in_different_orders(tmp_path: Path, shards: int):
    """M. Schulz's example (MPI Forum, issue 20): after two failures, each of two ranks waits in another Shrink."""
    write(tmp_path, {"overlap.py": overlapping_shrinks()})
    done = simulated(tmp_path / "overlap.py", ranks=6, machine="shmem", ft=True, shards=shards)
    assert (done.result.ended, done.result.exit_status) == ("stalled", 3)
    assert done.result.report.replace(f"{tmp_path}/", "") == OVERLAPPING
    assert [failure["rank"] for failure in done.result.failures] == [3, 5]


def test_one_order_of_shrinking_overlapping_communicators_ends(tmp_path: Path):
    program = overlapping_shrinks()
    choice = program.index("if comm.rank in (0, 4):")
    orderly = "for part in (green, orange):\n    if part != MPI.COMM_NULL:\n        print(part.Shrink().size)\n"
    write(tmp_path, {"overlap.py": program[:choice] + orderly})
    done = simulated(tmp_path / "overlap.py", ranks=6, machine="shmem", ft=True)
    assert (done.result.ended, done.result.report) == ("finished", "")
    assert done.lines == ["3"] * 6


def test_messages_left_at_the_end_are_a_warning(tmp_path: Path):
    done = launch(tmp_path, "for tag in range(5 + 5 * rank): comm.send(None, dest=1 - rank, tag=tag)", ranks=2)
    (warning,) = done.result.warnings
    assert warning.startswith("15 messages were sent but never received: rank 1 to rank 0, tag 0, 4 bytes; ")
    assert warning.endswith(f"; and 7 more; all sent at {tmp_path}/prog.py:4")
    assert (done.result.ended, done.result.exit_status) == ("finished", 0)


def test_background_traffic_does_not_keep_a_stalled_program_alive(tmp_path: Path):
    def traffic(env):
        while True:
            yield env.timeout(10**9)

    done = launch(tmp_path, "comm.recv(source=0)", background=[traffic])
    assert done.result.ended == "stalled"
    assert done.result.virtual_time_s == 0


def test_inside_a_library_the_program_s_line_is_shown(tmp_path: Path):
    files = {"venv/lib/site-packages/library.py": "def receive(comm): return comm.recv(source=0)"}
    text = "sys.path.append(__file__[:-7] + 'venv/lib/site-packages'); import library\nlibrary.receive(comm)"
    done = launch(tmp_path, f"import sys; {text}", files=files)
    assert "prog.py:5 in <module>: library.receive(comm)" in done.result.report


# ---------------------------------------------------------------------------------------- the wall limit, and Ctrl-C

ENDLESS = """
def spin():
    while True:
        pass
if rank == 1:
    spin()
comm.Barrier()
"""


def endless(tmp_path: Path, shards: int, text: str = ENDLESS, **told: object) -> Launched:
    return launch(tmp_path, text, ranks=3, shards=shards, wall_limit=0.25, **told)


@SHARDS
def test_an_endless_loop_is_ended_and_its_line_shown(tmp_path: Path, shards: int):
    done = endless(tmp_path, shards)
    assert (done.result.ended, done.result.exit_status) == ("wall limit", 4)
    report = done.result.report
    assert report.startswith("the wall limit was reached at 0 s\n0 of 3 ranks have ended; the others:\n")
    assert re.search(
        r"rank 1, .*prog.py:[67] in spin: (while True:|pass)\n      rank 1 at 0 s: running, in no MPI call", report
    )


@pytest.mark.parametrize(
    "text",
    [
        "while True: comm.sendrecv(1, dest=1 - rank, source=1 - rank)",
        "while True: comm.Iprobe()",
        "import time\nwhile True: time.sleep(1)",
        "import time\nwhile True: time.time()",
        "while True: print('x')",
        "while True:\n    try:\n        raise ValueError\n    except BaseException:\n        pass",
    ],
    ids=["messages", "polling", "sleeping", "clock", "printing", "catching"],
)
def test_every_endless_loop_is_ended(tmp_path: Path, text: str):
    done = launch(tmp_path, text, ranks=2, wall_limit=0.05)
    assert (done.result.ended, done.result.exit_status) == ("wall limit", 4)


@pytest.mark.sampled
@SHARDS
@pytest.mark.parametrize(
    ("text", "looks", "whom"),
    [
        ("comm.Iprobe(tag=3)", "Comm.Iprobe on MPI_COMM_WORLD: a message from any source, tag 3", "ranks 1-2 (rank 1"),
        ("comm.improbe(2)", "Comm.Improbe on MPI_COMM_WORLD: a message from rank 2, any tag", "rank 2 ("),
        ("request.Test()", "Comm.Irecv on MPI_COMM_WORLD: a message from rank 1, tag 5", "rank 1 ("),
    ],
)
def test_a_rank_that_polls_at_the_limit_says_for_what(tmp_path: Path, shards: int, text: str, looks: str, whom: str):
    body = f"if rank == 0:\n    request = comm.Irecv(bytearray(1), 1, 5)\n    while True: {text}"
    report = endless(tmp_path, shards, body).result.report
    assert f": polling, {looks}" in report
    assert f"\npolled for, but ended already: {whom}" in report


def test_a_rank_that_begins_calls_without_end_is_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It never waits: the run ends in the middle of its tenth call, as by Ctrl-C at that moment."""
    calls = count(1)
    known = {"begin": operate.fetch, "calls": calls, "interrupt": partial(signal.raise_signal, signal.SIGINT)}
    begin = "lambda *words: (next(calls) == 10 and interrupt(), begin(*words))"
    monkeypatch.setattr(operate, "fetch", eval(compile(begin, operate.__file__, "eval"), known))  # no line of a program
    text = """
    import numpy as np
    one, two = np.ones(1), np.ones(1)
    win = MPI.Win.Allocate(8, 8, comm=comm)
    win.Lock_all()
    fetch = win.Fetch_and_op
    while rank:
        fetch(one, two, 0)
    """
    done = launch(tmp_path, text, ranks=2)
    assert (done.result.ended, next(calls)) == ("interrupted", 11)
    assert "prog.py:11 in <module>: fetch(one, two, 0)" in done.result.report
    assert "running, in Win.Fetch_and_op" in done.result.report


def test_a_rank_that_polls_for_one_that_goes_on_is_not_said_to_be_alone(tmp_path: Path):
    report = endless(tmp_path, 1, "if rank < 2:\n    while True: comm.Iprobe()").result.report
    assert "ranks 0-1 at " in report
    assert "ended already" not in report


def test_an_endless_background_process_is_ended(tmp_path: Path):
    def endless(env):
        yield env.timeout(1)
        while True:
            pass

    def at_once(env):
        while True:
            yield env.timeout(0)

    for process in (endless, at_once):
        done = launch(tmp_path, "import time; time.sleep(1)", background=[process], wall_limit=0.05)
        assert done.result.ended == "wall limit"


def test_a_limit_that_is_not_reached_is_not_noticed(tmp_path: Path):
    timers = signal.getitimer(signal.ITIMER_REAL), signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGINT)
    done = launch(tmp_path, "comm.Barrier()", ranks=2, wall_limit=300)
    assert done.result.ended == "finished"
    assert timers == (
        signal.getitimer(signal.ITIMER_REAL),
        signal.getsignal(signal.SIGALRM),
        signal.getsignal(signal.SIGINT),
    )


def command(tmp_path: Path, *options: str, ranks: int = 3) -> list[str]:
    return [sys.executable, "-m", "xsim_py", "run", "-n", str(ranks), "--quiet", *options, str(tmp_path / "prog.py")]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "loop", ["while True: pass", "while True: comm.Iprobe()", "import time\nwhile True: time.sleep(1)"]
)
def test_control_c_ends_a_run_with_a_report(tmp_path: Path, loop: str):
    text = PRELUDE + "if rank == 2: open(__file__ + '.started', 'w').close()\n" + loop
    started = tmp_path / "prog.py.started"
    write(tmp_path, {"prog.py": text.replace(loop, f"comm.Barrier()\n{loop}")})
    process = subprocess.Popen(command(tmp_path), cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not started.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert out == ""
    assert err.startswith("interrupted at ")
    assert "prog.py:" in err
    assert "Traceback" not in err


if MPIEXEC.exists():
    REAL = {
        "cycle": ("comm.recv(source=(rank + 1) % 4)", 3, "cycle: rank 0 waits for rank 1 waits for rank 2 waits for"),
        "ended": ("if rank: comm.recv(source=0)", 3, "waited for, but ended already: rank 0 (at 0 s)"),
        "endless": ("if rank == 3:\n    while True: pass\ncomm.Barrier()", 4, "the wall limit was reached at "),
        "abort": ("if rank == 3: comm.Abort(9)\ncomm.Barrier()", 9, "rank 3 ended the job at 0 s"),
        "raise": ("if rank == 3: 1 / 0\ncomm.Barrier()", 1, "ZeroDivisionError: division by zero"),
        "mismatch": ("comm.Barrier() if rank else comm.bcast(1)", 3, "collective mismatch on MPI_COMM_WORLD"),
    }

    SHOWN = [*REAL] if CAMPAIGN else ["cycle", "endless"]

    @pytest.mark.parametrize(("text", "status", "said"), [REAL[name] for name in SHOWN], ids=SHOWN)
    def test_nothing_hangs_on_real_mpi_ranks(tmp_path: Path, text: str, status: int, said: str):
        write(tmp_path, {"prog.py": PRELUDE + text})
        limit = "0.5s" if status == 4 else "300s"
        line = [MPIEXEC, "-n", "2", *command(tmp_path, "--wall-limit", limit, ranks=4)]
        done = subprocess.run(line, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
        assert done.returncode == status
        assert done.stderr.count(said) in (1, 2)
        assert "xsim_py/" not in done.stderr
