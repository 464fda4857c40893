"""``xsim mpiexec``: a simulating replacement for ``mpiexec``, for tools that start one.

A Python command, or an executable that uses MPI, runs on virtual ranks. Any other command is run without simulation,
once per rank in sequence: tools call ``mpiexec -n 1 hostname``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from xsim_py import __version__
from xsim_py.cli.options import Commands, Parser, ProgramSpec
from xsim_py.cli.run import run
from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Action, Namespace
    from collections.abc import Sequence

    from xsim_py.cli.mpiexec_line import AppLine, Line
    from xsim_py.process.programs.program import Program

_LINKS: Final = ("mpiexec", "mpirun")
_TIMED_OUT: Final = 4
_VERSION: Final = f"""\
mpiexec (xsim_py) {__version__}
It starts virtual ranks, and takes the options of mpirun of Open MPI and of mpiexec of MPICH (HYDRA).
"""
_OF_INTERPRETER: Final = ("-O", "-W", "-X", "-b", "-B")
"""Options that apply to a whole interpreter, and so to all ranks."""
_AT_START: Final = ("PYTHON", "LD_", "DYLD_", "MALLOC_")
"""Prefixes of variables that are read when an interpreter starts."""

_NOTES: Final = """\
options of mpiexec:
  -n N, -np N, -c N         set the number of ranks of this command (default: 1)
  -x NAME=VALUE, -genv NAME VALUE
                            set a variable for all ranks (-env NAME VALUE: for this command only)
  -wdir DIR, -wd DIR        start this command in DIR
  -l, -prepend-rank, --tag-output
                            prefix each line of output with its rank
  -timeout SECONDS          end the run with a report after this wall-clock time
  --with-ft ulfm            let the job survive process failures
  -configfile FILE, --app FILE
                            read the remaining arguments from FILE, one command per line
  -v, --verbose             print version, seed, configuration and outcome of the run
  -V, --version             print the version
  --link DIR                create links named mpiexec and mpirun to this command in DIR

Options of xsim run, each with two dashes (--machine, --fail, --seed ...), come before COMMAND or from the file
xsim-mpiexec.yaml in the current directory or its nearest parent. Other options of Open MPI's, MPICH's and Intel's
mpiexec (hosts, binding, --mca ...) are ignored.

exit status: as for xsim run; for a command that is not simulated, the first status that is not zero.
"""


def add_mpiexec_parser(commands: Commands) -> None:
    """Add the command, for its help; `read_mpiexec` parses its arguments."""
    from argparse import RawDescriptionHelpFormatter

    commands.add_parser(
        "mpiexec",
        usage="xsim mpiexec [option ...] COMMAND [ARGUMENT ...] [: [option ...] COMMAND ...]",
        help="start commands on virtual ranks as mpiexec does",
        description="Run `python prog.py`, a script or a compiled program on virtual ranks, as mpiexec would.",
        epilog=_NOTES,
        formatter_class=RawDescriptionHelpFormatter,
    )


def read_mpiexec(parser: Parser, words: Sequence[str], options: Sequence[Action]) -> Namespace:
    """Return the arguments, as of `xsim run` with its `options`; `words` follow the command."""
    from xsim_py.cli.mpiexec_file import find_file, options_of
    from xsim_py.cli.mpiexec_line import read_line

    known = {name: option for option in options for name in option.option_strings if name.startswith("--")}
    known.pop("--ranks")
    line = read_line(words, {name: option.nargs != 0 for name, option in known.items()})
    if line.asks == "help":
        parser.parse_args(["mpiexec", "--help"])
    flags = list(line.options)
    file = None if line.asks else find_file(Path.cwd())
    if file is not None:
        flags = [word for word in options_of(file, known | {"--verbose": known["--quiet"]}) if word] + flags
    ranks = sum(app.ranks for app in line.apps)
    args = parser.parse_args(["run", "-n", str(max(ranks, 1)), *(word for word in flags if word != "--verbose")])
    loud = [word for word in flags if word in ("--quiet", "--verbose")]
    args.silent = loud[-1:] == ["--quiet"]
    args.quiet = loud[-1:] != ["--verbose"]
    args.command, args.action, args.line = "mpiexec", mpiexec, line
    return args


# --------------------------------------------------------------------------------------- options of the interpreter


def restart_interpreter(args: Namespace) -> None:
    """Restart as another interpreter if the command needs missing options or variables."""
    line: Line = args.line
    if line.asks:
        return
    if len(line.apps) == 1:
        line.env |= line.apps[0].env
    late = {name: value for name, value in line.env.items() if name.startswith(_AT_START)}
    options = _take_options(line.apps)
    if not options and all(os.environ.get(name) == value for name, value in late.items()):
        return
    os.environ.update(line.env)
    words = list(line.options)
    for app in line.apps:
        words += ["-n", str(app.ranks), *(("-wdir", app.folder) if app.folder else ())]
        words += [word for name, value in app.env.items() for word in ("-env", name, value)]
        words += ["--", *app.command, ":"]
    os.execv(sys.executable, [sys.executable, *options, "-P", "-m", "xsim_py", "mpiexec", *words[:-1]])


def _take_options(apps: list[AppLine]) -> list[str]:
    """Remove the interpreter options common to all commands; others stay."""
    from xsim_py.process.programs.command_line import how_called, is_interpreter

    called = [how_called(app.command[1:]) for app in apps if is_interpreter(app.command[0])]
    wanted = [[option for option in each.options if option.startswith(_OF_INTERPRETER)] for each in called]
    if len(called) < len(apps) or any(each != wanted[0] for each in wanted):
        return []
    for app, each in zip(apps, called, strict=True):
        kept = [option for option in each.options if option not in wanted[0]]
        target = {"module": ["-m", each.target], "code": ["-c", each.target], "stdin": ["-"]}
        app.command[1:] = [*kept, *target.get(each.kind, [each.target]), *each.args]
    return wanted[0]


# ------------------------------------------------------------------------------------------------------ the command


def mpiexec(args: Namespace) -> int:
    """Run the commands, or the requested other action, and return the exit status."""
    line: Line = args.line
    if line.asks == "version":
        print(_VERSION, end="")
        return 0
    if line.asks == "link":
        return _link(Path(line.folder))
    from xsim_py.engine import forget_launcher

    forget_launcher()
    os.environ.update(line.env)
    jobs = [_Job.of(app) for app in line.apps]
    if all(job.is_simulated for job in jobs):
        from xsim_py.process.programs.apps import App

        stdin = _stdin(jobs)
        apps = [App(job.load(stdin), job.app.ranks, env=job.app.env) for job in jobs]
        args.program = ProgramSpec(None, apps, [])
        return run(args)
    for job in jobs:
        if job.is_simulated:
            raise ConfigError(
                f"mpiexec: {job.app.command[0]} can be simulated, but the other programs of this job cannot"
            )
    return _run_really(jobs, args)


class _Job(NamedTuple):
    """A resolved command."""

    app: AppLine
    """The command with its options, as on the command line."""
    start: str
    """The directory in which it starts."""
    file: str
    """The path of the script; empty for the interpreter itself."""
    is_simulated: bool
    """True if this is a Python program, or a compiled one that uses MPI."""

    @classmethod
    def of(cls, app: AppLine) -> _Job:
        from xsim_py.compiled.elf import uses_mpi
        from xsim_py.process.programs.command_line import is_interpreter, is_python

        start = os.path.normpath(os.path.join(os.getcwd(), app.folder or ""))
        if not os.path.isdir(start):
            raise ConfigError(f"mpiexec: -wdir {app.folder}: no such directory")
        _unwrap(app)
        command = app.command[0]
        if is_interpreter(command):
            return cls(app, start, "", True)
        file = _found(command, start)
        return cls(app, start, file, is_python(file) or uses_mpi(file))

    def load(self, stdin: bytes | None) -> Program:
        """Find the program of a simulated command, and compile it if it is Python."""
        from xsim_py.compiled.program import register
        from xsim_py.process.programs.command_line import program_of

        register()
        command, *args = self.app.command
        return program_of(self.file or command, args, start=self.start, stdin=stdin)


def _unwrap(app: AppLine) -> None:
    """Move the variables of ``env NAME=VALUE ... COMMAND`` to the launcher's."""
    command = app.command
    if os.path.basename(command[0]) != "env":
        return
    rest = next((place for place, word in enumerate(command) if place and "=" not in word), len(command))
    if rest < len(command) and not command[rest].startswith("-"):
        app.env.update((name, value) for name, _, value in (word.partition("=") for word in command[1:rest]))
        del command[:rest]


def _found(command: str, start: str) -> str:
    """Return the file of a command: as a shell would find it, or next to this command."""
    import shutil

    here = os.path.join(start, command)
    found = None if "/" in command else shutil.which(command)
    if found is None and os.path.isfile(here):
        found = here
    if found is None:
        raise ConfigError(f"mpiexec: {command}: no such command")
    return found


def _stdin(jobs: list[_Job]) -> bytes:
    """Read the program of an interpreter without one: only the first rank has standard input."""
    from xsim_py.process.programs.command_line import how_called

    first = jobs[0]
    if first.file or how_called(first.app.command[1:]).kind != "stdin" or sys.stdin is None:
        return b""
    return sys.stdin.buffer.read()


def _link(folder: Path) -> int:
    """Create the links, and explain how to put them on the search path."""
    import shutil

    script = shutil.which("xsim", path=os.path.dirname(sys.executable)) or shutil.which("xsim")
    if script is None:
        raise ConfigError("mpiexec: --link: cannot find the command xsim next to this Python or on PATH")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for link in (folder / name for name in _LINKS):
            if os.path.lexists(link) and not (link.is_symlink() and os.path.realpath(link) == os.path.realpath(script)):
                raise ConfigError(f"mpiexec: --link: {link} exists and is not a link to xsim; choose another directory")
            if not link.is_symlink():
                link.symlink_to(os.path.abspath(script))
    except OSError as error:
        raise ConfigError(f"mpiexec: --link {folder}: {error.strerror}") from None
    print(f'export PATH="{folder.resolve()}:$PATH"')
    return 0


def _run_really(jobs: list[_Job], args: Namespace) -> int:
    """Run each command once per rank; return the first non-zero status."""
    from xsim_py.mpi.dynamic.variables import launched

    if args.ranks > 1 and not args.silent:
        what = f"{jobs[0].app.command[0]} does not use MPI: running it {args.ranks} times without simulation"
        print(f"xsim: {what}, in sequence", file=sys.stderr, flush=True)
    until_s = None if args.wall_limit is None else time.monotonic() + args.wall_limit
    status = number = 0
    for job in jobs:
        for _ in range(job.app.ranks):
            variables = launched(number, args.ranks, number, args.ranks, universe=args.ranks, number=number)
            came = _run_one(job, {**os.environ, **job.app.env, **variables}, number, until_s, label=args.label)
            if came == _TIMED_OUT and until_s is not None and time.monotonic() >= until_s:
                print("the wall limit was reached", file=sys.stderr)
                return _TIMED_OUT
            status = status or came
            number += 1
    return status


def _run_one(job: _Job, env: dict[str, str], number: int, until_s: float | None, *, label: bool) -> int:
    """Run a command once, as the rank with this number; return its status."""
    import subprocess

    from xsim_py.vitals import live_with_parent

    sys.stdout.flush()
    command, *words = job.app.command
    # The name is kept, because programs may look at how they were called.
    started = subprocess.Popen(
        [command, *words],
        executable=job.file,
        cwd=job.start,
        env=env,
        stdin=None if number == 0 else subprocess.DEVNULL,
        stdout=subprocess.PIPE if label else None,
        preexec_fn=live_with_parent,
    )
    with started:
        try:
            if started.stdout is not None:
                _copy_lines(started.stdout.fileno(), number, until_s)
            status = started.wait(_left_s(until_s))
        except subprocess.TimeoutExpired:
            started.kill()
            return _TIMED_OUT
    return status if status >= 0 else 128 - status


def _left_s(until_s: float | None) -> float | None:
    return None if until_s is None else max(until_s - time.monotonic(), 0)


def _copy_lines(source: int, number: int, until_s: float | None) -> None:
    """Copy a rank's output, with its number in front of each line, until its end or the timeout."""
    import select

    rest = b""
    while select.select([source], [], [], _left_s(until_s))[0]:
        data = os.read(source, 1 << 16)
        *lines, rest = (rest + data).split(b"\n")
        if rest and not data:
            lines, rest = [rest], b""
        sys.stdout.buffer.write(b"".join(b"[%d] %b\n" % (number, line) for line in lines))
        sys.stdout.buffer.flush()
        if not data:
            return
