"""Programs use files on a simulated storage as they use any: through open, os, pathlib, shutil, tempfile and numpy."""

import os
import shutil
import stat
import tempfile
import time
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.process.files.test_virtual_files import on_storage
from tests.process.launch import simulated

MACHINE = {"network": {"latency": "10us"}, "storage": {"latency": "1us", "bandwidth": "1GB/s"}}


def check(folder: Path, text: str, **told: Any) -> list[str]:
    """Run a program whose assertions hold; what it printed."""
    done = on_storage(folder, text, **told)
    assert (done.result.ended, done.err) == ("finished", "")
    return done.lines


def test_numpy_saves_and_loads(tmp_path: Path):
    check(
        tmp_path,
        """
        import numpy as np
        a = np.arange(1e5).reshape(100, 1000) + rank
        np.save(f"a{rank}.npy", a)
        np.savez(f"a{rank}.npz", a=a, twice=2 * a)
        np.savez_compressed(f"c{rank}.npz", a=a)
        np.savetxt(f"a{rank}.txt", a[:3])
        comm.Barrier()
        other = 1 - rank
        b = np.arange(1e5).reshape(100, 1000) + other
        assert (np.load(f"a{other}.npy") == b).all()
        assert (np.load(f"a{other}.npz")["twice"] == 2 * b).all()
        assert (np.load(f"c{other}.npz")["a"] == b).all()
        assert (np.loadtxt(f"a{other}.txt") == b[:3]).all()
        """,
        ranks=2,
    )
    assert (tmp_path / "a1.npy").stat().st_size == 800_128


def test_what_needs_a_real_file_says_so(tmp_path: Path):
    lines = check(
        tmp_path,
        """
        import io
        import numpy as np
        a = np.arange(3.0)
        np.save("a.npy", a)
        for call in (
            lambda: a.tofile("raw"),
            lambda: np.fromfile("a.npy"),
            lambda: np.memmap("map", mode="w+", shape=3),
            lambda: np.load("a.npy", mmap_mode="r"),
        ):
            try:
                call()
            except io.UnsupportedOperation as error:
                print(str(error).split(":")[0])
        """,
    )
    said = "is on the simulated storage, not a file of the operating system, which numpy.memmap, tofile and fromfile"
    assert len(lines) == 4
    assert all(said in line for line in lines)


def test_the_usual_libraries_write_and_read(tmp_path: Path):
    check(
        tmp_path,
        """
        import bz2, configparser, csv, gzip, json, lzma, pickle, tarfile, zipfile
        data = {"a": [1, 2.5, "ä"]}
        pickle.dump(data, open("p", "wb"))
        assert pickle.load(open("p", "rb")) == data
        json.dump(data, open("j", "w"))
        assert json.load(open("j")) == data
        with open("c", "w", newline="") as file:
            csv.writer(file).writerows([[1, 2], ["a", "b,c"]])
        assert list(csv.reader(open("c", newline=""))) == [["1", "2"], ["a", "b,c"]]
        ini = configparser.ConfigParser()
        ini["run"] = {"steps": "5"}
        with open("i", "w") as file:
            ini.write(file)
        again = configparser.ConfigParser()
        assert again.read(["i", "missing"]) == ["i"] and again["run"]["steps"] == "5"
        for library in (gzip, bz2, lzma):
            with library.open("z", "wt") as file:
                file.write("text")
            assert library.open("z", "rt").read() == "text"
        with zipfile.ZipFile("zip", "w") as archive:
            archive.write("j")
        assert zipfile.ZipFile("zip").read("j") == open("j", "rb").read()
        with tarfile.open("tar", "w:gz") as archive:
            archive.add("c")
        assert tarfile.open("tar").getnames() == ["c"]
        import logging
        logging.basicConfig(filename="log", level=logging.INFO)
        logging.info("said")
        assert open("log").read() == "INFO:root:said\\n"
        print("to a file", file=open("printed", "w"))
        assert open("printed").read() == "to a file\\n"
        """,
    )
    assert {"p", "j", "c", "i", "z", "zip", "tar", "log", "printed"} <= set(os.listdir(tmp_path))


def test_pathlib_shutil_glob_and_walk(tmp_path: Path):
    check(
        tmp_path,
        """
        import glob, os, shutil
        from pathlib import Path
        deep = Path("a") / "b"
        deep.mkdir(parents=True)
        (deep / "x.txt").write_text("ä")
        assert (deep / "x.txt").read_text() == "ä" and (deep / "x.txt").stat().st_size == 2
        (deep / "z").touch()
        (deep / "x.txt").rename(deep / "y.txt")
        assert sorted(deep.iterdir()) == [deep / "y.txt", deep / "z"]
        assert list(Path("a").rglob("*.txt")) == [deep / "y.txt"] and glob.glob("a/*/y*") == ["a/b/y.txt"]
        shutil.copytree("a", "c")
        shutil.copy2("c/b/y.txt", "c/copy")
        shutil.move("c/copy", "moved")
        assert [(top, sorted(files)) for top, _, files in os.walk("c")] == [("c", []), ("c/b", ["y.txt", "z"])]
        shutil.rmtree("a")
        assert not Path("a").exists() and Path("c/b").is_dir() and Path("moved").is_file()
        os.symlink("moved", "latest")
        assert Path("latest").read_text() == "ä" and os.readlink("latest") == "moved" and Path("latest").is_symlink()
        assert Path("latest").resolve().name == "moved" and os.path.samefile("latest", "moved")
        assert os.listdir(b"c") == [b"b"]
        """,
    )
    assert os.readlink(tmp_path / "latest") == "moved"
    assert sorted(os.listdir(tmp_path / "c" / "b")) == ["y.txt", "z"]


def test_files_are_replaced_as_careful_programs_do_it(tmp_path: Path):
    check(
        tmp_path,
        """
        import os, tempfile
        with open("state.new", "w") as file:
            file.write("state")
            file.flush()
            os.fsync(file.fileno())
        os.replace("state.new", "state")
        folder = os.open(".", os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as file:
            file.write("other")
        os.replace(file.name, "other")
        with tempfile.NamedTemporaryFile("w+", dir=".") as file:
            file.write("gone")
            file.seek(0)
            assert file.read() == "gone"
        with tempfile.TemporaryDirectory(dir=".") as folder:
            open(os.path.join(folder, "inner"), "w").close()
        number = os.open("low", os.O_CREAT | os.O_RDWR)
        assert os.write(number, b"level") == 5 and os.lseek(number, 0, 0) == 0 and os.read(number, 9) == b"level"
        assert os.fstat(number).st_size == 5
        os.close(number)
        """,
    )
    assert {"low", "other", "state"} == set(os.listdir(tmp_path)) - {"helper.py", "prog.py", "__pycache__"}
    assert (tmp_path / "other").read_text() == "other"


def test_modes_of_open(tmp_path: Path):
    check(
        tmp_path,
        """
        with open("f", "x+") as file:
            file.write("hello\\nworld\\n")
            file.seek(0)
            assert file.readlines() == ["hello\\n", "world\\n"]
            file.truncate(6)
        with open("f", "r+b") as file:
            file.seek(-1, 2)
            file.write(b"!")
            assert file.tell() == 6 and file.mode == "rb+" and file.name == "f"
        with open("f", "a") as file:
            assert file.tell() == 6
            file.write("more")
        with open("f", newline="") as file:
            assert file.read(3) == "hel" and file.read() == "lo!more"
        buffer = bytearray(4)
        assert open("f", "rb", buffering=0).readinto(buffer) == 4 and buffer == b"hell"
        for mode, error in (("x", FileExistsError), ("rw", ValueError), ("q", ValueError), ("bt", ValueError)):
            try:
                open("f", mode)
            except error:
                continue
            raise AssertionError(mode)
        try:
            open("no/such")
        except FileNotFoundError as error:
            assert error.filename == "no/such" and error.errno == 2
        try:
            open("f").write("x")
        except OSError as error:
            assert str(error) == "not writable"
        """,
    )


def test_a_folder_of_the_storage_can_be_the_current_one(tmp_path: Path):
    check(
        tmp_path,
        """
        import os
        os.makedirs(f"rank{rank}/in", exist_ok=True)
        os.chdir(f"rank{rank}/in")
        open("file", "w").write(str(rank))
        comm.Barrier()
        assert os.getcwd().endswith(f"rank{rank}/in") and open("file").read() == str(rank)
        os.chdir("../..")
        assert os.path.abspath("x") == os.path.join(os.path.dirname(__file__), "x")
        try:
            os.chdir("nowhere")
        except FileNotFoundError:
            pass
        """,
        ranks=2,
    )
    assert (tmp_path / "rank1" / "in" / "file").read_text() == "1"


def test_imports_and_tracebacks_are_not_the_programs_reading(tmp_path: Path):
    (tmp_path / "mine.py").write_text("settings = open('settings').read()\n")
    (tmp_path / "settings").write_text("fast")
    lines = check(
        tmp_path,
        """
        import traceback
        try:
            1 / 0
        except ZeroDivisionError:
            assert "1 / 0" in traceback.format_exc()
        import xml.dom.minidom
        print(now())
        import mine
        print(mine.settings, now() > 0)
        """,
    )
    assert lines == ["0", "fast True"]


def test_a_file_of_a_dead_rank_is_never_written(tmp_path: Path):
    done = on_storage(
        tmp_path,
        """
        import gc, time
        file = open(f"file{rank}", "w")
        file.write("in the buffer")
        if rank == 0:
            cycle = [file]
            cycle.append(cycle)
            time.sleep(1)
        time.sleep(2)
        del file
        gc.collect()
        """,
        ranks=2,
        fail=["rank=0@0.5s"],
    )
    assert done.result.ended == "finished"
    assert (tmp_path / "file0").read_text() == ""
    assert (tmp_path / "file1").read_text() == "in the buffer"


def test_a_file_that_goes_while_another_rank_runs_is_written_by_its_own(tmp_path: Path):
    shared: list[Any] = []  # as Python's garbage collector may find files at any time

    def function() -> Any:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            shared.append(open("file", "w"))  # noqa: SIM115
            shared[0].write("whole")
        comm.Barrier()
        if comm.rank == 1:
            before = MPI.Wtime()
            shared.clear()
            return MPI.Wtime() - before
        time.sleep(1e-3)
        with open("file") as file:
            return file.read()

    with chdir(tmp_path):
        result = simulated(function, ranks=2, machine=MACHINE).result
    assert (result.ended, result.values) == ("finished", ["whole", 0.0])


def test_what_storage_costs_is_no_work_of_the_program(tmp_path: Path):
    table = on_storage(
        tmp_path,
        """
        with open("file", "wb") as file:
            for _ in range(20):
                file.write(bytes(1000))
                file.flush()
        """,
        ranks=2,
        compute="measured",
    ).result.tables["storage"]
    assert [row[1:4] for row in table.rows()] == [(21, 0, 20_000)] * 2


# ------------------------------------------------------------------------- the operating system as the oracle

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/e", "d/e/a", "link", "d/../b", "here", "here/old"])
FLAGS = st.sampled_from([os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_EXCL])
CALLS = st.one_of(
    st.tuples(st.just("write"), NAMES, st.sampled_from(["w", "a", "r+", "x"]), st.text("xyz", max_size=5)),
    st.tuples(st.sampled_from(["read", "remove", "rmdir", "mkdir", "listdir", "kind", "readlink"]), NAMES),
    st.tuples(st.sampled_from(["rename", "replace", "symlink"]), NAMES, NAMES),
    st.tuples(st.just("truncate"), NAMES, st.integers(0, 7)),
    st.tuples(st.just("os.open"), NAMES, FLAGS),
)


def do(call: tuple[Any, ...]) -> Any:
    """What one call gives, or the number of its error."""
    name, *arguments = call
    try:
        if name == "write":
            path, mode, text = arguments
            with open(path, mode) as file:
                return file.write(text)
        if name == "read":
            with open(arguments[0]) as file:
                return file.read()
        if name == "listdir":
            return sorted((entry.name, entry.is_dir(), entry.is_symlink()) for entry in os.scandir(arguments[0]))
        if name == "kind":
            found = os.lstat(arguments[0])
            return (
                stat.S_IFMT(found.st_mode),
                stat.S_ISREG(found.st_mode) and found.st_size,
                os.path.exists(arguments[0]),
            )
        if name == "os.open":
            os.close(os.open(*arguments))
            return None
        return getattr(os, name)(*arguments)
    except OSError as error:
        return error.errno


def tree(top: Path) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for path in sorted(top.rglob("*")):
        what: Any = os.readlink(path) if path.is_symlink() else path.is_dir() or path.read_text()
        found.append((str(path.relative_to(top)), what))
    return found


@pytest.fixture(scope="module")
def places():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@given(calls=st.lists(CALLS, max_size=25))
def test_any_calls_do_what_they_do_on_this_computer(places: Path, calls: list[tuple[Any, ...]]):
    seen = []
    for place, run in (("real", lambda: [do(call) for call in calls]), ("virtual", None)):
        top = places / place
        shutil.rmtree(top, ignore_errors=True)
        (top / "here").mkdir(parents=True)
        (top / "here" / "old").write_text("older than the run")
        (top / "a").write_text("A")
        (top / "link").symlink_to("here/old")
        with chdir(top):
            if run is not None:
                results = run()
            else:
                results = simulated(lambda: [do(call) for call in calls], ranks=1, machine=MACHINE).result.values[0]
        seen.append((results, tree(top)))
    assert seen[0] == seen[1]
