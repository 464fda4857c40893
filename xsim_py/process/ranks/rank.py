"""A virtual rank: the equivalent of a real MPI process, as small as possible.

A million of these have to fit into memory, so every attribute is a slot, and state that only some ranks use (private
modules, MPI state, random generators) is created on first use.
"""

from __future__ import annotations

from collections.abc import Callable
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
"""The result of ``os.getpid()`` in rank 0; other ranks add their number."""


class Abort(NamedTuple):
    """The reason for which the launcher ends the job: the rank, the time and the error."""

    rank: int
    time_ps: int
    status: int
    message: str
    is_mismatch: bool
    """The rank is in a different collective than other members of its communicator."""


class _HotSlots:
    """The attributes of a rank that a message needs; slots of a base class share one or two cache lines."""

    __slots__ = ("bare", "key", "main", "mpi", "nic_free_ps", "number")


class Rank(_HotSlots):
    """One virtual process."""

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
        self.number = number  # in ``COMM_WORLD``
        self.shard = shard
        self.key = first_key(number)  # the last event key that this rank has used (see `engine.kernel`)
        self.fiber = Fiber(self, start_ps)  # the thread of control that runs the program
        self.nic_free_ps = 0  # the time at which its NIC will have sent all messages queued so far
        self.exit_status: int | None = None  # None while it runs
        self.ended_ps: int | None = None  # the time at which it failed or its program returned
        self.main: ModuleType | None = None  # its private ``__main__``
        self.bare = False  # whether it has `main` but neither `modules` nor `private_state`
        self.argv: object = None  # a list, or `private_sys.UncopiedList`
        self.path: Any = None
        self.modules: OwnModules | None = None  # its private copies of the program's other modules
        self.mpi: Any = None  # the state that the layer `mpi` keeps for this rank, created on its first MPI call
        # Changes to the state of its process (see `process.ranks.private_state`).
        self.private_state: dict[str, Any] | None = None
        # State that the isolation keeps for this rank: random generators, atexit functions, partial lines of output;
        # and ``fibers``, those in addition to `fiber`.
        # Most ranks never need it, and an empty dictionary is 64 bytes: created on first use, see `private`.
        self.extra: dict[str, Any] | None = None
        # A count of its clock readings (see `clock`); not in `extra`, because a dictionary is large and most programs
        # read the clock.
        self.reads: Any = None

    def private(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the rank's object called `name`, created by ``make()`` on first use."""
        if self.extra is None:
            self.extra = {}
        if name not in self.extra:
            self.extra[name] = make()
        return self.extra[name]

    def own_modules(self) -> OwnModules:
        """Return the rank's private modules, for changing them."""
        if self.modules is None:
            self.modules = OwnModules()
            self.bare = False
        return self.modules

    def owns(self, names: dict[str, Any]) -> bool:
        """Return True if these are the globals of one of the rank's private modules."""
        if self.main is not None and names is vars(self.main):
            return True
        module = None if self.modules is None else self.modules.get(str(names.get("__name__")))
        return module is not None and vars(module) is names

    def has_made(self, cls: type) -> bool:
        """Return True if a class was defined in one of the rank's private modules."""
        return (cls.__module__ == "__main__" and self.main is not None) or cls.__module__ in (self.modules or ())
