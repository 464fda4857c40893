"""How many random cases the property tests try (few and the same, or with HYPOTHESIS_PROFILE=campaign many), in which
order tests run, and how a worker came to its end, which pytest-xdist does not tell."""

import faulthandler
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from tests.campaign import CAMPAIGN
from tests.warm import tasks_run_here
from xsim_py.process.programs.private_modules import PrivateModules

# A deadline measures how busy the machine is; a derandomised run fails on every machine or on none.
settings.register_profile(
    "default", deadline=None, max_examples=10, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("campaign", parent=settings.get_profile("default"), derandomize=False, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def _left_to_campaign(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return every second case of each test that is marked as sampled.

    Of a product of parameters the cases that are left form a chessboard, so each value of each parameter is kept.
    """
    cases: dict[str, list[Any]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = set()
    for each in cases.values():
        # Parameters that one mark gives together have the same numbers, and count as one.
        numbers = {tuple(item.callspec.indices[name] for item in each) for name in each[0].callspec.indices}
        left.update(item for item, places in zip(each, zip(*numbers, strict=True), strict=True) if sum(places) % 2)
    return left


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop what a campaign alone runs; put slow tests first, dealt to the workers, each with its part of the rest."""
    if not CAMPAIGN:
        left = _left_to_campaign(items)
        items[:] = [item for item in items if item not in left]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = [item for item in items if item.get_closest_marker("slow")]
    rest = [item for item in items if not item.get_closest_marker("slow")]
    starts = [worker * len(rest) // workers for worker in range(workers + 1)]
    items[:] = [
        item
        for worker, (start, end) in enumerate(pairwise(starts))
        for item in (*slow[worker::workers], *rest[start:end])
    ]


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """In a worker: send one report for each test that passes rather than three, between two messages.

    Sending and reading takes longer than most tests here do.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


_ends: list[str] = []


def _last_words(worker: dict[str, Any]) -> Path:
    """Where Python writes the stacks of a worker that crashes."""
    return Path(tempfile.gettempdir(), f"{worker['testrunuid']}-{worker['workerid']}.txt")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have Ctrl-C end what tests start; in a worker: keep what it says when it crashes."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as for all that a shell starts in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if worker := getattr(config, "workerinput", None):
        faulthandler.enable(_last_words(worker).open("w"))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker has ended."""
    words = _last_words(node.workerinput)
    if error:
        status = node.gateway._io.popen.wait(60)  # negative: a signal
        said = words.read_text() if words.exists() else "before it had begun"
        _ends.append(f"{node.gateway.id} ended with status {status}\n{said}")
    words.unlink(missing_ok=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """At the end, where it is seen."""
    for line in _ends:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def no_bytecode() -> None:
    """Programs leave no ``__pycache__`` beside them, which some tests would see, whatever the environment says."""
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True


@pytest.fixture(scope="module", autouse=True)
def what_earlier_tests_left() -> None:
    """The collector need not look at it again: ranks that died are kept for as long as the process lives.

    Nor is it looked at here, which would take seconds for each module in the end: a run unfreezes all when it is over.
    """
    gc.freeze()


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the studies of a test without worker processes."""
    tasks_run_here(monkeypatch.setattr)


@pytest.fixture(scope="module")
def module_in_this_process() -> Iterator[None]:
    """Run the studies of a module, and those of its module fixtures, without worker processes."""
    with pytest.MonkeyPatch.context() as patch:
        tasks_run_here(patch.setattr)
        yield


# A function that is simulated has its module executed anew in each rank. To make the strategies and properties of a
# test file again takes 5 ms a rank (11 tests of batched/test_same_as_messages.py: 36 s of CPU instead of 5 s), which
# is longer than most runs here, so tests share their modules unless they are about that.
_of_program = PrivateModules.is_private
_shares_tests = True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Share the modules of tests, or not."""
    global _shares_tests
    _shares_tests = item.get_closest_marker("private_modules") is None


def _is_private(self: PrivateModules, name: str, module: Any = None) -> bool:
    return not (_shares_tests and name.partition(".")[0] == "tests") and _of_program(self, name, module)


PrivateModules.is_private = _is_private  # type: ignore[method-assign]
