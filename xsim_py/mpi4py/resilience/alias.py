"""Aliases: a communicator as the program knows it, and the smaller one that its collective calls run on.

Prior art: Legio (Rocco, Gadioli and Palermo, J. Supercomputing 78, 2021; its public sources) gives a program's
communicators an inner one by PMPI. A collective call runs on the inner one, all agree on whether it went well, and if
it did not, the inner one is shrunk and the call is made again. The program's own rank and size never change.

The inner communicator has a context of its own from the start. So messages of the program go on as before whatever
becomes of it, and need no translation of ranks.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeVar

from xsim_py.config import ResilienceSpec
from xsim_py.mpi import calls, errors
from xsim_py.mpi import constants as c
from xsim_py.mpi.comm import Communicator, Guise, derive_cid, shared_context
from xsim_py.mpi.failures import repair
from xsim_py.mpi.per_process import of_process
from xsim_py.mpi.transport.p2p import complete
from xsim_py.process.output.tracebacks import forget_frames
from xsim_py.process.ranks import current

__all__ = [
    "Alias",
    "Trouble",
    "adopt",
    "agree",
    "alias_of",
    "attempted",
    "drop_alias",
    "give_up",
    "is_about_failures",
    "is_failure",
    "marked",
    "not_covered",
    "raise_to",
    "report",
    "settings",
    "shrink",
    "tried",
    "twin",
    "until_agreed",
]

R = TypeVar("R")

_report: Final = Communicator.report
_FAILED: Final[Any] = object()
settings: ResilienceSpec = ResilienceSpec()
"""The options of ``mpi.resilience``; a run with the layer puts its own here while it lasts."""

_GUIDE: Final = "docs/guides/legio-and-non-collective-repair.md"


class Alias:
    """One rank's view of a communicator of the program, and of the inner one.

    Parameters
    ----------
    outer : Communicator
        The program's own.
    inner : Communicator, optional
        Those of its members that live, as far as all of them agree; default: all of them.

    Attributes
    ----------
    guise : Guise
        How reports name the inner one: by ranks, roots and numbers of calls of the program's.
    hierarchy : Hierarchy or None
        The local and the global communicator of the hierarchical variant, once they are needed.
    """

    __slots__ = ("guise", "hierarchy", "inner", "outer")

    def __init__(self, outer: Communicator, inner: Communicator | None = None) -> None:
        self.outer = outer
        self.guise = Guise(outer)
        self.hierarchy: Any = None
        self._take(twin(outer, "legio") if inner is None else inner)

    def _take(self, inner: Communicator) -> None:
        """Make an inner communicator the one of the next attempt."""
        self.inner = inner
        inner.context.stands_for = self.outer.context
        self.guise.put_on(inner)

    def guise_named(self, name: str) -> Guise:
        """Return how reports name a window or file over the inner communicator: by ranks of the program's."""
        outer = self.outer
        shown = Communicator(outer.context, outer.box, me=outer.me)
        shown.name = name
        return Guise(shown)

    def place(self, rank: int, within: Communicator | None = None) -> int | None:
        """Return the rank in the inner communicator, or another one, of a rank of the program's; None of the dead.

        A number that is no rank is returned as it is, for the call to complain of.
        """
        ranks = self.outer.context.ranks
        if not 0 <= rank < len(ranks):
            return rank
        place = (within or self.inner).context.place(ranks[rank])
        return None if place < 0 else place

    def together(
        self,
        act: Callable[[Communicator], R | Trouble],
        *,
        again: Callable[[], object] | None = None,
        begun: Callable[[], object] | None = None,
        name: str = "",
    ) -> R | None:
        """Make a collective call on the inner communicator until all agree that it went well.

        Parameters
        ----------
        act : callable
            Takes the inner communicator. An error that it raises after it has begun to communicate is raised when all
            have agreed, one before that at once.
        again : callable, optional
            Puts back what a failed attempt may have changed.
        begun : callable, optional
            Returns another value once something may have been sent by other means than the inner communicator.
        name : str, optional
            As for `until_agreed`.

        Returns
        -------
        object
            What `act` has returned; None where the program's error handler has dealt with an error.
        """

        def attempt() -> R | Trouble:
            inner = self.prepared()
            return attempted(
                lambda: act(inner), lambda: (inner.collectives, inner.children, None if begun is None else begun())
            )

        return until_agreed(self.outer, attempt, lambda well: self.agree(well)[0], again, name)

    def settle(self) -> None:
        """Wait until all have agreed on the call that this rank has left by an exception, if there is one."""
        unsettled = _unsettled().pop(self.outer, None)
        if unsettled is not None:
            complete(unsettled)

    def prepared(self) -> Communicator:
        """Return the inner communicator for an attempt."""
        self.inner.preference = self.outer.preference
        return self.inner

    def agree(self, well: bool, also: bool = True) -> tuple[bool, bool]:
        """Return whether it went well everywhere, and whether all who are left say `also`; shrink if not the former."""
        agreed = agree(self.inner, well, also)
        if agreed[0]:
            self.guise.done(self.inner)
        else:
            with marked(self.outer, "repair"):
                self._take(shrink(self.inner))
        return agreed


class Trouble:
    """The result of an attempt that has met an error which is no failure, after it has communicated: others go on."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def attempted(body: Callable[[], R], begun: Callable[[], object]) -> R | Trouble:
    """Return what a part of an attempt returns, or the error that ends it and concerns this process alone.

    Such an error is for after the agreement, in which the others wait for this process.

    Parameters
    ----------
    begun : callable
        Returns another value once something may have been sent. An error before that is raised, for nobody waits yet.
    """
    before = begun()
    try:
        return body()
    except Exception as error:
        if is_about_failures(error) or begun() == before:
            raise
        return Trouble(error)


def until_agreed(
    outer: Communicator,
    act: Callable[[], R | Trouble],
    agreed: Callable[[bool], bool],
    again: Callable[[], object] | None,
    name: str = "",
) -> R | None:
    """Do something until all agree that it went well; see `Alias.together`.

    Parameters
    ----------
    act : callable
        Its `Trouble` is raised when all have agreed; an error that it raises, at once.
    agreed : callable
        Takes whether it went well here, returns whether it did so everywhere, and repairs what is needed if not.
    name : str, optional
        The call, if functions of the program run in it. Their exceptions are raised at once, for the others may never
        come to the agreement: they may need what this rank has not sent. If nobody catches it, this rank dies of it,
        and that wakes them. Otherwise its part in the agreement goes on in the background, until its next call here.
    """
    alias = alias_of(outer)
    alias.settle()
    result: R | Trouble
    try:
        result = _agreed_on(_attempt(act), act, agreed, again, leaves=bool(name))
        if name and isinstance(result, Trouble):
            said = f"{name}, left by {type(result.error).__name__}"
            _unsettled()[outer] = calls.begin(said, lambda: _agreed_on(result, act, agreed, again, leaves=False))
    except errors.Exception as error:
        result = Trouble(error)
    if not isinstance(result, Trouble):
        return result
    raise_to(outer, result.error)
    return None


def _attempt(act: Callable[[], R]) -> R:
    """Return the result of an attempt, and `_FAILED` in place of one that a failure has ended."""
    try:
        return act()
    except errors.Exception as error:
        if not error._is_about_failures:
            raise
        return _FAILED  # type: ignore[no-any-return]


def _agreed_on(
    result: R,
    act: Callable[[], R],
    agreed: Callable[[bool], bool],
    again: Callable[[], object] | None,
    *,
    leaves: bool,
) -> R:
    """Return the result of the attempt that all agree to have gone well: of this one, or of one that is made again.

    With `leaves` a `Trouble` is returned without an agreement.
    """
    while not (leaves and isinstance(result, Trouble)) and not agreed(result is not _FAILED):
        if again is not None:
            again()
        result = _attempt(act)
    return result


def agree(comm: Communicator, well: bool, also: bool) -> tuple[bool, bool]:
    """Return whether all say that it went well, and none is missing; and whether nobody denies `also`.

    All members have the same answers.
    """
    forget_frames()
    call = repair.begin_agree(comm, well | also << 1, "Comm.Agree")
    complete(call)
    assert call.decision is not None
    flag = repair.agreed_flag(call)
    return not call.decision.error and bool(flag & 1), bool(flag & 2)


def shrink(comm: Communicator) -> Communicator:
    """Return those that live in a communicator."""
    forget_frames()
    call = repair.begin_shrink(comm, "Comm.Shrink")
    complete(call)
    made = repair.shrunk(call)
    made.name = comm.name
    made.guise = comm.guise
    made.context.stands_for = comm.context.stands_for
    return made


def twin(comm: Communicator, why: str) -> Communicator:
    """Return a communicator of the same members, which costs nothing: all of them know its number."""
    context = shared_context(comm.fabric, derive_cid(comm.cid, why), comm.context.ranks)
    made = Communicator(context, comm.box, me=comm.me)
    made.name = comm.label()
    return made


def _aliases() -> dict[Communicator, Alias]:
    """Return the aliases of the running rank."""
    found: dict[Communicator, Alias] = of_process("aliases", dict)
    return found


def _unsettled() -> dict[Communicator, calls.Background]:
    """Return the running rank's part in agreements after calls that it has left by an exception."""
    found: dict[Communicator, calls.Background] = current.running().rank.private(calls.UNSETTLED, dict)
    return found


def alias_of(comm: Communicator) -> Alias:
    """Return the alias that a communicator of the program is, for the running rank."""
    aliases = _aliases()
    found = aliases.get(comm)
    if found is None:
        found = aliases[comm] = Alias(comm)
    return found


def adopt(outer: Communicator, inner: Communicator) -> Communicator:
    """Let a new communicator of the program have an inner one that is there already; return the former."""
    _aliases()[outer] = Alias(outer, inner)
    return outer


def drop_alias(comm: Communicator) -> None:
    """Forget the inner communicator of one that the program has freed."""
    _aliases().pop(comm, None)


# ------------------------------------------------------------------------------------------------------- failures


def is_failure(error: errors.Exception) -> bool:
    """Return whether an error says that a process has failed."""
    return error.Get_error_class() in (c.ERR_PROC_FAILED, c.ERR_PROC_FAILED_PENDING)


def is_about_failures(error: Exception) -> bool:
    """Return whether an error says that a process has failed, or that one who knew of that has revoked something."""
    return isinstance(error, errors.Exception) and error._is_about_failures


def raise_to(comm: Communicator, error: Exception) -> None:
    """Raise an error as one on a communicator of the program, unless its error handler deals with it."""
    if isinstance(error, errors.Exception):
        error._reported = False
        if comm.report(error):
            return
    raise error


def give_up(comm: Communicator, how: str, name: str, why: str) -> None:
    """Do without a dead process in a call, as an option wants it.

    Parameters
    ----------
    how : str
        ``skip``: nothing; ``stop``: this process gets SIGINT; ``raise``: the call raises MPI_ERR_PROC_FAILED.
    """
    said = f"{name} on {comm.label()}: {why}"
    if how == "raise":
        raise_to(comm, errors.error(c.ERR_PROC_FAILED, said))
    elif how == "stop":
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            raise KeyboardInterrupt(said)  # what that handler does, with a reason
        signal.raise_signal(signal.SIGINT)


def tried(comm: Communicator, function: Callable[..., R], *args: Any) -> tuple[R | None, errors.Exception | None]:
    """Call a function whose errors on `comm` are the layer's business first: no handler of the program sees them.

    Returns
    -------
    tuple
        What it has returned, or the MPI error that it has raised.
    """
    pairs, mine = _in_trial(), (current.fiber, comm)
    pairs.append(mine)
    try:
        return function(*args), None
    except errors.Exception as error:
        return None, error
    finally:
        pairs.remove(mine)


def report(self: Communicator, error: errors.Exception) -> bool:
    """Let the program's error handler see an error, as `Communicator.report`, unless `tried` is to return it here."""
    return (current.fiber, self.outer or self) not in _in_trial() and _report(self, error)


def _in_trial() -> list[tuple[Any, Communicator]]:
    """Return what the running rank tries: the fiber that does, for it may have threads, and the communicator."""
    found: list[tuple[Any, Communicator]] = of_process("in trial", list)
    return found


def not_covered(name: str) -> NoReturn:
    """Refuse a call that goes wrong under Legio when a process is dead."""
    error = NotImplementedError(f"{name}: the resilience layer legio does not cover it")
    error.add_note(f"{_GUIDE} says which calls it covers and what to call instead")
    error.add_note("--set mpi.resilience=null is without it, also where a machine's description has it")
    raise error


@contextmanager
def marked(comm: Communicator, what: str) -> Iterator[None]:
    """Note in the trace when a part of a call begins and ends, for `xsim_py.report.phases`."""
    trace, rank = comm.fabric.trace, comm.box.rank.number
    if trace is not None:
        trace.mark(rank, current.running().clock_ps, "begin", what)
    try:
        yield
    finally:
        if trace is not None:
            trace.mark(rank, current.running().clock_ps, "end", what)
