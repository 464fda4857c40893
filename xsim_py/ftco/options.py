"""Configurations of the formal model from text: options of ``xsim ftco`` and of studies."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from xsim_py.errors import ConfigError, OptionProblem
from xsim_py.ftco.model import RULES, Configuration, Rules, parse_rules
from xsim_py.mpi.ftco.trees import best_radix

DEFAULTS: Final[dict[str, str]] = {
    "tree": "knomial:auto",
    "roots": "multi",
    "L": "10",
    "o": "1",
    "inactive": "0",
    "failures": "0",
    "window": "auto",
    "imbalance": "none",
    "operation": "allreduce",
    "algorithm": "tree",
    "group": "16",
    "rules": "reference",
    "service": "",
    "timeout": "",
}
"""Default of each option; `nodes` is required."""

_LISTED: Final = (
    "nodes", "tree", "roots", "L", "o", "inactive", "failures", "window", "imbalance", "operation", "algorithm", "group"
)  # fmt: skip
_NUMBERS: Final = ("nodes", "L", "o", "inactive", "failures", "group", "timeout")
_WINDOW: Final = re.compile(r"([0-9]{1,18})\.\.([0-9]{1,18})")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_MAX_CONFIGURATIONS: Final = 10_000


def configurations(given: Mapping[str, str], *, rules: Sequence[str] = ()) -> list[Configuration]:
    """Return every combination of the values of some options, with the last varying fastest.

    Values of ``nodes``, ``tree``, ``roots``, ``L``, ``o``, ``inactive``, ``failures``, ``window``, ``imbalance``,
    ``operation``, ``algorithm`` and ``group`` may be lists with commas. `rules` are several sets of rules, instead of
    the given one. The radix becomes a number, even if the best one was requested. Raise ConfigError with a line
    ``option: problem`` for each problem.
    """
    options = {"nodes": "", **DEFAULTS, **given}
    problems: list[OptionProblem] = []
    if not options["nodes"]:
        problems.append(OptionProblem("nodes", "missing option; give the number of nodes, e.g. 1024"))
        options["nodes"] = "1"
    sets = [_rules(text, options["service"], problems) for text in rules or [options["rules"]]]
    timeout = _value("timeout", options["timeout"], problems) if options["timeout"] else None
    lists = {name: [_value(name, word.strip(), problems) for word in options[name].split(",")] for name in _LISTED}
    count = math.prod(map(len, lists.values())) * len(sets)
    if count > _MAX_CONFIGURATIONS:
        message = f"{count:,} configurations with all lists; the limit is {_MAX_CONFIGURATIONS:,}"
        problems.append(OptionProblem("nodes", message))
    if problems:
        raise ConfigError(*problems)
    made: list[Configuration] = []
    for values in itertools.product(*lists.values(), sets):
        *plain, chosen = values
        found = dict(zip(_LISTED, plain, strict=True))
        found["tree"], found["radix"] = found["tree"]
        try:
            made.append(with_radix(Configuration(**found, rules=chosen, timeout=timeout)))
        except ConfigError as error:
            found_wrong = [p._replace(option="tree") if p.option == "radix" else p for p in error.problems]
            problems += [problem for problem in found_wrong if problem not in problems]
    if problems:
        raise ConfigError(*problems)
    return made


def with_radix(configuration: Configuration) -> Configuration:
    """Return the configuration with a number for its radix; ``auto`` minimises the latency."""
    if configuration.radix != "auto":
        return configuration
    made = configuration
    radix = best_radix(made.nodes, made.tree, made.roots, made.latency, 1, made.operation)
    return replace(configuration, radix=radix)


def rules_text(rules: Rules) -> str:
    """Return rules as text: the nearest named set, and the differences from it."""
    texts = []
    for name, known in RULES.items():
        changes = [each.name for each in fields(Rules) if getattr(rules, each.name) != getattr(known, each.name)]
        texts.append((len(changes), ",".join([name, *(f"{change}={getattr(rules, change)}" for change in changes)])))
    return min(texts, key=lambda text: text[0])[1]


def _value(name: str, text: str, problems: list[OptionProblem]) -> Any:
    if name == "tree":
        return _tree(text, problems)
    if name == "window":
        return _window(text, problems)
    if name not in _NUMBERS:
        return text
    if not _NUMBER.fullmatch(text):
        few = " of 18 digits or fewer" if text.isdigit() else ""
        problems.append(OptionProblem(name, f"expected an integer{few}, got {text!r}"))
        return 0
    return int(text)


def _tree(text: str, problems: list[OptionProblem]) -> tuple[str, int | str]:
    """Return kind and radix of ``knomial:9``, ``kary:auto`` or ``kary``."""
    kind, _, radix = text.partition(":")
    if radix in ("", "auto"):
        return kind, "auto"
    if not _NUMBER.fullmatch(radix):
        message = f"expected an integer or auto, got {radix!r}; write for example knomial:9"
        problems.append(OptionProblem("tree", message))
        return kind, "auto"
    return kind, int(radix)


def _window(text: str, problems: list[OptionProblem]) -> tuple[int, int] | None:
    if text == "auto":
        return None
    found = _WINDOW.fullmatch(text)
    if found is None:
        problems.append(OptionProblem("window", f"expected auto or steps such as 0..40, got {text!r}"))
        return None
    return int(found[1]), int(found[2])


def _rules(text: str, service: str, problems: list[OptionProblem]) -> Rules:
    try:
        rules = parse_rules(text)
    except ConfigError as error:
        problems += error.problems
        return RULES["reference"]
    if not service:
        return rules
    changed = replace(rules, service=service)
    if changed.problems():
        (choices,) = (each.metadata["choices"] for each in fields(Rules) if each.name == "service")
        problems.append(OptionProblem("service", f"expected {' or '.join(choices)}, got {service!r}"))
    return changed
