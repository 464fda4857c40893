"""The fixtures of a test in one rank: those that use MPI, and pytest's per process.

Other fixtures are set up once, outside the ranks. Fixtures that use `comm`, refer to mpi4py, or request one that does,
are set up here, and torn down after the body. A rank has its own `capsys`, `monkeypatch` and related fixtures.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import attrgetter
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from _pytest.capture import CaptureFixture
from _pytest.logging import LogCaptureFixture, LogCaptureHandler
from _pytest.recwarn import WarningsRecorder

from xsim_py.code_origin import is_installed
from xsim_py.process.ranks import current, private_state

from .fixtures import NAMES
from .outside_changes import LocatedFunction, cells_of, rebound, unwrapped, uses_mpi

_NOTHING: Any = object()


_Base: Any = pytest.MonkeyPatch  # final for type checkers


class _MonkeyPatch(_Base):  # type: ignore[misc]
    """A `pytest.MonkeyPatch` whose changes to shared objects are private to a rank."""

    def setattr(self, target: object, name: str, value: object = _NOTHING, raising: bool = True) -> None:
        if value is _NOTHING:
            super().setattr(target, name, raising=raising)
            return
        _make_private(target, name)
        super().setattr(target, name, value, raising)

    def delattr(self, target: object, name: Any = _NOTHING, raising: bool = True) -> None:
        if name is _NOTHING:
            super().delattr(target, raising=raising)
            return
        _make_private(target, name)
        super().delattr(target, name, raising)


def _make_private(owner: object, name: str) -> None:
    """Make an attribute of an object private to each rank."""
    rank = current.rank()
    if isinstance(owner, ModuleType):
        if rank.modules is None or rank.modules.get(owner.__name__) is not owner:
            private_state.own_attribute(rank, owner, name)
    elif isinstance(owner, type) and not rank.has_made(owner):
        setting = private_state.Setting(partial(_own, owner, name), partial(_put, owner, name))
        private_state.touch(rank, f"{owner.__module__}.{owner.__qualname__}.{name}", setting)


def _own(owner: type, name: str) -> object:
    return vars(owner).get(name, _NOTHING)


def _put(owner: type, name: str, value: object) -> None:
    if value is not _NOTHING:
        setattr(owner, name, value)
    elif name in vars(owner):
        delattr(owner, name)


fixture_info = attrgetter("_fixtureinfo")
"""Return pytest's record of the fixtures of a test."""


def _log_fixture(item: object, handler: LogCaptureHandler) -> LogCaptureFixture:
    """Return a `caplog` with a separate handler, instead of that of the test."""
    # A subclass: pytest's class is final, and keeps the handler with the test.
    kind: Any = type("LogCaptureFixture", (LogCaptureFixture,), {"handler": handler})
    made: LogCaptureFixture = kind(item, _ispytest=True)
    return made


@contextmanager
def _capturing(shared: CaptureFixture[Any]) -> Iterator[CaptureFixture[Any]]:
    options: dict[str, Any] = {"config": shared._config} if getattr(shared, "_config", None) else {}
    own = CaptureFixture(shared.captureclass, shared.request, _ispytest=True, **options)
    own._start()
    try:
        yield own
    finally:
        own.close()


@contextmanager
def _logging(shared: LogCaptureFixture) -> Iterator[LogCaptureFixture]:
    own, root = _log_fixture(shared._item, LogCaptureHandler()), logging.getLogger()
    root.addHandler(own.handler)
    try:
        yield own
    finally:
        root.removeHandler(own.handler)
        own._finalize()


@contextmanager
def _patching(_: object) -> Iterator[pytest.MonkeyPatch]:
    own: pytest.MonkeyPatch = _MonkeyPatch()
    try:
        yield own
    finally:
        own.undo()


@contextmanager
def _recording(_: object) -> Iterator[WarningsRecorder]:
    with WarningsRecorder(_ispytest=True) as own:
        yield own


_OWN: Mapping[type, Callable[[Any], Any]] = {
    CaptureFixture: _capturing,
    LogCaptureFixture: _logging,
    pytest.MonkeyPatch: _patching,
    WarningsRecorder: _recording,
}
"""The fixtures of pytest that are separate for each rank."""


class _Request:
    """The ``request`` of a test or fixture in one rank, with the rank's own values."""

    def __init__(self, fixtures: Fixtures, name: str | None, scope: str, index: int) -> None:
        self._fixtures = fixtures
        self._index = index
        self.fixturename = name
        self.scope = scope
        self.module, self.cls = fixtures.owner.module, fixtures.owner.cls
        self.instance, self.function = fixtures.owner.instance, fixtures.owner.function
        param = _NOTHING if name is None else fixtures.param(name)
        if param is not _NOTHING:
            self.param = param

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fixtures.item._request, name)

    def addfinalizer(self, finalizer: Callable[[], object]) -> None:
        """Call a function after the body."""
        self._fixtures.stack.callback(finalizer)

    def getfixturevalue(self, name: str) -> object:
        """Return the value of a fixture of this rank."""
        return self._fixtures.value(name, self._index - 1 if name == self.fixturename else -1)


def uses_mpi_directly(fixturedef: pytest.FixtureDef[Any]) -> bool:
    """Return True if a fixture uses MPI directly, rather than only through its arguments."""
    function = fixturedef.func
    # Pytest's fixtures that call ``setup_class`` and related functions have these in their closures.
    if uses_mpi(function) or any(map(uses_mpi, cells_of(function))):
        return True
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and "getfixturevalue" in code.co_names and not set(NAMES).isdisjoint(code.co_consts)


def is_of_plugin(fixturedefs: Sequence[pytest.FixtureDef[Any]], value: object) -> bool:
    """Return True if a value is of a class of its fixture's plugin, like pytest-mock's `mocker`.

    The plugin uses that very object after the test.
    """
    function = unwrapped(fixturedefs[-1].func) if fixturedefs else None
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None or not is_installed(code.co_filename):
        return False
    plugin, _, _ = str(getattr(function, "__module__", "")).partition(".")
    return str(type(value).__module__).partition(".")[0] == plugin


class OutsideSetup(NamedTuple):
    """The part of a test that was set up outside the ranks, as one rank receives it."""

    value: dict[str, Any]
    """Values of fixtures."""
    param: dict[str, Any]
    """Parameters of fixtures that are set up in ranks."""
    instance: dict[str, Any]
    """Attributes of the test's instance."""
    closure: dict[str, list[Any]]
    """Contents of the closures of pytest's fixtures that call ``setup_class`` and related functions."""
    copied: Callable[[str, Any], Any]
    """Copies the value of a fixture that is requested later."""


class Owner(SimpleNamespace):
    """The rank's own module, class, instance and function of the test."""

    module: ModuleType | None
    cls: type | None
    instance: object
    function: Callable[..., object]


class Fixtures:
    """The fixtures of a test in one rank."""

    def __init__(self, item: Any, owner: Owner, outside: OutsideSetup, stack: ExitStack) -> None:
        self.item = item
        self.owner = owner  # of the test in this rank
        self.stack = stack  # closed after the body
        self._outside = outside
        self._values: dict[tuple[str, int], Any] = {}
        for name, value in outside.value.items():
            make = next((make for kind, make in _OWN.items() if isinstance(value, kind)), None)
            self._values[name, -1] = value if make is None else stack.enter_context(make(value))

    def param(self, name: str) -> object:
        """Return the parameter of a fixture, if it has one."""
        return self._outside.param.get(name, _NOTHING)

    def value(self, name: str, index: int = -1) -> object:
        """Return the value of a fixture, set up on first use; `index` counts those of one name."""
        key = name, index
        if name == "request":
            return _Request(self, None, "function", -1)
        if key not in self._values:
            defs = self._defs(name)
            if self._is_inside(name):
                self._values[key] = self._set_up(defs[index], index)
            else:  # requested late
                with current.outside():
                    value = self.item._request.getfixturevalue(name)
                self._values[key] = value if is_of_plugin(defs, value) else self._outside.copied(name, value)
        return self._values[key]

    def _defs(self, name: str) -> Sequence[pytest.FixtureDef[Any]]:
        known = fixture_info(self.item).name2fixturedefs.get(name)
        return known or self.item.session._fixturemanager.getfixturedefs(name, self.item) or ()

    def _is_inside(self, name: str) -> bool:
        """Return True if each rank has its own value of a fixture."""
        return any(
            uses_mpi_directly(each)
            or any(self._is_inside(one) for one in each.argnames if one not in (name, "request"))
            for each in self._defs(name)
        )

    def _set_up(self, fixturedef: pytest.FixtureDef[Any], index: int) -> object:
        request = _Request(self, fixturedef.argname, fixturedef.scope, index)
        arguments = {
            name: request if name == "request" else request.getfixturevalue(name) for name in fixturedef.argnames
        }
        function = self._function(fixturedef)
        if not inspect.isgeneratorfunction(inspect.unwrap(function)):
            return function(**arguments)
        steps = function(**arguments)
        value = next(steps)
        self.stack.callback(next, steps, None)
        return value

    def _function(self, fixturedef: Any) -> Any:
        """Return the function of a fixture: the rank's own, bound to the rank's instance."""
        function = fixturedef.func
        if fixturedef.argname in self._outside.closure:
            return rebound(function, self._outside.closure[fixturedef.argname])
        bound = getattr(function, "__self__", None)
        if bound is None:
            return LocatedFunction(function).get()
        if isinstance(bound, type):
            return LocatedFunction(function.__func__).get().__get__(self.owner.cls)
        if isinstance(self.item.instance, type(bound)):
            return LocatedFunction(function.__func__).get().__get__(self.owner.instance)
        return function  # of a plugin
