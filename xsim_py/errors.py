"""Every exception that xsim_py itself raises.

::

    Exception
    └── XsimError            anything the simulator says to its user
        ├── ConfigError      the input is wrong: exit status 2, nothing was run
        └── InternalError    the simulator is wrong: please report it

An error of the simulated program is not one of these: it is `MPI.Exception` (or whatever the program raises), it
belongs to the virtual rank that raised it, and it ends up in the `Result`.
"""

from __future__ import annotations

__all__ = ["ConfigError", "InternalError", "XsimError"]


class XsimError(Exception):
    """Anything that the simulator has to say to its user."""


class ConfigError(XsimError):
    """The input (a YAML file, an option, a program's path) cannot be used.

    The message holds one problem a line, each with its place (``file:line:column: path: what; what now``).
    """


class InternalError(XsimError):
    """The simulator broke one of its own rules; this is a bug in xsim_py, not in the program."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}\nThis is a bug in xsim_py. Please report it with the program and the command line."
        )
