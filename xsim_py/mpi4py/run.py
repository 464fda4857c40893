"""``python -m mpi4py.run [-rc key=value,...] file | -m module | -c code | - [argument ...]``, in a simulation.

In a real MPI this ends the job when a program fails on one rank; here that always happens. The program runs in the
rank's existing ``__main__``, so that pickle and other users of ``__main__`` find it there.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from ast import literal_eval
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType
from typing import Any, NoReturn

import xsim_py.mpi4py as package

__all__ = ["main", "run_command_line", "set_abort_status"]

_USAGE = """\
usage: python -m mpi4py [options] <pyfile> [arg] ...
   or: python -m mpi4py [options] -m <mod> [arg] ...
   or: python -m mpi4py [options] -c <cmd> [arg] ...
   or: python -m mpi4py [options] - [arg] ...
options:
  --version            show version number and exit
  -h|--help            show this help message and exit
  -rc <key=value,...>  set 'mpi4py.rc.key=value'"""


def run_command_line(args: Sequence[str] | None = None) -> None:
    sys.argv[:] = sys.argv[1:] if args is None else args
    first = sys.argv[0]
    if first == "-":
        _execute(compile(sys.stdin.read(), "<stdin>", "exec", dont_inherit=True))
    elif first == "-c":
        _execute(compile(sys.argv.pop(1), "<string>", "exec", dont_inherit=True))
    elif first == "-m":
        del sys.argv[0]
        _run_module(sys.argv[0])
    else:
        path = os.path.join(first, "__main__.py") if os.path.isdir(first) else first
        sys.path[0] = os.path.dirname(os.path.realpath(path))
        with open(path, "rb") as file:
            code = compile(file.read(), os.path.abspath(path), "exec", dont_inherit=True)
        _execute(code, file=path)


def _run_module(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader: Any = spec.loader if spec is not None else None
    if spec is None or not hasattr(loader, "get_code"):
        raise ImportError(f"No module named {name}")
    sys.argv[0] = spec.origin or name
    _execute(loader.get_code(spec.name), file=spec.origin, spec=spec)


def _execute(code: CodeType, *, file: str | None = None, spec: ModuleSpec | None = None) -> None:
    """Run code as ``__main__``, whose names are only those of the program from now on."""
    names = vars(sys.modules["__main__"])
    builtins = names["__builtins__"]
    names.clear()
    names.update(__name__="__main__", __builtins__=builtins, __doc__=None, __loader__=None, __spec__=spec)
    names["__package__"] = spec.parent if spec is not None else None
    if file is not None:
        names["__file__"] = file
    FunctionType(code, names)()


def set_abort_status(status: object) -> None:
    """Do nothing: see the module's docstring."""


def _usage(problem: str | None = None) -> NoReturn:
    if problem is not None:
        print(problem, file=sys.stderr)
    print(_USAGE, file=sys.stdout if problem is None else sys.stderr)
    sys.exit(problem is not None)


def _set_options(text: str) -> None:
    """Set ``mpi4py.rc`` from ``key=value,...``; a value that is not a literal is a string."""
    for entry in text.split(","):
        key, _, value = entry.partition("=")
        if not key or not value:
            _usage(f"Cannot parse rc option: {entry}")
        try:
            package.rc(**{key: literal_eval(value)})
        except ValueError:
            package.rc(**{key: value})


def main() -> None:
    args = sys.argv[1:]
    while args and args[0].startswith("-") and args[0] not in ("-m", "-c", "-"):
        option, equals, value = args.pop(0).partition("=")
        option = option.removeprefix("-") if option.startswith("--") else option
        if option in ("-h", "-help"):
            _usage()
        elif option == "-version":
            print(f"mpi4py {package.__version__}")
            sys.exit()
        elif option != "-rc":
            _usage(f"Unknown option: {option}")
        elif not equals and (not args or args[0].startswith("-")):
            _usage(f"Argument expected for option: {option}")
        _set_options(value if equals else args.pop(0))
    if not args:
        _usage("No path specified for execution")
    if args[0] in ("-m", "-c") and len(args) < 2:
        _usage(f"Argument expected for option: {args[0]}")
    run_command_line(args)


if __name__ == "__main__":
    # Not the functions of this copy, whose names are in the ``__main__`` that the program takes over.
    from xsim_py.mpi4py import run

    run.main()
