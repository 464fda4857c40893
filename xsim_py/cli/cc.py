"""``xsim cc``, ``xsim c++``, ``xsim fc``: the user's compiler, with our header and library."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from xsim_py.cli.options import Commands, Parser

_SHOWING: Final = ("--show", "-show", "--showme")
_FAST: Final = "--fast"
_NOT_LINKED: Final = ("-c", "-S", "-E", "-M", "-MM", "-fsyntax-only")
_NOTES: Final = """\
All arguments go to the compiler that {variable} names, or else to {usual}; an option
--show prints the command instead. The program then runs with xsim run -n N PROGRAM.
{fast}"""
_FAST_NOTE: Final = """\
With --fast, for compiling and for linking, its ranks run in the process of the
simulator: faster and smaller, but without threads, fork, signal handlers and
shared libraries other than those of C.
"""


def add_cc_parser(commands: Commands) -> None:
    """Add the command for C; `read_compiling` reads its arguments."""
    _add(commands, "cc")


def add_cxx_parser(commands: Commands) -> None:
    """Add the command for C++."""
    _add(commands, "c++")


def add_fc_parser(commands: Commands) -> None:
    """Add the command for Fortran."""
    _add(commands, "fc")


def _add(commands: Commands, command: str) -> None:
    from argparse import RawDescriptionHelpFormatter

    from xsim_py.compiled.build import COMPILERS

    language, variable, usual = COMPILERS[command]
    parser = commands.add_parser(
        command,
        usage=f"xsim {command} [--show]{'' if command == 'fc' else ' [--fast]'} [ARGUMENT ...]",
        help=f"compile a {language} program for simulation",
        description=f"Compile and link a {language} program that uses MPI.",
        epilog=_NOTES.format(
            variable=variable, usual=" or ".join(usual[:2]), fast="" if command == "fc" else _FAST_NOTE
        ),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("arguments", metavar="FILE", nargs="...", help="sources, and other arguments of the compiler")


def read_compiling(parser: Parser, words: Sequence[str]) -> Namespace:
    """Return the arguments of a command whose words, after the first, belong to a compiler."""
    from argparse import Namespace

    if list(words[1:]) == ["--help"]:
        parser.parse_args(words)
    return Namespace(command=words[0], action=compile_program, arguments=list(words[1:]))


def compile_program(args: Namespace) -> int:
    """Run the compiler and return its exit status, or print its command."""
    words = [word for word in args.arguments if word not in _SHOWING]
    line = command_line(args.command, words)
    if len(words) < len(args.arguments):
        print(shlex.join(line))
        return 0
    status = subprocess.run(line, check=False).returncode
    return status if status >= 0 else 128 - status


def command_line(language: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that compiles and, unless the arguments prevent it, links a program.

    Raises
    ------
    ConfigError
        There is no compiler, or the program cannot be a fast one.
    """
    from xsim_py.compiled.build import INCLUDE, compiler, library, modules

    is_linked = not any(word in _NOT_LINKED for word in arguments)
    if _FAST in arguments:
        return _fast_line(language, [word for word in arguments if word != _FAST], is_linked=is_linked)
    folders = [f"-I{INCLUDE}", *([f"-I{modules()}"] if language == "fc" else [])]
    line = [*compiler(language), *folders, *arguments]
    if is_linked:
        # The run path lets programs start outside a simulation, as the tests of a configure script do. Before it, the
        # dynamic linker searches LD_PRELOAD, which a simulation sets, and LD_LIBRARY_PATH.
        line += [f"-L{library()}", "-lmpi_abi", f"-Wl,-rpath,{library()},--enable-new-dtags"]
    return line


def _fast_line(language: str, arguments: list[str], *, is_linked: bool) -> list[str]:
    """Return the command for a program that runs in the simulator's process."""
    from xsim_py.compiled.build import FAST_PROGRAM, INCLUDE, SOURCES, compiler, fast_library
    from xsim_py.errors import ConfigError

    if language == "fc":
        raise ConfigError("--fast: Fortran programs cannot run in the process of the simulator; compile without --fast")
    line = [*compiler(language), f"-I{INCLUDE}", "-fPIC", *arguments]
    if is_linked:
        script, symbols = SOURCES / "fast.ld", SOURCES / "fast.map"
        line += ["-shared", f"-Wl,-T,{script}", f"-Wl,--version-script={symbols}", "-Wl,-z,now,-z,defs,--gc-sections"]
        line += ["-static-libgcc", *(["-static-libstdc++"] if language == "c++" else [])]
        line.append(str(fast_library()[0] / FAST_PROGRAM))
    return line
