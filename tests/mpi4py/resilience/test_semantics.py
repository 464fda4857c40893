"""The table of the guide, option by option: each row is run, and shows what it says."""

import dataclasses
import re
from itertools import product

import pytest

from tests.campaign import CAMPAIGN
from tests.cases import ROOT
from tests.mpi4py.resilience.layered import DIE, layered
from xsim_py.config import ResilienceSpec

pytestmark = pytest.mark.usefixtures("in_this_process")

GUIDE = ROOT / "docs" / "guides" / "legio-and-non-collective-repair.md"

ASK = """
def show(call, kept=None):
    try:
        call()
    except KeyboardInterrupt:
        return "SIGINT"
    except MPI.Exception as error:
        return "MPI_ERR_PROC_FAILED" if error.Get_error_class() == MPI.ERR_PROC_FAILED else str(error)
    return "nothing" if kept is None or np.array_equal(kept, before) else "something"
before = np.full(2, -1.0)
buf = before.copy()
said = [{calls}]
if comm.rank == 0: print(said)
"""
"""What became of some calls that need rank 1, at rank 0: an exception, or nothing, and then its buffer is untouched."""

CALLS = {
    "broadcast": "show(lambda: comm.Bcast(buf, 1), buf), show(lambda: comm.bcast(None, 1))",
    "reduce": "show(lambda: comm.Reduce(buf, None, root=1), buf), show(lambda: comm.reduce(1, root=1))",
    "gather": "show(lambda: comm.Gather(buf, None, 1), buf), show(lambda: comm.gather(1, 1))",
    "scatter": "show(lambda: comm.Scatter(None, buf, 1), buf), show(lambda: comm.scatter(None, 1))",
    "send": "show(lambda: comm.Send(buf, 1)), show(lambda: comm.isend(1, 1).wait()), show(lambda: comm.ssend(1, 1)), "
    "show(lambda: comm.Send_init(buf, 1).Start() or comm.Send(np.zeros(9**6), 1))",
    "recv": "show(lambda: comm.Recv(buf, 1), buf), show(lambda: comm.irecv(source=1).wait()), "
    "show(lambda: comm.Sendrecv(buf, 0, 0, np.zeros(2), 1)), show(lambda: comm.Probe(1))",
    "put": "show(lambda: win.Put(buf, 1))",
    "get": "show(lambda: win.Get(buf, 1), buf)",
}
SIGNS = {"skip": "nothing", "stop": "SIGINT", "raise": "MPI_ERR_PROC_FAILED"}

OTHERS = {
    (
        "any_source",
        "raise",
    ): """
if comm.rank == 2: time.sleep(1); comm.send("late", 0)
if comm.rank == 0:
    for _ in range(2):
        try: print(comm.recv())
        except MPI.Exception as error: print(error.Get_error_class() == MPI.ERR_PROC_FAILED)
""",
    (
        "any_source",
        "wait",
    ): """
if comm.rank == 2: time.sleep(1); [comm.send("late", 0) for _ in range(2)]
if comm.rank == 0: print(comm.recv()); print(comm.irecv().wait())
""",
    (
        "gather_shift",
        "false",
    ): """
all = np.full(4, -1.0)
comm.Gather(np.full(1, 1.0 * comm.rank), all); found = comm.gather(comm.rank)
if comm.rank == 0: print(all, found)
""",
    (
        "scatter_shift",
        "false",
    ): """
mine = np.zeros(1)
comm.Scatter(np.arange(4.0), mine); found = comm.scatter([0, 1, 2, 3])
if comm.rank == 3: print(mine, found)
""",
    ("missing", "nan"): """
halves = MPI.DOUBLE.Create_struct([1, 1], [0, 8], [MPI.DOUBLE, MPI.INT]).Create_resized(0, 16).Commit()
all, pairs = np.full(4, -1.0), np.full((4, 4), -1, "i")
comm.Gather(np.full(1, 1.0 * comm.rank), all); comm.Gather([np.full(4, comm.rank, "i"), 1, halves], [pairs, 1, halves])
if comm.rank == 0: print(all, pairs[1, 2:], pairs[1].view(float)[0])
""",
    ("missing", "zero"): """
all = np.full(4, -1.0)
comm.Gather(np.full(1, 1.0 * comm.rank), all)
if comm.rank == 0: print(all)
""",
    ("group", "flat"): "print(comm.allreduce(comm.rank))",
    ("group", "2"): "print(comm.allreduce(comm.rank))",
}
OTHERS["missing", "none"] = OTHERS["missing", "zero"]
OTHERS["gather_shift", "true"] = OTHERS["gather_shift", "false"]
OTHERS["scatter_shift", "true"] = OTHERS["scatter_shift", "false"]
SHOWN = {
    ("any_source", "raise"): "True\nlate\n",
    ("any_source", "wait"): "late\nlate\n",
    ("gather_shift", "false"): "[ 0. nan  2.  3.] [0, None, 2, 3]\n",
    ("gather_shift", "true"): "[ 0.  2.  3. nan] [0, 2, 3]\n",
    ("missing", "nan"): "[ 0. nan  2.  3.] [ 0 -1] nan\n",
    ("missing", "zero"): "[0. 0. 2. 3.]\n",
    ("missing", "none"): "[ 0. -1.  2.  3.]\n",
    ("scatter_shift", "false"): "[3.] 3\n",
    ("scatter_shift", "true"): "[2.] 2\n",
    ("group", "flat"): "5\n" * 3,
    ("group", "2"): "5\n" * 3,
}


def rows() -> list[tuple[str, str, bool]]:
    """The options and values of the guide's table, and which of them are said to be defaults."""
    text = GUIDE.read_text().partition("## The transparent layer")[2]
    cells = re.findall(r"^\| `(\w+)` \| `(\w+)`( \(default\))? \|", text, re.MULTILINE)
    return [(option, value, bool(default)) for option, value, default in cells]


def test_the_table_has_every_option_with_every_value_and_its_default():
    spec = ResilienceSpec()
    values = {option: {value for name, value, _ in rows() if name == option} for option, _, _ in rows()}
    defaults = {option: value for option, value, default in rows() if default}
    assert {*values, "type"} == {field.name for field in dataclasses.fields(spec)}
    for option, value in defaults.items():
        known = getattr(spec, option)
        assert value == {None: "flat", False: "false"}.get(known, known)
    assert set(defaults) == set(values)
    assert all(values[option] == {"skip", "stop", "raise"} for option in CALLS)
    assert set(OTHERS) == {(option, value) for option, value, _ in rows() if option not in CALLS}


@pytest.mark.parametrize(("option", "value"), [row[:2] for row in rows()])
def test_a_row_of_the_table_shows_what_it_says(option: str, value: str):
    options = {} if value == "flat" else {option: value}
    if option in CALLS:
        window = "win = MPI.Win.Create(np.zeros(2), 8, comm=comm); win.Fence()\n" if option in ("put", "get") else ""
        code = window + DIE + "comm.Barrier()\n" + ASK.replace("{calls}", CALLS[option])
        out, _ = layered(code, options=options)
        assert out == f"{[SIGNS[value]] * CALLS[option].count('show(')}\n"
    else:
        out, result = layered(DIE + "comm.Barrier()\n" + OTHERS[option, value], options=options)
        assert result.ended == "finished"
        assert out == SHOWN[option, value]
        assert bool(result.warnings) == ((option, value) == ("missing", "none"))


MEMORY = "seen = np.full(4, -1.0); win = MPI.Win.Create(seen, 8, comm=comm); win.Fence()\n"
FILE = "file = MPI.File.Open(comm, 'file', MPI.MODE_CREATE | MPI.MODE_RDWR)\n"
FLAGS = "MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE"
COVERED = {
    "Barrier": ("", "comm.Barrier(), comm.barrier()", "None None"),
    "Bcast": ("buf = np.full(1, me)", "comm.Bcast(buf, 3), int(buf[0]), comm.bcast(me, 2)", "None 3 2"),
    "Reduce": (
        "buf = np.zeros(1, int)",
        "comm.Reduce(np.full(1, me), buf, root=2), int(buf[0]) if me == 2 else 5, comm.reduce(me, root=2) or 5",
        "None 5 5",
    ),
    "Allreduce": (
        "buf = np.zeros(1, int)",
        "comm.Allreduce(np.full(1, me), buf), int(buf[0]), comm.allreduce(me, MPI.MAX)",
        "None 5 3",
    ),
    "Gather": (
        "buf = np.full(4, 9)",
        "comm.Gather(np.full(1, me), buf, 3), sum(buf) if me == 3 else 5, len(comm.gather(me, 3) or 'four')",
        "None 5 4",
    ),
    "Scatter": (
        "buf = np.zeros(1, int)",
        "comm.Scatter(np.arange(4), buf, 2), int(buf[0]) - me, comm.scatter([0, 1, 2, 3], 2) - me",
        "None 0 0",
    ),
    "Scan": (
        "buf = np.zeros(1, int); below = [0, 0, 2, 5][me]",
        "comm.Scan(np.full(1, me), buf), int(buf[0]) - below, comm.scan(me) - below",
        "None 0 0",
    ),
    "Dup": ("", "comm.Dup().size, comm.Dup().allreduce(1)", "4 3"),
    "Split": ("part = comm.Split(0, -me)", "part.size, part.allreduce(me), part.rank - [2, 0, 1, 0][me]", "3 5 0"),
    "Split_type": ("", "comm.Split_type(MPI.COMM_TYPE_SHARED).size", "1"),
    "Create": ("part = comm.Create(comm.group)", "part.size, part.allreduce(me)", "3 5"),
    "Disconnect": ("twin = comm.Dup()", "twin.Disconnect(), twin == MPI.COMM_NULL", "None True"),
    "Create_group": ("comm.Barrier()", "comm.Create_group(comm.group).allreduce(me)", "5"),
    "Create_from_group": ("comm.Barrier()", "MPI.Intracomm.Create_from_group(comm.group).allreduce(me)", "5"),
    "Win.Create": ("", "MPI.Win.Create(np.zeros(1), comm=comm).group_size", "4"),
    "Win.Allocate": ("", "MPI.Win.Allocate(8, comm=comm).group_size", "4"),
    "Fence": ("", "win.Fence(), win.Fence()", "None None"),
    "Put": (
        "",
        "win.Put(np.full(1, 1.0 * me), (me + 2) % 4, 1), win.Fence(), seen[1] in (me - 2, me + 2, -1)",
        "None None True",
    ),
    "Get": (
        "comm.Barrier(); seen[:] = me; win.Fence(); got = np.zeros(1)",
        "win.Get(got, 3), win.Fence(), got[0]",
        "None None 3.0",
    ),
    "Win.Free": ("", "win.Free(), win == MPI.WIN_NULL", "None True"),
    "File.Open": ("", f"MPI.File.Open(comm, 'other', {FLAGS}).Close()", "None"),
    "Set_view": ("file.Set_view(8 * me)", "file.Write_all(b'x'), file.Get_position(), file.Get_size()", "None 1 25"),
    "Close": ("", "file.Write_at_all(0, b'x'), file.Close()", "None None"),
}
"""What comes before a call that meets a death, the call, and what those who are left print."""


def test_the_table_of_what_is_covered_has_these_calls():
    text = GUIDE.read_text().partition("### Covered calls")[2].partition("###")[0]
    cells = re.findall(r"^\| (`[A-Z].*?) \|", text, re.MULTILINE)
    assert {name for cell in cells for name in re.findall("`(.*?)`", cell)} == set(COVERED)


@pytest.mark.parametrize(
    ("name", "group"),
    [pair for at, pair in enumerate(product(COVERED, [None, 2])) if CAMPAIGN or at % 4 in (0, 3)],
)
def test_a_call_that_is_covered_goes_on_without_the_dead(name: str, group: int | None, tmp_path, monkeypatch):
    """By levels in groups of two, or flat."""
    monkeypatch.chdir(tmp_path)
    before, call, shown = COVERED[name]
    opened = MEMORY if "win." in call else FILE if "file." in call else ""
    options = {"group": group} if group else {}
    out, result = layered(f"me = comm.rank\n{opened}{DIE}{before}\nprint({call})", options=options)
    assert (out, result.ended) == (f"{shown}\n" * 3, "finished")


def test_a_process_that_stops_says_why():
    out, result = layered(DIE + "comm.bcast(1, root=1)")
    assert "KeyboardInterrupt: Comm.bcast on MPI_COMM_WORLD: its root, rank 1, has failed" in out
    assert [failure["rank"] for failure in result.failures] == [1, 0, 2, 3]
    handler = "import signal; signal.signal(signal.SIGINT, lambda *_: print('asked to stop'))\n"
    out, result = layered(handler + DIE + "print(comm.bcast(comm.rank, root=1))")
    assert result.ended == "finished"
    assert sorted(out.split("\n")) == ["", "0", "2", "3", *["asked to stop"] * 3]
