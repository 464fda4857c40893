"""Settings that functions change, and C keeps, are private to the rank that has changed them."""

import gc
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from tests.process.launch import launch


def _state() -> tuple[Any, ...]:
    mask = os.umask(0)
    os.umask(mask)
    return mask, sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold(), socket.getdefaulttimeout(), time.tzname


def test_a_rank_changes_settings_of_the_process_for_itself(tmp_path: Path):
    text = """
        import decimal, gc, locale, multiprocessing, os, socket, sys, time, numpy
        before = locale.setlocale(locale.LC_ALL)
        if rank == 0:
            os.umask(0o077)
            sys.setrecursionlimit(5000)
            gc.disable()
            gc.set_threshold(7, 8, 9)
            socket.setdefaulttimeout(5)
            os.environ["TZ"] = "XYZ-9"
            time.tzset()
            sys.mine, sys.tracebacklimit, sys.unraisablehook, sys.dont_write_bytecode = 1, 2, print, 3
            del sys.copyright
            decimal.getcontext().prec = 5
            locale.setlocale(locale.LC_ALL, "C.UTF-8")
            numpy.seterr(all="raise")
        if rank < 2:
            multiprocessing.set_start_method(["spawn", "forkserver"][rank])
        comm.Barrier()
        print(rank, oct(os.umask(0)), sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold()[2] == 9,
              socket.getdefaulttimeout(), time.tzname[0] == "XYZ", locale.setlocale(locale.LC_ALL) == before)
        print(rank, getattr(sys, "mine", 0), hasattr(sys, "tracebacklimit"), sys.unraisablehook is print,
              sys.dont_write_bytecode == 3, hasattr(sys, "copyright"), decimal.getcontext().prec,
              numpy.geterr()["divide"], multiprocessing.get_start_method() in ("spawn", "forkserver"))
        """
    before = _state()
    done = launch(tmp_path, text, ranks=3)
    mask = oct(before[0])
    assert sorted(done.lines) == [
        "0 0o77 5000 False True 5.0 True False",
        "0 1 True True True False 5 raise True",
        "1 0 False False False True 28 warn True",
        f"1 {mask} 1000 True False None False True",
        "2 0 False False False True 28 warn False",
        f"2 {mask} 1000 True False None False True",
    ]
    assert _state() == before
    assert not hasattr(sys, "mine")


def test_children_are_numbered_by_each_rank(tmp_path: Path):
    text = "import multiprocessing; print(rank, multiprocessing.Process().name, multiprocessing.Process().name)"
    assert sorted(launch(tmp_path, text, ranks=2).lines) == [f"{rank} Process-1 Process-2" for rank in range(2)]
