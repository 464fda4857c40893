"""Large blocks go back to the system when they are freed; the modules of ranks go when their run ends."""

import os
import subprocess
import sys

from xsim_py import simulate

PROGRAM = """
import os
from xsim_py.process.ranks.memory import release_large_blocks

def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

{call}
for _ in range(2):  # the second of a size is the first that the C library would keep
    buffers = [bytearray(1 << 20)]
    del buffers
before = resident_bytes()
buffers = [bytearray(b"x" * (1 << 20)) for _ in range(64)]
del buffers[:-1]
print((resident_bytes() - before) >> 20)
"""


def kept_mib(call: str) -> int:
    program = PROGRAM.format(call=call)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)


def test_large_blocks_are_given_back():
    assert kept_mib("release_large_blocks()") < 8
    assert kept_mib("") > 32  # else it could be left out


def test_modules_of_ranks_go_with_their_run(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import gc\nclass OfOneRank: pass\ngc.collect(1)  # it is old from now on\n")
    for _ in range(3):
        assert simulate(program, ranks=4).exit_status == 0
    assert [each for each in object.__subclasses__() if each.__name__ == "OfOneRank"] == []
