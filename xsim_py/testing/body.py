"""The body of a test, run by each of its virtual ranks."""

from __future__ import annotations

import logging
import unittest
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.logging import LogCaptureHandler

from xsim_py.process.lifecycle import announce
from xsim_py.process.output.tracebacks import without_simulator
from xsim_py.process.programs.called_functions import FoundInRanks
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import UNTIL, Fiber
from xsim_py.process.ranks.rank import Rank

from .copies import Copies
from .debugging import debugger_of
from .examples import Examples, PartialFailure, draw_same_examples
from .outside_changes import Snapshot, apply_changes, cells_of
from .rank_fixtures import Fixtures, OutsideSetup, Owner, fixture_info, is_of_plugin
from .rank_waits import MAX_WAIT_PS, RankWaits

_STALLED = 3
_STACKS = ExitStack.close.__code__.co_filename
_TITLES = {"value": "fixture {}", "param": "parameter of {}", "instance": "self.{}", "closure": "what {} calls"}
NO_FAILURES = (pytest.skip.Exception, pytest.xfail.Exception)
ENDS = (KeyboardInterrupt, pytest.exit.Exception)
"""These end the whole session."""


class Raised(NamedTuple):
    """An exception of a rank, with its time."""

    clock_ps: int
    rank: int
    error: BaseException
    when: str
    """The phase, as in a report of pytest: ``setup`` and ``teardown`` are those of the fixtures in the rank."""


class Body(FoundInRanks):
    """Runs the body of one test in each rank, and records the exceptions of ranks.

    A rank that raises ends silently. The others continue, because their exceptions matter, too. If they wait for that
    rank, the run deadlocks, and its report has their locations. A rank that polls would do so forever, so the job is
    ended after a hundred seconds of virtual time.
    """

    def __init__(self, item: pytest.Function, inside: Sequence[str], snapshot: Snapshot, seed: int) -> None:
        self.home = Path(item.config.rootpath)
        self.raised: list[Raised] = []
        self.passed = 0
        self._item = item  # set up outside the ranks except for the fixtures `inside`
        self._inside = inside  # the fixtures that are set up in each rank, in the order of the test's requests
        self._snapshot = snapshot  # the program's modules before any test
        self._seed = seed
        self._names = _names_of(item)
        self._begun: list[Rank] = []
        self._examples = Examples(RankWaits(self))
        shared = [handler for handler in logging.getLogger().handlers if isinstance(handler, LogCaptureHandler)]
        self._log = shared, logging.getLogger().level

    def hand_over(self, is_private: Callable[[str], bool]) -> None:
        """Keep the objects of which ranks get copies."""
        item = self._item
        defs = fixture_info(item).name2fixturedefs
        closures = {
            name: cells_of(defs[name][-1].func) for name in self._inside if name.startswith(("_xunit", "_unittest"))
        }
        skipped = {*self._inside, "request"}
        values = {name: value for name, value in item.funcargs.items() if name not in skipped}
        params = getattr(getattr(item, "callspec", None), "params", {})
        instance = {} if item.cls is None else vars(item.instance)
        self._is_private = is_private
        self._changes = Copies(self._snapshot.changes(is_private), is_private)
        self._outside = Copies(
            {
                **{("value", name): value for name, value in values.items()},
                **{("param", name): params[name] for name in self._inside if name in params},
                **{("closure", name): cells for name, cells in closures.items()},
                **{("instance", name): value for name, value in instance.items()},
            },
            is_private,
            [value for name, value in values.items() if is_of_plugin(defs.get(name), value)],
        )

    def shared(self) -> list[str]:
        """Return the uncopied objects that all ranks share: by name, with their classes."""
        found = {_TITLES[kind].format(name): kinds for (kind, name), kinds in self._outside.uncopied.items()}
        found |= {".".join(filter(None, name)): kinds for name, kinds in self._changes.uncopied.items()}
        return [f"{title} ({', '.join(sorted(set(kinds)))})" for title, kinds in found.items()]

    def __call__(self) -> None:
        """Run the test in the running rank."""
        errors_before, stack = len(self.raised), ExitStack()
        self._begun.append(current.rank())
        with self._recording("setup"):
            for handler in self._log[0]:
                logging.getLogger().addHandler(handler)
            logging.getLogger().setLevel(self._log[1])
            owner, fixtures = self._set_up(stack)
            with self._recording("call"):
                self._run(owner, fixtures)
        self.passed += errors_before == len(self.raised)
        # Teardown may wait for ranks that wait for this one, so its exception is recorded before.
        with self._recording("teardown"):
            stack.close()

    @contextmanager
    def _recording(self, when: str) -> Iterator[None]:
        """Record an exception raised in this block, and continue after it."""
        fiber = current.running()
        try:
            yield
        except BaseException as raised:
            error = raised.error if isinstance(raised, PartialFailure) else raised
            without_simulator(error)
            while error.__traceback__ is not None and error.__traceback__.tb_frame.f_code.co_filename == _STACKS:
                error.__traceback__ = error.__traceback__.tb_next
            self.raised.append(Raised(fiber.clock_ps, fiber.rank.number, error, when))
            fiber.rank.shard.control.note_interruption(fiber.rank.number)
            if len(self.raised) == 1:
                self._debug(error)
                self._limit_wait(fiber, error)
            # Quitting a debugger leaves it suspended, for this rank only.
            self._item.config.pluginmanager.getplugin("capturemanager").resume_global_capture()

    def _set_up(self, stack: ExitStack) -> tuple[Owner, Fixtures]:
        """Set up the test in the running rank; `stack` tears it down."""
        module = import_module(self._names[0])
        apply_changes(self._changes.get())
        outside: dict[str, dict[str, Any]] = {kind: {} for kind in _TITLES}
        for (kind, name), value in self._outside.get().items():
            outside[kind][name] = value
        owner = self._owner(module, outside["instance"])
        fixtures = Fixtures(self._item, owner, OutsideSetup(**outside, copied=self._copied), stack)
        for name in self._inside:
            fixtures.value(name)
        return owner, fixtures

    def _run(self, owner: Owner, fixtures: Fixtures) -> None:
        draw_same_examples(owner.function, self._seed, self._examples)
        if isinstance(owner.instance, unittest.TestCase):
            _run_test_case(owner.instance)
            return
        names = fixture_info(self._item).argnames
        result = owner.function(**{name: fixtures.value(name) for name in names})
        if hasattr(result, "__await__") or hasattr(result, "__aiter__"):
            getattr(result, "close", lambda: None)()
            pytest.fail("async functions are not tests that run on ranks", pytrace=False)

    def _copied(self, name: str, value: object) -> object:
        """Copy a fixture that is requested late for the running rank."""
        copies = Copies({("value", name): value}, self._is_private)
        self._outside.uncopied.update(copies.uncopied)
        return copies.get()["value", name]

    def _debug(self, error: BaseException) -> None:
        debugger = debugger_of(self._item.config)
        if debugger is not None and not isinstance(error, NO_FAILURES):
            try:
                debugger.start(self._item, error)
            except pytest.exit.Exception as quitting:
                self._item.session.shouldstop = str(quitting)

    def _limit_wait(self, fiber: Fiber, error: BaseException) -> None:
        """End the job if other ranks continue for long after the first exception."""
        rank, text = fiber.rank, f"rank {fiber.rank.number} raised {type(error).__name__}"
        time_ps = fiber.clock_ps + MAX_WAIT_PS

        def check_others(_: object) -> None:
            if any(other.exit_status is None and other.fiber.waiting is UNTIL for other in self._begun):
                announce(rank, time_ps, _STALLED, text, mismatch=True)

        rank.key += 1
        rank.shard.kernel.post(time_ps, rank.key, check_others, self)

    def _owner(self, module: object, attributes: dict[str, Any]) -> Owner:
        """Return the rank's own module, class, instance and function of the test."""
        owner: Any = module
        for name in self._names[1:-1]:
            owner = getattr(owner, name)
        if self._item.cls is None:
            return Owner(module=module, cls=None, instance=None, function=getattr(module, self._names[-1]))
        name = self._names[-1]
        instance = owner(name) if issubclass(owner, unittest.TestCase) else owner()
        new = vars(instance).keys() if isinstance(instance, unittest.TestCase) else ()
        vars(instance).update({each: value for each, value in attributes.items() if each not in new})
        return Owner(module=module, cls=owner, instance=instance, function=getattr(instance, name))


def _names_of(item: Any) -> list[str]:
    """Return the name of a test's module, and then the names that lead to its function there."""
    inner = [] if item.cls is None else item.cls.__qualname__.split(".")
    return [item.module.__name__, *inner, getattr(item, "originalname", None) or item.name]


class _Result(unittest.TestResult):
    """A test result that keeps the first exception of a `unittest.TestCase`, not its text."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def _record(self, error: BaseException) -> None:
        if self.error is None or isinstance(self.error, pytest.skip.Exception):
            self.error = error

    def addError(self, test: object, err: Any) -> None:  # noqa: N802 - unittest's name
        self._record(err[1])

    addFailure = addError  # noqa: N815

    def addSubTest(self, test: object, subtest: object, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._record(err[1])

    def addSkip(self, test: object, reason: str) -> None:  # noqa: N802
        self._record(pytest.skip.Exception(reason, _use_item_location=True))

    def addExpectedFailure(self, test: object, err: object) -> None:  # noqa: N802
        self._record(pytest.xfail.Exception(""))

    def addUnexpectedSuccess(self, test: object) -> None:  # noqa: N802
        self._record(pytest.fail.Exception("Unexpected success", pytrace=False))


def _run_test_case(test: unittest.TestCase) -> None:
    """Run a test of `unittest` with its ``setUp`` and ``tearDown``, and raise its exception."""
    result = _Result()
    test(result)
    if result.error is not None:
        raise result.error
