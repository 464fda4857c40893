"""What a rank changes in `sys.modules`, `sys.meta_path` and `builtins` holds for that rank."""

import builtins
import sys
from pathlib import Path

from tests.process.launch import launch


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
