"""The collective functions, from the rows of `mpi4py.call_table`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import constants as c
from xsim_py.mpi4py.call_table import COLLECTIVES, Collective
from xsim_py.mpi4py.inside import impl_of

from .by_hand import MAKERS, MPI, Body, Given
from .calls import blocks, elements, integers, write_integers
from .convert import CParameter

if TYPE_CHECKING:
    from .child import Child


def _collective(row: Collective, name: str, parameters: list[CParameter]) -> Body:
    form = "_init" if name.endswith("_init") else "I" if name != row.name else ""
    kinds = [*row.c_arguments(form)]
    place = {kind: i for i, kind in enumerate(kinds)}
    codes = [each.code for each in parameters]

    def function(child: Child, given: Given) -> None:
        comm = child.handles.get(given[place["comm"]], MPI.Comm)
        root = given[place["root"]] if row.has_root else None
        arguments = _messages(child, row, kinds, codes, given, comm, root)
        if row.reduces:
            arguments.append(child.handles.get(given[place["op"]], MPI.Op))
        if root is not None:
            arguments.append(root)
        if form == "_init":
            arguments.append(child.handles.get(given[place["info"]], MPI.Info))
        result = getattr(comm, name)(*arguments)
        if form:
            write_integers(child, given[place["request"]], [child.handles.add(result)], "q")

    return function


def _messages(
    child: Child,
    row: Collective,
    kinds: list[str],
    codes: list[str],
    given: Given,
    comm: Any,
    root: int | None,
) -> list[Any]:
    """Return the buffers of a collective call, None for those that are not significant here, and its counts."""
    is_root = root is None or (root == comm.Get_rank() if not comm.Is_inter() else root == c.ROOT)
    if row.reduces:
        return _reduced(child, row, codes, given, comm, is_root)
    found: list[Any] = []
    sizes = _sizes(comm, row)
    at = 0
    for buffer, size in ((row.sent, sizes[0]), (row.received, sizes[1])):
        if buffer is None or (at and row.sent is row.received):
            continue
        width = 4 if buffer.form in ("v", "w") else 3
        part = given[at : at + width]
        if buffer.is_of_root and not is_root:
            found.append(None)
        elif buffer.form in ("v", "w"):
            address, counts, displacements, types = part
            numbers = integers(child, types, size, "q") if buffer.form == "w" else [types] * size
            datatypes = [child.handles.get(number, MPI.Datatype) for number in numbers]
            moved = integers(child, displacements, size, codes[at + 2])
            if address == 1:
                found.append(MPI.IN_PLACE)
            else:
                if buffer.form == "v":
                    extent = impl_of(child.handles.get(types, MPI.Datatype)).extent
                    moved = [each * extent for each in moved]
                found.append(blocks(child, address, integers(child, counts, size, codes[at + 1]), moved, datatypes))
        else:
            found.append(elements(child, *part))
        at += width
    return found


def _reduced(child: Child, row: Collective, codes: list[str], given: Given, comm: Any, is_root: bool) -> list[Any]:
    sent, received, count, datatype = given[:4]
    counts = None
    total = count
    if row.name == "Reduce_scatter":
        counts = integers(child, count, comm.Get_size(), codes[2])
        total, count = sum(counts), counts[comm.Get_rank()]
    in_place = sent == 1
    if in_place and row.name == "Reduce_scatter":
        count = total
    if not is_root:
        return [elements(child, sent, total, datatype), None]
    target = elements(child, received, count, datatype)
    source = MPI.IN_PLACE if in_place else elements(child, sent, total, datatype)
    return [source, target] if counts is None else [source, target, counts]


def _sizes(comm: Any, row: Collective) -> tuple[int, int]:
    """Return the numbers of blocks to send and to receive."""
    if row.is_of_neighbors:
        return comm.outdegree, comm.indegree
    size = comm.Get_remote_size() if comm.Is_inter() else comm.Get_size()
    return size, size


for _row in COLLECTIVES.values():
    if not _row.is_of_objects:
        MAKERS.update({name: partial(_collective, _row, name) for name in _row.forms})
