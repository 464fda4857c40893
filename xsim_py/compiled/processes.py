"""Processes that are started later, connections between processes, and data representations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import constants as c
from xsim_py.mpi.dynamic.commands import AS_EXECUTABLE
from xsim_py.mpi.errors import fail
from xsim_py.mpi4py.inside import comm_of

from .by_hand import MPI, Given, by_hand
from .calls import integers, write_handle, write_integers

if TYPE_CHECKING:
    from .child import Child

_MANY = (1 << 31) - 1


def _texts(child: Child, address: int) -> list[str]:
    """Return the strings of an array that ends with a null pointer."""
    found: list[str] = []
    while address and (text := integers(child, address + 8 * len(found), 1, "q")[0]):
        found.append(child.text(text))
    return found


@contextmanager
def _hints(child: Child, handles: Iterable[int], commands: Sequence[str]) -> Iterator[list[Any]]:
    """Provide the hints of commands, with `AS_EXECUTABLE` for a program that starts itself, as interpreters do."""
    made, found = [], []
    for handle, command in zip(handles, commands, strict=True):
        hints: Any = child.handles.get(handle, MPI.Info)
        with suppress(OSError):
            if os.path.samefile(command, child.file):
                made.append(hints := hints.Dup() if hints else MPI.Info.Create())
                hints.Set(AS_EXECUTABLE, "true")
        found.append(hints)
    try:
        yield found
    finally:
        for each in made:
            each.Free()


@by_hand
def Comm_spawn(child: Child, given: Given) -> None:
    command, arguments, count, info, root, number, place, codes = given
    comm: Any = child.handles.get(number, MPI.Comm)
    given_codes: list[int] = []
    if comm_of(comm).me == root:
        name = child.text(command)
        with _hints(child, [info], [name]) as (hints,):
            made = comm.Spawn(name, _texts(child, arguments), count, hints, root, given_codes)
    else:
        made = comm.Spawn("", None, _MANY, MPI.INFO_NULL, root, given_codes)
    write_handle(child, place, made)
    write_integers(child, codes, given_codes, "i")


@by_hand
def Comm_spawn_multiple(child: Child, given: Given) -> None:
    count, commands, arguments, counts, infos, root, number, place, codes = given
    comm: Any = child.handles.get(number, MPI.Comm)
    given_codes: list[list[int]] | None = [] if codes else None
    processes = integers(child, counts, count, "i")
    if comm_of(comm).me == root:
        names = [child.text(each) for each in integers(child, commands, count, "q")]
        lines = [_texts(child, each) for each in integers(child, arguments, count, "q")] or [[]] * count
        with _hints(child, integers(child, infos, count, "q"), names) as hints:
            made = comm.Spawn_multiple(names, lines, processes, hints, root, given_codes)
    else:
        made = comm.Spawn_multiple((), None, processes, MPI.INFO_NULL, root, given_codes)
    write_handle(child, place, made)
    write_integers(child, codes, [code for each in given_codes or () for code in each], "i")


@by_hand
def Comm_join(child: Child, given: Given) -> None:
    own = child.borrow(given[0])
    if own < 0:
        fail(c.ERR_ARG, f"the program has no descriptor {given[0]}")
    try:
        made = MPI.Comm.Join(own)
    finally:
        child.give_back()
    write_handle(child, given[1], made)


@by_hand
def Register_datarep(child: Child, given: Given) -> None:
    name, read, write, extent, _ = given
    MPI.Register_datarep(child.text(name), read or None, write or None, extent)
