"""The union of the mpiexec command lines of Open MPI, MPICH (Hydra) and Intel MPI.

Options for placement and for the behaviour of a real library have no meaning on a simulated machine and are ignored,
with their arguments. Options of `xsim run` have two dashes, those of a launcher one or two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from xsim_py.cli.options import positive
from xsim_py.errors import ConfigError, close_match


@dataclass
class AppLine:
    """One command, with its ranks and their environment."""

    ranks: int = 1
    command: list[str] = field(default_factory=list)
    folder: str | None = None
    env: dict[str, str] = field(default_factory=dict)


@dataclass
class Line:
    """A parsed command line."""

    apps: list[AppLine] = field(default_factory=list)
    """The commands between colons."""
    options: list[str] = field(default_factory=list)
    """The resulting options for `xsim run`."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables for all ranks."""
    asks: str = ""
    """``version``, ``help`` or ``link`` if requested instead of a run."""
    folder: str = ""
    """The directory of ``--link``."""


# Ignored options, by the number of their arguments.
_NO_ARGUMENT: Final = """
    allow-run-as-root oversubscribe nooversubscribe no-oversubscribe use-hwthread-cpus pernode bynode bycore byslot
    bysocket by-node by-slot bind-to-core bind-to-none bind-to-socket report-bindings display-map display-allocation
    display-devel-map display-topo nolocal novm leave-session-attached debug-daemons enable-recovery disable-recovery
    continuous report-child-jobs-separately get-stack-traces forward-signals genvall envall disable-auto-cleanup
    disable-hostname-propagation hybrid-hosts skip-launch-node pmi-port print-rank-map print-all-exitcodes profile
    enable-x disable-x rr noconf silent-abort ordered-output check_mpi pmi-aggregate do-not-resolve
"""
_ONE_ARGUMENT: Final = """
    H host hosts hostfile default-hostfile machine machinefile f rankmap rankfile rf N npernode npersocket ppn perhost
    grr map-by rank-by bind-to binding membind cpu-set cpu-list slot-list cpus-per-proc cpus-per-rank launcher
    launcher-exec bootstrap bootstrap-exec branch-count rmk iface topolib demux order-nodes localhost nameserver usize
    gpus-per-proc prefix path personality tune am display rtos runtime-options tmpdir genvlist envlist
    memory-alloc-kinds preload-files max-restarts ompi-server pmi-connect pset hosts-group
    stream-buffering
"""
_TWO_ARGUMENTS: Final = "mca gmca omca pmixmca prtemca"
_LEFT_OUT: Final = {
    name: count for count, names in enumerate((_NO_ARGUMENT, _ONE_ARGUMENT, _TWO_ARGUMENTS)) for name in names.split()
}
# Some of these write files, which users would miss.
_NOT_HERE: Final = """
    output-filename outfile-pattern errfile-pattern prepend-pattern timestamp-output merge-stderr-to-stdout xml xterm
    debug debugger gdb gdba tv genvnone envnone preload-binary trace server-wait-time do-not-launch
"""


def read_line(
    words: Sequence[str], valued: Mapping[str, bool], *, read: Callable[[str], Iterable[str]] | None = None
) -> Line:
    """Parse the arguments of mpiexec.

    `valued` are the options of `xsim run` with two dashes, and whether they take a value. `read` returns the lines of a
    file by name, for ``-configfile`` and ``--app``.
    """
    line = Line()
    reader = _Reader(line, valued, _lines_of if read is None else read)
    rest = list(words)
    while True:
        app = AppLine()
        own, _, rest = _before(rest, ":")
        app.command = reader.take(own, app)
        if line.asks:
            return line
        if reader.more:
            rest, reader.more = [*reader.more, *([":", *rest] if rest else [])], []
            continue
        if not app.command:
            raise ConfigError("mpiexec: no command; name one, e.g. xsim mpiexec -n 4 python prog.py")
        line.apps.append(app)
        if not rest:
            return line


def _before(words: list[str], mark: str) -> tuple[list[str], str, list[str]]:
    """Return the words before the first `mark`, that mark, and the words after it."""
    if mark not in words:
        return words, "", []
    place = words.index(mark)
    return words[:place], mark, words[place + 1 :]


class _Reader:
    """Parses options up to a command; `more` are the words of a file named by one of them."""

    def __init__(self, line: Line, valued: Mapping[str, bool], read: Callable[[str], Iterable[str]]) -> None:
        self._line = line
        self._valued = valued
        self._read = read
        self.more: list[str] = []

    def take(self, words: list[str], app: AppLine) -> list[str]:
        """Consume the options; return the words of the command."""
        place = iter(words)
        for word in place:
            if word == "--":
                break
            if not word.startswith("-") or word == "-":
                return [word, *place]
            self._option(word, place, app)
            if self._line.asks:
                break
        return list(place)

    def _option(self, word: str, following: Iterator[str], app: AppLine) -> None:
        option, equals, value = word.partition("=")
        if option in self._valued:
            self._line.options.append(word)
            if self._valued[option] and not equals:
                self._line.options.append(_value(option, following))
            return
        arguments = chain([value], following) if equals else following
        name = option.lstrip("-")
        if name in _ADDED:
            self._line.options.append(_ADDED[name])
        elif name in _ASKED:
            self._line.asks = _ASKED[name]
            self._line.folder = _value(option, arguments) if name == "link" else ""
        elif name in _MEANT:
            _MEANT[name](self, option, _value(option, arguments), arguments, app)
        elif name in _LEFT_OUT:
            for _ in range(_LEFT_OUT[name]):
                _value(option, arguments)
        elif name in _NOT_HERE.split():
            raise ConfigError(f"mpiexec: {option} is not supported; see xsim mpiexec --help")
        else:
            raise ConfigError(f"mpiexec: unknown option {option}{self._advice(option)}\ntry: xsim mpiexec --help")

    def _advice(self, option: str) -> str:
        if option in ("-m", "-c"):
            return f"; begin the command with python: python {option} ..."
        known = [*self._valued, *(f"--{name}" for name in (*_MEANT, *_ADDED, *_ASKED, *_LEFT_OUT) if len(name) > 1)]
        close = close_match(f"--{option.lstrip('-')}", known)
        return f"; did you mean {close}?" if close else ""

    # ------------------------------------------------------------------------------------- options with an effect

    def ranks(self, option: str, value: str, _: Iterator[str], app: AppLine) -> None:
        try:
            app.ranks = positive(value)
        except Exception as error:
            advice = self._advice(option) if option == "-c" else ""
            raise ConfigError(f"mpiexec: {option} {value}: {error}{advice}") from None

    def folder(self, option: str, value: str, _: Iterator[str], app: AppLine) -> None:
        app.folder = value

    def variable(self, option: str, value: str, more: Iterator[str], app: AppLine) -> None:
        name, equals, text = value.partition("=")
        exported = option.lstrip("-") == "x"
        if equals or not exported:  # else it is in the environment already
            # As in Open MPI, exports of the first command apply to all commands, those of a later one to itself.
            of_all = not self._line.apps if exported else option.lstrip("-") == "genv"
            env = self._line.env if of_all else app.env
            env[name] = text if equals else _value(option, more)

    def output(self, option: str, value: str, _: Iterator[str], app: AppLine) -> None:
        if value not in ("tag", "rank"):
            raise ConfigError(f"mpiexec: {option} {value} is not supported; {option} tag prefixes lines with the rank")
        self._line.options.append("--label")

    def faults(self, option: str, value: str, _: Iterator[str], app: AppLine) -> None:
        self._line.options.append("--ft" if value in ("ulfm", "mpi", "yes", "true") else "--no-ft")

    def timeout(self, option: str, value: str, _: Iterator[str], app: AppLine) -> None:
        self._line.options += ["--wall-limit", value]

    def stdin(self, option: str, value: str, _: Iterator[str], app: AppLine) -> None:
        if value not in ("0", "none"):
            raise ConfigError(f"mpiexec: {option} {value}: only rank 0 can read standard input; use 0 or none")

    def file(self, option: str, name: str, _: Iterator[str], app: AppLine) -> None:
        import shlex

        apps = [words for each in self._read(name) if (words := shlex.split(each, comments=True))]
        self.more = [word for words in apps for word in (":", *words)][1:]
        if not self.more:
            raise ConfigError(f"mpiexec: {option} {name}: no command in this file; add one per line")


def _value(option: str, words: Iterator[str]) -> str:
    word = next(words, None)
    if word is None:
        raise ConfigError(f"mpiexec: {option} needs a value")
    return word


def _lines_of(name: str) -> list[str]:
    try:
        with open(name) as file:
            return file.read().splitlines()
    except (OSError, ValueError) as error:
        raise ConfigError(f"mpiexec: cannot read {name}: {getattr(error, 'strerror', error)}") from None


_ASKED: Final = {"V": "version", "version": "version", "info": "version", "h": "help", "help": "help", "link": "link"}
_ADDED: Final = {
    **dict.fromkeys(("l", "prepend-rank", "tag-output"), "--label"),
    "q": "--quiet",
    **dict.fromkeys(("v", "verbose"), "--verbose"),
}
_MEANT: Final[dict[str, Callable[[_Reader, str, str, Iterator[str], AppLine], None]]] = {
    **dict.fromkeys(("n", "np", "c"), _Reader.ranks),
    **dict.fromkeys(("wdir", "wd"), _Reader.folder),
    **dict.fromkeys(("x", "genv", "env"), _Reader.variable),
    "output": _Reader.output,
    "with-ft": _Reader.faults,
    "timeout": _Reader.timeout,
    **dict.fromkeys(("s", "stdin"), _Reader.stdin),
    **dict.fromkeys(("configfile", "app"), _Reader.file),
}
