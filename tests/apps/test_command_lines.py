"""The command lines of the recovery programs: one message for what is wrong, with option, value and what is allowed."""

import argparse
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from tests.apps.helpers import APPS, simulated, within

PROGRAMS = sorted(path.stem for path in APPS.glob("*.py") if "recovery.Parser(" in path.read_text(encoding="utf-8"))
BAD = ("nan", "inf", "-inf", "-1", "text", "")
BOUNDS = r"( (and )?(at least|at most|above|below) [\d.,]+)+"
SAID = r"argument {}: '{}' is not (RANK@STEP, as in 2@20|a (whole )?number" + BOUNDS + ")$"


def parser_of(program: Any) -> argparse.ArgumentParser:
    """Return the parser of a program as it stands when it is to read the command line; it raises what is wrong."""
    read = program.parse_arguments
    reading = mock.patch.object(program.recovery.Parser, "parse_args", autospec=True, side_effect=SystemExit)
    with reading as call, pytest.raises(SystemExit):
        read(*[8] * read.__code__.co_argcount)
    parser = call.call_args.args[0]
    parser.error = mock.Mock(side_effect=SystemExit)
    return parser


def refusal(parser: argparse.ArgumentParser, option: str, value: str) -> str:
    """Return what is said of a value of an option."""
    try:
        return f"is legal, and {parser.parse_args([f'{option}={value}'])}"
    except SystemExit:
        return str(parser.error.call_args.args[0])


def unclear(program: Any) -> Iterator[tuple[str, str, str]]:
    """Yield each option and bad value of which is not said clearly what is wrong, and what is said."""
    parser = parser_of(program)
    for action in parser._actions:
        option = action.option_strings[0]
        if action.type is None or action.help == argparse.SUPPRESS:
            continue
        for value in (*BAD, "2.5") if "whole" in refusal(parser, option, "text") else BAD:
            said = refusal(parser, option, value)
            if not re.match(SAID.format(option, value), said):
                yield option, value, said


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_bad_number_is_refused_with_what_is_allowed(program: str):
    assert within(program, lambda module: list(unclear(module))) == []


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        ("bag_of_tasks", "--work nan", "argument --work: 'nan' is not a number at least 0 and at most 1,000,000"),
        ("bag_of_tasks", "--dying 100", "argument --dying: '100' is not a whole number at least 0 and at most 99"),
        ("ft_mlmc", "--samples 4,0", "argument --samples: '0' is not a whole number at least 1"),
        ("ft_mlmc", f"--samples 1{',1' * 16}", "argument --samples: '1,1,1"),
        ("ft_mlmc", "--at 1.5", "argument --at: '1.5' is not a number at least 0 and at most 1"),
        ("ft_qr", "--panels 0", "argument --panels: '0' is not a whole number at least 1"),
        ("fampi", "--tolerance 1", "argument --tolerance: '1' is not a number above 0 and below 1"),
        ("lattice_boltzmann", "--tau 0.5", "argument --tau: '0.5' is not a number above 0.5"),
        ("lattice_boltzmann", "--rows 65", "--rows 65: not a multiple of --columns 64 from 8 on"),
        ("falanx", "--storage 7", "a master, 7 storage ranks and a worker need more than 8 ranks"),
        ("falanx", "--kill 4", "--kill 4: there are 3 storage ranks"),
        ("falanx", "--placement pairs", "pairs are two copies, on an even number of storage ranks"),
        ("repartition", "--vertices 7", "--vertices 7: fewer than one for each of 8 ranks"),
        ("resilient_pde", "--cells 4", "--cells 4: not above 4, which is twice the overlap"),
        ("resilient_pde", "--total 1", "--total 1: 2 servers need a subdomain each"),
        ("schwarz", "--subdomains 9", "--subdomains 9: more than 8, the number of ranks"),
        ("schwarz", "--overlap 9", "--overlap 9: more than 8, half of the cells"),
        ("sparse_grid", "--finest 3", "--finest 3: below --level 4"),
        ("sparse_grid", "--recovery none", "argument --recovery: invalid choice: 'none'"),
        ("netpipe", "--die 3@513", "--die 3@513: no size that is tested; the nearest is 512"),
        ("netpipe", "--die 8@1", "--die 8@1: there are 8 ranks, from 0 on"),
        ("lossy", "--die 7@3 --die 9@3", "--die 9@3: there are 8 ranks, from 0 on"),
        ("propagate", "--die 3", "argument --die: '3' is not RANK@STEP, as in 2@20"),
    ],
)
def test_what_is_wrong_is_said_once(program: str, words: str, said: str):
    run = simulated(f"{program}.py", *words.split(), ranks=8)
    assert (run.out, run.status) == ("", 2)
    assert re.findall(r".*error: .*", run.err) == [run.err.splitlines()[-1]]
    assert f"{program}: error: {said}" in run.err
