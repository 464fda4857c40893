"""CRC-32, by the fastest available implementation: the checksum of message data in the digest.

zlib's own takes half a microsecond for a kilobyte. The package `isal` (an extra, ``pip install 'xsim-py[fast]'``) uses
the CPU's carry-less multiplication and takes a tenth of that; the numbers are the same, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["crc32"]

crc32: Callable[..., int]
try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32
