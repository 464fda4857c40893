"""A real MPI job that walks through programs on demand, many in one launch; a crash or a hang of it is survived."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.cases import ROOT
from tests.real_mpi import ENVIRONMENT, MPIEXEC

MOST_RANKS = 4
PROGRAMS_PER_LAUNCH = 400  # MPI libraries do not give everything back
ANSWER_WITHIN_S = 20
LAUNCH_WITHIN_S = 120

Log = list[Any]


class RealMPI:
    """A launch of the real MPI that is renewed as needed."""

    def __init__(self, *launcher: str | Path, python: str | Path = sys.executable) -> None:
        self._command = [*(launcher or (MPIEXEC,)), "-n", str(MOST_RANKS), python, "-m", "tests.fuzz.serve"]
        self._process: subprocess.Popen[bytes] | None = None
        self._streams: list[Any] = []
        self._served = 0
        self.died = 0

    def __enter__(self) -> "RealMPI":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def walk(self, ranks: int, steps: list[dict[str, Any]]) -> list[Log] | None:
        """The logs of all ranks; None if the real MPI has crashed, or has not ended in time."""
        if self._served >= PROGRAMS_PER_LAUNCH:
            self.stop()
        if self._process is None:
            self._launch()
        self._served += 1
        request = json.dumps({"ranks": ranks, "steps": steps})
        try:
            for stream in self._streams[:ranks]:
                print(request, file=stream, flush=True)
            return [json.loads(stream.readline()) for stream in self._streams[:ranks]]
        except (OSError, ValueError):  # nothing came, or only part of a line
            self.died += 1
            self.stop()
            return None

    def _launch(self) -> None:
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as door:
            door.settimeout(LAUNCH_WITHIN_S)
            door.bind(f"{folder}/door")
            door.listen()
            environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
            quiet = subprocess.DEVNULL
            self._process = subprocess.Popen(
                [*self._command, f"{folder}/door"],
                env=environment,
                cwd=ROOT,
                stdin=quiet,
                stdout=quiet,
                stderr=quiet,
                start_new_session=True,
            )
            found: dict[int, Any] = {}
            for _ in range(MOST_RANKS):
                connection = door.accept()[0]
                connection.settimeout(ANSWER_WITHIN_S)
                stream = connection.makefile("rw", encoding="utf-8")
                found[int(stream.readline())] = stream
            self._streams = [found[rank] for rank in range(MOST_RANKS)]
            self._served = 0

    def stop(self) -> None:
        """End the launch, whatever state it is in."""
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.close()
        self._streams = []
        if self._process is not None:
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process = None
