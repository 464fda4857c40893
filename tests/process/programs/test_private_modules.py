"""Each rank has its own copy of the program's modules, wherever the program finds them."""

import importlib
import py_compile
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.process.launch import launch, simulated, write
from xsim_py.process.programs import private_modules

COUNTING = """
    calls = []
    def call(rank):
        calls.append(rank)
        return calls
"""


def test_a_module_beside_the_program_has_globals_for_each_rank(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import helper
        helper.call(rank)
        comm.Barrier()
        helper.call(rank)
        comm.Barrier()
        print(helper.calls)
        """,
        ranks=3,
        files={"helper.py": COUNTING},
    )
    assert done.lines == ["[0, 0]", "[1, 1]", "[2, 2]"]


@pytest.mark.parametrize(("ranks", "own"), [(64, True), (65, False)])
def test_few_ranks_execute_code_of_their_own(tmp_path: Path, ranks: int, own: bool):
    done = launch(
        tmp_path,
        """
        import sys, helper
        here = id(helper.call.__code__), id(sys._getframe().f_code)
        comm.Barrier()
        print(*here, helper.call.__code__.co_filename)
        """,
        ranks=ranks,
        files={"helper.py": COUNTING},
    )
    modules, mains, files = zip(*map(str.split, done.lines), strict=True)
    assert [len(set(modules)), len(set(mains))] == [ranks if own else 1] * 2
    assert set(files) == {str(tmp_path / "helper.py")}


def test_a_rank_that_has_ended_leaves_its_modules_to_nobody(tmp_path: Path):
    done = launch(tmp_path, "import helper; print(helper.call(rank))", ranks=3, files={"helper.py": COUNTING})
    assert done.lines == ["[0]", "[1]", "[2]"]
    assert "helper" not in sys.modules


def test_packages_relative_and_late_imports_are_private(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import package.deep.leaf
        from package import sibling
        def late():
            from package.deep import later
            return later.call(rank)
        comm.Barrier()
        package.deep.leaf.call(rank)
        sibling.call(rank)
        comm.Barrier()
        print(package.deep.leaf.calls, sibling.calls, late(), package.deep.leaf.sibling is sibling)
        """,
        ranks=2,
        files={
            "package/__init__.py": "",
            "package/sibling.py": COUNTING,
            "package/deep/__init__.py": "",
            "package/deep/leaf.py": "from .. import sibling\n" + "calls = []\ndef call(rank): calls.append(rank)\n",
            "package/deep/later.py": COUNTING,
        },
    )
    assert done.lines == ["[0] [0] [0] True", "[1] [1] [1] True"]


def test_a_folder_without_init_is_a_private_package_too(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import loose.helper
        comm.Barrier()
        loose.helper.call(rank)
        comm.Barrier()
        print(loose.helper.calls)
        """,
        ranks=2,
        files={"loose/helper.py": COUNTING},
    )
    assert done.lines == ["[0]", "[1]"]


@pytest.mark.parametrize("isolation", ["greenlets", "process"])
def test_such_a_package_has_resources_and_a_path_that_follows(tmp_path: Path, isolation: str):
    """As litebird_sim keeps its tables in one."""
    done = launch(
        tmp_path,
        """
        import sys
        from importlib.resources import files
        import loose
        folder = files("loose")
        print(type(folder).__name__, (folder / "deep" / "text.txt").read_text(), type(loose.__path__).__name__)
        sys.path.insert(0, __file__.replace("prog.py", f"more{rank}"))
        print(len(loose.__path__), loose.__file__, sorted(each.name for each in files("loose").iterdir()))
        """,
        ranks=2,
        files={"loose/deep/text.txt": "words", "more0/loose/a.txt": "", "more1/loose/b.txt": ""},
        isolation=isolation,
    )
    first = "MultiplexedPath words _NamespacePath"
    assert sorted(done.lines) == ["2 None ['a.txt', 'deep']", "2 None ['b.txt', 'deep']", first, first]


def test_a_module_that_the_program_finds_elsewhere_is_private(tmp_path: Path):
    done = launch(
        tmp_path / "programs",
        """
        import os, sys
        sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "library"))
        import helper
        helper.call(rank)
        comm.Barrier()
        print(helper.calls, len([entry for entry in sys.path if entry.endswith("library")]))
        """,
        ranks=3,
        files={"../library/helper.py": COUNTING},
    )
    assert done.lines == ["[0] 1", "[1] 1", "[2] 1"]


def test_ranks_may_find_different_modules_under_one_name(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import os, sys
        sys.path.insert(0, os.path.join(os.path.dirname(__file__), f"variant{rank}"))
        import helper
        print(helper.name)
        """,
        ranks=2,
        files={"variant0/helper.py": "name = 'zero'", "variant1/helper.py": "name = 'one'"},
    )
    assert done.lines == ["zero", "one"]


def test_installed_packages_are_shared(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import sys
        sys.path.append(__file__.rsplit("/", 1)[0] + "/venv/lib/site-packages")
        import installed, json.decoder
        installed.calls.append(rank)
        comm.Barrier()
        print(installed.calls, id(json.decoder))
        """,
        ranks=2,
        files={"venv/lib/site-packages/installed.py": COUNTING},
    )
    try:
        first, second = done.lines
        assert first == second
        assert first.startswith("[0, 1]")
    finally:
        del sys.modules["installed"]


def test_reload_executes_the_module_of_one_rank_again(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import importlib, helper
        helper.call(rank)
        comm.Barrier()
        if rank == 1:
            assert importlib.reload(helper) is helper
        comm.Barrier()
        print(helper.calls)
        """,
        ranks=2,
        files={"helper.py": COUNTING},
    )
    assert done.lines == ["[0]", "[]"]


def test_reload_sees_a_changed_file(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import importlib, pathlib
        path = pathlib.Path(__file__).with_name("written.py")
        try:
            import written
        except ModuleNotFoundError:
            print("not yet")
        comm.Barrier()
        if rank == 0:
            path.write_text("value = 'first'")
        comm.Barrier()
        importlib.invalidate_caches()
        import written
        print(written.value)
        comm.Barrier()
        if rank == 0:
            path.write_text("value = 'second one'")
        comm.Barrier()
        print(importlib.reload(written).value)
        """,
        ranks=2,
    )
    assert sorted(done.lines) == ["first", "first", "not yet", "not yet", "second one", "second one"]


def test_a_failed_import_leaves_nothing_behind(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import sys
        try:
            import broken
        except ZeroDivisionError:
            pass
        comm.Barrier()
        print("broken" in sys.modules)
        """,
        ranks=2,
        files={"broken.py": "value = 1 / 0"},
    )
    assert done.lines == ["False", "False"]


def test_a_module_may_put_something_else_in_its_place(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import helper
        comm.Barrier()
        import sys
        print(helper, sys.modules["helper"])
        """,
        ranks=2,
        files={"helper.py": "import sys; sys.modules[__name__] = 'replaced'"},
    )
    assert done.lines == ["replaced replaced"] * 2


def test_a_module_may_communicate_while_it_is_imported(tmp_path: Path):
    done = launch(
        tmp_path,
        "import helper; print(helper.total, helper.rank)",
        ranks=3,
        files={
            "helper.py": """
            from mpi4py import MPI
            rank = MPI.COMM_WORLD.rank
            total = MPI.COMM_WORLD.allreduce(rank)
            import second
            """,
            "second.py": "from mpi4py import MPI; MPI.COMM_WORLD.Barrier()",
        },
    )
    assert sorted(done.lines) == ["3 0", "3 1", "3 2"]


def test_a_program_is_not_found_under_its_own_name_unless_imported(tmp_path: Path):
    """As in a real process: importing the program makes a second copy of it."""
    done = launch(
        tmp_path,
        """
        import sys
        print(__name__, "prog" in sys.modules)
        if __name__ == "__main__":
            import prog
            print(prog.comm is comm, prog.__name__, sys.modules["__main__"].rank == rank)
        """,
        ranks=1,
    )
    assert done.lines[0] == "__main__ False"
    assert done.lines[1].startswith("prog True")
    assert done.lines[2].endswith("prog True")


def test_the_source_and_the_data_of_private_modules_can_be_read(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import importlib.resources, inspect, package, pkgutil
        print(inspect.getsource(package.function).strip())
        print(importlib.resources.files("package").joinpath("data.txt").read_text())
        print(pkgutil.get_data("package", "data.txt"))
        """,
        files={"package/__init__.py": "def function(): return 1\n", "package/data.txt": "figures"},
    )
    assert done.lines == ["def function(): return 1", "figures", "b'figures'"]


@pytest.mark.parametrize("shards", [1, 2])
def test_objects_of_own_classes_travel(tmp_path: Path, shards: int):
    done = launch(
        tmp_path,
        """
        from dataclasses import dataclass
        from enum import Enum
        import shapes
        @dataclass
        class Point:
            x: int
            made: list
        class Colour(Enum):
            RED = 1
        if rank == 0:
            comm.send([Point(1, []), Colour.RED, shapes.Circle(2)], dest=1)
        else:
            point, colour, circle = comm.recv(source=0)
            print(type(point) is Point, colour is Colour.RED, type(circle) is shapes.Circle, circle.area())
        """,
        ranks=2,
        shards=shards,
        files={
            "shapes.py": """
            class Circle:
                def __init__(self, r): self.r = r
                def area(self): return 3 * self.r**2
            """
        },
    )
    assert done.lines == ["True True True 12"]


def test_dash_m_runs_a_module_of_a_package_with_private_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(
        tmp_path,
        {
            "package/__init__.py": "calls = []",
            "package/helper.py": COUNTING,
            "package/tool.py": """
            import sys
            import package
            from . import helper
            from mpi4py import MPI
            rank = MPI.COMM_WORLD.rank
            package.calls.append(rank)
            helper.call(rank)
            MPI.COMM_WORLD.Barrier()
            print(__name__, __package__, package.calls, helper.calls, sys.argv[1:], sys.argv[0].endswith("tool.py"))
            """,
            "package/__main__.py": "from .helper import call; print(call(__name__))",
        },
    )
    monkeypatch.chdir(tmp_path)
    done = simulated("package.tool", kind="module", ranks=2, args=["-x", "1"])
    assert done.lines == [f"__main__ package [{rank}] [{rank}] ['-x', '1'] True" for rank in (0, 1)]
    assert simulated("package", kind="module", ranks=2).lines == ["['__main__']"] * 2
    assert not {"package", "package.helper", "package.tool"} & set(sys.modules)


def test_a_folder_runs_its_main(tmp_path: Path):
    write(tmp_path, {"app/__main__.py": "import near, sys; print(near.x, sys.argv)", "app/near.py": "x = 5"})
    assert simulated(tmp_path / "app", ranks=1).lines == [f"5 [{str(tmp_path / 'app')!r}]"]


def test_code_has_no_file_and_finds_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, {"near.py": COUNTING})
    monkeypatch.chdir(tmp_path)
    done = simulated(
        "import near, sys; print(near.call(1), sys.argv, '__file__' in globals(), __name__)",
        kind="code",
        ranks=2,
        args=["a"],
    )
    assert done.lines == ["[1] ['-c', 'a'] False __main__"] * 2


def test_relative_paths_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = "import near, sys; print(near.x, sys.argv[0], __file__)"
    write(tmp_path, {"sub/prog.py": text, "sub/near.py": "x = 5"})
    monkeypatch.chdir(tmp_path)
    assert simulated("sub/prog.py", ranks=1).lines == [f"5 sub/prog.py {tmp_path / 'sub' / 'prog.py'}"]


INSTALLED = {
    "site-packages/with_mpi/__init__.py": "from mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\n",
    "site-packages/with_mpi/deep.py": COUNTING,
    "site-packages/user.py": "import with_mpi\ncalls = []\n",
    "site-packages/plain.py": COUNTING,
    "own.py": COUNTING,
}
COUNTED = """
    import sys
    sys.path.append(__file__.replace("prog.py", "site-packages"))
    import with_mpi.deep, user, plain, own
    for module in (with_mpi.deep, user, plain, own):
        module.calls.append(rank)
    comm.Barrier()
    print(with_mpi.rank == rank, *(len(module.calls) for module in (with_mpi.deep, user, plain, own)))
"""


@pytest.mark.parametrize(
    ("told", "counts"),
    [
        ({}, [1, 1, 2, 1]),
        ({"private": "plain"}, [1, 1, 1, 1]),
        ({"private": "all-imported"}, [1, 1, 1, 1]),
        ({"set": {"process.private": "[plain]", "process.share": "[own]"}}, [1, 1, 1, 2]),
        ({"share": "with_mpi,user"}, [2, 2, 2, 1]),
    ],
)
def test_installed_packages_that_import_mpi4py_are_private_and_others_where_it_is_asked_for(
    tmp_path: Path, told: dict[str, Any], counts: list[int]
):
    before = set(sys.modules)
    done = launch(tmp_path, COUNTED, ranks=2, files=INSTALLED, **told)
    for name in {*sys.modules} - before:
        del sys.modules[name]
    assert [list(map(int, line.split()[1:])) for line in done.lines] == [counts] * 2
    assert [line.split()[0] for line in done.lines] == (["True"] * 2 if counts[0] == 1 else ["True", "False"])


class Touchy:
    def __getattr__(self, name: str) -> None:
        raise RuntimeError(name)


def test_what_is_in_packages_is_not_asked_whether_it_is_of_mpi4py():
    package = ModuleType("package")
    vars(package)["touchy"] = Touchy()
    assert not private_modules._holds_mpi(package)
    vars(package)["MPI"] = ModuleType("mpi4py.MPI")
    assert private_modules._holds_mpi(package)


@pytest.mark.parametrize("form", ["zip", "pyc"])
def test_modules_in_archives_and_without_sources_are_private(tmp_path: Path, form: str):
    write(tmp_path, {"made/helper.py": COUNTING})
    py_compile.compile(str(tmp_path / "made/helper.py"), cfile=str(tmp_path / "bare/helper.pyc"))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(tmp_path / "made/helper.py", "helper.py")
    place = {"zip": "all.zip", "pyc": "bare"}[form]
    done = launch(
        tmp_path,
        f"""
        import sys
        sys.path.insert(0, __file__.replace("prog.py", {place!r}))
        import helper
        helper.call(rank)
        comm.Barrier()
        print(helper.calls, {place!r} in helper.__file__, type(helper.__loader__).__name__)
        """,
        ranks=2,
    )
    kind = {"zip": "zipimporter", "pyc": "SourcelessFileLoader"}[form]
    assert done.lines == [f"[0] True {kind}", f"[1] True {kind}"]


def test_a_program_finds_nothing_that_its_host_has_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, {"counted_state.py": "n = 0"})
    monkeypatch.syspath_prepend(tmp_path)
    state = importlib.import_module("counted_state")
    for _ in range(2):
        done = launch(tmp_path, "import counted_state as s; s.n += 1; print(s.n)", ranks=2)
        assert done.lines == ["1", "1"]
    assert (sys.modules.pop("counted_state"), state.n) == (state, 0)
