"""What ranks change for each other in packages that are there once for all of them is told, and caches are not."""

import argparse
import gc
import json
import pickle
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

from tests.process.launch import Launched, launch, simulated
from xsim_py.process.programs import shared_state, writing_lines
from xsim_py.process.programs.writing_lines import Flag, ProgramLines, flags, line_in_package

PACKAGE = """\
import json
count = 0
registry = []
settings = {}
_cache = {}
made = None
enabled = False
chosen = "nothing"

class Config:
    rank = None

class Settings:
    pass

class Counted:
    __count = 0
    def __init__(self):
        Counted.__count += 1

options = Settings()

def bump():
    global count
    count += 1

def enable():
    global enabled
    enabled = True

def choose(what):
    global chosen
    chosen = what

def use(key):
    global made
    if made is None:
        made = object()
    _cache[key] = made
    settings.setdefault("first", 1)

_owned = []
_kept = []

def own(what):
    _owned.append(what)
"""


@pytest.fixture(autouse=True)
def no_package_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("common_to_all", None)


def run(folder: Path, text: str, **told: Any) -> Launched:
    text = "import common_to_all as pkg\n" + dedent(text)
    path = f"import sys\nsys.path.insert(0, {str(folder / 'site-packages')!r})\n"
    return launch(folder, path + text, files={"site-packages/common_to_all.py": PACKAGE}, **{"ranks": 4, **told})


def names(launched: Launched) -> list[str]:
    return [line.split(", changed")[0].removeprefix("shared by ranks: ") for line in launched.result.warnings]


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("pkg.count = rank", "common_to_all.count"),
        ("setattr(pkg, 'new', rank)", "common_to_all.new"),
        ("pkg.bump()", "common_to_all.count"),
        ("pkg.Config.rank = rank", "common_to_all.Config.rank"),
        ("pkg.registry.append(rank)", "common_to_all.registry"),
        ("pkg.settings['rank'] = rank", "common_to_all.settings"),
        ("pkg.options.rank = rank", "common_to_all.options"),
        ("import json; json.rank = rank", "json.rank"),
        ("import math; math.rank = rank", "math.rank"),
        ("comm.Barrier(); pkg.Config.rank = rank", "common_to_all.Config.rank"),
        ("comm.Barrier(); pkg.settings['rank'] = rank", "common_to_all.settings"),
        ("pkg.count = 5; comm.Barrier(); pkg.count = 0", "common_to_all.count"),
        ("comm.Barrier(); pkg.choose('it')", "common_to_all.chosen"),
    ],
)
def test_what_each_rank_changes_is_told_once(tmp_path: Path, statement: str, name: str):
    assert names(run(tmp_path, statement)) == [name]


@pytest.mark.parametrize(
    "statement",
    [
        "pkg.count = 5",
        "pkg.use(rank)",
        "pkg.Counted()",
        "pkg.use(0)",
        "pkg.Config.rank = 'the same'",
        "before = pkg.count; pkg.count = rank; pkg.count = before",
        "import json.tool, numpy.ma",
        "comm.Barrier(); pkg.use(rank)",
        "comm.Barrier(); pkg.enable()",
    ],
)
def test_what_is_the_same_for_all_ranks_is_not_told(tmp_path: Path, statement: str):
    assert names(run(tmp_path, statement)) == []


def test_functions_that_numba_compiles_in_several_ranks_are_right_and_not_told(tmp_path: Path):
    text = """
        import numba, numpy
        @numba.njit
        def total(x):
            return x.sum()
        print(total(numpy.arange(3.0) + rank))
        """
    done = launch(tmp_path, text, ranks=2)
    assert (done.lines, done.err, names(done)) == (["3.0", "6.0"], "", [])


def test_a_warning_names_ranks_line_and_what_to_do(tmp_path: Path):
    (said,) = run(tmp_path, "if rank in (1, 2):\n    pkg.count = 7").result.warnings
    place = f"{tmp_path / 'prog.py'}:8"
    assert said == (
        f"shared by ranks: common_to_all.count, changed by ranks 1-2 at {place};"
        " use --private common_to_all or --isolation process"
    )


def test_the_line_of_a_package_that_changes_its_own_global_is_told(tmp_path: Path):
    (said,) = run(tmp_path, "comm.Barrier()\npkg.bump()\ncomm.Barrier()").result.warnings
    assert f"common_to_all.count, changed at {tmp_path / 'site-packages' / 'common_to_all.py'}:25" in said


def test_a_package_of_extension_modules_cannot_be_private(tmp_path: Path):
    (said,) = run(tmp_path, "import numpy\nif rank == 0:\n    numpy.of_rank_0 = 1").result.warnings
    assert said.endswith("; use --isolation process")


def test_what_a_function_sets_is_told_too():
    def program():
        if MPI.COMM_WORLD.rank == 0:
            argparse.of_rank_0 = 1

    (said,) = simulated(program, ranks=2).result.warnings
    assert said.startswith("shared by ranks: argparse.of_rank_0, changed by rank 0 at ")


def test_a_rank_that_is_alone_shares_nothing(tmp_path: Path):
    assert run(tmp_path, "pkg.bump(); pkg.count = rank", ranks=1).result.warnings == []
    assert run(tmp_path, "pkg.bump(); pkg.count = rank", ranks=2, isolation="process").result.warnings == []


def test_a_package_that_each_rank_has_for_itself_is_none_of_them(tmp_path: Path):
    folder = tmp_path / "site-packages" / "mine"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("import mpi4py\ncount = 0\n")
    (folder / "late.py").write_text("import mine\nmine.count += 1\n")
    assert run(tmp_path, "import mine\ncomm.Barrier()\nimport mine.late\ncomm.Barrier()").result.warnings == []


def test_a_name_is_told_once_for_all_processes(tmp_path: Path):
    assert names(run(tmp_path, "pkg.count = rank", isolation="process:2")) == ["common_to_all.count"]


def test_only_some_of_many_names_are_told(tmp_path: Path):
    told = run(tmp_path, "for n in range(20):\n    setattr(pkg, f'name{n}', rank)").result.warnings
    assert len(told) == 9
    assert told[-1] == "shared by ranks: 12 more names of packages"


def test_a_package_with_many_names_hides_none_of_the_others(tmp_path: Path):
    text = "import json\njson.of = rank\nfor n in range(20):\n    setattr(pkg, f'name{n}', rank)"
    told = run(tmp_path, text).result.warnings
    assert (len(told), told[7].split(",")[0]) == (9, "shared by ranks: json.of")


def test_modules_are_as_they_were_after_the_run(tmp_path: Path):
    kind = type(np)
    run(tmp_path, "import numpy\nnumpy.__doc__ = numpy.__doc__")
    assert type(np) is kind


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("shards", [1, 2])
def test_functions_that_a_program_replaces_are_there_for_the_simulator_and_after_the_run(
    tmp_path: Path, ranks: int, shards: int
):
    before = json.dumps, pickle.dumps
    text = "import json, pickle\njson.dumps = pickle.dumps = None\njson.more = 1\ncomm.Barrier()"
    result = run(tmp_path, text, ranks=ranks, shards=min(shards, ranks)).result
    assert (result.ended, json.dumps, pickle.dumps) == ("finished", *before)
    assert not hasattr(json, "more")


def test_what_a_module_does_that_the_program_loads_by_itself_is_told_too(tmp_path: Path):
    file = tmp_path / "hooked.py"
    file.write_text("import argparse\ndef change(rank):\n    argparse.of_rank = rank\n")
    text = f"""
        import importlib.util
        from importlib.machinery import SourceFileLoader
        class Own(SourceFileLoader): pass
        class Finder:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name == "hooked":
                    return importlib.util.spec_from_file_location(name, {str(file)!r}, loader=Own(name, {str(file)!r}))
        import sys
        sys.meta_path.insert(0, Finder)
        import hooked
        hooked.change(rank)
        """
    assert names(run(tmp_path, text)) == ["argparse.of_rank"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("n = 0\ndef f():\n    n = 1\ndef g():\n    global n\n    n += 1\n", 6),
        ("class A:\n    n = 0\ndef f():\n    A.n = 1\n", 4),
        ("n = {}\ndef f():\n    n['a'] = 1\n", 3),
        ("n = []\ndef f():\n    n.append(1)\n", 3),
        ("n = 0\nif n == 1: pass\n", None),
    ],
)
def test_the_line_of_a_package_that_changes_a_name_is_found(tmp_path: Path, text: str, line: int | None):
    file = tmp_path / "owner.py"
    file.write_text(text)
    assert line_in_package("n", str(file)) == (None if line is None else (str(file), line))


@pytest.mark.parametrize(
    ("texts", "yes"),
    [
        (["n = 0\ndef f():\n    global n\n    n = 3  # owner's\n"], True),
        (["n = 0\n", "import owner\ndef f(self):\n    self.n = 4\n    owner.n = 3\n"], True),
        (["n = 0\n", "import owner\ndef f(m):\n    owner.n = m\n"], False),
        (["n = 0\ndef f():\n    global n\n    n = 3\n", "def f():\n    m.n = 4\n"], True),
        (["n = 0\ndef f():\n    global n\n    n = 3\n    n += 3\n"], False),
        (["def f(m):\n    global n\n    n = m\n"], False),
        (["n = 0\n"], False),
    ],
)
def test_a_flag_is_what_all_lines_set_to_the_same(tmp_path: Path, texts: list[str], yes: bool):
    files = [tmp_path / f"{number}.py" for number, _ in enumerate(texts)]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    files[0].write_text(f"# of the owner\n{texts[0]}")
    candidates = {"owner.n": Flag("package.owner", "n", 3), "owner.other": Flag("package.owner", "other", None)}
    assert flags(candidates, map(str, [*files, tmp_path / "none.py"])) == ({"owner.n"} if yes else set())


def test_what_the_collector_calls_is_in_no_rank(tmp_path: Path):
    text = """
    import gc
    def called(phase, info):
        pkg.bump()
    called.__module__ = pkg.__name__
    if rank == 0:
        gc.callbacks.append(called)
    comm.Barrier()
    gc.collect()
    """
    before = list(gc.callbacks)
    try:
        assert names(run(tmp_path, text)) == []
    finally:
        gc.callbacks[:] = before


@pytest.mark.parametrize(
    ("text", "owner", "as_one", "line"),
    [
        ("pkg.n == 1\npkg.n += 1\n", "", False, 2),
        ("self.n = 1\nConfig.n = 1\n", "", False, 2),
        ("Other.n = 1\nx = pkg.Config.n = 1\n", "Config", False, 2),
        ("self.n['a'] = 1\npkg.n['a'] = 1\n", "", True, 2),
        ("n = {}\npkg.n.update(a=1)\n", "", True, 2),
        ("pkg.n.rank = 1\n", "", True, 1),
        ("n = 1\n", "", False, None),
    ],
)
def test_the_line_of_the_program_that_changes_a_name_is_found(
    tmp_path: Path, text: str, owner: str, as_one: bool, line: int | None
):
    file = str(tmp_path / "prog.py")
    Path(file).write_text(text)
    found = ProgramLines([file], lambda: False).find(owner, "n", as_one=as_one)
    assert found == (None if line is None else (file, line))


def test_each_file_is_read_once_for_all_names_and_of_packages_so_many_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "site-packages").mkdir()
    package, own = tmp_path / "site-packages" / "package.py", tmp_path / "own.py"
    package.write_text("a.n = 1\nb.m = 1\nb.late = 1\n")
    own.write_text("\n\n\nb.m = 2\nc.k['x'] = 1\n")
    monkeypatch.setattr(writing_lines, "_MOST_LINES", 2)
    lines = ProgramLines([str(package), str(own)], lambda: False)
    for file in (package, own):
        file.unlink()
    found = [lines.find("", "n", as_one=False), lines.find("", "m", as_one=False), lines.find("", "k", as_one=True)]
    assert found == [(str(package), 1), (str(own), 4), (str(own), 5)]
    assert lines.find("", "late", as_one=False) is None
    assert ProgramLines([str(package)], lambda: True).find("", "n", as_one=False) is None


def test_what_a_package_keeps_for_itself_is_said_only_if_the_program_changes_it(tmp_path: Path):
    text = """
        pkg.own(rank)
        pkg._kept.append(rank)
        """
    assert names(run(tmp_path, text)) == ["common_to_all._kept"]


def test_objects_of_packages_are_not_asked_for_their_attributes():
    """As one of torch.distributed, which then warns that it is deprecated."""

    class Touchy:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    Touchy.__module__ = "package"
    touchy = Touchy()
    object.__setattr__(touchy, "kept", 1)
    package = ModuleType("package")
    vars(package)["touchy"] = touchy
    tables = list(shared_state._tables(package))
    object.__setattr__(touchy, "kept", 2)
    assert [name for table in tables for name, _, _ in table.changes()] == ["package.touchy"]


@pytest.mark.parametrize(
    ("most", "said"), [(10, "changed at "), (1, "as 3 lines of private packages were not searched")]
)
def test_where_the_search_stops_at_its_limit_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, said: str
):
    monkeypatch.setattr(writing_lines, "_MOST_LINES", most)
    helper = tmp_path / "site-packages" / "helper.py"
    helper.parent.mkdir()
    helper.write_text("from mpi4py import MPI\n\ndef late(pkg):\n    pkg.settings['rank'] = 1\n")
    (warning,) = run(tmp_path, "import helper; comm.Barrier(); helper.late(pkg)").result.warnings
    name = "common_to_all.settings" if most == 10 else "perhaps 1 more names of packages"
    assert warning.startswith(f"shared by ranks: {name}, {said}")
