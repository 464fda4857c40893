"""The collective operations behind the upper-case calls.

An operation is written once for its blocking and nonblocking forms: a function that reads the program's arguments,
packs outgoing data, takes the next number on the communicator, and returns its *plan*: the number of bytes that this
rank contributes, a function that runs the algorithm and stores received data, and the channel, which knows the
algorithm. `collective_calls` runs it at once or in a separate fiber.

Which arguments are significant on which rank, and what is rejected with a Python exception, follows mpi4py's
``msgbuffer.pxi``. A rank whose send and receive buffers do not match gets ERR_TRUNCATE or ERR_COUNT; mismatches between
ranks are found by their notes (see `xsim_py.mpi.calls`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.batched import forms
from xsim_py.mpi.calls import (
    CollectiveChannel,
    channel,
    ftco_serves,
    note,
    perform,
    pick,
)
from xsim_py.mpi.collectives import inter
from xsim_py.mpi.collectives.channel import Fold, cut, equal_sizes
from xsim_py.mpi.collectives.choose import Algorithm
from xsim_py.mpi.collectives.substitutes import SUBSTITUTES
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.ftco.driver import absent
from xsim_py.mpi.management import gather_everywhere
from xsim_py.mpi.op import make_fold

from .bufspec import (
    BlockBuffer,
    FlatBuffer,
    UserBuffer,
    check_same,
    is_in_place,
    message,
    packed,
    receiver,
    vector_message,
    w_message,
)
from .ftco_replacements import BufferFill
from .handle import int_list
from .inside import impl_of
from .op import Op
from .plain_arguments import integer

__all__ = [
    "Plan",
    "algorithm_for",
    "allgather",
    "allreduce",
    "alltoall",
    "barrier",
    "bcast",
    "check_fit",
    "counts_of",
    "fold_of",
    "gather",
    "op_name",
    "operands",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_block",
    "role_of",
    "scan",
    "scatter",
]

Plan: TypeAlias = tuple[int, Callable[[], Any], CollectiveChannel]
Blocks: TypeAlias = UserBuffer | BlockBuffer

_COUNT = struct.Struct("<q")


# ------------------------------------------------------------------------------ what the operations have in common


def role_of(comm: Communicator, root: int) -> inter.Role:
    """Return the role of this rank in a rooted operation; see `collectives.inter`."""
    if 0 <= root < len(comm.remote):
        return "root" if root == comm.me and comm.local is None else "member"
    if comm.local is not None:
        if root == c.ROOT:
            return "root"
        if root == c.PROC_NULL:
            return "idle"
    return errors.fail(c.ERR_ROOT, f"root {root} is not in 0..{len(comm.remote) - 1}")


def root_of(comm: Communicator, root: int) -> int | None:
    """Return the root as named by all ranks that exchange messages with it.

    Behind a layer it is named as in the program.
    """
    if comm.report_name is not None:
        return comm.report_name.root
    return comm.me if root == c.ROOT else root


def algorithm_for(
    ch: CollectiveChannel,
    operation: str,
    size_bytes: int = 0,
    commutative: bool = True,
    *,
    unit_bytes: int = 1,
    role: inter.Role | None = None,
    target: Blocks | None = None,
) -> Algorithm:
    """Return the algorithm of an operation.

    Within a group `pick` selects it; between two groups there is only one.

    `target` is the result buffer, which supplies what may replace contributions of failed ranks. The channel records
    which algorithm finally runs, with elements of `unit_bytes`.
    """
    comm = ch.comm
    if comm.local is not None:
        ch.algorithm = "inter"
        algorithm: Algorithm = getattr(inter, operation.rstrip("vw"))
        return algorithm if role is None else partial(algorithm, role=role)
    ch.algorithm = algorithm = pick(comm, operation, size_bytes, commutative)
    if algorithm in SUBSTITUTES:
        ch.algorithm = SUBSTITUTES[algorithm](ch.size, size_bytes, unit_bytes)
    elif comm.preference.ftco and operation != "barrier" and ftco_serves(comm, operation):
        return partial(algorithm, fill=BufferFill(comm, target, ch.note.name))
    return algorithm


def fold_of(op: Op, datatype: Type) -> Fold:
    """Return an operation on the elements of a message."""
    if not isinstance(op, Op):
        raise TypeError(f"Argument 'op' has incorrect type (expected mpi4py.MPI.Op, got {type(op).__name__})")
    operation = impl_of(op)
    return operation.folds.get(datatype) or make_fold(operation, datatype)


def op_name(op: Op) -> str:
    return impl_of(op).name or "a user-defined operation"


def _in_place(comm: Communicator, buf: object) -> bool:
    """Return True if a buffer is `IN_PLACE`, which is only valid on intracommunicators."""
    return comm.local is None and is_in_place(buf)


def _parse_sent(buf: object) -> UserBuffer:
    """Parse a send buffer in any form, if more than its bytes matters."""
    if type(buf) is np.ndarray and buf.flags.carray:
        return receiver(buf)  # hot path: the same description, found faster
    return message(buf, writable=False)


def _check_distinct(sendbuf: object, recvbuf: object, *, offset_bytes: int = 0) -> None:
    """Reject sending from the receive buffer itself, like MPICH; `IN_PLACE` serves that purpose.

    Only two arrays over the same memory, or the same object passed twice, are detected. `offset_bytes` is the offset of
    this rank's own block in the larger buffer, `recvbuf`.
    """
    if sendbuf is recvbuf:
        same = offset_bytes == 0
    elif type(sendbuf) is np.ndarray and type(recvbuf) is np.ndarray:
        base, other = (each if each.base is None else each.base for each in (sendbuf, recvbuf))
        same = base is other and sendbuf.ctypes.data == recvbuf.ctypes.data + offset_bytes
    else:
        return
    if same:
        errors.fail(c.ERR_BUFFER, "the send buffer is also the receive buffer; use MPI.IN_PLACE")


def operands(comm: Communicator, sendbuf: Any, recvbuf: Any) -> tuple[bytes, UserBuffer]:
    """Return a rank's contribution to a reduction, and its result buffer."""
    target = receiver(recvbuf)
    if type(sendbuf) is np.ndarray and type(target) is FlatBuffer and sendbuf.dtype is recvbuf.dtype:
        data = packed(sendbuf)  # hot path: two arrays of one type; the code below finds the same in twice the time
        if len(data) == target.nbytes:
            if data and (sendbuf is recvbuf or sendbuf.base is not None or recvbuf.base is not None):
                _check_distinct(sendbuf, recvbuf)
            return data, target
    if _in_place(comm, sendbuf):
        return target.pack(), target
    source = _parse_sent(sendbuf)
    check_same(source, target)
    if source.nbytes:
        _check_distinct(sendbuf, recvbuf)
    return source.pack(), target


def check_fit(size_bytes: int, block_bytes: int) -> None:
    """Check that a rank's own block has equal send and receive sizes."""
    if size_bytes != block_bytes:
        code = c.ERR_TRUNCATE if size_bytes > block_bytes else c.ERR_COUNT
        errors.fail(code, f"this rank sends itself {size_bytes} bytes, and its receive buffer takes {block_bytes}")


def _sizes(target: Blocks, blocks: int) -> Sequence[int]:
    if isinstance(target, UserBuffer):
        return equal_sizes(target.nbytes, blocks)
    return target.sizes()


PARSERS: dict[str, Callable[..., Any]] = {"": message, "v": vector_message, "w": w_message}
"""The parser of the buffer with a block for each rank, for the three forms of an operation."""


# ------------------------------------------------------------------------------------------------------- the operations


def barrier(comm: Communicator, name: str) -> Plan:
    """Plan a barrier."""
    ch = channel(comm, note(name))
    algorithm = algorithm_for(ch, "barrier")
    return 0, lambda: perform(ch, forms.BARRIER, algorithm), ch


def bcast(comm: Communicator, name: str, buf: object, root: int) -> Plan:
    """Plan a broadcast."""
    root = integer(root)
    role = role_of(comm, root)
    data = target = None
    size_bytes = 0
    if role == "root":
        data = packed(buf)
        size_bytes = len(data)
    elif role == "member":
        target = receiver(buf)
        size_bytes = target.nbytes
    ch = channel(comm, note(name, root_of(comm, root), size_bytes))
    algorithm = algorithm_for(ch, "bcast", size_bytes, role=role, target=target)

    def body() -> None:
        received = algorithm(ch, data, root, size_bytes)
        if target is not None:
            target.unpack(received)

    return 0 if data is None else size_bytes, body, ch


def gather(comm: Communicator, name: str, form: str, sendbuf: object, recvbuf: object, root: int) -> Plan:
    """Plan a gather of blocks to the root; `form` is ``"v"`` if they differ in size."""
    root = integer(root)
    role = role_of(comm, root)
    data = target = None
    if role == "root":
        target = PARSERS[form](recvbuf, writable=True, blocks=len(comm.remote))
        if comm.local is None:
            data = target.pack_part(comm.me) if is_in_place(sendbuf) else packed(sendbuf)
            check_fit(len(data), target.part_bytes(comm.me))
            if data and not form and not is_in_place(sendbuf):
                _check_distinct(sendbuf, recvbuf, offset_bytes=comm.me * len(data))
    elif role == "member":
        data = packed(sendbuf)
    block_bytes = 0 if data is None else len(data)
    if not form and target is not None:
        block_bytes = target.nbytes
    ch = channel(comm, note(name, root_of(comm, root), None if form else block_bytes))
    algorithm = algorithm_for(ch, "gather" + form, block_bytes, role=role, target=target)

    def body() -> None:
        parts = algorithm(ch, data, root)
        if target is not None:
            target.unpack_parts(parts)

    return 0 if data is None else len(data), body, ch


def scatter(comm: Communicator, name: str, form: str, sendbuf: object, recvbuf: object, root: int) -> Plan:
    """Plan a scatter of the root's blocks; `form` is ``"v"`` if they differ in size."""
    root = integer(root)
    role = role_of(comm, root)
    parts = target = None
    block_bytes = 0
    if role == "root":
        blocks = len(comm.remote)
        source = PARSERS[form](sendbuf, writable=False, blocks=blocks)
        parts = source.pack_parts(blocks)
        block_bytes = source.part_bytes(0)
    if role == "member" or (role == "root" and comm.local is None and not is_in_place(recvbuf)):
        target = receiver(recvbuf)
        if parts is None:
            block_bytes = target.nbytes
        elif not form or len(parts[comm.me]) > target.nbytes:
            check_fit(len(parts[comm.me]), target.nbytes)
        if block_bytes and parts is not None and not form:
            _check_distinct(recvbuf, sendbuf, offset_bytes=comm.me * block_bytes)
    ch = channel(comm, note(name, root_of(comm, root), None if form else block_bytes))
    algorithm = algorithm_for(ch, "scatter" + form, block_bytes, role=role, target=target)

    def body() -> None:
        received = algorithm(ch, parts, root)
        if target is not None:
            target.unpack(received)

    return 0 if parts is None else sum(map(len, parts)), body, ch


def allgather(comm: Communicator, name: str, form: str, sendbuf: object, recvbuf: object) -> Plan:
    """Plan an allgather of all ranks' blocks; `form` is ``"v"`` if they differ in size."""
    blocks = len(comm.remote)
    target = PARSERS[form](recvbuf, writable=True, blocks=blocks)
    data = target.pack_part(comm.me) if _in_place(comm, sendbuf) else packed(sendbuf)
    sizes = _sizes(target, blocks)
    block_bytes = None
    if comm.local is None:
        check_fit(len(data), sizes[comm.me])
        block_bytes = None if form else len(data)
        if block_bytes and not is_in_place(sendbuf):
            _check_distinct(sendbuf, recvbuf, offset_bytes=comm.me * block_bytes)
    ch = channel(comm, note(name, None, block_bytes))
    algorithm = algorithm_for(ch, "allgather" + form, sum(sizes) // blocks, target=target)
    return len(data), lambda: target.unpack_parts(perform(ch, forms.BLOCKS, algorithm, data, sizes)), ch


def alltoall(comm: Communicator, name: str, form: str, sendbuf: object, recvbuf: object) -> Plan:
    """Plan an all-to-all exchange.

    `form` is ``"v"`` if blocks differ in size, ``"w"`` if also in type.
    """
    blocks = len(comm.remote)
    target = PARSERS[form](recvbuf, writable=True, blocks=blocks)
    source = target
    if not _in_place(comm, sendbuf):
        source = PARSERS[form](sendbuf, writable=False, blocks=blocks)
    parts = source.pack_blocks(blocks)
    block_bytes = None
    if comm.local is None:
        check_fit(source.part_bytes(comm.me), target.part_bytes(comm.me))
        block_bytes = None if form else target.nbytes
        if block_bytes and source is not target:
            _check_distinct(sendbuf, recvbuf)
    ch = channel(comm, note(name, None, block_bytes))
    algorithm = algorithm_for(ch, "alltoall" + form, block_bytes or 0)
    size_bytes = len(parts.data)
    if not form:
        return size_bytes, lambda: target.unpack_parts(perform(ch, forms.PARTS, algorithm, parts)), ch
    if comm.local is None:
        sizes = target.sizes()
        return size_bytes, lambda: target.unpack_parts(perform(ch, forms.UNEQUAL_PARTS, algorithm, parts, sizes)), ch
    return size_bytes, lambda: target.unpack_parts(algorithm(ch, parts.listed())), ch


def reduce(comm: Communicator, name: str, sendbuf: object, recvbuf: object, op: Op, root: int) -> Plan:
    """Plan a reduction to the root."""
    root = integer(root)
    role = role_of(comm, root)
    if role == "idle":
        ch = channel(comm, note(name))
        ch.algorithm = "inter"
        return 0, lambda: None, ch
    data = target = None
    if role == "member":
        vector = _parse_sent(sendbuf)
        data = vector.pack()
    elif comm.local is None:
        data, target = operands(comm, sendbuf, recvbuf)
        vector = target
    else:
        vector = target = receiver(recvbuf)
    size_bytes = vector.nbytes
    fold = fold_of(op, vector.datatype)
    ch = channel(comm, note(name, root_of(comm, root), size_bytes, op_name(op)))
    unit = fold.unit_bytes
    algorithm = algorithm_for(ch, "reduce", size_bytes, fold.commutative, unit_bytes=unit, role=role, target=vector)

    def body() -> None:
        received = algorithm(ch, data, fold, root)
        if target is not None:
            target.unpack(received)

    return 0 if data is None else size_bytes, body, ch


def allreduce(comm: Communicator, name: str, sendbuf: object, recvbuf: object, op: Op) -> Plan:
    """Plan a reduction to all ranks."""
    data, target = operands(comm, sendbuf, recvbuf)
    fold = fold_of(op, target.datatype)
    size_bytes = len(data)
    ch = channel(comm, note(name, None, size_bytes, op_name(op)))
    unit = fold.unit_bytes
    algorithm = algorithm_for(ch, "allreduce", size_bytes, fold.commutative, unit_bytes=unit, target=target)
    return size_bytes, lambda: target.unpack(perform(ch, forms.VECTOR, algorithm, data, fold)), ch


def scan(comm: Communicator, name: str, operation: str, sendbuf: object, recvbuf: object, op: Op) -> Plan:
    """Plan a prefix reduction.

    ``"scan"`` including the rank's own contribution, ``"exscan"`` excluding it.
    """
    data, target = operands(comm, sendbuf, recvbuf)
    fold = fold_of(op, target.datatype)
    ch = channel(comm, note(name, None, len(data), op_name(op)))
    ch.algorithm = algorithm = pick(comm, operation, len(data), fold.commutative)

    def body() -> None:
        received = algorithm(ch, data, fold)
        if received is not None:  # rank 0 of an exscan gets nothing
            target.unpack(received)

    return len(data), body, ch


def reduce_scatter_block(comm: Communicator, name: str, sendbuf: object, recvbuf: object, op: Op) -> Plan:
    """Plan a reduction whose result is scattered in blocks of equal size."""
    blocks = len(comm.ranks)
    if _in_place(comm, sendbuf):
        source = target = message(recvbuf, writable=True, blocks=blocks)
    else:
        target = receiver(recvbuf)
        source = message(sendbuf, writable=False, blocks=blocks)
        check_same(source, target)
        if target.nbytes:
            _check_distinct(sendbuf, recvbuf)
    return _reduce_scatter(comm, name, "reduce_scatter_block", source.pack_parts(blocks), target, op)


def reduce_scatter(comm: Communicator, name: str, sendbuf: object, recvbuf: object, recvcounts: object, op: Op) -> Plan:
    """Plan a reduction whose result is scattered in blocks of any size."""
    target = receiver(recvbuf)
    in_place = _in_place(comm, sendbuf) or (comm.local is None and sendbuf is recvbuf)
    source = target if in_place else _parse_sent(sendbuf)
    counts = int_list(counts_of(comm, name, sendbuf, recvbuf, recvcounts))
    _check_counts(comm, counts, None if in_place else source, target)
    parts = cut(source.pack(), [count * target.datatype.size for count in counts])
    detail = f"counts {', '.join(map(str, counts))}" if len(set(counts)) > 1 and comm.local is None else ""
    return _reduce_scatter(comm, name, "reduce_scatter", parts, target, op, detail)


def counts_of(comm: Communicator, name: str, sendbuf: object, recvbuf: object, recvcounts: object) -> Any:
    """Return the counts of a reduce-scatter.

    If the program gives none, those that all ranks expect to receive.
    """
    in_place = _in_place(comm, sendbuf) or (comm.local is None and sendbuf is recvbuf)
    if recvcounts is not None or comm.local is not None or in_place:
        return recvcounts
    table = gather_everywhere(channel(comm, note(name), check=False), _COUNT.pack(receiver(recvbuf).count))
    if None in table:  # the block sizes of failed ranks are unknown
        raise absent(comm, comm.missing)
    return [_COUNT.unpack(entry)[0] for entry in table]


def _check_counts(comm: Communicator, counts: list[int], source: UserBuffer | None, target: UserBuffer) -> None:
    """Check the counts of a reduce-scatter against its buffers.

    `source` is None for in-place calls.
    """
    if len(counts) != len(comm.ranks):
        raise ValueError(f"expecting {len(comm.ranks)} items, got {len(counts)}")
    if any(count < 0 for count in counts):
        errors.fail(c.ERR_COUNT, f"negative count in {counts}")
    total = sum(counts)
    if source is None:
        if target.count != total:
            raise ValueError(f"mismatch in receive count {target.count} and sum(counts) {total}")
        return
    if source.datatype is not target.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if source.count != total:
        raise ValueError(f"mismatch in send count {source.count} and sum(counts) {total}")
    if target.count != counts[comm.me]:
        raise ValueError(f"mismatch in receive count {target.count} and counts[{comm.me}] {counts[comm.me]}")


def _reduce_scatter(
    comm: Communicator, name: str, operation: str, parts: list[bytes], target: UserBuffer, op: Op, detail: str = ""
) -> Plan:
    fold = fold_of(op, target.datatype)
    size_bytes = sum(map(len, parts))
    ch = channel(comm, note(name, None, size_bytes, ", ".join(filter(None, (op_name(op), detail)))))
    if comm.local is not None:
        whole, sizes = b"".join(parts), [len(part) for part in parts]
        ch.algorithm = "inter"
        return size_bytes, lambda: target.unpack(inter.reduce_scatter(ch, whole, fold, sizes)), ch  # type: ignore[arg-type]
    wanted = len(parts[0]) if operation == "reduce_scatter_block" else size_bytes
    algorithm = algorithm_for(ch, operation, wanted, fold.commutative, target=target)
    return size_bytes, lambda: target.unpack(algorithm(ch, parts, fold)), ch
