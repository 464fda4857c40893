"""Aliases: a program's communicator, and the inner one on which its collective calls run.

Prior art: Legio (Rocco, Gadioli and Palermo, J. Supercomputing 78, 2021; its public sources) gives a program's
communicators an inner one by PMPI. A collective call runs on the inner one, and all agree on whether it succeeded; if
not, the inner one is shrunk and the call repeated. The program's own rank and size never change.

The inner communicator has a separate context from the start. So the program's messages are unaffected by repairs, and
need no translation of ranks.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeVar

from xsim_py.config import ResilienceSpec
from xsim_py.mpi import calls, errors
from xsim_py.mpi import constants as c
from xsim_py.mpi.comm import Communicator, ReportName, derive_cid, shared_context
from xsim_py.mpi.failures import repair
from xsim_py.mpi.per_process import of_process
from xsim_py.mpi.transport.p2p import complete
from xsim_py.process.output.tracebacks import forget_frames
from xsim_py.process.ranks import current

__all__ = [
    "Alias",
    "LocalError",
    "adopt",
    "agree",
    "alias_of",
    "attempt_call",
    "drop_alias",
    "give_up",
    "is_about_failures",
    "is_failure",
    "not_covered",
    "options_of",
    "raise_on",
    "run_attempt",
    "shrink",
    "traced_phase",
    "unreported",
    "until_agreed",
    "with_same_members",
]

R = TypeVar("R")

_FAILED: Final[Any] = object()
_GUIDE: Final = "docs/guides/legio-and-non-collective-repair.md"


def options_of(comm: Communicator) -> ResilienceSpec:
    """Return the options of ``mpi.resilience``."""
    found = comm.fabric.settings.mpi.resilience
    assert found is not None
    return found


class Alias:
    """One rank's view of a communicator of the program, and of the inner one.

    `outer` is the program's own, and `inner` has its agreed survivors; default: all members.
    """

    __slots__ = ("hierarchy", "inner", "outer", "report_name")

    def __init__(self, outer: Communicator, inner: Communicator | None = None) -> None:
        self.outer = outer
        # The inner one's name in reports, with ranks, roots and call numbers of the program's.
        self.report_name = ReportName(outer)
        self.hierarchy: Any = None  # the communicators of the hierarchical variant (`Hierarchy`), once they are needed
        self._set_inner(with_same_members(outer, "legio") if inner is None else inner)

    def _set_inner(self, inner: Communicator) -> None:
        """Set the inner communicator of the next attempt."""
        self.inner = inner
        inner.context.replaces = self.outer.context
        self.report_name.apply_to(inner)

    def report_name_for(self, name: str) -> ReportName:
        """Return the name in reports of a window or file over the inner communicator.

        Reports show the program's ranks.
        """
        outer = self.outer
        shown = Communicator(outer.context, outer.box, me=outer.me)
        shown.name = name
        return ReportName(shown)

    def place(self, rank: int, communicator: Communicator | None = None) -> int | None:
        """Return the inner rank of a rank of the program's, or None if it has failed.

        `communicator` replaces the inner one. An invalid rank is returned unchanged, so that the call reports it.
        """
        ranks = self.outer.context.ranks
        if not 0 <= rank < len(ranks):
            return rank
        place = (communicator or self.inner).context.place(ranks[rank])
        return None if place < 0 else place

    def run_collective(
        self,
        act: Callable[[Communicator], R | LocalError],
        *,
        restore: Callable[[], object] | None = None,
        begun: Callable[[], object] | None = None,
        name: str = "",
    ) -> R | None:
        """Make a collective call on the inner communicator until all agree that it succeeded.

        `act` takes the inner communicator. An error that it raises after it has begun to communicate is raised after
        the agreement, an earlier one at once. `restore` restores what a failed attempt may have changed. `begun`
        returns a different value once `act` may have sent by other means than the inner communicator. `name` is that of
        `until_agreed`. The result is that of `act`; None if the program's error handler has dealt with an error.
        """

        def attempt() -> R | LocalError:
            inner = self.prepared()
            return run_attempt(
                lambda: act(inner), lambda: (inner.collectives, inner.children, None if begun is None else begun())
            )

        return until_agreed(self.outer, attempt, lambda success: self.agree(success)[0], restore, name)

    def await_agreement(self) -> None:
        """Wait for the agreement on a call that this rank has left by an exception, if there is one."""
        unsettled = _unsettled().pop(self.outer, None)
        if unsettled is not None:
            complete(unsettled)

    def prepared(self) -> Communicator:
        """Return the inner communicator for an attempt."""
        self.inner.preference = self.outer.preference
        return self.inner

    def agree(self, success: bool, also: bool = True) -> tuple[bool, bool]:
        """Return whether the attempt succeeded on all ranks, and the survivors' AND of `also`.

        If it did not succeed, the inner communicator is shrunk.
        """
        agreed = agree(self.inner, success, also)
        if agreed[0]:
            self.report_name.done(self.inner)
        else:
            with traced_phase(self.outer, "repair"):
                self._set_inner(shrink(self.inner))
        return agreed


class LocalError:
    """The result of an attempt with an error other than a failure, after it has communicated.

    The other ranks continue.
    """

    def __init__(self, error: Exception) -> None:
        self.error = error


def run_attempt(body: Callable[[], R], begun: Callable[[], object]) -> R | LocalError:
    """Return the result of part of an attempt, or its error if that concerns only this process.

    Such an error is raised after the agreement, in which the other processes wait for this one. `begun` returns a
    different value once it may have sent. An earlier error is raised at once, because no process waits yet.
    """
    before = begun()
    try:
        return body()
    except Exception as error:
        if is_about_failures(error) or begun() == before:
            raise
        return LocalError(error)


def until_agreed(
    outer: Communicator,
    act: Callable[[], R | LocalError],
    agreed: Callable[[bool], bool],
    restore: Callable[[], object] | None,
    name: str = "",
) -> R | None:
    """Repeat attempts until all agree that one succeeded; see `Alias.run_collective`.

    The `LocalError` of `act` is raised after the agreement; an error that it raises, at once. `agreed` takes whether
    the attempt succeeded here, returns whether it did on all ranks, and repairs if not.

    `name` is the call, if functions of the program run in it. Their exceptions are raised at once, because the other
    ranks may never reach the agreement: they may need messages that this rank has not sent. If the exception is not
    caught, this rank fails, which wakes them. Otherwise its part in the agreement continues in the background, until
    its next call here.
    """
    alias = alias_of(outer)
    alias.await_agreement()
    result: R | LocalError
    try:
        result = _repeat_until_agreed(_attempt(act), act, agreed, restore, return_local_errors=bool(name))
        if name and isinstance(result, LocalError):
            text = f"{name}, left by {type(result.error).__name__}"
            _unsettled()[outer] = calls.begin(
                text, lambda: _repeat_until_agreed(result, act, agreed, restore, return_local_errors=False)
            )
    except errors.Exception as error:
        result = LocalError(error)
    if not isinstance(result, LocalError):
        return result
    raise_on(outer, result.error)
    return None


def _attempt(act: Callable[[], R]) -> R:
    """Return the result of an attempt, or `_FAILED` if a failure has ended it."""
    try:
        return act()
    except errors.Exception as error:
        if not errors.is_about_failures(error):
            raise
        return _FAILED  # type: ignore[no-any-return]


def _repeat_until_agreed(
    result: R,
    act: Callable[[], R],
    agreed: Callable[[bool], bool],
    restore: Callable[[], object] | None,
    *,
    return_local_errors: bool,
) -> R:
    """Return the result of the first attempt that all agree succeeded, this one or a later one.

    With `return_local_errors` a `LocalError` is returned without an agreement.
    """
    while not (return_local_errors and isinstance(result, LocalError)) and not agreed(result is not _FAILED):
        if restore is not None:
            restore()
        result = _attempt(act)
    return result


def agree(comm: Communicator, success: bool, also: bool) -> tuple[bool, bool]:
    """Return True if all succeeded and none is missing, and True if all passed `also`.

    All members get the same answers.
    """
    forget_frames()
    call = repair.begin_agree(comm, success | also << 1, "Comm.Agree")
    complete(call)
    assert call.decision is not None
    flag = repair.agreed_flag(call)
    return not call.decision.error and bool(flag & 1), bool(flag & 2)


def shrink(comm: Communicator) -> Communicator:
    """Return a communicator of the survivors."""
    forget_frames()
    call = repair.begin_shrink(comm, "Comm.Shrink")
    complete(call)
    created = repair.shrunk(call)
    created.name = comm.name
    created.report_name = comm.report_name
    created.context.replaces = comm.context.replaces
    return created


def with_same_members(comm: Communicator, why: str) -> Communicator:
    """Return a communicator of the same members, at no cost: all of them know its number."""
    context = shared_context(comm.fabric, derive_cid(comm.cid, why), comm.context.ranks)
    created = Communicator(context, comm.box, me=comm.me)
    created.name = comm.label()
    return created


def _aliases() -> dict[Communicator, Alias]:
    """Return the aliases of the running rank."""
    found: dict[Communicator, Alias] = of_process("aliases", dict)
    return found


def _unsettled() -> dict[Communicator, calls.Background]:
    """Return the running rank's part in agreements on calls that it has left by an exception."""
    found: dict[Communicator, calls.Background] = current.running().rank.private(calls.PENDING_AGREEMENTS, dict)
    return found


def alias_of(comm: Communicator) -> Alias:
    """Return the running rank's alias of a communicator of the program."""
    aliases = _aliases()
    found = aliases.get(comm)
    if found is None:
        found = aliases[comm] = Alias(comm)
    return found


def adopt(outer: Communicator, inner: Communicator) -> Communicator:
    """Give a new communicator of the program an existing inner one; return the former."""
    _aliases()[outer] = Alias(outer, inner)
    return outer


def drop_alias(comm: Communicator) -> None:
    """Drop the inner communicator of one that the program has freed."""
    _aliases().pop(comm, None)


# ------------------------------------------------------------------------------------------------------- failures


def is_failure(error: errors.Exception) -> bool:
    """Return True if an error reports a failed process."""
    return error.Get_error_class() in (c.ERR_PROC_FAILED, c.ERR_PROC_FAILED_PENDING)


def is_about_failures(error: Exception) -> bool:
    """Return True if an error reports a failed process, or a revocation that follows from one."""
    return isinstance(error, errors.Exception) and errors.is_about_failures(error)


def raise_on(comm: Communicator, error: Exception) -> None:
    """Raise an error on a communicator of the program, unless its error handler deals with it."""
    if isinstance(error, errors.Exception):
        errors.report_again(error)
        if comm.report(error):
            return
    raise error


def give_up(comm: Communicator, how: str, name: str, why: str) -> None:
    """Continue a call without a failed process, according to an option.

    `how` is ``skip``: nothing; ``stop``: this process gets SIGINT; or ``raise``: the call raises MPI_ERR_PROC_FAILED.
    """
    text = f"{name} on {comm.label()}: {why}"
    if how == "raise":
        raise_on(comm, errors.error(c.ERR_PROC_FAILED, text))
    elif how == "stop":
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            raise KeyboardInterrupt(text)  # as that handler, with a reason
        signal.raise_signal(signal.SIGINT)


def attempt_call(
    comm: Communicator, function: Callable[..., R], *args: object
) -> tuple[R | None, errors.Exception | None]:
    """Call a function whose errors on `comm` bypass the program's error handlers.

    Returns its result, or the MPI error that it has raised.
    """
    try:
        with unreported(comm):
            return function(*args), None
    except errors.Exception as error:
        return None, error


@contextmanager
def unreported(comm: Communicator) -> Iterator[None]:
    """Let errors on a communicator bypass the program's error handlers."""
    attempts, mine = comm.fabric.attempts, (current.fiber, comm)
    attempts.append(mine)
    try:
        yield
    finally:
        attempts.remove(mine)


def not_covered(name: str) -> NoReturn:
    """Raise an error for a call that goes wrong under Legio when a process has failed."""
    error = NotImplementedError(f"{name}: the resilience layer legio does not cover it")
    error.add_note(f"{_GUIDE} says which calls it covers and what to call instead")
    error.add_note("--set mpi.resilience=null is without it, also where a machine's description has it")
    raise error


@contextmanager
def traced_phase(comm: Communicator, what: str) -> Iterator[None]:
    """Mark the begin and end of a part of a call in the trace, for `xsim_py.report.phases`."""
    trace, rank = comm.fabric.trace, comm.box.rank.number
    if trace is not None:
        trace.mark(rank, current.running().clock_ps, "begin", what)
    try:
        yield
    finally:
        if trace is not None:
            trace.mark(rank, current.running().clock_ps, "end", what)
