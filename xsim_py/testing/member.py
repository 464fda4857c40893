"""The plugin of one rank's session, which reports the outcome of each test to the job."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from _pytest import unraisableexception

from xsim_py.process.lifecycle import abort_job, announce, stop_mismatch
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import Parked

from .examples import isolate_example
from .rank_waits import MAX_WAIT_PS
from .session import SessionJob

if TYPE_CHECKING:
    import warnings

_STALLED = 3
_SHARED_SEEDS = ("randomly_seed", "random_order_seed")
"""Options of plugins that shuffle tests, for which each session would draw a different value."""
_OUTER_ONLY = {"maxfail": 0, "xmlpath": None, "htmlpath": None, "report_log": None, "stepwise": False}


class _WaitingForTest(Parked):
    """The wait reason of a rank until the others have left a test."""

    def __init__(self, test: str) -> None:
        self.place = f"after {test}"

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return "it has failed there and waits for the others"


class _Terminal:
    """A terminal without output, for the session of a rank."""

    def __init__(self, config: pytest.Config) -> None:
        self._shown: object = config.pluginmanager.getplugin("terminalreporter")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("pytest_"):
            raise AttributeError(name)
        return getattr(self._shown, name)


class Member:
    """The plugin in the session of one rank."""

    def __init__(self, job: SessionJob, rank: int, outer: pytest.Config) -> None:
        self._job = job  # receives all reports
        self._rank = rank
        self._outer = outer  # the configuration of the user's session
        self._failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Leave files to the outer session, and use its random options."""
        iterations_key: Any = getattr(unraisableexception, "gc_collect_iterations_key", None)
        if iterations_key is not None:  # each rank would search the objects of all ranks for unraisable exceptions
            config.stash[iterations_key] = 0
        for name, value in _OUTER_ONLY.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        for name in _SHARED_SEEDS:
            if hasattr(self._outer.option, name):
                setattr(config.option, name, getattr(self._outer.option, name))
        base: Any = getattr(self._outer, "_tmp_path_factory", None)
        if base is not None:
            with current.outside():
                config.option.basetemp = str(base.getbasetemp() / f"rank-{self._rank}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Exclude the tests finished in earlier starts, and report the remaining ones.

        Plugins have selected among all tests by now, as in the first start: ``--lf`` selects every test if it finds no
        failed one.
        """
        session.items[:] = [item for item in session.items if item.nodeid not in self._job.done]
        times = Counter[tuple[str, str]]()
        tests = dict[str, str]()
        for item in session.items:
            file, _, name = item.location
            times[file, name] += 1
            tests[item.nodeid] = f"{file}::{name} {times[file, name]}"
        self._job.collected(self._rank, tests)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report collection errors."""
        if not report.passed:
            self._job.collect_report(self._rank, report)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Report deselected tests, once."""
        if self._rank == 0 and not self._job.done:
            self._job.controller.report_deselected(items)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Report an exit by `pytest.exit`."""
        if isinstance(excinfo.value, pytest.exit.Exception):
            self._job.controller.exit = excinfo.value

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: object
    ) -> None:
        """Report a warning."""
        if warning_message.category.__name__ != "CovDisabledWarning":
            self._job.controller.warn(warning_message, when, nodeid, location)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report a phase of a test."""
        if report.failed and not self._failed:
            self._limit_wait(report.nodeid)
        self._failed |= report.failed
        self._job.record_phase(self._rank, report)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, settings: Any) -> bool:
        """Pass the limit of pytest-timeout to the job: ranks have no timers that send signals."""
        self._job.limit(self._rank, settings.timeout)
        return True

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_cancel_timer(self) -> bool:
        """Cancel the limit in the job."""
        self._job.limit(self._rank, None)
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        """Report the beginning and the end of a test, and wait for the others after a failure."""
        self._failed = False
        isolate_example()
        self._job.started(self._rank, item.nodeid, item.location)
        result = yield
        self._job.finished(self._rank, item.nodeid)
        if self._failed:
            self._wait_for_others(item.nodeid)
        if self._job.stops:
            abort_job(0, "no more tests are wanted")
        return result

    def _limit_wait(self, test: str) -> None:
        """End the job if this rank cannot leave a failed test because others wait for it or poll."""
        fiber = current.running()
        time_ps = fiber.clock_ps + MAX_WAIT_PS

        def check_test(_: object) -> None:
            if self._job.running_test.get(self._rank) == test:
                announce(fiber.rank, time_ps, _STALLED, f"rank {self._rank} has failed, and others wait", mismatch=True)

        fiber.rank.key += 1
        fiber.rank.shard.kernel.post(time_ps, fiber.rank.key, check_test, self._job)

    def _wait_for_others(self, test: str) -> None:
        """Wait until the others have left a test; end the job if they wait for this rank."""
        all_left = self._job.waits.until(lambda: not self._job.waits_for(self._rank, test))
        if not all_left and self._job.is_inside(self._rank, test):
            stop_mismatch(f"rank {self._rank} has failed, and others wait", _WaitingForTest(test))


class Quiet:
    """A plugin that suppresses output and files of a rank's session as early as possible."""

    def __init__(self, outer: pytest.Config) -> None:
        self._outer = outer

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Replace the rank's terminal by a silent one, and make the cache read-only."""
        manager = config.pluginmanager
        manager.unregister(name="terminalreporter")
        manager.register(_Terminal(self._outer), "terminalreporter")
        cache: Any = getattr(config, "cache", None)
        if cache is not None:
            cache.set = lambda key, value: None
