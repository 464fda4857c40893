"""A process that has loaded `xsim`, or `pytest`, already, and forks for each command in the documentation and each
session of pytest that a test starts. Under the name `others` it has loaded what `xsim` imports from other packages, and
forks for `python -m xsim_py` in a folder with a package of that name.

What a fresh process would find is put in place: arguments, folder, environment, standard streams. Three quarters of the
time of a short command are the start of Python and the import of numpy and of the simulator.

python -m tests.warm SOCKET MODULE       serves until its standard input is closed
"""

import atexit
import functools
import gc
import importlib
import io
import os
import pkgutil
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parent.parent

# Isolated, without site and with built-in modules alone: it has to be quicker than what it stands for, and to import
# `json` and `socket` takes as long as to start Python. A process of a real MPI is a process.
_CLIENT = """#!{python} -IS
import _socket, posix, sys
if b"PMI_RANK" in posix.environ:
    posix.execv({python!r}, [{python!r}, "-m", {module!r}, *sys.argv[1:]])
server = _socket.socket(_socket.AF_UNIX)
server.connect({place!r})
variables = [name + b"=" + value for name, value in posix.environ.items()]
arguments = [each.encode("utf-8", "surrogateescape") for each in sys.argv[1:]]
asked = b"\\0".join([posix.getcwdb(), b"%d" % len(arguments), *arguments, *variables])
streams = b"".join(each.to_bytes(4, sys.byteorder) for each in range(3))
server.sendmsg([len(asked).to_bytes(4, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
server.sendall(asked)
status = server.recv(1)
sys.exit(status[0] if status else 1)
"""


_servers: list[subprocess.Popen[bytes]] = []
"""Kept, for a server ends when its standard input is closed."""


def client(module: str = "xsim_py") -> str:
    """Return the text of a program that does what `python -m` does with `xsim_py` or with `pytest`."""
    name = "xsim_py" if module == "others" else module
    return _CLIENT.format(python=sys.executable, place=_server(module), module=name)


@functools.cache
def _server(module: str) -> str:
    """Start the process behind the programs, which ends with this one, and return its socket."""
    place = os.path.join(tempfile.mkdtemp(prefix="xsim-"), "socket")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.warm", place, module]
    # A child of a shell that ends at once, and so none of this process: some tests look for children left over.
    command = ["sh", "-c", 'exec 3<&0; "$@" <&3 3<&- &', "sh", *command]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n", shlex.join(command)
    server.wait()
    _servers.append(server)
    return place


def load(module: str) -> None:
    """Import what commands need: all of the simulator and matplotlib, or what a session of pytest needs, or others."""
    import xsim_py.cli
    import xsim_py.ftco.compiled
    import xsim_py.run

    if module == "xsim_py":
        from matplotlib.figure import Figure

        for found in pkgutil.walk_packages(xsim_py.__path__, "xsim_py."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
        # What a process does once, half a second each: read the fonts, and the compiled model.
        Figure().savefig(io.BytesIO())
        xsim_py.ftco.backend.prepare()
    elif module == "others":
        for name in [name for name in sys.modules if name.partition(".")[0] == "xsim_py"]:
            del sys.modules[name]
    else:
        import hypothesis.internal.observability  # noqa: F401  its plugin does, which takes two thirds of a short session
        import pytest  # noqa: F401

        # Otherwise pytest warns that it cannot rewrite the assertions of a plugin's modules that have been imported.
        for name in ("hypothesis", "_hypothesis_globals"):
            sys.modules[name].__doc__ = f"{sys.modules[name].__doc__} PYTEST_DONT_REWRITE"


def tasks_run_here(put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let studies do here what they give to worker processes, whose start takes longer than a short run does."""

    def do_here(function: str, tasks: Iterable[Any], _jobs: int, **_imports: Any) -> Iterator[tuple[int, Any]]:
        module, _, name = function.partition(":")
        return ((number, getattr(importlib.import_module(module), name)(task)) for number, task in enumerate(tasks))

    for module in ("xsim_py.workers", "xsim_py.study.recovery.experiment", "xsim_py.ftco.ensemble"):
        put(importlib.import_module(module), "do_in_workers", do_here)
    put(importlib.import_module("xsim_py.explore.runs"), "in_workers", lambda program: False)


def serve(place: str) -> None:
    """Fork for each that connects; return in the child, and never here."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as selector:
        listening.bind(place)
        listening.listen()
        print("ready", flush=True)
        selector.register(listening, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        while all(key.fileobj is listening for key, _ in selector.select()):
            asking, _ = listening.accept()
            if os.fork() == 0:
                _become(asking)
                return
            asking.close()
    os.unlink(place)
    os.rmdir(os.path.dirname(place))
    os._exit(0)


def _become(asking: socket.socket) -> None:
    """Put in place what a fresh process would find."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, streams, _, _ = socket.recv_fds(asking, 4, 3)
    with asking.makefile("rb") as text:
        folder, count, *words = map(os.fsdecode, text.read(int.from_bytes(length, "little")).split(b"\0"))
    arguments, variables = words[: int(count)], words[int(count) :]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(each.split("=", 1) for each in variables)
    os.sched_getaffinity = lambda _pid: {0}  # tests run side by side: workers of this would only be in the way
    sys.argv[1:] = arguments
    sys.argv[0], sys.path[0] = "xsim", folder
    atexit.register(_tell, asking)


_status = [1]


def _tell(asking: socket.socket) -> None:
    """The last that happens: registered first, and what has been printed is out by then.

    To take the interpreter apart would take longer than most commands do.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    asking.sendall(bytes(_status))
    os._exit(_status[0])


def main() -> NoReturn:
    """Serve, and be `xsim` or `pytest` in each child."""
    place, module = sys.argv[1:]
    load(module)
    if module != "others":
        tasks_run_here()
    gc.freeze()  # the collector of a child leaves the pages that it shares with this process alone
    serve(place)
    try:
        if module == "pytest":
            import pytest

            sys.exit(pytest.main())
        if module == "others":
            runpy.run_module("xsim_py", run_name="__main__", alter_sys=True)
        from xsim_py.cli import command

        sys.exit(command())
    except SystemExit as end:
        _status[0] = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


if __name__ == "__main__":
    main()
