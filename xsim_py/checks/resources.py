"""Checks of objects that a rank creates and must free.

These are communicators, groups, datatypes, windows, files ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.code_origin import PACKAGE
from xsim_py.findings import RESOURCE_LEAK
from xsim_py.mpi4py.comm import Comm
from xsim_py.mpi4py.datatype import Datatype
from xsim_py.mpi4py.errhandler import Errhandler
from xsim_py.mpi4py.file import File
from xsim_py.mpi4py.group import Group
from xsim_py.mpi4py.handle import CONSTANTS, Handle
from xsim_py.mpi4py.info import Info
from xsim_py.mpi4py.inside import impl_of, null_of
from xsim_py.mpi4py.op import Op
from xsim_py.mpi4py.session import Session
from xsim_py.mpi4py.win import Win

if TYPE_CHECKING:
    from .monitor import After, Monitor, MpiCall, RankState
    from .records import Place

KINDS: dict[type, str] = {
    Comm: "communicator",
    Group: "group",
    Datatype: "datatype",
    Op: "operation",
    Info: "info object",
    Errhandler: "error handler",
    Win: "window",
    File: "file",
    Session: "session",
}
"""Classes of objects that must be freed, with their names in reports."""

ENDS = frozenset({"Free", "free", "Disconnect", "Close", "Finalize", "Delete"})
_OURS = PACKAGE + "mpi4py"
_NOT_MADE = frozenset({"Get_parent", "Match_size", "Get_attr", "fromhandle", "fromint", "f2py", "Get_group_comm"})


class _Created:
    """An object that a rank has created, with the number of handles given out and not freed."""

    __slots__ = ("count", "impl", "kind", "place", "title")

    def __init__(self, impl: object, kind: str, title: str, place: Place) -> None:
        self.impl = impl
        self.kind = kind
        self.title = title
        self.place = place
        self.count = 0


def note_created(call: MpiCall, result: object) -> None:
    """Record an object returned by a call, if it must be freed.

    Objects behind an attribute, such as `comm.group`, are exempt: nothing in the program shows that a call has created
    them.
    """
    if call.frame is None or call.frame.f_code.co_filename.startswith(_OURS):
        return
    kind = next((kind for cls, kind in KINDS.items() if isinstance(result, cls)), None)
    if kind is None or impl_of(result) is null_of(result) or call.name in _NOT_MADE or _is_predefined(impl_of(result)):
        return
    entry = call.rank.objects.get(id(impl_of(result)))
    if entry is None:
        entry = call.rank.objects[id(impl_of(result))] = _Created(impl_of(result), kind, call.title, call.place)
    entry.count += 1


_constants: tuple[int, frozenset[int]] = (0, frozenset())


def _is_predefined(impl: object) -> bool:
    """Return True for the object of a predefined constant, or a datatype that need not be freed."""
    global _constants
    if _constants[0] != len(CONSTANTS):
        _constants = len(CONSTANTS), frozenset(id(impl_of(each)) for each in CONSTANTS.values())
    return id(impl) in _constants[1] or getattr(impl, "is_predefined", False)


def free(monitor: Monitor, call: MpiCall, handle: object, *args: object) -> After | None:
    """Check ``Free``, ``Disconnect``, ``Close`` and the other calls that free an object."""
    if not isinstance(handle, Handle):  # `File.Delete` is a class method
        return None
    impl = impl_of(handle)

    def freed(_: object) -> None:
        entry = call.rank.objects.get(id(impl))
        if entry is not None:
            entry.count -= 1
            if entry.count <= 0:
                del call.rank.objects[id(impl)]

    return freed


def unfreed(monitor: Monitor, state: RankState) -> None:
    """Find the objects that a rank has created but not freed at the end."""
    for entry in state.objects.values():
        end = "closed" if entry.kind == KINDS[File] else "freed"
        monitor.note(RESOURCE_LEAK, entry.place, f"the {entry.kind} of {entry.title} is never {end}", state.number)
