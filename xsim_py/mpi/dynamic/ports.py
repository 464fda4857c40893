"""Ports, connections and published names (MPI 4.1, sections 11.9 and 11.10.4).

As in Open MPI, the run-time system connects the two sides: a rank that accepts or connects notifies the launcher, which
answers both as soon as the second one has called. A connection takes a notice to the launcher and one back after the
later of the two calls; a query for a name takes the same.
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

from .launcher import Launcher, LauncherQuery

if TYPE_CHECKING:
    from collections.abc import Callable

    from xsim_py.mpi.transport.mailbox import Mailbox

_PORT = "xsim-port"


class Switchboard:
    """The part of the launcher that connects processes and keeps published names."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher  # sends its answers
        self._waiting: dict[tuple[str, bool], deque[LauncherQuery]] = {}
        self._names: dict[str, str] = {}

    def services(self) -> dict[str, Callable[[LauncherQuery], None]]:
        """Return the handler of each kind of query."""
        return {"meet": self._connect, "publish": self._publish, "unpublish": self._unpublish, "lookup": self._lookup}

    def _connect(self, query: LauncherQuery) -> None:
        """Connect a rank at a port with the one that has waited longest on the other side."""
        port, accepts, _ = query.argument
        others = self._waiting.get((port, not accepts))
        if not others:
            self._waiting.setdefault((port, accepts), deque()).append(query)
            return
        other = others.popleft()
        self._launcher.answer(query, other.argument[2])
        self._launcher.answer(other, query.argument[2])

    def forget(self, number: int) -> None:
        """Drop the queries of a process that has ended."""
        for port, waiting in self._waiting.items():
            self._waiting[port] = deque(query for query in waiting if query.rank != number)

    def _publish(self, query: LauncherQuery) -> None:
        name, port = query.argument
        taken = name in self._names
        self._names.setdefault(name, port)
        self._launcher.answer(query, taken)

    def _unpublish(self, query: LauncherQuery) -> None:
        self._launcher.answer(query, self._names.pop(query.argument, None))

    def _lookup(self, query: LauncherQuery) -> None:
        self._launcher.answer(query, self._names.get(query.argument))


def open_port(box: Mailbox) -> str:
    """Return a new unique port name (MPI_Open_port); other ranks learn it from the program."""
    opened: list[str] = box.of_process("ports", list)
    opened.append(f"{_PORT}:{box.rank.number}:{len(opened)}")
    return opened[-1]


def check_port(port: str) -> None:
    """Raise ERR_PORT for a text that was never the name of a port."""
    kind, _, number = port.partition(":")
    if kind != _PORT or not number.replace(":", "").isdecimal():
        errors.fail(c.ERR_PORT, f"unknown port {port!r}")


def connect_groups(comm: Communicator, port: str | None, root: int, *, accepts: bool) -> Communicator:
    """Connect two groups (MPI_Comm_accept, MPI_Comm_connect).

    The root waits at the port, and broadcasts the other group to the members.
    """
    name, other = ("Accept", "Connect") if accepts else ("Connect", "Accept")
    if not 0 <= root < len(comm.ranks):
        comm.fail(c.ERR_ROOT, f"root {root} is not in 0..{len(comm.ranks) - 1}")
    child = comm.next_child()
    ch = channel(comm, Note(f"Intracomm.{name}", root), check=False)
    reply = None
    if comm.me == root:
        assert port is not None
        mine = struct.pack(f"<{len(comm.ranks) + 2}q", comm.cid, child, *comm.ranks)
        reply = comm.fabric.part(Launcher).ask("meet", (port, accepts, mine), f"Intracomm.{name}: a {other} at {port}")
    reply = broadcast(ch, reply, root)
    cid, other_child, *remote = struct.unpack(f"<{len(reply) // 8}q", reply)
    ends = sorted([(comm.ranks[0], comm.cid, child), (remote[0], cid, other_child)])
    return make_inter(comm, derive_cid("met", *ends), comm.ranks, tuple(remote))


def publish_name(box: Mailbox, name: str, port: str) -> None:
    """Publish a name (MPI_Publish_name); ERR_NAME if it is already published, as in MPICH."""
    if _ask(box, "publish", (name, port), "MPI.Publish_name"):
        errors.fail(c.ERR_NAME, f"{name!r} is published already")


def unpublish_name(box: Mailbox, name: str) -> None:
    """Remove a published name (MPI_Unpublish_name); ERR_SERVICE if it is not published."""
    if _ask(box, "unpublish", name, "MPI.Unpublish_name") is None:
        errors.fail(c.ERR_SERVICE, f"{name!r} is not published")


def lookup_name(box: Mailbox, name: str) -> str:
    """Return the port of a published name (MPI_Lookup_name); ERR_NAME if it is not published."""
    port = _ask(box, "lookup", name, "MPI.Lookup_name")
    return errors.fail(c.ERR_NAME, f"{name!r} is not published") if port is None else str(port)


def _ask(box: Mailbox, what: str, argument: object, name: str) -> Any:
    return box.fabric.part(Launcher).ask(what, argument, f"{name}: the launcher")
