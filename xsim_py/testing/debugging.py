"""``--pdb`` on ranks: the debugger starts in the first rank that raises, during the run."""

from __future__ import annotations

from typing import Any

import pytest

_NAME = "pdbinvoke"


class RankDebugger:
    """Replaces pytest's debugger, which would start after the run."""

    def __init__(self, debugger: Any) -> None:
        self._debugger = debugger  # pytest's debugger, which still handles exceptions outside ranks
        self._seen: list[BaseException] = []

    def pytest_exception_interact(self, node: object, call: Any, report: object) -> None:
        """Start the debugger, unless a rank already has."""
        if not any(call.excinfo.value is error for error in self._seen):
            self._debugger.pytest_exception_interact(node=node, call=call, report=report)

    def start(self, item: pytest.Item, error: BaseException) -> None:
        """Start the debugger in the running rank."""
        self._seen.append(error)
        excinfo = pytest.ExceptionInfo.from_exception(error)
        call = pytest.CallInfo[None](None, excinfo, start=0, stop=0, duration=0, when="call", _ispytest=True)
        report = item.ihook.pytest_runtest_makereport(item=item, call=call)
        self._debugger.pytest_exception_interact(node=item, call=call, report=report)


def debugger_of(config: pytest.Config) -> RankDebugger | None:
    """Return the debugger for ranks, if pytest is configured to start one."""
    manager = config.pluginmanager
    known = manager.get_plugin(_NAME)
    if known is None or isinstance(known, RankDebugger):
        return known
    manager.unregister(known)
    made = RankDebugger(known)
    manager.register(made, _NAME)
    return made
