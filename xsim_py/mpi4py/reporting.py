"""How errors of windows and files reach the error handler of the communicator that stands for each of them."""

from __future__ import annotations

from typing import Any

from xsim_py.mpi import errors

__all__ = ["Face", "Reporting"]


class Reporting:
    """Lets an error handler see an error; where that is the user's own, the call goes on after it.

    Hot path: each call of a window has one, hence not by `contextlib`.

    Parameters
    ----------
    whose : object
        Has ``report(error)``, which is true where the handler has dealt with the error.
    """

    __slots__ = ("whose",)

    def __init__(self, whose: Any) -> None:
        self.whose = whose

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> bool:
        return isinstance(error, errors.Exception) and self.whose.report(error)


class Face:
    """Makes the object that a user's error handler gets: the window or the file that a communicator stands for.

    Parameters
    ----------
    cls : type
        Of the object.
    impl : object
        What it is a handle for.
    """

    __slots__ = ("cls", "impl")

    def __init__(self, cls: Any, impl: object) -> None:
        self.cls = cls
        self.impl = impl

    def _make(self, comm: object) -> Any:
        return self.cls._make(self.impl)
