"""Processes that meet: ports, connections and published names (MPI 4.1, sections 11.9 and 11.10.4).

Prior art: Open MPI lets its run-time system bring the two sides of a connection together. So it is here: who accepts
and who connects tell the launcher, which tells each of the other as soon as both are there. A connection takes a notice
to the launcher and one back, from the later of the two calls; a question about a name takes the same.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.calls import Note, channel
from xsim_py.mpi.comm import Communicator, derive_cid
from xsim_py.mpi.management import broadcast, make_inter

from .launcher import Launcher, LauncherQuestion

if TYPE_CHECKING:
    from collections.abc import Callable

    from xsim_py.mpi.transport.mailbox import Mailbox

_PORT = "xsim-port"


class Switchboard:
    """The part of the launcher by which processes meet.

    Parameters
    ----------
    launcher : Launcher
        What answers go by.
    """

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._waiting: dict[tuple[str, bool], deque[LauncherQuestion]] = {}
        self._names: dict[str, str] = {}

    def services(self) -> dict[str, Callable[[LauncherQuestion], None]]:
        """Return what answers each kind of question."""
        return {"meet": self._meet, "publish": self._publish, "unpublish": self._unpublish, "lookup": self._lookup}

    def _meet(self, asked: LauncherQuestion) -> None:
        """Somebody accepts or connects at a port: bring it together with who has waited longest on the other side."""
        port, accepts, _ = asked.argument
        others = self._waiting.get((port, not accepts))
        if not others:
            self._waiting.setdefault((port, accepts), deque()).append(asked)
            return
        other = others.popleft()
        self._launcher.answer(asked, other.argument[2])
        self._launcher.answer(other, asked.argument[2])

    def forget(self, number: int) -> None:
        """A process has ended: nobody is to meet it any more."""
        for port, waiting in self._waiting.items():
            self._waiting[port] = deque(asked for asked in waiting if asked.rank != number)

    def _publish(self, asked: LauncherQuestion) -> None:
        name, port = asked.argument
        taken = name in self._names
        self._names.setdefault(name, port)
        self._launcher.answer(asked, taken)

    def _unpublish(self, asked: LauncherQuestion) -> None:
        self._launcher.answer(asked, self._names.pop(asked.argument, None))

    def _lookup(self, asked: LauncherQuestion) -> None:
        self._launcher.answer(asked, self._names.get(asked.argument))


def open_port(box: Mailbox) -> str:
    """MPI_Open_port: a name that no other port has; known to nobody until the program says it."""
    opened: list[str] = box.of_process("ports", list)
    opened.append(f"{_PORT}:{box.rank.number}:{len(opened)}")
    return opened[-1]


def check_port(port: str) -> None:
    """Raise ERR_PORT for what never was the name of a port."""
    kind, _, number = port.partition(":")
    if kind != _PORT or not number.replace(":", "").isdecimal():
        errors.fail(c.ERR_PORT, f"unknown port {port!r}")


def meet(comm: Communicator, port: str | None, root: int, *, accepts: bool) -> Communicator:
    """MPI_Comm_accept and MPI_Comm_connect: the root waits at the port, and tells the other members whom it has met."""
    name, other = ("Accept", "Connect") if accepts else ("Connect", "Accept")
    if not 0 <= root < len(comm.ranks):
        comm.fail(c.ERR_ROOT, f"root {root} is not in 0..{len(comm.ranks) - 1}")
    child = comm.next_child()
    ch = channel(comm, Note(f"Intracomm.{name}", root), check=False)
    told = None
    if comm.me == root:
        assert port is not None
        mine = struct.pack(f"<{len(comm.ranks) + 2}q", comm.cid, child, *comm.ranks)
        told = comm.fabric.part(Launcher).ask("meet", (port, accepts, mine), f"Intracomm.{name}: a {other} at {port}")
    told = broadcast(ch, told, root)
    cid, other_child, *remote = struct.unpack(f"<{len(told) // 8}q", told)
    sides = sorted([(comm.ranks[0], comm.cid, child), (remote[0], cid, other_child)])
    return make_inter(comm, derive_cid("met", *sides), comm.ranks, tuple(remote))


def publish_name(box: Mailbox, name: str, port: str) -> None:
    """MPI_Publish_name: ERR_NAME where somebody has published that name already, as in MPICH."""
    if _ask(box, "publish", (name, port), "MPI.Publish_name"):
        errors.fail(c.ERR_NAME, f"{name!r} is published already")


def unpublish_name(box: Mailbox, name: str) -> None:
    """MPI_Unpublish_name: ERR_SERVICE where nobody has published that name."""
    if _ask(box, "unpublish", name, "MPI.Unpublish_name") is None:
        errors.fail(c.ERR_SERVICE, f"{name!r} is not published")


def lookup_name(box: Mailbox, name: str) -> str:
    """MPI_Lookup_name: the port; ERR_NAME where nobody has published that name."""
    port = _ask(box, "lookup", name, "MPI.Lookup_name")
    return errors.fail(c.ERR_NAME, f"{name!r} is not published") if port is None else str(port)


def _ask(box: Mailbox, what: str, argument: Any, name: str) -> Any:
    return box.fabric.part(Launcher).ask(what, argument, f"{name}: the launcher")
