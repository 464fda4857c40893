"""The probe: a plain mpi4py program that measures a machine, started by the user's launcher."""

from __future__ import annotations

import shlex
import subprocess
from typing import Final

from xsim_py import vitals
from xsim_py.config.loader import bundled_apps
from xsim_py.errors import ConfigError

PROGRAM: Final = "network_probe.py"
_SHOWN_LINES: Final = 10


def run_probe(command: str, *, options: list[str]) -> str:
    """Run the probe and return its output, as CSV.

    The command starts Python on two ranks or more: ``mpiexec -n 3 --host a:2,b:1 python``.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--probe {command}: {error}") from error
    if not words:
        raise ConfigError("--probe: expected a command, e.g. 'mpiexec -n 3 --host a:2,b:1 python'")
    try:
        done = subprocess.run(
            [*words, str(bundled_apps() / PROGRAM), *options],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            preexec_fn=vitals.live_with_parent,
        )
    except OSError as error:
        raise ConfigError(f"--probe {command}: {words[0]}: {error.strerror}") from error
    printed = done.stdout.splitlines()
    head = next((at for at, line in enumerate(printed) if line.startswith("layer,op,bytes,")), None)
    if done.returncode != 0 or head is None or len(printed) < head + 2:
        said = "\n".join([*done.stderr.splitlines(), *printed][-_SHOWN_LINES:])
        raise ConfigError(f"--probe {command}: exit status {done.returncode}\n{said}".rstrip())
    return "\n".join(printed[head:]) + "\n"
