"""``xsim completion``: print a script with which a shell completes commands and options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Action, ArgumentParser, Namespace

    from xsim_py.cli.options import Commands

SHELLS: Final = ("bash", "zsh", "fish")
_FILES: Final = ("FILE", "CSV", "PICTURE", "SAVED", "RESULT", "MACHINE.yaml")
_FOLDERS: Final = ("DIR", "FOLDER")
_MACHINES: Final = ("machine", "machines", "like", "models file", "models name")
_STUDIES: Final = ("study file",)
_NOTES: Final = """\
bash:  xsim completion bash >~/.local/share/bash-completion/completions/xsim
zsh:   xsim completion zsh >~/.zfunc/_xsim    with fpath+=~/.zfunc before compinit in ~/.zshrc
fish:  xsim completion fish >~/.config/fish/completions/xsim.fish

The scripts are made by shtab: pip install 'xsim-py[completion]'. They need neither shtab nor Python later.
"""


def add_completion_parser(commands: Commands) -> None:
    """Add the command to the sub-parsers of the top level."""
    from argparse import RawDescriptionHelpFormatter

    parser = commands.add_parser(
        "completion",
        help="print the completion script of a shell",
        description="Print a script with which a shell completes commands, options, presets and files.",
        epilog=_NOTES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=completion)
    parser.add_argument("shell", choices=SHELLS, help="the shell to complete in")


def completion(args: Namespace) -> int:
    """Print the script of a shell and return the exit status."""
    print(script(args.shell))
    return 0


def script(shell: str) -> str:
    """Return the completion script of a shell."""
    try:
        import shtab
    except ImportError:
        raise ConfigError("completion: shtab is not installed; pip install 'xsim-py[completion]'") from None
    from xsim_py.cli.commands import COMMANDS, Overview
    from xsim_py.config.loader import presets as machines
    from xsim_py.study.loader import presets as studies

    top = Overview()
    programs = {name: options for name, options in top.add(*COMMANDS).items() if options}
    _add_to_mpiexec(top.commands.choices["mpiexec"], programs["run"])
    offers = {_MACHINES: _words("machine", machines()), _STUDIES: _words("study", studies())}
    for command, parser in _leaves(top.commands.choices):
        if command in programs or command == "mpiexec":
            _add_program(parser)
        for action in parser._actions:
            _offer(action, command, shtab, offers)
    text: str = shtab.complete(top, shell)
    return text


def _leaves(parsers: Mapping[str, ArgumentParser], command: str = "") -> Iterator[tuple[str, ArgumentParser]]:
    """Yield each parser without sub-commands, with the name of the command to which it belongs."""
    for name, parser in parsers.items():
        if (group := parser._subparsers) is None:
            yield command or name, parser
        else:
            (actions,) = group._group_actions
            yield from _leaves(actions.choices, command or name)  # type: ignore[arg-type]


def _add_to_mpiexec(parser: ArgumentParser, options: Iterable[Action]) -> None:
    """Add the options of ``xsim run``, which mpiexec reads itself."""
    for option in options:
        if "--help" not in option.option_strings:
            parser._add_action(option)


def _add_program(parser: ArgumentParser) -> None:
    """Add the program's arguments, which `split_program` cuts off before argparse runs."""
    add = parser.add_argument
    add("-m", metavar="MODULE", help="run a module")
    add("-c", metavar="CODE", help="run Python text")
    add("program", metavar="FILE", help="the program")
    add("arguments", metavar="FILE", nargs="...", help="its arguments")


def _offer(action: Action, command: str, shtab: object, offers: dict[tuple[str, ...], dict[str, Any]]) -> None:
    """Set the completions of an option's or argument's value."""
    from argparse import SUPPRESS

    if any("[" in name for name in action.option_strings):  # --check=CLASS[,...] cannot be completed as a word
        action.help = SUPPRESS
    choices = re.fullmatch(r"\{(.*)\}", str(action.metavar))
    found = [kind for names, kind in offers.items() if {action.dest, f"{command} {action.dest}"} & {*names}]
    if found:
        action.complete = found[0]  # type: ignore[attr-defined]
    elif action.metavar in _FILES:
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif action.metavar in _FOLDERS:
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    elif choices is not None and action.choices is None:
        action.choices = [word for word in choices[1].split(",") if word.islower()]


def _words(name: str, words: Iterable[str]) -> dict[str, Any]:
    """Return the completion of words and all files for each shell; the name tells bash of files."""
    function, text = f"_xsim_{name}_or_file", " ".join(words)
    return {
        "bash": function,
        "zsh": function,
        "fish": f"({function})",
        "preamble": {
            "bash": f'{function}() {{\n  compgen -W "{text}" -- "$1"\n  compgen -f -- "$1"\n}}',
            "zsh": f"{function}() {{\n  compadd {text}\n  _files\n}}",
            "fish": f"function {function}\n  printf '%s\\n' {text}\n  __fish_complete_path (commandline -ct)\nend",
        },
    }
