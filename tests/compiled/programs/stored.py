"""The twin of stored.c."""

import os

from mpi4py import MPI

comm = MPI.COMM_WORLD
me = comm.rank
SIZE = 1_000_000


def say(what: str, number: int) -> None:
    print(f"{me}: {what} {number} at {MPI.Wtime():.9f}")


def fails(call: type[OSError], function: object, *given: object) -> int:
    try:
        function(*given)  # type: ignore[operator]
    except call:
        return 1
    return 0


def descriptors() -> None:
    name = f"state.{me}"
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    say("wrote", os.write(file, bytes(SIZE)))
    os.lseek(file, SIZE - 1, os.SEEK_SET)
    say("wrote at", os.write(file, b"abc"))
    os.fsync(file)
    say("size", os.fstat(file).st_size)
    say("end", os.lseek(file, -3, os.SEEK_END))
    data = os.read(file, SIZE)
    say("read", len(data))
    say("content", int(data == b"abc"))
    os.lseek(file, 0, os.SEEK_SET)
    say("read at", len(os.read(file, 2)))
    os.ftruncate(file, 10)
    os.close(file)
    say("closed", fails(OSError, os.read, file, 1))
    say("size", os.stat(name).st_size)
    say("missing", fails(FileNotFoundError, os.open, "missing", os.O_RDONLY))


def streams() -> None:
    name = f"text.{me}"
    with open(name, "w") as file:
        for i in range(10):
            file.write(f"line {i}\n")
    say("closed", 0)
    with open(name) as file:
        say("line", int(file.readline() == "line 0\n"))
        say("line", int(file.readline() == "line 1\n"))
    os.unlink(name)
    say("gone", fails(FileNotFoundError, open, name))


def folders() -> None:
    if me == 0:
        os.mkdir("kept")
        os.rename("state.0", "kept/state")
        say("moved", int(os.access("kept/state", os.F_OK)))
        for each in os.scandir("kept"):
            print(each.name, int(each.is_file()))
        os.truncate("kept/state", 5)
        say("not empty", fails(OSError, os.rmdir, "kept"))
        os.remove("kept/state")
        os.rmdir("kept")
        say("empty", 0)


descriptors()
streams()
comm.Barrier()
folders()
