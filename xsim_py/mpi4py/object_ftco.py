"""The lower-case collectives under FTCO.

Pickle sizes need not be known in advance here, so there is one operation where `object_plans` has two. Numbers and
arrays that a predefined operation combines are folded in transit; other contributions travel separately, because
combining them may run program code, and are folded in rank order on arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xsim_py.config.algorithms import FTCO
from xsim_py.mpi.calls import CollectiveChannel, Note, channel, note
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.ftco import operations as ftco
from xsim_py.mpi.ftco.paper import ALLREDUCE, REDUCE

from .collective_plans import Plan, role_of, root_of
from .ftco_replacements import ObjectFill
from .inside import impl_of
from .op import Op
from .pickling import dump, load

__all__ = ["allgather", "allreduce", "bcast", "gather", "reduce", "scatter"]

_PLAIN = (bool, int, float, complex)


def _channel(comm: Communicator, note: Note) -> CollectiveChannel:
    ch = channel(comm, note, check=False)
    ch.algorithm = FTCO
    return ch


def bcast(comm: Communicator, name: str, obj: object, root: int) -> Plan:
    """Plan a broadcast."""
    data = dump(obj) if role_of(comm, root) == "root" else None
    ch = _channel(comm, note(name, root_of(comm, root)))
    return 0 if data is None else len(data), lambda: load(ftco.bcast(ch, data, root, 0, fill=ObjectFill(comm))), ch


def scatter(comm: Communicator, name: str, parts: list[bytes] | None, root: int) -> Plan:
    """Plan a scatter of the root's objects, already pickled."""
    ch = _channel(comm, note(name, root_of(comm, root)))
    size_bytes = 0 if parts is None else sum(map(len, parts))
    return size_bytes, lambda: load(ftco.scatter(ch, parts, root, fill=ObjectFill(comm))), ch


def gather(comm: Communicator, name: str, obj: object, root: int) -> Plan:
    """Plan a gather into a list on the root."""
    role_of(comm, root)
    data = dump(obj)
    ch = _channel(comm, note(name, root_of(comm, root)))

    def body() -> list[Any] | None:
        parts = ftco.gather(ch, data, root, fill=ObjectFill(comm))
        return None if parts is None else [load(part) for part in parts]

    return len(data), body, ch


def allgather(comm: Communicator, name: str, obj: object) -> Plan:
    """Plan a gather into a list on all ranks."""
    data = dump(obj)
    ch = _channel(comm, note(name))
    return len(data), lambda: [load(part) for part in ftco.allgather(ch, data, None, fill=ObjectFill(comm))], ch


def reduce(comm: Communicator, name: str, obj: object, op: Callable[[Any, Any], Any], root: int) -> Plan:
    """Plan a reduction to the root."""
    role_of(comm, root)
    ch = _channel(comm, note(name, root_of(comm, root)))
    return 0, lambda: _combined(ch, REDUCE, root, obj, op), ch


def allreduce(comm: Communicator, name: str, obj: object, op: Callable[[Any, Any], Any]) -> Plan:
    """Plan a reduction to all ranks."""
    ch = _channel(comm, note(name))
    return 0, lambda: _combined(ch, ALLREDUCE, 0, obj, op), ch


def _combined(ch: CollectiveChannel, operation: str, root: int, obj: object, op: Callable[[Any, Any], Any]) -> object:
    fold = None
    if isinstance(op, Op) and impl_of(op).function is None and impl_of(op).commutative:

        def fold(first: bytes, second: bytes) -> bytes:
            with np.errstate(all="ignore"):  # no line of the program runs here that a warning could name
                return dump(op(load(first), load(second)))

    parts = ftco.collect(ch, operation, root, dump(obj), fold, plain=_is_plain(obj), fill=ObjectFill(ch.comm))
    if parts is None:
        return None
    objects = [load(parts[rank]) for rank in sorted(parts)]
    result = objects[0]
    for other in objects[1:]:
        result = op(result, other)
    return result


def _is_plain(obj: object) -> bool:
    """Return True if unpickling and combining an object runs no program code."""
    if type(obj) is np.ndarray or isinstance(obj, np.generic):
        return not obj.dtype.hasobject
    return type(obj) in _PLAIN
