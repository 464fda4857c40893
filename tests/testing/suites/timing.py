"""Says what a test costs in CPU time, in the middle of all."""

import time

import pytest

costs = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    began_s = time.process_time()
    result = yield
    costs.append(time.process_time() - began_s)
    return result


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"a test costs {sorted(costs)[len(costs) // 2] * 1e3:.3f} ms")
