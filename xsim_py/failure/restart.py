"""The restart of aborted jobs, as by the scripts around a checkpointing application."""

from __future__ import annotations

from typing import NamedTuple

from xsim_py.errors import ConfigError, OptionProblem
from xsim_py.units import parse_time_ps, parse_whole

_MAX = 1000
_MAX_EVER = 100_000
_FORM = "on-abort[,max=N,delay=TIME], such as on-abort,max=3,delay=30s"


class RestartPolicy(NamedTuple):
    """When and how often an aborted job is restarted."""

    most: int = _MAX
    """Maximum number of restarts: a program may abort at every start."""
    delay_ps: int = 0
    """From the abort to the next start."""

    @classmethod
    def parse(cls, text: str) -> RestartPolicy:
        """Parse ``on-abort[,max=N,delay=TIME]``.

        Raises a `ConfigError` if the text is invalid; all problems at once.
        """
        event, *options = (part.strip() for part in text.split(","))
        problems = [] if event == "on-abort" else [f"expected on-abort, got {event!r}"]
        found = cls()._asdict()
        names = [option.partition("=")[0] for option in options]
        problems += [f"{name} is given more than once" for name in sorted(set(names)) if names.count(name) > 1]
        for option in options:
            name, _, value = option.partition("=")
            try:
                if name == "max":
                    found["most"] = parse_whole(value, least=0, most=_MAX_EVER)
                elif name == "delay":
                    found["delay_ps"] = parse_time_ps(value)
                else:
                    problems.append(f"expected max=N or delay=TIME, got {option!r}")
            except ValueError as error:
                problems.append(f"{name}: {error}")
        if found["delay_ps"] < 0:
            problems.append(f"delay: {value} is out of range: it cannot be negative")
        if problems:
            prefix = f"{text}: " if options else ""
            raise ConfigError(*(OptionProblem("restart", f"{prefix}{problem}; write {_FORM}") for problem in problems))
        return cls(**found)
