"""Says how many objects each test leaves, after some of its kind."""

import gc

counts = {}


def pytest_runtest_logfinish(nodeid):
    name, _, time = nodeid.rpartition("::")[2].rstrip("]").partition("[")
    if time in ("9", "29"):
        gc.collect()
        counts.setdefault(name, []).append(len(gc.get_objects()))


def pytest_terminal_summary(terminalreporter):
    for name, (before, after) in counts.items():
        terminalreporter.write_line(f"{name} leaves {(after - before) / 20:.2f} objects")
