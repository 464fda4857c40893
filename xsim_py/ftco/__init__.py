"""Fault-tolerant tree collectives (FTCO): what a program may ask about them, and the paper's formal model, in steps.

A program needs nothing of this: ``xsim run --collectives ftco`` gives it collectives that outlive failures. One that
wants to know more may ask::

    from xsim_py import ftco

    comm.Allreduce(mine, total)
    if ftco.missing(comm):
        ...
"""

from __future__ import annotations

from .program import failed, missing, replace

__all__ = ["failed", "missing", "replace"]
