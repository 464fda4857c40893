"""``compare-recovery`` as a command of studies: each run is one scheme with its failures."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xsim_py.config import machine_name
from xsim_py.errors import ConfigError, OptionProblem, XsimError
from xsim_py.parameters import assignment, one_of, positive
from xsim_py.report.phases import PHASES
from xsim_py.study.template import Value, text_of
from xsim_py.units import PS_PER_S, parse_time_ps

if TYPE_CHECKING:
    from xsim_py.study.recovery.experiment import Experiment

OPTIONS: Final = (
    "machine",
    "ranks",
    "scheme",
    "failures",
    "timeout",
    "restart_delay",
    "call",
    "after",
    "whole",
    "set",
    "program",
    "args",
)
"""As on the command line of ``xsim compare-recovery``, with underscores for dashes.

``args`` and ``set`` are texts of several words, as in a shell.
"""

METRICS: Final[dict[str, str]] = {
    "total_s": "s",
    "recovery_s": "s",
    "active_s": "s",
    "lost_s": "s",
    **{f"{name.replace(' ', '_')}_s": "s" for name in PHASES},
    "messages": "",
}
"""``recovery_s`` is the cost of the failure without its detection, ``active_s`` all except detection and restart
delay, ``lost_s`` the virtual time of the job less that of the job without failures.
"""

TABLE: Final = ("total_s", "recovery_s")


def check(given: Mapping[str, Value]) -> dict[str, Any]:
    """Return the options of one run as plain data.

    Raise ConfigError with a line ``option: problem`` for each problem.
    """
    from xsim_py.config.loader import bundled_apps
    from xsim_py.study.recovery.experiment import LOOP, SCHEMES, Experiment, parse_call, plan_recovery

    problems: list[OptionProblem] = []

    def read(name: str, parse: Callable[[str], Any], default: object) -> Any:
        value = given.get(name)
        if value is None:
            return default
        try:
            if isinstance(value, list):
                raise ValueError("a list; sweep over its values")
            return parse(text_of(value))
        except ValueError as error:
            problems.append(OptionProblem(name, str(error)))
            return default

    program = read("program", str, None)
    args = read("args", shlex.split, [])
    schemes = Experiment(program=program, args=args).own_schemes or SCHEMES
    settings = {
        "machine": read("machine", str, "gige"),
        "ranks": read("ranks", positive, 64),
        "scheme": read("scheme", one_of(*schemes), "ulfm" if "ulfm" in schemes else schemes[0]),
        "failures": read("failures", str, "none"),
        "timeout_ps": read("timeout", parse_time_ps, 2 * PS_PER_S),
        "restart_delay_ps": read("restart_delay", parse_time_ps, 10 * PS_PER_S),
        "call": read("call", parse_call, None),
        "after_ps": read("after", parse_time_ps, None),
        "set": read("set", _entries, {}),
        "whole": read("whole", one_of("true", "false"), "false") == "true",
        "program": program,
        "args": args,
        "seed": int(text_of(given["seed"])) if not isinstance(given["seed"], list) else 0,
    }
    file = Path(settings["program"] or bundled_apps() / LOOP)
    if not file.is_file():
        problems.append(OptionProblem("program", f"cannot find the file {file}"))
    if problems:
        raise ConfigError(*problems)
    plan_recovery(_experiment(settings))
    return {**settings, "digest": hashlib.blake2b(file.read_bytes()).hexdigest()}


def do(settings: Mapping[str, Any]) -> Mapping[str, tuple[float | None, ...]]:
    """Execute and measure the run, after one without failures.

    Raise XsimError if the program did not finish.
    """
    from xsim_py.study.recovery.experiment import measure_case

    run = measure_case(_experiment(settings))
    if run.phases is None or not run.is_good:
        raise XsimError(f"{run.outcome}\n{run.said}")
    times = run.phases.times_ps()
    waiting_ps = times.get("detection", 0) + times.get("restart delay", 0)
    found: dict[str, float | None] = {
        "total_s": run.phases.total_ps / PS_PER_S,
        "recovery_s": run.phases.recovery_ps / PS_PER_S,
        "active_s": (run.phases.total_ps - waiting_ps) / PS_PER_S,
        **{f"{name.replace(' ', '_')}_s": times.get(name, 0) / PS_PER_S for name in PHASES},
        "lost_s": None if run.lost_ps is None else run.lost_ps / PS_PER_S,
        "messages": run.messages,
    }
    return {name: (value,) for name, value in found.items()}


def _experiment(settings: Mapping[str, Any]) -> Experiment:
    from xsim_py.study.recovery.experiment import Experiment

    call = settings["call"]
    return Experiment(
        program=settings["program"],
        args=settings["args"],
        machines={machine_name(settings["machine"]): settings["machine"]},
        ranks=(settings["ranks"],),
        failures=(settings["failures"],),
        schemes=(settings["scheme"],),
        whole=settings["whole"],
        timeout_ps=settings["timeout_ps"],
        restart_delay_ps=settings["restart_delay_ps"],
        call=None if call is None else (call[0], call[1]),
        after_ps=settings["after_ps"],
        overrides=settings["set"],
        seed=settings["seed"],
    )


def _entries(text: str) -> dict[str, str]:
    """Parse entries of the machine, from words such as ``network.latency=5us``."""
    return dict(map(assignment, shlex.split(text)))
