"""A layer between program and library that lets an unmodified program tolerate failures.

It does what Legio does (Rocco, Gadioli and Palermo 2021; see ``docs/guides/legio-and-non-collective-repair.md``), in
the same position: it intercepts calls of the program, as by PMPI, and passes them to the simulated MPI library. It is
installed only for runs that request it; in all others mpi4py's methods are unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.mpi.comm import Communicator

from . import alias
from .collectives import install_collectives
from .communicators import install_communicators
from .messages import install_messages
from .openfiles import install_files
from .uncovered import install_refusals
from .windows import install_windows

if TYPE_CHECKING:
    from xsim_py.config import ResilienceSpec
    from xsim_py.process.ranks.patches import Patches

__all__ = ["install_resilience"]


def install_resilience(patches: Patches, wanted: ResilienceSpec) -> None:
    """Install the layer between programs and the library until the patches are undone."""
    patches.set(alias, "settings", wanted)
    patches.set(Communicator, "report", alias.report)
    install_collectives(patches)
    install_messages(patches)
    install_communicators(patches)
    install_windows(patches)
    install_files(patches)
    install_refusals(patches)
