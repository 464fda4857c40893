"""What a line finds may decide whether a loop goes on: of small programs, whose lines say so themselves."""

from pathlib import Path

import pytest

from xsim_py.checks.loops import lines_of

PROGRAMS = {
    "the condition of a loop": """
while m[0] == 0:  # decides
    win.Sync()
print(m[1])
""",
    "a loop that counts": """
while step < 3:  # decides
    total += m[0]
    print(step, m[1])
    step += 1  # decides
""",
    "a way out of a loop": """
while True:  # decides
    seen = m[0]  # decides
    other = m[1]
    if seen:  # decides
        break
""",
    "several variables": """
while not done:  # decides
    one = m[0]  # decides
    two = one + 1  # decides
    flags.append(two)  # decides
    three = m[1]
    done = all(flags)  # decides
""",
    "a search with a way out": """
for i in range(3):
    if m[i]:  # decides
        break
    total += m[3]
""",
    "a loop that has no way out": """
for i in range(3):
    if m[i]:
        print(i)
""",
    "what is asked of MPI": """
while not done:  # decides
    comm.Send(m[:1], 1)
    done = comm.Iprobe()  # decides
""",
    "a buffer that is fetched": """
while not seen[0]:  # decides
    win.Get(seen, 1)  # decides
    win.Get(other, 1)
""",
    "a module": """
import numpy as np
while np.any(x):  # decides
    y = np.sum(m)
    x = x[1:]  # decides
""",
    "attributes of an object": """
class A:
    def run(self):
        while not self.done:  # decides
            self.total = self.m[1]
            self.done = self.m[0]  # decides
            self.comm.Send(self.total, 1)
""",
    "a function that calls itself": """
def wait(n, flag):
    if flag == 0:  # decides
        other = m[1]
        wait(n, m[0])  # decides

wait(0, m[0])  # decides
wait(0, m[2])
""",
    "functions that call each other": """
def look():
    seen = m[0]  # decides
    total = m[1]
    if seen:  # decides
        return total
    return again()

def again():
    total = m[0] + m[1]
    return look()
""",
    "a function that is given to itself": """
def wait(me):
    other = m[1]
    if m[0] == 0:  # decides
        me(me)

wait(wait)
""",
    "a function that is kept": """
def wait():
    seen = m[0]  # decides
    other = m[1]
    return seen or kept["wait"]()  # decides

kept["wait"] = wait
""",
    "a function that has itself called later": """
def wait():
    if not m[0]:  # decides
        Timer(1e-6, wait).start()
""",
    "a function that calls what it is given": """
def call(function, flag):
    if flag and m[0]:
        function()

def main():
    call(print, m[1])
    call(walk, 1)

def walk():
    print(m[0])
""",
    "a method that calls another one of its name": """
class A:
    def Wait(self):
        if self.m[0]:
            self.request.Wait()
""",
    "an exception that ends a loop": """
while True:  # decides
    try:
        seen = m[0]  # decides
        assert seen == 1  # decides
        break
    except AssertionError:
        other = m[1]
""",
    "what a method keeps": """
class A:
    def run(self):
        while not self.done:  # decides
            self.look()  # decides
            self.total = self.m[1]
""",
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_lines_that_decide(text: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(text)
    marked = {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# decides")}
    assert lines_of(str(path)).deciding == marked


def test_what_a_function_finds_leaves_it(tmp_path: Path) -> None:
    text = """
def f():
    one = m[0]  # leaves
    two = m[1]
    print(two)
    return one > 0  # leaves

def g():
    global kept
    kept = m[0]  # leaves
    other = m[1]

h = lambda: m[0]  # leaves
"""
    path = tmp_path / "program.py"
    path.write_text(text)
    marked = {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# leaves")}
    assert lines_of(str(path)).outgoing == marked
