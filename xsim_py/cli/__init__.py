"""The ``xsim`` command.

Exit status: the program's own; 2 for invalid input, 3 for a deadlock, 4 for the wall limit, 74 for output or results
that cannot be written, 130 for an interrupt, 141 for a reader that has exited.

Each module here adds one command, and imports what it needs when it runs: `xsim run -n 1` should start as fast as
Python.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from xsim_py.cli.commands import COMMANDS, COMPILING, Overview, whole_parser
from xsim_py.cli.options import split_program, too_late
from xsim_py.cli.output_errors import CannotWrite
from xsim_py.errors import NO_ROOM, NOT_WRITTEN, ConfigError, unwritten

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

__all__ = ["command", "is_launcher", "main"]

_LAUNCHERS = ("mpiexec", "mpirun", "orterun", "prterun")
_SIMULATING = ("run", "compare", "mpiexec", "check")  # in this process rather than in workers


def command() -> NoReturn:
    """Run the command line and end this process: the ``xsim`` script and ``python -m xsim_py``."""
    status = main(["mpiexec", *sys.argv[1:]] if is_launcher(sys.argv[0]) else None, last=True)
    # Python waits for threads that a program has left running, and the command must not hang.
    left = [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]
    if left:
        print(f"xsim: threads left running by the program, ended now: {len(left)}", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def is_launcher(command: str) -> bool:
    """Return True if a command has a launcher's name: ``mpiexec``, ``mpiexec.hydra``."""
    return os.path.basename(command).partition(".")[0] in _LAUNCHERS


def main(argv: Sequence[str] | None = None, *, last: bool = False) -> int:
    """Run a command line and return the exit status; after the `last` one, the process ends."""
    if sys.stdout is None or sys.stderr is None:  # closed by the parent process
        sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
        sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    words = sys.argv[1:] if argv is None else argv
    try:
        if not words:
            print(whole_parser().format_help(), end="", file=sys.stderr)
            return 2
        args = _parse(words)
        _refuse_launcher(args.command)
        args.last = last
        if last and args.command == "mpiexec":
            from xsim_py.cli.mpiexec import restart_interpreter

            restart_interpreter(args)
        if last and args.command in _SIMULATING:
            from xsim_py.cli.guard import continue_in_child
            from xsim_py.process.output.simulator_descriptors import apart

            continue_in_child()
            sys.stdout, sys.stderr = apart(sys.stdout), apart(sys.stderr)
        status: int = args.action(args)
        sys.stdout.flush()
        return status
    except ConfigError as error:
        for line in str(error).splitlines() if _is_first_process() else ():
            print(f"xsim: {line}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has exited, such as `head`
        _drop_output()
        return 141
    except CannotWrite as error:
        return _cannot_write(str(error))
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        return _cannot_write(unwritten(error))
    except KeyboardInterrupt as interrupt:
        if type(interrupt) is KeyboardInterrupt:  # others have been reported
            print(" ".join(["xsim: interrupted", *map(str, interrupt.args)]), file=sys.stderr)
        return 130


def _cannot_write(message: str) -> int:
    if _is_first_process():
        for stream in (sys.stderr, sys.__stderr__):  # a program may have closed the descriptor of the first one
            with suppress(OSError):  # the same disk may have room for a message
                print(f"xsim: {message}", file=stream, flush=True)
                break
    _drop_output()
    return NOT_WRITTEN


def _drop_output() -> None:
    """Discard unwritten output: Python would try to write it again at exit, and complain."""
    streams = [sys.stdout]
    try:
        sys.stderr.flush()
    except OSError:
        streams.append(sys.stderr)
    for stream in streams:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_first_process() -> bool:
    """Return True if this process prints errors: one of all processes of a real ``mpiexec``."""
    from xsim_py.engine import OF_VIRTUAL_RANK, RANK_VARIABLES

    return OF_VIRTUAL_RANK in os.environ or all(os.environ.get(name, "0") == "0" for name in RANK_VARIABLES)


def _refuse_launcher(command: str) -> None:
    """Reject commands under a real launcher, except sharded runs and ``mpi4py.futures`` studies.

    Each process of another command would repeat all of it, and its child processes would take themselves for ranks of
    the launcher's MPI.
    """
    if command in ("run", "mpiexec") or (command == "study" and "mpi4py.futures" in sys.modules):
        return
    from xsim_py.engine import launched_by_mpiexec

    if launched_by_mpiexec() > 1:
        futures = "mpiexec -n N python -m mpi4py.futures -m xsim_py study ..., or " if command == "study" else ""
        instead = f"{futures}xsim {command} ... without mpiexec"
        raise ConfigError(f"{command}: cannot run under mpiexec, it starts processes itself; type {instead}")


def _refuse_half_characters(argv: Sequence[str]) -> None:
    """Reject arguments that are not valid text, an error that would otherwise appear late."""
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"expected UTF-8 text, got the argument {word!r}") from None


def _parse(argv: Sequence[str]) -> Namespace:
    """Return the options; the program's own arguments are cut off first, unseen by argparse."""
    parser = Overview()
    command = argv[0]
    if command == "mpiexec":
        from xsim_py.cli.mpiexec import read_mpiexec

        return read_mpiexec(parser, argv[1:], parser.add("run", "mpiexec")["run"] or ())
    if command in COMPILING:
        from xsim_py.cli.cc import read_compiling

        parser.add(command)
        return read_compiling(parser, argv)
    options = parser.add(*([command] if command in COMMANDS else COMMANDS)).get(command)
    if options is None:
        _refuse_half_characters(argv)
        args = parser.parse_args(argv)
        args.own = list(argv[1:])
        return args
    ways = argv[1:2] if command == "explore" and argv[1:2] != ["--help"] else []  # a sub-command
    own, program = split_program(argv[1 + len(ways) :], options)
    _refuse_half_characters([*ways, *own])
    try:
        args = parser.parse_args([command, *ways, *own])
    except ConfigError as error:
        message, _, more = str(error).partition("\n")
        late = too_late(program, options) if " are required: " in message else ""
        raise ConfigError(f"{message}{late}\n{more}") from None
    args.own = own
    if program is None and command != "compare-recovery":  # which has a default program
        raise ConfigError(f"{command}: no program; name a file, -m MODULE or -c CODE (see xsim {command} --help)")
    args.program = program
    return args
