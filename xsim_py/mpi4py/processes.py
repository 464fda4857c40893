"""The methods of `MPI.Intracomm` that spawn processes and connect to others."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import constants as c
from xsim_py.mpi.dynamic.commands import SpawnCommand
from xsim_py.mpi.dynamic.ports import check_port, connect_groups
from xsim_py.mpi.dynamic.spawn import spawn
from xsim_py.mpi.errors import Exception

from .info import INFO_NULL, Info, _text, items_of
from .management import Management
from .plain_arguments import plain_text

if TYPE_CHECKING:
    from .comm import Intercomm

__all__ = ["ProcessCreation"]

PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class ProcessCreation(Management):
    """Spawning processes, and connecting to others at a port."""

    __slots__ = ()

    def Spawn(
        self,
        command: PathLike,
        args: Sequence[str] | None = None,
        maxprocs: int = 1,
        info: Info = INFO_NULL,
        root: int = 0,
        errcodes: list[int] | None = None,
    ) -> Intercomm:
        comm = self._comm()
        count = operator.index(maxprocs)
        commands = None
        if comm.me == root:
            commands = [SpawnCommand(_plain(command), _arguments(args), count, items_of(info))]
            if count < 0:
                comm.fail(c.ERR_ARG, f"{count} processes")
        made, codes = spawn(comm, commands, operator.index(root), "Intracomm.Spawn")
        if errcodes is not None:
            errcodes[:] = codes[:count]
        return self._connected(made)

    def Spawn_multiple(
        self,
        command: Sequence[PathLike],
        args: Sequence[Sequence[str]] | None = None,
        maxprocs: Sequence[int] | None = None,
        info: Sequence[Info] | Info = INFO_NULL,
        root: int = 0,
        errcodes: list[list[int]] | None = None,
    ) -> Intercomm:
        comm = self._comm()
        commands, counts = None, []
        if comm.me == root:
            if isinstance(command, str | bytes | os.PathLike):
                raise ValueError("expecting a sequence of path-like")
            names = [_plain(each) for each in command]
            counts = _counts(maxprocs, len(names))
            given = [args] * len(names) if isinstance(args, str | None) else _each(args, len(names))
            hints = [info] * len(names) if isinstance(info, Info) else _each(info, len(names))
            commands = [
                SpawnCommand(name, _arguments(line), count, items_of(hint))
                for name, line, count, hint in zip(names, given, counts, hints, strict=True)
            ]
            if any(count < 0 for count in counts):
                comm.fail(c.ERR_ARG, f"{min(counts)} processes")
        elif errcodes is not None:
            counts = _counts(maxprocs, len(maxprocs))  # type: ignore[arg-type]
        made, codes = spawn(comm, commands, operator.index(root), "Intracomm.Spawn_multiple")
        if errcodes is not None:
            errcodes[:] = [[codes.pop(0) for _ in range(count)] for count in counts]
        return self._connected(made)

    def Accept(self, port_name: str, info: Info = INFO_NULL, root: int = 0) -> Intercomm:
        return self._connect(port_name, root, accepts=True)

    def Connect(self, port_name: str, info: Info = INFO_NULL, root: int = 0) -> Intercomm:
        return self._connect(port_name, root, accepts=False)

    def _connect(self, port: str, root: int, *, accepts: bool) -> Intercomm:
        comm = self._comm()
        if comm.me == root:
            port = _text(port, c.MAX_PORT_NAME, c.ERR_PORT)
            try:
                check_port(port)
            except Exception as error:
                comm.report(error)
                raise
        return self._connected(connect_groups(comm, port, operator.index(root), accepts=accepts))

    def _connected(self, made: Any) -> Intercomm:
        raise NotImplementedError


def _arguments(args: Iterable[PathLike] | None) -> tuple[str, ...]:
    if args is None:
        return ()
    return tuple(_plain(arg) for arg in ([args] if isinstance(args, str | bytes) else args))


def _plain(text: PathLike) -> str:
    return plain_text(os.fsdecode(text))


def _each(given: Sequence[Any], count: int) -> list[Any]:
    """Return one item for each command."""
    listed = list(given)
    if len(listed) != count:
        raise ValueError(f"expecting {count} items, got {len(listed)}")
    return listed


def _counts(maxprocs: Sequence[int] | int | None, count: int) -> list[int]:
    if maxprocs is None:
        return [1] * count
    if isinstance(maxprocs, int):
        return [operator.index(maxprocs)] * count
    return [operator.index(each) for each in _each(maxprocs, count)]
