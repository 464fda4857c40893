"""The failures of a run: stated explicitly, read from a trace, or drawn at random.

The package computes numbers only: it uses no events, messages or running programs.
"""

from __future__ import annotations

from xsim_py.failure.fault import Fault, fault_kinds
from xsim_py.failure.model import FailureModel, check_failures
from xsim_py.failure.restart import RestartPolicy
from xsim_py.failure.schedule import CallSite, Failure, Schedule

__all__ = ["CallSite", "Failure", "FailureModel", "Fault", "RestartPolicy", "Schedule", "check_failures", "fault_kinds"]
