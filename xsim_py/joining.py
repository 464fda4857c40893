"""Joining of a run by a new interpreter, whose ranks have a separate hash seed."""

from __future__ import annotations

import os
import sys
import time
import traceback
from pickle import load, loads
from socket import socket
from typing import TYPE_CHECKING

from xsim_py.engine.frame_socket import FrameSocket
from xsim_py.process.output.simulator_descriptors import separate_streams
from xsim_py.process.ranks import current
from xsim_py.run import make_job

if TYPE_CHECKING:
    from xsim_py.engine.processes import Processes
    from xsim_py.isolation import Joining


def main() -> None:
    """Run as one of the processes of a run, as described by the file on the command line."""
    with open(sys.argv.pop(), "rb") as file:
        joining: Joining = load(file)
    os.unlink(file.name)
    os.environ.pop("PYTHONHASHSEED")
    if joining.hash_seed is not None:
        os.environ["PYTHONHASHSEED"] = joining.hash_seed
    for each in (joining.descriptor, *joining.memories):
        os.set_inheritable(each, False)
    try:
        _join(joining)
    except BaseException:
        up = FrameSocket(socket(fileno=joining.descriptor))
        up.send(("error", traceback.format_exc(), None, False))
        os._exit(1)


def _join(joining: Joining) -> None:
    asked, program, machine, besides = loads(joining.origin)
    job = make_job(asked, program, machine, **besides)
    processes: Processes = job.transport  # type: ignore[assignment]
    processes.join(joining.number, joining.descriptor)
    job.joins = joining
    limit_s = (joining.due_ns - time.monotonic_ns()) / 1e9 if joining.due_ns else None
    with current.exclusive(), separate_streams(sys.stdout, sys.stderr) as job.sinks, job.rank_processes():
        job.go(limit_s, (), None, None)  # the process ends inside
