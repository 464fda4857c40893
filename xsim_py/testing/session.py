"""A session of pytest on each rank, as with ``mpiexec -n 4 pytest``, with one report.

Each rank runs pytest with the plugin `member`, which reports the outcome of each test here. When all ranks with a test
have finished it, the outer session receives the outcome as if it had run the test itself. So its terminal, its exit
status, ``-x``, ``--lf`` and its files are those of one session.

A rank that has failed in a test waits until the others have left that test. On a real MPI it would continue, and its
next calls would match wrong calls of the others. If then no rank can make progress, or the job ends early in another
way, the current test has failed on those ranks, with the deadlock report. New ranks are started for the remaining
tests.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ReprExceptionInfo, ReprFileLocation, ReprTracebackNative

from xsim_py.errors import ConfigError
from xsim_py.findings import Finding, by_place
from xsim_py.outcome import never_came_warnings
from xsim_py.process.programs.called_functions import FoundInRanks
from xsim_py.process.python.watchers import separate_coverage_stacks
from xsim_py.process.ranks import current
from xsim_py.run import simulate
from xsim_py.units import spans

from .rank_waits import RankWaits

if TYPE_CHECKING:
    import warnings

    from xsim_py.process.ranks.shard import Control

_PHASES = ("setup", "call", "teardown")
_MOST_SECTIONS = 8
_AFTER_ALL = "the session on {} ranks"


class _Test:
    """A test, with the reports of each rank, and the ranks that have finished it."""

    def __init__(self) -> None:
        self.reports: dict[int, list[Any]] = {}
        self.location: tuple[str, int | None, str] = ("", None, "")
        self.finished: set[int] = set()


class SessionJob:
    """One start of the ranks, with their reports."""

    def __init__(self, controller: Controller, ranks: int, done: set[str]) -> None:
        self.controller = controller
        self.ranks = ranks
        self.done = done  # the tests that earlier starts have finished
        self.waits = RankWaits(self)
        """The arguments of the poll events of failed ranks; the others are waiting fibers."""
        self.running_test: dict[int, str] = {}
        """The name of each rank's current test."""
        self.stops = False
        self.limits: dict[int, tuple[float, Any]] = {}
        """The deadline of a rank's test by pytest-timeout, with the switch that ends the run."""
        self._tests: dict[str, _Test] = {}
        self._order: dict[str, int] = {}
        self._collected: set[int] = set()
        self._places: dict[str, str] = {}
        self._names: dict[str, dict[int, str]] = {}
        """Names of each test by rank, by location."""
        self._collect_reports: dict[str, dict[int, Any]] = {}
        self._found_in: Callable[[str], Iterable[Finding]] = lambda _: ()
        self._found: set[Any] = set()

    def waits_for(self, rank: int, test: str) -> bool:
        """Return True if another rank has not finished a test that this one has finished."""
        return any(
            other != rank and (name not in self._tests or other not in self._tests[name].finished)
            for other, name in self._names.get(self._place(test), {}).items()
        )

    def is_inside(self, rank: int, test: str) -> bool:
        """Return True if another rank is running a test."""
        return any(
            other != rank and self._place(running_test) == self._place(test)
            for other, running_test in self.running_test.items()
        )

    def limit(self, rank: int, seconds: float | None) -> None:
        """Set or remove the wall-clock limit of a rank's current test."""
        self.limits.pop(rank, None)
        if seconds is not None:
            self.limits[rank] = monotonic() + seconds, _control()

    def check_limits(self, *_: int) -> None:
        """End this start of the ranks if a test has exceeded its limit; called periodically."""
        now_s = monotonic()
        for until_s, control in self.limits.values():
            if now_s >= until_s:
                control.stop("wall limit")

    # ----------------------------------------------------------------------------------------- reports of members

    def collected(self, rank: int, tests: dict[str, str]) -> None:
        """Record the tests of a rank, with their locations."""
        self._collected.add(rank)
        self._places.update(tests)
        for test, place in tests.items():
            self._order.setdefault(test, len(self._order))
            self._names.setdefault(place, {})[rank] = test
        if len(self._collected) == self.ranks:
            self.controller.count(self._order, self.ranks)
            self._report_collection()
            self._report_all()

    def collect_report(self, rank: int, report: pytest.CollectReport) -> None:
        """Record a report of a collection error."""
        self._collect_reports.setdefault(report.nodeid, {})[rank] = report

    def started(self, rank: int, test: str, location: tuple[str, int | None, str]) -> None:
        """Record that a rank has begun a test."""
        self.running_test[rank] = test
        control = _control()
        control.doing[rank] = self._place(test)
        self._found_in = control.found
        self._tests.setdefault(test, _Test()).location = location

    def location(self, test: str) -> tuple[str, int | None, str]:
        """Return the location of a test, as in pytest."""
        return self._tests[test].location

    def record_phase(self, rank: int, report: pytest.TestReport) -> None:
        """Record the report of one phase of a test on one rank."""
        self._tests[report.nodeid].reports.setdefault(rank, []).append(report)
        if not report.passed:
            _control().note_interruption(rank)

    def finished(self, rank: int, test: str) -> None:
        """Record that a rank has finished a test."""
        self.running_test.pop(rank, None)
        _control().doing.pop(rank, None)
        self._tests[test].finished.add(rank)
        if len(self._collected) == self.ranks:
            self._report_test(test)

    # --------------------------------------------------------------------------------------------------- evaluation

    def found(self, findings: Iterable[Finding], only: str | None = None) -> dict[str, list[str]]:
        """Return new findings of tests not expected to fail; those outside tests are under ""."""
        texts: dict[str, list[str]] = {}
        for finding in findings:
            names = self._names.get(finding.doing, {})
            test = next((names[rank] for rank in finding.ranks if rank in names), "")
            known, key = self._tests.get(test, _Test()), (*by_place(finding), finding.doing)
            if only not in (None, test) or key in self._found:
                continue
            if any(hasattr(each, "wasxfail") for reports in known.reports.values() for each in reports):
                continue
            self._found.add(key)
            texts.setdefault(test, []).append(finding.report())
        return texts

    def end(self, report: str, found: dict[str, list[str]]) -> str | None:
        """Report the remaining outcomes; return the test in which the job ended early, if any.

        Findings of that test are reported with it, and removed from `found`.
        """
        self._report_collection()
        culprit = self._culprit(report) if report else None
        if culprit is not None:
            self._fail(culprit, "\n".join([report, *found.pop(culprit, [])]))
        if report == "":
            self._report_all(complete=False)
        elif culprit is None:
            text = f"{report}\n(no test was running)"
            made = pytest.CollectReport(_AFTER_ALL.format(self.ranks), "failed", text, [])
            self.controller.report_collected([made])
        return culprit

    def _culprit(self, report: str) -> str | None:
        """Return the test of the rank that ended the job, or else the first unfinished one."""
        ended_by = re.match(r"rank (\d+) ended the job", report)
        if ended_by is not None and int(ended_by[1]) in self.running_test:
            return self.running_test[int(ended_by[1])]
        return min(self.running_test.values(), key=lambda test: self._order.get(test, -1), default=None)

    def _fail(self, test: str, report: str) -> None:
        """Mark a test as failed on its current ranks, or on all if it ended the job."""
        location, place = self._tests[test].location, self._place(test)
        names = self._names.get(place, {}) | {
            rank: running_test for rank, running_test in self.running_test.items() if self._place(running_test) == place
        }
        for rank, name in names.items():
            known = self._tests.setdefault(name, _Test())
            if self.running_test.get(rank) != name and (name == test or known.reports):
                continue  # it has finished it, or others have it under the same name
            done = {each.when: each for each in known.reports.get(rank, ())}
            open_phases = [phase for phase in _PHASES if phase not in done]
            when = open_phases[0] if open_phases and all(each.passed for each in done.values()) else "teardown"
            made = pytest.TestReport(name, location, {}, "failed", report, when)  # type: ignore[arg-type]
            known.location = location
            known.reports.setdefault(rank, []).append(made)
        for name in dict.fromkeys(names.values()):
            self._finish_test(name)

    def _report_all(self, *, complete: bool = True) -> None:
        for test in sorted(self._tests, key=lambda test: self._order.get(test, -1)):
            self._report_test(test, complete=complete)

    def _report_test(self, test: str, *, complete: bool = True) -> None:
        """Report a test if all ranks that have it have finished it."""
        if complete and self.waits_for(-1, test):
            return
        for name in dict.fromkeys([test, *self._names.get(self._place(test), {}).values()]):
            if name not in self.done and name in self._tests and self._tests[name].finished:
                self._finish_test(name)

    def _finish_test(self, test: str) -> None:
        self.done.add(test)
        known = self._tests[test]
        reports = merged(known.reports, self.ranks)
        with current.outside():
            texts = self.found(self._found_in(self._place(test)), only=test).get(test)
        if texts:  # a later test may still close resources of this one, so they are reported at the end
            torn_down = [each for each in reports if each.when == "teardown" and each.passed]
            made = _found_after(test, known.location, texts)
            reports = [*(each for each in reports if each not in torn_down), made]
        self.controller.report_test(test, known.location, reports)
        self.stops = self.controller.stops

    def _place(self, test: str) -> str:
        return self._places.get(test, test)

    def _report_collection(self) -> None:
        reports, self._collect_reports = self._collect_reports, {}
        self.controller.report_collected(
            _one_of(each, self.ranks) for name, each in reports.items() if name not in self.controller.collected
        )


def merged(reports: dict[int, list[Any]], ranks: int) -> list[Any]:
    """Return the reports of one test, one per phase, merged from those of its ranks.

    `reports` has those of each rank, in order. `ranks` is the number of ranks of the whole job.
    """
    failed = any(each.failed for mine in reports.values() for each in mine)
    if not failed:
        best = min(reports, key=lambda rank: (_standing(reports[rank]), rank))
        return reports[best]
    phases = {
        phase: {rank: each for rank, mine in reports.items() for each in mine if each.when == phase}
        for phase in _PHASES
    }
    if any(each.failed for each in phases["setup"].values()):
        # pytest has no call after a failed setup, but other ranks may have failed or wait in the call.
        calls = phases.pop("call")
        phases["setup"] |= {rank: each for rank, each in calls.items() if each.failed}
    return [_one_of(each, ranks) for each in phases.values() if each]


def _standing(reports: list[Any]) -> int:
    """Return the precedence of an outcome: failed as expected, passed, skipped."""
    if any(each.skipped and hasattr(each, "wasxfail") for each in reports):
        return 0
    return 1 if any(each.passed and each.when == "call" for each in reports) else 2


def _one_of(reports: dict[int, Any], ranks: int) -> Any:
    """Return one report with the texts of all ranks, equal texts once."""
    failed = {rank: each for rank, each in sorted(reports.items()) if each.failed}
    if not failed:
        return reports[min(reports)]
    groups: dict[str, list[int]] = {}
    for rank, each in failed.items():
        groups.setdefault(without_addresses(str(each.longrepr)), []).append(rank)
    # An exception precedes a deadlock report, which is a text; one in a setup precedes later ones of others.
    keys = {
        rank: (isinstance(each.longrepr, str), getattr(each, "when", "") == "call") for rank, each in failed.items()
    }
    shown = sorted(groups.values(), key=lambda group: keys[group[0]])
    report = copy(failed[shown[0][0]])
    named = f"{_named(shown[0])} of {ranks}"
    if hasattr(report.longrepr, "addsection"):
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            crash.message = f"{named}: {crash.message}"
        _add_ranks(report.longrepr, named)
    else:
        report.longrepr = f"{named}: {report.longrepr}"
    reported = [(f"on {_named(group)} of {ranks}", str(failed[group[0]].longrepr)) for group in shown[1:]]
    sections = [(f"{title}, rank {group[0]}", text) for group in shown for title, text in failed[group[0]].sections]
    report.sections = [*reported, *sections[:_MOST_SECTIONS]]
    return report


def _add_ranks(longrepr: Any, named: str) -> None:
    """Append the ranks of an exception to its text."""
    entries = getattr(getattr(longrepr, "reprtraceback", None), "reprentries", None)
    lines = entries[-1].lines if entries else []
    first = next((line for line in lines if line.startswith("E ")), None)
    if first is None:
        longrepr.addsection(f"on {named}", "")
    else:
        lines.append(f"E{' ' * (len(first) - 1 - len(first[1:].lstrip()))}raised on {named}")


def _found_after(test: str, location: tuple[str, int | None, str], texts: list[str]) -> pytest.TestReport:
    """Return a report of MPI usage errors that were found after a test."""
    crash = ReprFileLocation(location[0], (location[1] or 0) + 1, texts[0].partition("\n")[0])
    shown = ReprExceptionInfo(reprcrash=crash, reprtraceback=ReprTracebackNative([f"{each}\n" for each in texts]))
    return pytest.TestReport(test, location, {}, "failed", shown, "teardown")


def without_addresses(text: str) -> str:
    """Return a text without addresses of objects, which differ between ranks."""
    return re.sub(r"\b0x[0-9a-f]{6,}", "0x...", text)


def _named(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {spans(sorted(ranks))}"


def _control() -> Control:
    """Return the control of the running rank's run."""
    return current.running().rank.shard.control


class _Member(FoundInRanks):
    """The program of each rank, which runs pytest."""

    again = False

    def __init__(self, job: SessionJob, config: pytest.Config) -> None:
        self.home = Path(config.rootpath)
        self._job = job
        self._config = config
        self._arguments = [str(word) for word in config.invocation_params.args]
        if getattr(config.option, "cov_source", None):
            self._arguments.append("--no-cov")

    def hand_over(self, is_private: object) -> None:
        """Hand over nothing: ranks begin like new processes."""

    def __call__(self) -> None:
        """Run pytest in the running rank."""
        from .member import Member, Quiet

        rank = current.rank_number()
        plugins = [Member(self._job, rank, self._config), Quiet(self._config)]
        status = pytest.main(list(self._arguments), plugins=plugins)
        self._job.controller.statuses.add(int(status))


class Controller:
    """The plugin that replaces collection and test loop in the user's session."""

    def __init__(self, config: pytest.Config, ranks: int, options: dict[str, Any]) -> None:
        self._config = config
        self._ranks = ranks
        self._options = options
        self._session: Any = None
        self.collected: set[str] = set()
        self.statuses: set[int] = set()
        self.warned: set[Any] = set()
        self.reported: set[str] = set()
        self.errors = 0
        self.exit: Any = None
        self._found_outside: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> bool:
        """Skip the collection, which the ranks do."""
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the ranks' sessions, and restart them while tests remain."""
        self._session = session
        done: set[str] = set()
        never_came: dict[str, str] | None = None
        separate_coverage_stacks()
        while True:
            job = SessionJob(self, self._ranks, done)
            try:
                with self._uncaptured():
                    member = _Member(job, self._config)
                    result = simulate(member, ranks=self._ranks, label=True, progress=job.check_limits, **self._options)
            except ConfigError as error:
                raise pytest.UsageError(f"--xsim-session: {error}") from None
            if result.ended == "interrupted":
                raise KeyboardInterrupt
            untriggered = result.never_came.items()
            never_came = {what: instead for what, instead in untriggered if never_came is None or what in never_came}
            found = job.found(getattr(result, "findings", ()))
            stopped = self.stops
            culprit = None if stopped else job.end("" if result.ended == "finished" else result.report, found)
            self._report_findings(job, found)
            if culprit is None or self.stops:
                break
        if not self.stops:
            self._warn_untriggered(never_came)
        gc.freeze()  # at its end pytest, and then Python, would repeatedly search the remaining objects of all ranks
        if self.exit is not None:
            raise pytest.exit.Exception(self.exit.msg, self.exit.returncode)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        if self.errors and not self._config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{self.errors} error{'s' * (self.errors > 1)} during collection")
        if self.statuses & {pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR}:
            raise session.Interrupted("the sessions of ranks were interrupted")
        return True

    @contextmanager
    def _uncaptured(self) -> Iterator[None]:
        """Give ranks the uncaptured streams, because they capture themselves."""
        manager: Any = self._config.pluginmanager.getplugin("capturemanager")
        manager.suspend_global_capture(in_=True)
        try:
            yield
        finally:
            manager.resume_global_capture()

    @property
    def stops(self) -> bool:
        """Return True if the session stops here, as after the first failure with ``-x``."""
        return bool(self.exit or self._session.shouldfail or self._session.shouldstop)

    def count(self, tests: Iterable[str], ranks: int) -> None:
        """Report the number of tests once all ranks have collected them."""
        if self._session.testscollected:
            return
        names = list(tests)
        self._session.testscollected = len(names)
        self._count_in_summary(len(names))
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is not None:
            with current.outside():
                for name in names if self._config.option.collectonly else ():
                    terminal.write_line(name)
                if self._config.get_verbosity() >= 0:
                    terminal.write_line(f"{len(names)} tests on {ranks} virtual ranks")

    def _count_in_summary(self, tests: int) -> None:
        """Count tests for the last line of ``--collect-only``; the outer session collects none."""
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if hasattr(terminal, "_numcollected"):
            terminal._numcollected += tests

    def report_test(self, test: str, location: tuple[str, int | None, str], reports: Iterable[Any]) -> None:
        """Report a test to this session."""
        hook = self._config.hook
        self.reported.add(test)
        with current.outside():
            self._session.testscollected = max(self._session.testscollected, len(self.reported))
            hook.pytest_runtest_logstart(nodeid=test, location=location)
            for report in reports:
                hook.pytest_runtest_logreport(report=report)
            hook.pytest_runtest_logfinish(nodeid=test, location=location)

    def _report_findings(self, job: SessionJob, found: dict[str, list[str]]) -> None:
        """Report MPI usage errors of finished tests, which later tests might have corrected."""
        for test, texts in found.items():
            if test:
                self.report_test(test, job.location(test), [_found_after(test, job.location(test), texts)])
            else:
                self._session.testsfailed += 1
                self._found_outside += texts

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show findings outside tests."""
        if self._found_outside:
            terminalreporter.write_sep("=", "xsim check findings")
            for text in self._found_outside:
                terminalreporter.write_line(text)

    def _warn_untriggered(self, never_came: Mapping[str, str]) -> None:
        """Warn about injected failures that never occurred; the session may treat it as an error."""
        for text in never_came_warnings(never_came):
            try:
                self._config.issue_config_time_warning(pytest.PytestWarning(text), stacklevel=2)
            except pytest.PytestWarning:
                self._session.shouldfail = text

    def report_collected(self, reports: Iterable[Any]) -> None:
        """Report collection errors to this session."""
        with current.outside():
            for report in reports:
                self.collected.add(report.nodeid)
                self.errors += report.failed
                self._config.hook.pytest_collectreport(report=report)

    def report_deselected(self, items: list[Any]) -> None:
        """Report tests deselected by the first rank to this session."""
        self._count_in_summary(len(items))
        with current.outside():
            self._config.hook.pytest_deselected(items=items)

    def warn(self, message: warnings.WarningMessage, when: str, nodeid: str, location: object) -> None:
        """Report a warning to this session, once."""
        key = str(message.message), message.category, nodeid
        if key not in self.warned:
            self.warned.add(key)
            arguments = {"warning_message": message, "when": when, "nodeid": nodeid, "location": location}
            with current.outside():
                self._config.hook.pytest_warning_recorded.call_historic(kwargs=arguments)
