"""What a rank changes in `sys.modules`, `sys.meta_path` and `builtins` holds for that rank."""

import builtins
import sys
from pathlib import Path

import pytest

from tests.process.launch import launch, simulated, write
from xsim_py.process.programs import program


def test_a_module_that_a_rank_makes_itself_is_its_own(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import importlib, importlib.util, pickle, sys
        spec = importlib.util.spec_from_file_location("made", __file__.replace("prog", "far/made"))
        made = sys.modules["made"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        comm.Barrier()
        found = comm.sendrecv(made.Thing(rank), 1 - rank, source=1 - rank)
        print(sys.modules["made"].rank, importlib.import_module("made") is made, type(found) is made.Thing, found.of)
        del sys.modules["made"]
        comm.Barrier()
        print("made" in sys.modules)
        """,
        ranks=2,
        files={
            "far/made.py": """
            from mpi4py import MPI
            rank = MPI.COMM_WORLD.rank
            class Thing:
                def __init__(self, of): self.of = of
            """
        },
    )
    assert sorted(done.lines) == ["0 True True 1", "1 True True 0", "False", "False"]
    assert "made" not in sys.modules


def test_a_shared_module_that_a_rank_covers_or_takes_out_is_there_for_the_others(tmp_path: Path):
    before = dict(sys.modules)
    done = launch(
        tmp_path,
        """
        import sys, json, colorsys
        from unittest import mock
        with mock.patch.dict(sys.modules, {"json": rank} if rank else {}):
            comm.Barrier()
            print(sys.modules["json"] is (rank or json))
        if rank:
            del sys.modules["colorsys"]
        comm.Barrier()
        print("colorsys" in sys.modules, sys.modules["json"] is json, len(sys.modules) == len(list(sys.modules)))
        import colorsys as again
        comm.Barrier()
        print(sys.modules["colorsys"] is again, again is colorsys)
        """,
        ranks=2,
    )
    assert sorted(done.lines) == sorted(["True"] * 2 + ["True True True", "False True True", "True True", "True False"])
    assert {name: sys.modules[name] for name in before} == before


def test_a_hook_is_of_the_rank_that_installs_it_and_stands_where_it_was_put(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import importlib.machinery, sys
        class Hook(importlib.machinery.SourceFileLoader):
            def __init__(self): pass
            def find_spec(self, name, path=None, target=None):
                if name in ("hooked", "made_up"):
                    return importlib.machinery.ModuleSpec(name, self, origin=f"/somewhere/site-packages/{name}.py")
            def create_module(self, spec): return None
            def exec_module(self, module):
                module.rank = MPI.COMM_WORLD.rank
        if rank < 2:
            sys.meta_path.insert(0, Hook())
        comm.Barrier()
        import hooked
        print(type(sys.meta_path[0]).__name__, hooked.rank, type(hooked.__loader__).__name__)
        sys.meta_path = [each for each in sys.meta_path if type(each) is not Hook]
        try:
            import made_up
        except ImportError:
            print("nobody finds it")
        """,
        ranks=3,
        files={"hooked.py": "rank = 'none'"},
    )
    hooked = [line for line in done.lines if line != "nobody finds it"]
    assert hooked[:2] == ["Hook 0 Hook", "Hook 1 Hook"]
    assert hooked[2].split()[1:] == ["none", "_PrivateLoader"]
    assert len(done.lines) == 6


def test_what_a_shared_module_does_to_the_tables_while_it_is_imported_it_does_for_all(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import sys
        sys.path.append(__file__.replace("prog.py", "site-packages"))
        if rank == 0:
            import shared_one
        comm.Barrier()
        import shared_two
        print(shared_two, sys.modules["shared_alias"], any(each == "finder" for each in sys.meta_path))
        """,
        ranks=2,
        files={
            "site-packages/shared_one.py": """
            import sys
            sys.modules["shared_two"] = "two"
            sys.modules["shared_alias"] = "alias"
            sys.meta_path.append("finder")
            """
        },
    )
    try:
        assert done.lines == ["two alias True"] * 2
    finally:
        for name in ("shared_one", "shared_two", "shared_alias"):
            del sys.modules[name]
        sys.meta_path.remove("finder")  # type: ignore[arg-type]


def test_builtins_that_a_rank_assigns_or_deletes_are_its_own(tmp_path: Path):
    real = print
    done = launch(
        tmp_path,
        """
        import builtins, helper
        show = print
        if rank:
            builtins.print = lambda *args: show("not", *args)
            builtins.mine = rank
        if rank == 2:
            del builtins.mine
            del builtins.ascii
        comm.Barrier()
        print("here", rank)
        helper.say(rank)
        comm.Barrier()
        show(rank, hasattr(builtins, "mine"), hasattr(builtins, "ascii"))
        """,
        ranks=3,
        files={"helper.py": "def say(rank): print('there', rank)"},
    )
    assert sorted(done.lines[:6]) == ["here 0", "not here 1", "not here 2", "not there 1", "not there 2", "there 0"]
    assert done.lines[6:] == ["0 False True", "1 True True", "2 False False"]
    assert builtins.print is real
    assert not hasattr(builtins, "mine")


LOOKS = """
import sys


def there():
    return "".join("-+"[f"mpi4py{name}" in sys.modules] for name in ("", ".rc", ".MPI"))
"""


@pytest.mark.parametrize("isolation", ["greenlets", "process"])
@pytest.mark.parametrize("shards", [1, 2])
def test_mpi4py_is_there_for_a_rank_once_the_rank_has_imported_it(tmp_path: Path, isolation: str, shards: int):
    """Libraries ask so whether they serve a program of MPI; a rank may wait before it imports it."""
    text = f"""{LOOKS}
import importlib.util
import time
from looks import there as there_too
number = int(__import__("os").environ["PMI_RANK"])
found = importlib.util.find_spec("mpi4py").name
time.sleep(number)
seen = [there(), there_too()]
import mpi4py
seen += [there(), hasattr(mpi4py, "MPI")]
time.sleep(number)
from mpi4py import MPI
seen += [there_too(), hasattr(mpi4py, "MPI"), MPI.COMM_WORLD.rank == number, found]
time.sleep(1)
seen += [there(), MPI is sys.modules["mpi4py.MPI"] is importlib.import_module("mpi4py.MPI")]
print(*seen)
"""
    write(tmp_path, {"prog.py": text, "looks.py": LOOKS})
    told = {"isolation": isolation} if isolation == "process" else {"shards": shards}
    done = simulated(tmp_path / "prog.py", ranks=4, **told)
    assert done.lines == ["--- --- ++- False +++ True True mpi4py +++ True"] * 4


def test_mpi4py_is_there_for_all_ranks_if_a_shared_module_imports_it(tmp_path: Path):
    text = f"{LOOKS}\nimport uses_mpi\nprint(there(), uses_mpi.rank())\n"
    uses = "from mpi4py import MPI\ndef rank():\n    return MPI.COMM_WORLD.rank\n"
    write(tmp_path, {"prog.py": text, "uses_mpi.py": uses})
    done = simulated(tmp_path / "prog.py", ranks=2, share="uses_mpi")
    sys.modules.pop("uses_mpi", None)
    assert done.lines == ["+++ 0", "+++ 1"]


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("'''It does.'''\nimport os.path as p, numpy as np\nX = 3\nfrom mpi4py import MPI", True),
        ("import mpi4py.MPI as MPI", True),
        ("import mpi4py\nprint(mpi4py.MPI)", False),
        ("import ase\nfrom mpi4py import MPI", False),
        ("import sys\nprint(sys.modules)\nfrom mpi4py import MPI", False),
        ("def main():\n    from mpi4py import MPI", False),
        ("", False),
    ],
)
def test_a_program_that_imports_mpi_first_of_all_cannot_look(text: str, begins: bool):
    """So for most programs nothing is done."""
    assert program._begins_with_mpi(compile(text, "prog.py", "exec")) is begins
