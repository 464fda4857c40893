"""A virtual rank: what a real MPI process would be, as small as it can be made.

A million of these have to fit into one machine, so every attribute is a slot, and what only some ranks use (private
modules, MPI state, random generators) is made on first use.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.engine import first_key

from .fiber import Fiber
from .own_modules import OwnModules

if TYPE_CHECKING:
    from .shard import Shard

EPOCH_S = 1_577_836_800
"""The value of ``time.time()`` at virtual time zero, in every run: 2020-01-01 00:00:00 UTC."""

FIRST_PID = 10_000
"""What ``os.getpid()`` says in rank 0; the others count on from there."""


class Abort(NamedTuple):
    """The reason for which the launcher ends the job: what a rank has come to, and when."""

    rank: int
    time_ps: int
    status: int
    message: str
    is_mismatch: bool
    """The rank is in another collective than other members of its communicator."""


class _HotSlots:
    """The attributes of a rank that a message needs: slots of a base class share a line or two of the cache."""

    __slots__ = ("bare", "key", "main", "mpi", "nic_free_ps", "number")


class Rank(_HotSlots):
    """One virtual process.

    Attributes
    ----------
    number : int
        Its rank in ``COMM_WORLD``.
    shard : Shard
        Where it lives.
    key : int
        The last event key that this rank has given out (see `engine.kernel`).
    fiber : Fiber
        The thread of control that runs the program.
    nic_free_ps : int
        When its network interface has sent all that it was given so far.
    exit_status : int or None
        None while it lives.
    ended_ps : int or None
        Its time of death or of return from its program.
    main : module or None
        Its own ``__main__``.
    bare : bool
        Whether it has that and neither `modules` nor `own`.
    modules : OwnModules or None
        Its own copies of the program's other modules.
    mpi : object or None
        Everything that the floor `mpi` keeps for this rank, made on its first MPI call.
    own : dict or None
        What it has changed about its process (see `process.ranks.private_state`).
    reads : object or None
        How often it has read its clock (see `clock`); not in `extra`, for a dictionary is large, and most programs do.
    extra : dict
        What the isolation keeps for this rank: random generators, atexit functions, partial lines of output; and
        ``fibers``, those that it has besides `fiber`.
    """

    __slots__ = (
        "argv",
        "ended_ps",
        "exit_status",
        "extra",
        "fiber",
        "modules",
        "path",
        "private_state",
        "reads",
        "shard",
    )

    def __init__(self, number: int, shard: Shard, start_ps: int = 0) -> None:
        self.number = number
        self.shard = shard
        self.key = first_key(number)
        self.fiber = Fiber(self, start_ps)
        self.nic_free_ps = 0
        self.exit_status: int | None = None
        self.ended_ps: int | None = None
        self.main: ModuleType | None = None
        self.bare = False
        self.argv: Any = None  # a list, or `private_sys.UncopiedList`
        self.path: Any = None
        self.modules: OwnModules | None = None
        self.mpi: Any = None
        self.private_state: dict[str, Any] | None = None
        # Most ranks never need it, and an empty dictionary is 64 bytes: made at the first use, see `private`.
        self.extra: dict[str, Any] | None = None
        self.reads: Any = None

    def private(self, name: str, make: Any) -> Any:
        """Return the rank's own object called `name`, made by ``make()`` on first use."""
        if self.extra is None:
            self.extra = {}
        if name not in self.extra:
            self.extra[name] = make()
        return self.extra[name]

    def own_modules(self) -> OwnModules:
        """Return the modules that the rank has for itself, to be changed."""
        if self.modules is None:
            self.modules = OwnModules()
            self.bare = False
        return self.modules

    def owns(self, names: dict[str, Any]) -> bool:
        """Return whether these are the globals of one of the rank's own modules."""
        if self.main is not None and names is vars(self.main):
            return True
        module = None if self.modules is None else self.modules.get(str(names.get("__name__")))
        return module is not None and vars(module) is names

    def has_made(self, cls: type) -> bool:
        """Return whether a class has been made in one of the rank's own modules."""
        return (cls.__module__ == "__main__" and self.main is not None) or cls.__module__ in (self.modules or ())
