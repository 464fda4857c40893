"""The check sum of messages is zlib's CRC-32, whoever computes it."""

import random
import subprocess
import sys
import zlib

from xsim_py.mpi.checksum import crc32

_WITHOUT = """
import sys
sys.modules["isal"] = sys.modules["isal.isal_zlib"] = None
from xsim_py import simulate
from xsim_py.mpi import checksum
import zlib
assert checksum.crc32 is zlib.crc32
print(simulate(sys.argv[1], ranks=5).digest)
"""

_PROGRAM = """
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine, other = np.arange(999.0) * comm.rank, np.empty(999)
comm.Sendrecv(mine, (comm.rank + 1) % comm.size, 0, other, (comm.rank - 1) % comm.size, 0)
comm.Allreduce(mine, other)
"""


def test_it_is_the_one_of_zlib():
    chance = random.Random(6)
    for size in (*range(200), 1023, 1024, 1025, 100_000):
        data = chance.randbytes(size)
        assert crc32(data) == crc32(memoryview(data)) == zlib.crc32(data)


def test_without_the_fast_one_the_digest_is_the_same(tmp_path):
    from xsim_py import simulate

    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    plain = subprocess.run([sys.executable, "-c", _WITHOUT, program], check=True, capture_output=True, text=True)
    assert plain.stdout.strip() == simulate(program, ranks=5).digest
