"""Which virtual rank is running now: one module global, set whenever the simulator switches to a rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.errors import XsimError

if TYPE_CHECKING:
    from .fiber import Fiber
    from .rank import Rank

__all__ = ["fiber", "rank", "rank_number"]

fiber: Fiber | None = None
"""The running fiber; None while the simulator itself runs."""


def rank() -> Rank:
    """The virtual rank that is running; raises `XsimError` outside of a simulated program."""
    if fiber is None:
        raise XsimError("this is only possible inside a simulated program: run it with `xsim run` or `simulate`")
    return fiber.rank


def rank_number() -> int:
    """The number of the running rank in the whole run."""
    return rank().number
