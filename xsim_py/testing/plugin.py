"""The plugin, which pytest loads if xsim_py is installed.

It does nothing and imports little unless a test has a mark for ranks or requests `comm`, or an option ``--xsim...`` is
given.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from .check_option import add_check_options
from .markers import DEFAULT_RANKS, TOO_FEW, RankRequest, request_of
from .single_rank import StandIn, is_in_rank

_UNDER_MPI = {
    "mpi_skip": pytest.mark.skip(reason="test does not work under mpi"),
    "mpi_break": pytest.mark.skip(reason="test does not work under mpi"),
    "mpi_xfail": pytest.mark.xfail(reason="test fails under mpi"),
}
_STARTS_PROCESSES = ("pytest_isolate_mpi", "pytest_isolate_mpi._plugin")  # installed, or loaded by `-p`
_LAUNCHED = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "MV2_COMM_WORLD_SIZE")
_ON_RANKS = pytest.StashKey[bool]()
_STATE = pytest.StashKey["_State"]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options of this plugin, and those of other MPI plugins that are not installed."""
    if not any(type(finder) is StandIn for finder in sys.meta_path):
        sys.meta_path.insert(0, StandIn())
    group = parser.getgroup("xsim", "MPI code on virtual ranks (xsim_py)")
    add = group.addoption
    add("--xsim", action="store_true", help="also run tests with marks of other MPI plugins on virtual ranks")
    add("--xsim-session", metavar="N", type=int, help="run the session on each of N ranks, with one report")
    add("--xsim-ranks", metavar="N[,N...]", help="set the rank counts of tests without their own (default: 2)")
    add("--xsim-machine", metavar="MACHINE", help="simulate this preset or YAML file (default: gige)")
    add("--xsim-seed", metavar="S", help="seed every random stream (default: 0)")
    add("--xsim-shards", metavar="K", help="simulate in K shards, with the same results (default: 1)")
    add("--xsim-fail", metavar="SPEC", action="append", help="inject a failure, e.g. 'rank=1 before its 2nd Allreduce'")
    add_check_options(add, pluginmanager.getplugin("pytestconfig"))
    if not _has_pytest_mpi():
        add("--with-mpi", action="store_true", help="run tests that are marked mpi, as pytest-mpi does")
        add("--only-mpi", action="store_true", help="run only tests that are marked mpi, as pytest-mpi does")


def _has_pytest_mpi() -> bool:
    """Return True if pytest-mpi is installed, even if it is loaded after this plugin."""
    spec = find_spec("pytest_mpi")
    folder = next(iter(spec.submodule_search_locations or ()), None) if spec is not None else None
    # mpi-pytest and pytest-mpi have packages of the same name.
    return folder is not None and not Path(folder, "parallel_assert.py").exists()


def _is_requested(options: object) -> bool:
    """Return True if an option of this plugin is given."""
    return any(value for name, value in vars(options).items() if name.startswith("xsim"))


def _marks_of_others(manager: pytest.PytestPluginManager) -> frozenset[str]:
    """Return the marks of the other loaded MPI plugins."""
    marks = set()
    for plugin in manager.get_plugins():
        package, _, module = getattr(plugin, "__name__", "").partition(".")
        if package == "pytest_mpi":
            marks.add("parallel" if module else "mpi")
        elif package == "pytest_isolate_mpi":
            marks.add("mpi(ranks)")
    return frozenset(marks)


class _State:
    """The parsed options of one session."""

    def __init__(self, config: pytest.Config) -> None:
        get = config.getoption
        self.others = _marks_of_others(config.pluginmanager)
        known = frozenset() if _is_requested(config.option) else self.others
        self.foreign = frozenset(("parallel", "mpi", "mpi(ranks)")) - known
        self.only_mpi = bool(get("only_mpi", False))  # missing if pytest-mpi is installed but disabled
        if (get("xsim") or get("xsim_session")) and not self.only_mpi:
            config.option.with_mpi = True  # also if another plugin handles it
        self.with_mpi = bool(get("with_mpi", False))
        try:
            self.default = tuple(int(word) for word in (get("xsim_ranks") or "").split(",") if word)
            if any(number < 1 for number in self.default):
                raise ValueError
        except ValueError:
            raise pytest.UsageError(f"--xsim-ranks: expected rank counts, got {get('xsim_ranks')!r}") from None
        named = ("machine", "seed", "shards", "fail", "check")
        self.options = {name: get(f"xsim_{name}") for name in named if get(f"xsim_{name}")}
        if self.options and not is_in_rank():
            from .options import refuse_bad

            refuse_bad(self.options)
        self.on_ranks: list[tuple[pytest.Item, RankRequest]] = []

    def requested(
        self, node: pytest.Item, fixturedefs: Mapping[str, Sequence[pytest.FixtureDef[Any]]]
    ) -> RankRequest | None:
        """Return the ranks requested by a test, by a mark or by the fixture `comm`."""
        try:
            requested = request_of(
                node, default=self.default, foreign=self.foreign, with_mpi=self.with_mpi or self.only_mpi
            )
        except pytest.UsageError as error:
            file, line, name = node.location
            text = f"{file}:{(line or 0) + 1}: {name}: {error}"
            raise pytest.fail.Exception(text, pytrace=False) from None
        comm = fixturedefs.get("comm")
        if requested is None and comm and comm[-1].func.__module__.startswith("xsim_py."):
            return RankRequest(self.default or (DEFAULT_RANKS,), {}, minimum=1)
        return requested


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Disable the plugin that would start mpiexec for the tests of this plugin."""
    if _is_requested(early_config.known_args_namespace):
        for name in _STARTS_PROCESSES:
            early_config.pluginmanager.set_blocked(name)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, and the fixtures that no other plugin has."""
    config.stash[_STATE] = _State(config)
    if is_in_rank():
        from .pytest_state import isolate_state

        isolate_state()
    others = config.stash[_STATE].others
    config.addinivalue_line("markers", "ranks(n, ..., **options): run the test's body on n virtual ranks (xsim_py)")
    if "parallel" not in others:
        config.addinivalue_line("markers", "parallel(nprocs): run on nprocs ranks, as mpi-pytest does (default: 3)")
    if not others & {"mpi", "mpi(ranks)"}:
        config.addinivalue_line("markers", "mpi(ranks=, timeout=, min_size=): run on ranks, as other plugins do")
    if "mpi" not in others:
        for name in _UNDER_MPI:
            config.addinivalue_line("markers", f"{name}: with --with-mpi, as in pytest-mpi")
    from .fixtures import plugin_of

    register = config.pluginmanager.register
    if "mpi(ranks)" not in others:
        register(plugin_of("comm", "mpi_ranks"), "xsim_comm")
    if not others & {"mpi", "mpi(ranks)"}:
        register(plugin_of("mpi_tmp_path", "mpi_tmpdir"), "xsim_folders")
    if "mpi" not in others:
        register(plugin_of("mpi_file_name"), "xsim_file_name")
    ranks = config.getoption("xsim_session")
    if ranks is not None and not is_in_rank():
        if ranks < 1:
            raise pytest.UsageError(f"--xsim-session: expected a number of ranks, got {ranks}")
        if getattr(config.option, "numprocesses", None):
            raise pytest.UsageError("--xsim-session: cannot be combined with -n; drop one")
        from .session import Controller

        register(Controller(config, ranks, config.stash[_STATE].options), "xsim_session")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test by its numbers of ranks."""
    state = metafunc.config.stash[_STATE]
    requested = state.requested(metafunc.definition, metafunc._arg2fixturedefs)
    if requested is None or (len(requested.ranks) == 1 and requested.parameter != "mpi_ranks"):
        return
    owned = {"_nprocs": "parallel", "mpi_ranks": "mpi(ranks)"}.get(requested.parameter)
    if owned not in state.others:  # else that plugin does it
        if requested.parameter not in metafunc.fixturenames:
            metafunc.fixturenames.append(requested.parameter)
        metafunc.parametrize(
            requested.parameter, requested.ranks, ids=[f"{requested.label}{number}" for number in requested.ranks]
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests that run on ranks, and those to skip."""
    state = config.stash[_STATE]
    size = _world_size()
    for item in items:
        if "mpi" not in state.others:
            _mark_as_pytest_mpi_does(item, state)
        if not isinstance(item, pytest.Function):
            continue
        requested = state.requested(item, item._fixtureinfo.name2fixturedefs)
        if requested is None:
            continue
        numbers = requested.numbers(item) if size is None else (size,)
        if requested.skip:
            item.add_marker(pytest.mark.skip(reason=requested.skip))
        elif requested.minimum is not None and min(numbers) < requested.minimum:
            item.add_marker(pytest.mark.skip(reason=TOO_FEW.format(requested.minimum, min(numbers))))
        elif size is None:
            item.stash[_ON_RANKS] = True
            state.on_ranks.append((item, requested))
        elif requested.minimum is None and size not in requested.numbers(item):
            text = " or ".join(map(str, requested.numbers(item)))
            item.add_marker(pytest.mark.skip(reason=f"for {text} ranks, but the session has {size}"))


def _mark_as_pytest_mpi_does(item: pytest.Item, state: _State) -> None:
    if state.with_mpi:
        for name, mark in _UNDER_MPI.items():
            if name in item.keywords:
                item.add_marker(mark)
    elif state.only_mpi and "mpi" not in item.keywords:
        item.add_marker(pytest.mark.skip(reason="test does not use mpi"))


def _world_size() -> int | None:
    """Return the number of ranks that run this session; None for a single process."""
    if is_in_rank() or any(name in os.environ for name in _LAUNCHED):
        size: int = import_module("mpi4py.MPI").COMM_WORLD.size  # the simulated or the real MPI
        return size
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Prepare the tests that run on ranks, after the collection and before the first test."""
    state = session.config.stash[_STATE]
    chosen = set(session.items)
    on_ranks = [(item, requested) for item, requested in state.on_ranks if item in chosen]
    if on_ranks and not session.config.getoption("collectonly"):
        from .on_ranks import prepare

        for item, _ in on_ranks if state.others else ():
            _hide_marks(item)
        prepare(on_ranks, state.options)


def _hide_marks(item: Any) -> None:
    """Hide marks of other plugins, which would skip these tests, or run mpiexec."""
    all_markers = item.iter_markers

    def iter_markers(name: str | None = None) -> Iterator[pytest.Mark]:
        return (mark for mark in all_markers(name) if mark.name not in ("parallel", "mpi"))

    item.iter_markers = iter_markers


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave the fixtures that use MPI to the ranks."""
    if item.stash.get(_ON_RANKS, False):
        from .on_ranks import defer_to_ranks

        defer_to_ranks(item)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Apply the limit of pytest-timeout to the ranks, because its signal does not reach them."""
    if item.stash.get(_ON_RANKS, False) and settings.method == "signal" and not item.config.getoption("usepdb"):
        from .on_ranks import UNTIL

        item.stash[UNTIL] = monotonic() + settings.timeout


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Show the exceptions of the other ranks."""
    report = yield
    if call.when != "setup" and item.stash.get(_ON_RANKS, False):
        from .on_ranks import OTHERS, WHEN

        if call.when == "call" and report.failed:
            report.when = item.stash.get(WHEN, report.when)
        report.sections += item.stash.get(OTHERS, {}).get(report.when, [])
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> object:
    """Raise exceptions from the teardown of fixtures in ranks."""
    yield
    if item.stash.get(_ON_RANKS, False):
        from .on_ranks import raise_late

        raise_late(item)
