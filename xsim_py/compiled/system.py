"""Services for the C library: clocks, sleeping, identity, entropy, and declared computation (see libc.c)."""

from __future__ import annotations

import os
import select
import struct
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi4py.inside import comm_of
from xsim_py.process.descriptors import sockets, waits
from xsim_py.process.python import clock
from xsim_py.process.ranks import current
from xsim_py.process.ranks.meter import work

from .by_hand import MPI, SERVICES
from .files import operate

if TYPE_CHECKING:
    from .child import Child

Service: TypeAlias = "Callable[[Child, int, int], None]"
"""Takes two arguments of a call."""


def _service(body: Service) -> Service:
    """Register the next service of page.h."""

    def function(child: Child) -> int:
        body(child, *child.arguments(2))
        return 0

    SERVICES.append(function)
    return body


@_service
def _read_clock(child: Child, readings: int, _: int) -> None:
    child.tells_time = True
    clock.read_ps(readings - 1)  # the reply has the time


@_service
def _sleep(child: Child, duration_ns: int, _: int) -> None:
    current.running().sleep(duration_ns * 1000)


@_service
def _identity(child: Child, address: int, _: int) -> None:
    node = MPI.Get_processor_name().encode("utf-8", "surrogateescape")[:64]
    child.write(address, struct.pack("=q65s", os.getpid(), node))


@_service
def _entropy(child: Child, address: int, size: int) -> None:
    child.write(address, os.urandom(size))


@_service
def _work(child: Child, *given: int) -> None:
    try:
        work(*struct.unpack("=dd", struct.pack("=qq", *given)))
    except ValueError as error:
        comm_of(MPI.COMM_SELF).report(errors.error(c.ERR_ARG, str(error)))


@_service
def _control(child: Child, level: int, _: int) -> None:
    MPI.Pcontrol(level)


def _await_sockets(child: Child) -> int:
    """Let other ranks run until one of the descriptors is ready, or the time is over."""
    address, count, timeout_ns = child.arguments(3)
    with current.outside():
        poll = select.poll()
    for number, events in struct.iter_unpack("=ihxx", child.read(address, count * _POLLFD_BYTES)):
        if (own := child.borrow(number)) >= 0:
            poll.register(own, events)
    timeout_s = None if timeout_ns < 0 else timeout_ns / 10**9
    waits.note_sockets(child.rank)
    waits.until(current.running(), partial(poll.poll, 0), timeout_s, "socket: another rank to do its part")
    child.give_back()
    return 0


def _tell(child: Child) -> int:
    sockets.tell(current.running())
    return 0


def _is_node(child: Child) -> int:
    """Return 1 for the name of a node of the machine that has ranks, else 0."""
    name = child.text(child.arguments(1)[0])
    world = comm_of(MPI.COMM_WORLD)
    name_of = world.fabric.settings.machine.processor_name
    return int(any(name_of(rank) == name for rank in world.ranks))


def _operate_on_file(child: Child) -> int:
    return operate(child, *child.arguments(5))


_POLLFD_BYTES = 8
SERVICES += _operate_on_file, _await_sockets, _tell, _is_node


@_service
def _variables(child: Child, place: int, _: int) -> None:
    """Write the address of an array with the variables of the environment, as in C."""
    texts = [os.fsencode(f"{name}={value}") + b"\0" for name, value in os.environ.items()]
    head = 8 * (len(texts) + 1)
    address = child.obtain(head + sum(map(len, texts)))
    ends = accumulate(map(len, texts), initial=address + head)
    child.write(address, struct.pack(f"={len(texts) + 1}q", *[*ends][:-1], 0) + b"".join(texts))
    child.write(place, struct.pack("=q", address))
