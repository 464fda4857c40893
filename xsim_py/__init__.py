"""Run an unmodified mpi4py program on a simulated machine, under virtual time.

`simulate` is the Python interface, with `App` for jobs of several programs; ``xsim run`` is the same from a shell. A
program may declare its computation by `work`, and the arrays that soft errors may hit by `expose`; both do nothing
under a real MPI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xsim_py.process.programs.apps import App
    from xsim_py.process.ranks.exposed import expose
    from xsim_py.process.ranks.meter import work
    from xsim_py.run import simulate

__all__ = ["App", "__version__", "expose", "simulate", "work"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the names of `__all__` on first use, to keep imports of the package fast."""
    if name == "simulate":
        from xsim_py.run import simulate

        return simulate
    if name == "App":
        from xsim_py.process.programs.apps import App

        return App
    if name == "expose":
        from xsim_py.process.ranks.exposed import expose

        return expose
    if name == "work":
        from xsim_py.process.ranks.meter import work

        return work
    raise AttributeError(f"module 'xsim_py' has no attribute {name!r}")
