"""TryBlocks: transactions of communication, whose members agree at the end on all errors.

    with TryBlock(comm, timeout=0.5) as block:
        here = block.irecv(ghosts, source=left)
        block.isend(edge, dest=right)
        block.wait_local(here)
        if not plausible(ghosts):
            block.inject(BAD_DATA)
    if not block.outcome.ok: ...  # the same errors on each member

It is the interface of FA-MPI (Hassani, Skjellum, Brightwell: FA-MPI: Fault-aware MPI specification and concept of
operations, UAB 2012, and their poster at SC'13) on top of ULFM.

* A block ends with one agreement over a word of errors, which is its only cost: the bitwise OR of the words of all
  members. Three of its bits mean that a process has failed, that the communicator was revoked, and that the block
  timed out; the others are codes that the program injects, and four flags, which are not errors.
* `wait_local` completes operations and keeps them, with their errors, until the end of the block.
* A timeout limits only `wait_local`. It belongs to the block, and must be equal on all members. Collective calls have
  no timeout, and a member that skips one breaks the next: in a block with a timeout they come before all waits.
* An error that ends the body of a block revokes its communicator, so that no rank waits for one that has left.
* A block within another reports its errors to it, unless they are `handled`.
* With a patience, a member that waits longer than that at the end of a block has no consensus: it cannot know whether
  the others reach one, and can no longer use the communicator. Either all members set a patience, or none.
* Communicators are assigned once. After a failure, `shrink` and `regrow` return a new one.

Each block has separate tags, and after an error receives are cancelled: no message of a block is received in a later
one. All members enter the blocks of a communicator in the same order.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import recovery
from mpi4py import MPI

if TYPE_CHECKING:
    from types import TracebackType

PROCESS, REVOKED, TIMEOUT = 1, 2, 4
FIRST_CODE, LAST_CODE = 3, 26  # of those that programs inject
FLAGS = 4  # above the codes; together they are the bits of a C int that is not negative
BITS = LAST_CODE + 1 + FLAGS
ALL, ERRORS = (1 << BITS) - 1, (1 << LAST_CODE + 1) - 1
TAGS, BLOCKS = 1 << 4, 1 << 16  # tags per block, and blocks per communicator until tags repeat
PAUSE_S = 1e-6  # minimum time between two polls of an operation

_NUMBER = MPI.Comm.Create_keyval()
_UNFINISHED: list[MPI.Request] = []  # operations that cannot be cancelled: their buffers are kept


class LeftError(Exception):
    """Internal: leave the rest of a block's body; the error has been recorded."""


class Operation:
    """A send or a receive of a block, valid until the block ends."""

    def __init__(self, request: MPI.Request, *, receives: bool) -> None:
        self.request, self.receives = request, receives
        self.done, self.errors = False, 0


class Outcome(NamedTuple):
    """The agreed outcome of a block; without a consensus, that of one member."""

    errors: int
    failed: tuple[int, ...]
    """Ranks that this member knows to have failed, including all that missed the agreement."""
    consensus: bool = True
    flags: tuple[int, ...] = ()
    """Flags of all members."""

    @property
    def ok(self) -> bool:
        """Return True if all agree that the block succeeded."""
        return self.consensus and not self.errors

    @property
    def sick(self) -> bool:
        """Return True if the communicator must be replaced before the next block."""
        return bool(self.errors & (PROCESS | REVOKED))

    @property
    def timed_out(self) -> bool:
        """Return True if a member timed out."""
        return bool(self.errors & TIMEOUT)

    @property
    def codes(self) -> list[int]:
        """Return the injected codes, ascending."""
        return [code for code in range(FIRST_CODE, LAST_CODE + 1) if self.errors >> code & 1]


class TryBlock:
    """A transaction over a communicator."""

    def __init__(
        self,
        comm: MPI.Intracomm,
        timeout: float | None = None,
        *,
        patience: float | None = None,
        outer: TryBlock | None = None,
    ) -> None:
        self.comm, self.patience, self.handled = comm, patience, False
        self.errors = self.flags = 0
        self.deadline = MPI.Wtime() + timeout if timeout else math.inf
        self.operations: list[Operation] = []
        self.inner: list[TryBlock] = []
        self.outcome: Outcome | None = None
        if outer is not None:
            self.deadline = min(self.deadline, outer.deadline)
            outer.inner.append(self)
        number = comm.Get_attr(_NUMBER) or 0
        comm.Set_attr(_NUMBER, number + 1)
        self.first_tag = (1 + number % BLOCKS) * TAGS

    def nested(self, comm: MPI.Intracomm | None = None, timeout: float | None = None) -> TryBlock:
        """Return a block within this one, over the same communicator or another."""
        return TryBlock(comm or self.comm, timeout, outer=self)

    def __enter__(self) -> TryBlock:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """End the block; failure errors end here, all others propagate."""
        if isinstance(error, MPI.Exception):
            self._note(error)
        elif error is not None and not isinstance(error, LeftError):
            return False
        self.finish(wait=error is None)
        return True

    def isend(self, buffer: Any, dest: int, tag: int = 0) -> Operation:
        """Start to send an array."""
        return self._begun(self.comm.Isend(buffer, dest, self.first_tag + tag), receives=False)

    def irecv(self, buffer: Any, source: int, tag: int = 0) -> Operation:
        """Start to receive an array."""
        return self._begun(self.comm.Irecv(buffer, source, self.first_tag + tag), receives=True)

    def _begun(self, request: MPI.Request, *, receives: bool) -> Operation:
        self.operations.append(Operation(request, receives=receives))
        return self.operations[-1]

    def wait_local(self, *operations: Operation) -> None:
        """Complete operations of this block; if that is impossible, leave the block."""
        for operation in operations:
            if not operation.done:
                self._wait(operation)

    def _wait(self, operation: Operation) -> None:
        try:
            operation.done = _completed(operation.request, self.deadline)
        except MPI.Exception as error:
            operation.done, operation.errors = True, self._note(error)
            raise LeftError from error
        if not operation.done:
            self.errors |= TIMEOUT
            operation.errors = TIMEOUT
            raise LeftError

    def _note(self, error: MPI.Exception) -> int:
        """Record a failure error, and wake all members that may wait for this one."""
        if error.Get_error_class() not in recovery.FAILURES:
            raise error
        errors = REVOKED if error.Get_error_class() == MPI.ERR_REVOKED else PROCESS
        self.errors |= errors
        self.comm.Revoke()
        return errors

    def inject(self, code: int) -> None:
        """Report an error that this member has found itself; the block continues."""
        if not FIRST_CODE <= code <= LAST_CODE:
            message = f"{code} is not a code from {FIRST_CODE} to {LAST_CODE}"
            raise ValueError(message)
        self.errors |= 1 << code

    def flag(self, flag: int) -> None:
        """Inform all members by one of four flags, which are not errors."""
        if not 0 <= flag < FLAGS:
            message = f"{flag} is not a flag from 0 to {FLAGS - 1}"
            raise ValueError(message)
        self.flags |= 1 << flag

    def finish(self, *, wait: bool = True) -> Outcome:
        """End the block, and return the agreed outcome."""
        if self.outcome is None:
            with contextlib.suppress(LeftError):
                self.wait_local(*self.operations if wait else ())
            for block in self.inner:
                self.errors |= 0 if block.handled else block.finish().errors
            agreed = self._agreed()
            word = self._word if agreed is None else agreed
            if word & ERRORS:
                self._cancel()
            flags = tuple(flag for flag in range(FLAGS) if word >> LAST_CODE + 1 + flag & 1)
            self.outcome = Outcome(word & ERRORS, tuple(recovery.known_dead(self.comm)), agreed is not None, flags)
        return self.outcome

    @property
    def _word(self) -> int:
        return self.errors | self.flags << LAST_CODE + 1

    def _agreed(self) -> int | None:
        """Return the words of all members, despite failures, or None if the patience has expired."""
        while True:
            mine = ALL & ~self._word  # the AND of these is the OR of the words
            try:
                agreed = self.comm.Agree(mine) if self.patience is None else self._agreed_in_time(mine, self.patience)
                return None if agreed is None else ALL & ~agreed
            except MPI.Exception as error:
                if error.Get_error_class() != MPI.ERR_PROC_FAILED:
                    raise
            self.errors |= PROCESS
            self.comm.Ack_failed()

    def _agreed_in_time(self, mine: int, patience: float) -> int | None:
        word = np.array([mine], np.intc)
        request = self.comm.Iagree(word)
        if _completed(request, MPI.Wtime() + patience):
            return int(word[0])
        _UNFINISHED.append(request)
        return None

    def _cancel(self) -> None:
        """Make sure that no message of this block is received in a later one."""
        for operation in self.operations:
            if operation.done:
                continue
            if operation.receives:
                recovery.attempt(operation.request.Cancel)
                recovery.attempt(operation.request.Wait)
            else:
                _UNFINISHED.append(operation.request)

    def origins(self) -> dict[int, list[int]]:
        """Return the ranks that injected each code; all survivors call it, after the end.

        It takes an agreement for each code and 31 ranks.
        """
        assert self.outcome is not None
        found: dict[int, list[int]] = {}
        for code in self.outcome.codes:
            found[code] = []
            for first in range(0, self.comm.size, BITS):
                mine = self.comm.rank - first if self.errors >> code & 1 else -1
                flags = ALL & ~(1 << mine) if 0 <= mine < BITS else ALL
                agreed = recovery.agree_on(self.comm, flags)
                found[code] += [first + bit for bit in range(BITS) if not agreed >> bit & 1]
        return found


def _completed(request: MPI.Request, deadline: float) -> bool:
    """Wait until a request is complete or the time is over; return which."""
    if deadline == math.inf:
        return request.Wait()
    begin = MPI.Wtime()
    while not request.Test():
        now = MPI.Wtime()
        if now >= deadline:
            return False
        time.sleep(min(deadline - now, max(PAUSE_S, (now - begin) / 64)))
    return True


# ------------------------------------------------------------------------------------------------------------ recovery


def shrink(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Return a communicator of the survivors."""
    comm.Revoke()
    return recovery.shrink(comm)


def regrow(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Return a communicator as large as this one, with new processes for failed ones."""
    comm.Revoke()
    return recovery.replace(comm)
