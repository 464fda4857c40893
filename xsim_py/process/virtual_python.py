"""All that gives a rank its own part of Python and of its process is put in place here, while a run lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.process.python import (
    environment,
    event_loops,
    finalizers,
    private_logging,
    private_sys,
    private_warnings,
    process_settings,
    threads,
    watchers,
)
from xsim_py.process.ranks import context, fiber, private_state

from . import lifecycle

if TYPE_CHECKING:
    from xsim_py.process.ranks.patches import Patches

__all__ = ["install"]


def install(patches: Patches) -> None:
    """Put all of them in place; the order matters where one calls what another has replaced."""
    for part in (
        fiber,
        context,
        lifecycle,
        threads,
        private_state,
        private_sys,
        environment,
        process_settings,
        finalizers,
        event_loops,
        watchers,
        private_logging,
        private_warnings,
    ):
        part.install(patches)
