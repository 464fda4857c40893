"""What the program begins with that changes the pieces of state of state.yaml; pieced together by state_table.py."""
# ruff: noqa: F401

import argparse
import asyncio
import atexit
import builtins
import codecs
import contextvars
import copyreg
import csv
import ctypes
import decimal
import faulthandler
import fcntl
import gc
import json
import locale
import logging
import math
import multiprocessing
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import tracemalloc
import types
import warnings
from contextlib import suppress
from fractions import Fraction

import common_package
import mpi_package
import numpy
import of_program
from mpi4py import MPI

comm = MPI.COMM_WORLD
r = comm.rank
folder = sys.argv[1]
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
variable = contextvars.ContextVar("variable", default=None)
local = threading.local()
files, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
errors = ["ignore", "warn", "raise"]
real_ascii = ascii
kept = {}
kept_finder = types.SimpleNamespace(find_spec=lambda *_: None)


def function(*_):
    """One of its own in each rank."""


def kept_function(error):
    raise error


def noted_at_exit():
    with open(f"{folder}/at-exit-{r}", "a") as file:
        file.write(str(comm.rank))


def umask():
    now = os.umask(0o22)
    os.umask(now)
    return now


def start_thread(name):
    kept["go"] = threading.Event()
    kept["thread"] = threading.Thread(target=kept["go"].wait, name=name)
    kept["thread"].start()


def stop_thread():
    kept["go"].set()
    kept["thread"].join()


def sees_no_child_of_another():
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return r != 0
    return r == 0


def end_child():
    if kept["child"] is not None:
        kept["child"].kill()
        kept["child"].wait()


def try_lock(lock):
    kept["file"] = open(f"{folder}/locked", "a")  # noqa: SIM115
    try:
        lock(kept["file"], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 0
    return 1


def redirect(number):
    kept["name"] = f"{folder}/redirected-{number}-{r}"
    opened = os.open(kept["name"], os.O_CREAT | os.O_RDWR)
    try:
        kept["before"] = os.dup(number)
    except OSError:
        kept["before"] = None
    os.dup2(opened, number)
    os.close(opened)


def is_redirected(number):
    os.write(number, str(r).encode())
    comm.Barrier()
    with open(kept["name"]) as file:
        return file.read() == str(r)


def redirect_back(number):
    if kept["before"] is not None:
        os.dup2(kept["before"], number)
        os.close(kept["before"])
    elif r == comm.size - 1:
        os.close(number)


def found(change, is_own, undo):
    """Whether the rank finds its own; or the error that it meets."""
    said = None
    try:
        change()
    except Exception:
        said = traceback.format_exc()
    comm.Barrier()
    try:
        own = is_own()
    except Exception:
        own, said = False, said or traceback.format_exc()
    comm.Barrier()
    try:
        undo()
    except Exception:
        said = said or traceback.format_exc()
    comm.Barrier()
    return said or bool(own)
