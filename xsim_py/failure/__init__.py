"""Which rank dies when: failures that are written down, read from a trace, or drawn.

Functions of numbers: nothing here knows of an event, a message or a running program.
"""

from __future__ import annotations

from xsim_py.failure.model import FailureModel, check_failures
from xsim_py.failure.restart import RestartPolicy
from xsim_py.failure.schedule import CallSite, Failure, Flip, Hang, Schedule

__all__ = ["CallSite", "Failure", "FailureModel", "Flip", "Hang", "RestartPolicy", "Schedule", "check_failures"]
