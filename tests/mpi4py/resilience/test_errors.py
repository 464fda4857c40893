"""Errors that are no failures: who has one raises it, and nobody waits for him."""

import sys
from types import SimpleNamespace

import pytest

from tests.mpi4py.resilience.layered import layered
from xsim_py.mpi4py.resilience import alias

pytestmark = pytest.mark.usefixtures("in_this_process")

EXCLUSIVE = """
try:
    file = MPI.File.Open(comm, "precious", MPI.MODE_CREATE | MPI.MODE_EXCL | MPI.MODE_WRONLY)
    file.Write_at(0, b"new")
    file.Close()
    print("opened")
except MPI.Exception as error:
    print(error.Get_error_class() == MPI.ERR_FILE_EXISTS)
"""


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("fail", ["before its 1st Open", "@0s", "@21us", "@41us"])
def test_only_a_call_that_has_made_the_file_opens_it_once_more(victim: int, fail: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "precious").write_text("precious")
    options = {"ranks": 5, "fail": f"rank={victim}{'' if fail[0] == '@' else ' '}{fail}"}
    out, result = layered(EXCLUSIVE, **options)
    assert (set(out.split("\n")), result.ended) == ({"", "True"}, "finished")
    assert (tmp_path / "precious").read_text() == "precious"
    (tmp_path / "precious").unlink()
    out, result = layered(EXCLUSIVE, **options)
    assert (set(out.split("\n")), result.ended) == ({"", "opened"}, "finished")
    assert (tmp_path / "precious").read_text() == "new"


RAISED = """
def read():
    if comm.rank == {shown}: raise {error}
class Unreadable:
    def __reduce__(self): return (read, ())
def bad(a, b): raise {error}
def told(call):
    try: call()
    except {kind}: return "raised"
    return "returned"
said = [told(lambda: {call}), comm.allreduce(1)]
if comm.rank == {shown}: print(*said)
"""


@pytest.mark.parametrize("options", [{}, {"group": 2}], ids=["flat", "by levels"])
@pytest.mark.parametrize("error", ["ZeroDivisionError", "MPI.Exception(MPI.ERR_OP)"])
@pytest.mark.parametrize(
    ("call", "shown"), [("comm.reduce(comm.rank, op=bad)", 0), ("comm.bcast(Unreadable())", 3)], ids=["op", "pickle"]
)
def test_an_error_in_the_middle_of_a_call_keeps_nobody_from_the_next_one(options, error: str, call: str, shown: int):
    code = RAISED.format(error=error, kind=error.partition("(")[0], call=call, shown=shown)
    out, result = layered(code, options=options)
    assert (out, result.ended) == ("raised 4\n", "finished")


def test_arguments_that_are_wrong_are_refused_before_anybody_waits():
    for options in ({}, {"group": 2}):
        code = "if comm.rank == 3:\n    try: comm.bcast(1, root=7)\n    except MPI.Exception: pass\n"
        assert layered(code + "print(comm.allreduce(1))", options=options)[0] == "4\n" * 4


BAD = {
    "MPI.Win.Create(np.zeros(2), {}, comm=comm)": ("8", "-1"),
    "MPI.Win.Allocate(8, {}, comm=comm)": ("8", "'a'"),
    "win.Fence({})": ("0", "1 << 20"),
    "comm.Split({}, 0)": ("0", "-5"),
    "comm.Split(0, {})": ("0", "'a'"),
    "comm.Split({}, 1)": ("0", "1 << 80"),
    "comm.Split_type({})": ("MPI.COMM_TYPE_SHARED", "77"),
    "comm.Create({})": ("comm.group", "MPI.GROUP_NULL"),
    "comm.Dup({})": ("None", "7"),
    "file.Set_view({}, MPI.BYTE)": ("0", "-1"),
    "file.Set_size({})": ("9", "-9"),
    "file.Write_at_all(0, {})": ("b''", "7"),
    "MPI.File.Open(comm, 'other', {})": ("MPI.MODE_CREATE | MPI.MODE_RDWR", "0"),
    "comm.Scatter(np.zeros(4), np.zeros(1), {})": ("0", "9"),
}
"""Calls with one argument left out; a good one, and one that is wrong."""

ONE_IS_WRONG = """
win = MPI.Win.Create(np.zeros(2), 8, comm=comm)
file = MPI.File.Open(comm, "file", MPI.MODE_CREATE | MPI.MODE_RDWR)
if comm.rank == 1 and {dies}: os.kill(os.getpid(), 9)
if comm.rank == 3:
    try: {bad}
    except Exception as error: print(type(error).__name__)
if comm.rank != 3 or {again}: {good}
print(comm.allreduce(1))
"""


@pytest.mark.sampled
@pytest.mark.parametrize("dies", [False, True], ids=["all live", "one dies"])
@pytest.mark.parametrize("call", BAD)
def test_an_argument_that_is_wrong_at_one_rank_keeps_no_other_from_the_call(call, dies, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good, bad = map(call.format, BAD[call])
    again = not call.startswith("comm.Dup")  # which finds out when all have agreed
    out, result = layered(ONE_IS_WRONG.format(good=good, bad=bad, dies=dies, again=again))
    assert result.ended == "finished", result.report
    said, *totals = sorted(out.split(), reverse=True)
    assert said in ("Exception", "TypeError", "OverflowError", "AttributeError", "ValueError")
    assert totals == ["3"] * 3 if dies else ["4"] * 4
    if again:
        for told in ({}, {"resilience": None}):
            wanted = layered(ONE_IS_WRONG.format(good=good, bad=bad, dies=dies and not told, again=False), **told)[1]
            assert wanted.ended == "stalled"


def test_an_operation_that_is_begun_again_in_vain_is_an_error_of_the_fence():
    code = """
win = MPI.Win.Create(np.zeros(4), 8, comm=comm)
win.Fence(); win.Put(np.ones(1), 1)
if comm.rank == 1: os.kill(os.getpid(), 9)
for _ in range(2):
    try: win.Fence(); print("went on")
    except MPI.Exception as error: print(error.Get_error_class() == MPI.ERR_PROC_FAILED)
print(comm.allreduce(1))
"""
    out, result = layered(code, options={"put": "raise"})
    assert (sorted(out.split("\n")), result.ended) == (["", *"333", *["True"] * 3, *["went on"] * 3], "finished")


@pytest.mark.parametrize("stored", [{}, {"storage.latency": "1ms", "storage.bandwidth": "1GB/s"}])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_file_without_a_name_goes_on_over_a_repair(stored, shards: int, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = """
file = MPI.File.Open(comm, "scratch", MPI.MODE_CREATE | MPI.MODE_RDWR)
file.Set_view(1)
file.Write_at_all(comm.rank, b"%d" % comm.rank)
if comm.rank == 0:
    os.unlink("scratch")
    with open("scratch", "w") as other: other.write("another file")
if comm.rank == 1: os.kill(os.getpid(), 9)
comm.Barrier()
file.Write_at_all(4 + comm.rank, b"%d" % comm.rank)
got = bytearray(8)
file.Read_at_all(0, got)
file.Close()
print(bytes(got), open("scratch").read())
"""
    out, result = layered(code, set=dict(stored), shards=shards)
    assert (out, result.ended) == ("b'01230\\x0023' another file\n" * 3, "finished")


def test_threads_that_wait_leave_the_error_handler_as_the_program_sets_it():
    code = """
import threading
comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)
if comm.rank == 0:
    threads = [threading.Thread(target=comm.recv, kwargs={"source": source}) for source in (1, 2)]
    for each in threads: each.start()
    time.sleep(0.5)
    print(comm.Get_errhandler() == MPI.ERRORS_ARE_FATAL)
    threads[0].join()
    print(comm.Get_errhandler() == MPI.ERRORS_ARE_FATAL)
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    threads[1].join()
    print(comm.Get_errhandler() == MPI.ERRORS_RETURN)
else:
    time.sleep(comm.rank)
    comm.send(None, 0)
"""
    out, result = layered(code, ranks=3)
    assert (out, result.ended) == ("True\n" * 3, "finished")


@pytest.mark.parametrize("options", [{}, {"group": 2}], ids=["flat", "by levels"])
def test_a_revocation_concerns_messages_and_no_covered_call(options):
    code = """
request = comm.irecv(source=0) if comm.rank == 3 else None
if comm.rank == 0: comm.Revoke()
total = comm.allreduce(1)
def revoked(call):
    try: call()
    except MPI.Exception as error: return error.Get_error_class() == MPI.ERR_REVOKED
if comm.rank == 3: print(total, revoked(request.wait), revoked(lambda: comm.send(1, 0)), comm.Dup().bcast("data"))
else: comm.Dup().bcast("data")
"""
    out, result = layered(code, options=options)
    assert (out, result.ended) == ("4 True True data\n", "finished")


def test_the_mark_of_a_part_that_an_error_ends_has_an_end(monkeypatch):
    marks: list[tuple[object, ...]] = []
    monkeypatch.setattr(alias.current, "running", lambda: SimpleNamespace(clock_ps=7))
    trace = SimpleNamespace(mark=lambda *mark: marks.append(mark))
    comm = SimpleNamespace(fabric=SimpleNamespace(trace=trace), box=SimpleNamespace(rank=SimpleNamespace(number=1)))
    with pytest.raises(KeyboardInterrupt), alias.traced_phase(comm, "repair"):  # type: ignore[arg-type]
        raise KeyboardInterrupt
    assert marks == [(1, 7, "begin", "repair"), (1, 7, "end", "repair")]


@pytest.mark.parametrize("options", [{}, {"group": 2}, {"group": 4}], ids=["flat", "by twos", "by fours"])
@pytest.mark.parametrize(("who", "root"), [(0, 0), (1, 0), (1, 1), (3, 0), (5, 5)])
def test_who_leaves_a_reduction_by_an_exception_leaves_no_mismatch(options, who, root):
    code = f"""
def fail(*operands):
    if comm.rank == {who}: raise ValueError("here")
    return 1
said = []
for reduce in (lambda: comm.reduce(1, op=fail, root={root}),
               lambda: comm.Reduce(np.zeros(1), np.zeros(1), op=MPI.Op.Create(lambda *buffers: fail()), root={root})):
    try: reduce()
    except ValueError as error: said.append(str(error))
    comm.Barrier()
print(comm.rank, *said, comm.bcast("on", root=0), comm.allreduce(1))
"""
    out, result = layered("import numpy as np\n" + code, ranks=7, options=options)
    lines = sorted(out.splitlines())
    if (who, root, options.get("group")) == (1, 1, 4):  # rank 3 needs what rank 1 would hand on of the result
        assert result.ended == "stalled"
        assert "Comm.reduce, left by ValueError: Comm.Agree on MPI_COMM_WORLD: rank 3" in result.report
        return
    assert (result.ended, [line.split()[0] for line in lines]) == ("finished", list("0123456"))
    assert all(line.endswith(" on 7") for line in lines)
    raised = [rank for rank, line in enumerate(lines) if "here" in line]
    assert raised == [who] if who == 0 else raised in ([], [who])  # ranks without a partner above combine nothing


NEEDED = """
def add(a, b):
    if comm.rank == {who}: raise ValueError("here")
    return a + b
try: print(comm.rank, comm.{call}(1, op=add))
except {caught} as error: print(comm.rank, error)
{then}
"""
"""A reduction in whose function one rank raises an exception, which it catches or not."""


@pytest.mark.parametrize("options", [{}, {"group": 2}], ids=["flat", "by levels"])
def test_the_exception_of_a_rank_that_others_need_comes_out_and_they_go_on(options):
    code = "print(comm.rank, comm.allreduce(None if comm.rank == 1 else 1))"
    out, result = layered(code, options=options)
    assert out.count("\nTypeError: unsupported operand") == 2
    assert sorted(line for line in out.splitlines() if line[0].isdigit()) == ["2 2", "3 2"]
    assert (result.ended, [failure["rank"] for failure in result.failures]) == ("finished", [0, 1])
    code = NEEDED.format(who=2, call="allreduce", caught="KeyError", then="")
    runs = [layered(code, ranks=7, options=options, shards=shards) for shards in (1, 2, 3, 7)]
    assert len({(out, result.ended, result.digest) for out, result in runs}) == 1
    assert "\nValueError: here" in runs[0][0]
    assert sum(line.endswith(" 6") for line in runs[0][0].splitlines()) == 6


@pytest.mark.parametrize("options", [{}, {"group": 2}], ids=["flat", "by levels"])
def test_a_stall_after_an_exception_that_was_caught_names_the_call_and_the_exception(options):
    code = NEEDED.format(who=0, call="allreduce", caught="ValueError", then="comm.Barrier()")
    out, result = layered(code, options=options)
    assert (out, result.ended) == ("0 here\n", "stalled")
    assert "Comm.allreduce, left by ValueError: Comm.Agree on MPI_COMM_WORLD: ranks 1, 2 of" in result.report


@pytest.mark.parametrize("then", ["", "assert comm.allreduce(1) == 3"], ids=["its last call", "and another"])
@pytest.mark.parametrize("options", [{}, {"group": 2}], ids=["flat", "by levels"])
def test_who_has_left_a_call_takes_part_when_a_failure_has_it_made_again(options, then):
    code = NEEDED.format(who=0, call="reduce", caught="ValueError", then=then)
    out, result = layered(code, options=options, fail="rank=3@0us")
    assert (sorted(out.splitlines()), result.ended) == (["0 here", "1 None", "2 None"], "finished")


def test_what_reaches_others_is_refused_on_a_communicator_of_one_process_too():
    code = """
part = comm.Split(comm.rank % 2)
for call in (lambda: part.Create_intercomm(0, comm, 1 - comm.rank % 2), lambda: MPI.COMM_SELF.Accept("port")):
    try: call()
    except NotImplementedError as error: print(str(error).partition(":")[0])
comm.Barrier()
"""
    out, result = layered(code, ranks=3)
    assert (sorted(out.split()), result.ended) == (["Comm.Accept"] * 3 + ["Comm.Create_intercomm"] * 3, "finished")


@pytest.mark.parametrize("dies", [False, True], ids=["all live", "one dies"])
def test_processes_that_one_process_has_started_disconnect(dies, tmp_path):
    child = tmp_path / "child.py"
    text = "import os\nfrom mpi4py import MPI\nparent = MPI.Comm.Get_parent(); MPI.COMM_WORLD.Barrier()\n"
    text += "if MPI.COMM_WORLD.rank == 0: parent.send('hello', 0)\n"
    child.write_text(text + f"elif {dies}: os.kill(os.getpid(), 9)\nparent.Disconnect(); print('child')\n")
    code = f"""
if comm.rank == 0:
    children = MPI.COMM_SELF.Spawn({sys.executable!r}, [{str(child)!r}], maxprocs=2)
    print(children.recv(source=0)); children.Disconnect()
print(comm.allreduce(1))
"""
    out, result = layered(code, ranks=2)
    assert (sorted(out.split()), result.ended) == (["2", "2", *["child"] * (2 - dies), "hello"], "finished")


def test_the_handler_of_a_file_sees_no_failure_that_is_repaired(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = """
file = MPI.File.Open(comm, "file", MPI.MODE_CREATE | MPI.MODE_WRONLY)
file.Set_errhandler(MPI.File.Create_errhandler(lambda file, code: print("seen")))
if comm.rank == 1: os.kill(os.getpid(), 9)
file.Set_size(8); print(file.Get_size())
"""
    out, result = layered(code)
    assert (out, result.ended) == ("8\n" * 3, "finished")


def test_a_buffered_send_to_a_dead_process_is_skipped_as_any_other():
    code = """
if comm.rank == 1: time.sleep(1e-6); os.kill(os.getpid(), 9)
MPI.Attach_buffer(bytearray(1 << 21))
if comm.rank == 0: comm.Bsend(np.zeros(1 << 17), 1)
MPI.Detach_buffer(); print("went on")
"""
    for how, said in {"skip": ["went on"] * 2, "raise": ["went on"]}.items():
        out, _ = layered(code, ranks=3, options={"send": how})
        assert [line for line in out.splitlines() if line == "went on"] == said


@pytest.mark.parametrize("call", ["Probe", "Mprobe", "Iprobe", "Improbe"])
def test_who_stops_in_a_probe_says_in_which(call: str):
    code = f"""
if comm.rank == 1: os.kill(os.getpid(), 9)
try:
    while not comm.{call}(1): pass
except KeyboardInterrupt as stop: print(stop)
"""
    out, result = layered(code, ranks=2, options={"recv": "stop"})
    assert out.startswith(f"Comm.{call} on MPI_COMM_WORLD: MPI_ERR_PROC_FAILED"), result.report
