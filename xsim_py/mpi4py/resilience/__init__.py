"""A layer between a program and the simulated MPI library, which lets an unmodified program outlive its failures.

It does what Legio does (Rocco, Gadioli and Palermo 2021; see ``docs/guides/legio-and-non-collective-repair.md``),
and sits where that does: calls of the program come here, as by PMPI, and go on to the library. It is installed for the
runs that ask for it; in all others the methods of mpi4py are what they are.
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
    """Put the layer between programs and the library; what was there comes back at the end."""
    patches.set(alias, "settings", wanted)
    patches.set(Communicator, "report", alias.report)
    install_collectives(patches)
    install_messages(patches)
    install_communicators(patches)
    install_windows(patches)
    install_files(patches)
    install_refusals(patches)
