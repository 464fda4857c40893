"""Outside runs, a process without an MPI library is a simulated job of one rank.

When pytest collects test modules, they import mpi4py and may read ``COMM_WORLD``. If no MPI library can be loaded, they
get the simulated one with one rank, like a real process without mpiexec.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType
from typing import Any

_MPI = "mpi4py.MPI"
_world: Any = None


def is_in_rank() -> bool:
    """Return True if a virtual rank of a run is running."""
    current: Any = sys.modules.get("xsim_py.process.ranks.current")  # or no run is possible
    return current is not None and current.here() not in (None, current.host)


class StandIn(MetaPathFinder):
    """Finder of the simulated MPI if the real one cannot be loaded."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return a loadable specification of mpi4py's MPI, for `importlib.abc.MetaPathFinder`."""
        if name != _MPI or is_in_rank():
            return None
        for finder in sys.meta_path:
            try:
                spec = None if finder is self else finder.find_spec(name, path, target)
            except (ImportError, RuntimeError):  # mpi4py looks for the library here
                return ModuleSpec(name, _Loader(None))
            if spec is not None:
                spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader(Loader):
    """Loader of the real MPI, or else of the simulated one."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._attributes: Any = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if self._real is not None:
            try:
                spec.loader, made = self._real, self._real.create_module(spec)
                if made is not None:
                    return made  # type: ignore[no-any-return]
            except ImportError:  # a library that it was linked with is missing
                spec.loader = self
        self._real = None
        _begin()
        module: ModuleType = sys.modules["xsim_py.mpi4py.MPI"]
        self._attributes = {name: vars(module)[name] for name in ("__spec__", "__loader__")}
        return module

    def exec_module(self, module: ModuleType) -> None:
        if self._real is not None:
            self._real.exec_module(module)
        else:
            vars(module).update(self._attributes)


def _begin() -> None:
    """Make this process a rank of a job of one."""
    global _world
    if _world is not None:
        return
    from xsim_py.config import load_machine
    from xsim_py.engine import INFINITY_PS
    from xsim_py.errors import XsimError
    from xsim_py.job import Job
    from xsim_py.mpi4py._install import bind_tables
    from xsim_py.parameters import RunArguments, read
    from xsim_py.process.programs.program import Program
    from xsim_py.process.ranks import current
    from xsim_py.process.ranks.fiber import Fiber

    class Host(Fiber):
        """A rank that waits by running the event queue itself."""

        def park(self, reason: Any) -> None:
            self.waiting = reason
            kernel = self.rank.shard.kernel
            current.fiber = None
            try:
                while self.waiting is not None:
                    if (next_ps := kernel.next_ps()) == INFINITY_PS:
                        self.waiting = None
                        raise XsimError(f"deadlock: the only rank would wait forever: {reason.describe()}")
                    kernel.run_window(next_ps + 1)
            finally:
                current.fiber = self

    program = Program(_begin, kind="callable", args=())
    _world = Job(load_machine("shmem"), program, read(RunArguments(ranks=1)))
    _world.make_shards([0], (), 0)
    rank = _world.shards[0].ranks[0]
    rank.fiber = current.host = current.fiber = Host(rank, 0)
    current.thread = get_ident()
    bind_tables()
