"""Installation of everything that gives a rank its own part of Python and of its process, during a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.process.output import tracebacks
from xsim_py.process.python import (
    environment,
    event_loops,
    finalizers,
    private_logging,
    private_sys,
    private_warnings,
    process_settings,
    signals,
    threads,
    watchers,
)
from xsim_py.process.ranks import context, greenlets, private_state

from . import lifecycle

if TYPE_CHECKING:
    from xsim_py.process.ranks.patches import Patches


def install(patches: Patches, *, alone: bool) -> None:
    """Install all of them; the order matters if one calls what another has replaced."""
    greenlets.install(patches)
    context.install(patches)
    signals.install(patches, lifecycle.leave)
    patches.install(lifecycle.PATCHED, tracebacks.PATCHED)
    threads.install(patches)
    private_state.install(patches)
    environment.install(patches)
    finalizers.install(patches, alone=alone)
    event_loops.install(patches)
    watchers.install(patches)
    private_warnings.install(patches)
    patches.install(private_sys.PATCHED, process_settings.PATCHED, private_logging.PATCHED)
