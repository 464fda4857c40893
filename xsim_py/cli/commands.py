"""The commands of ``xsim``: their parsers, and the overview of `xsim` and `xsim --help`.

A run needs the parser of one command; only help, shell completion and the documentation need all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from xsim_py import __version__
from xsim_py.cli.options import Parser

if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Iterable

FIRST: Final = ("run", "compare", "check", "study", "models")
"""The commands for newcomers, listed first."""
COMMANDS: Final = (
    *FIRST,
    "explore",
    "compare-recovery",
    "mpiexec",
    "cc",
    "c++",
    "fc",
    "draw",
    "calibrate",
    "failures",
    "ftco",
    "completion",
)
COMPILING: Final = ("cc", "c++", "fc")
"""The commands whose arguments belong to a compiler."""
_PARSERS: Final = {"c++": ("cc", "cxx"), "fc": ("cc", "fc")}
"""The module of a command, and its name in the name of a function, unless they are the command's."""

_OVERVIEW: Final = """\
Run an unmodified MPI program on a simulated machine.

usage: xsim COMMAND ...

{first}

more commands:
{more}

xsim COMMAND --help lists the options of a command; xsim --version prints the version.
A first run: xsim run -n 64 --machine gige PROGRAM.py
"""


class Overview(Parser):
    """The parser of ``xsim`` itself, whose help is one line per command."""

    def __init__(self) -> None:
        super().__init__(prog="xsim", description="Run an unmodified MPI program on a simulated machine.")
        self.add_argument("--version", action="version", version=f"xsim_py {__version__}")
        self.commands = self.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)

    def add(self, *names: str) -> dict[str, list[Action] | None]:
        """Add commands, and return the options of those that run a program."""
        found = {name: _PARSERS.get(name, (name.replace("-", "_"),) * 2) for name in names}
        return {
            name: getattr(import_module(f"xsim_py.cli.{module}"), f"add_{function}_parser")(self.commands)
            for name, (module, function) in found.items()
        }

    def format_help(self) -> str:
        """Return the overview: the commands for newcomers, then the others."""
        about = {each.dest: each.help for each in self.commands._choices_actions}
        rest = [name for name in about if name not in FIRST]
        return _OVERVIEW.format(first=_lines(FIRST, about), more=_lines(rest, about))


def _lines(names: Iterable[str], about: dict[str, Any]) -> str:
    return "\n".join(f"  {name:17} {about[name]}" for name in names if name in about)


def whole_parser() -> Overview:
    """Return the parser with all commands."""
    parser = Overview()
    parser.add(*COMMANDS)
    return parser
