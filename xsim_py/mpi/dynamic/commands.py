"""Commands of MPI_Comm_spawn, and the slots that their processes get (MPI 4.1, section 11.8)."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from xsim_py.errors import ConfigError
from xsim_py.machine import Universe
from xsim_py.mpi import constants as c
from xsim_py.process.programs.program import Program


class Refused(Exception):
    """The launcher cannot start a command; the text is the reason."""


AS_EXECUTABLE = "xsim_executable"
"""A hint: ``true`` if an interpreter is a compiled program, rather than one that simulates a Python program."""


class SpawnCommand(NamedTuple):
    """A program and the number of its processes."""

    command: str
    """As in MPI_Comm_spawn, like `args`."""
    args: tuple[str, ...]
    processes: int
    """The requested number of processes."""
    info: Mapping[str, str]
    """Hints: ``host``, ``wdir``, ``path``, ``soft`` and `AS_EXECUTABLE` have a meaning."""

    def __str__(self) -> str:
        return " ".join((os.path.basename(self.command), *self.args))

    def allowed(self) -> Collection[int]:
        """Return the acceptable process counts.

        The hint ``soft`` is a list of ranges ``low:high:step`` (MPI 4.1, 11.8.4).
        """
        hint = self.info.get("soft")
        if hint is None:
            return (self.processes,)
        allowed: set[int] = set()
        try:
            for part in hint.split(","):
                low, high, step = [*map(int, part.split(":")), 1][:3] if ":" in part else (int(part), int(part), 1)
                allowed.update(range(low, high + (1 if step > 0 else -1), step))
        except ValueError:
            raise Refused(f"soft: expected numbers and ranges low:high:step, got {hint}") from None
        return {count for count in allowed if 0 <= count <= self.processes}


def program_for(command: SpawnCommand, start: str) -> Program:
    """Return the program of a command that is started in a directory.

    Its hints may name a different directory.
    """
    from xsim_py.process.programs.command_line import program_of  # most programs spawn none

    directory = os.path.join(start, command.info.get("wdir", ""))
    if not os.path.isdir(directory):
        raise Refused(f"{directory}: no such directory")
    path = command.info.get("path", "").split(":") if "path" in command.info else ()
    interpreters = command.info.get(AS_EXECUTABLE) != "true"
    try:
        return program_of(
            command.command,
            command.args,
            start=os.path.normpath(directory),
            path=path,
            simulates_interpreters=interpreters,
        )
    except ConfigError as problem:
        raise Refused(str(problem)) from None


def take_slots(
    commands: Sequence[SpawnCommand], slots: Universe, machine: Any
) -> tuple[list[list[int]], list[list[int]]]:
    """Take slots for all commands, or for none.

    Returns for each command the nodes of its processes, and for each command an error code per requested process.
    """
    nodes_by_command: list[list[int]] = []
    codes = []
    acceptable = [command.allowed() for command in commands]  # before any slot is taken: it may raise Refused
    for command, allowed in zip(commands, acceptable, strict=True):
        nodes = slots.allocate(command.processes, _nodes(command, machine))
        nodes_by_command.append(nodes)
        count = max((count for count in allowed if count <= len(nodes)), default=-1)
        for node in nodes[max(count, 0) :]:
            slots.release(node)
        del nodes[max(count, 0) :]
        if count < 0:
            for node in (node for each in nodes_by_command for node in each):
                slots.release(node)
            if "host" in command.info:
                raise Refused(f"{command.info['host']} has no {command.processes} free places for {command}")
            more = f"give it more nodes, or a spawn.universe of more than {machine.universe:,}"
            raise Refused(f"the machine has no {command.processes} free places for {command}; {more}")
        codes.append([c.SUCCESS] * count + [c.ERR_SPAWN] * (command.processes - count))
    return nodes_by_command, codes


def _nodes(command: SpawnCommand, machine: Any) -> list[int] | None:
    """Return the nodes that a command's hint ``host`` names; None if all are allowed."""
    hint = command.info.get("host")
    if hint is None:
        return None
    names = hint.split(",")
    return [node for node in range(machine.nodes) if machine.name_of(node) in names]
