"""Judges each test of ``injected.py`` by what was injected into it, where the one report of all ranks is made."""

import random
import re

judged = []
wrong = []


def drawn(number):
    """As `injected.drawn`."""
    draw = random.Random(number)
    return (draw.randrange(4), draw.randrange(8)) if draw.random() < 0.9 else None


def pytest_runtest_logreport(report):
    if report.when != "call":
        return
    number = int(re.search(r"\[(\d+)\]", report.nodeid)[1])
    injected = drawn(number)
    said = f"Injected: {number}: rank {injected[0]} before step {injected[1]}" if injected else ""
    told = "\n".join([str(report.longrepr), *(text for _, text in report.sections)])
    judged.append(number)
    if report.failed != bool(injected) or said not in told:
        wrong.append(f"{report.nodeid}: {report.outcome}, injected {injected}\n{told}")


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{len(wrong)} of {len(set(judged))} are wrong\n" + "\n".join(wrong[:3]))
