"""The option ``--xsim-check``, optionally with the classes of errors to report."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_OPTION = "--xsim-check"


def add_check_options(add: Callable[..., object], config: pytest.Config) -> None:
    """Add the option and its given values, each as one word: the next one may be a test."""
    add(_OPTION, action="store_true", help="a finding of the checks is a failure of the test")
    add(
        f"{_OPTION}=CLASS[,...]",
        action="store_const",
        const="CLASS",
        dest="xsim_check",
        help="of these; -CLASS: all others",
    )
    words = [
        *config.getini("addopts"),
        *shlex.split(os.environ.get("PYTEST_ADDOPTS", "")),
        *config.invocation_params.args,
    ]
    for word in dict.fromkeys(map(str, words)):
        if word.startswith(f"{_OPTION}="):
            add(word, action="store_const", const=word.partition("=")[2], dest="xsim_check")
