"""What Open MPI, MPICH and Intel MPI take as arguments of mpiexec, and how it is understood."""

from typing import Any

import pytest

from xsim_py.cli.mpiexec_line import AppLine, Line, read_line
from xsim_py.errors import ConfigError

VALUED = {"--machine": True, "--fail": True, "--seed": True, "--label": False, "--quiet": False, "--ft": False}


def read(words: str, **files: str) -> Line:
    return read_line(words.split(), VALUED, read=lambda name: files[name].splitlines())


@pytest.mark.parametrize(
    "words",
    [
        "-n 4 python p.py -n 5",
        "-np 4 python p.py -n 5",
        "--n 4 -- python p.py -n 5",
        "-c 4 python p.py -n 5",
        "--np=4 python p.py -n 5",
        "--oversubscribe --allow-run-as-root --map-by :OVERSUBSCRIBE --bind-to none -n 4 python p.py -n 5",
        "-n 4 --mca btl self,vader --mca pml ob1 -H a:2,b:2 --hostfile h -report-bindings python p.py -n 5",
        "-hosts a,b -f hosts -ppn 2 -n 4 -launcher ssh -bind-to core -genvall python p.py -n 5",
        "-machinefile m -perhost 2 -rr -iface eth0 -np 4 python p.py -n 5",
        "-npernode 2 --stream-buffering 1 -np 4 python p.py -n 5",
    ],
)
def test_what_says_where_processes_run_is_left_out(words: str):
    assert read(words) == Line(apps=[AppLine(4, ["python", "p.py", "-n", "5"])])


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--machine m.yaml --fail rank=1@1s", ["--machine", "m.yaml", "--fail", "rank=1@1s"]),
        ("--machine=m.yaml -n 1", ["--machine=m.yaml"]),
        ("-machine hosts", []),  # one dash: that of a launcher
        ("-l", ["--label"]),
        ("-prepend-rank", ["--label"]),
        ("--tag-output", ["--label"]),
        ("--output tag", ["--label"]),
        ("-q", ["--quiet"]),
        ("-verbose", ["--verbose"]),
        ("--with-ft ulfm", ["--ft"]),
        ("--with-ft none", ["--no-ft"]),
        ("-timeout 60", ["--wall-limit", "60"]),
        ("-s 0 --stdin none", []),
    ],
)
def test_what_means_something_is_an_option_of_xsim_run(words: str, options: list[str]):
    assert read(f"{words} prog.py").options == options


def test_programs_are_divided_by_colons_and_have_folders_and_variables_of_their_own():
    line = read("-n 2 -x A=1 -x HOME -env B 2 -wdir d a.py : -genv C 3 -env D=4 b.py x : -n 3 -wd e c.py")
    assert line.apps == [
        AppLine(2, ["a.py"], "d", {"B": "2"}),
        AppLine(1, ["b.py", "x"], None, {"D": "4"}),
        AppLine(3, ["c.py"], "e"),
    ]
    assert line.env == {"A": "1", "C": "3"}


@pytest.mark.parametrize(
    ("words", "of_all", "of_each"),
    [  # what Open MPI 5.0 does, tried
        ("-x F=a -n 1 p : -n 2 p", {"F": "a"}, [{}, {}]),
        ("-n 1 p : -n 2 -x F=b p", {}, [{}, {"F": "b"}]),
        ("-n 1 -x F=a p : -n 2 -x F=b p", {"F": "a"}, [{}, {"F": "b"}]),
    ],
)
def test_what_a_command_exports_is_not_for_those_before_it(words: str, of_all: dict[str, str], of_each: list[Any]):
    line = read(words)
    assert (line.env, [app.env for app in line.apps]) == (of_all, of_each)


@pytest.mark.parametrize("option", ["-configfile f", "--app f"])
def test_a_file_may_hold_the_rest(option: str):
    line = read(f"--seed 3 {option}", f="# two\n-n 2 python a.py 'x y'\n\n-n 3 b.py\n")
    assert line.apps == [AppLine(2, ["python", "a.py", "x y"]), AppLine(3, ["b.py"])]
    assert line.options == ["--seed", "3"]


@pytest.mark.parametrize(
    ("words", "asked"),
    [("-V", "version"), ("--version x", "version"), ("-info", "version"), ("-n 2 -h", "help"), ("--link d", "link")],
)
def test_a_question_needs_no_command(words: str, asked: str):
    assert read(words).asks == asked


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("", "no command; name one, e.g. xsim mpiexec -n 4 python prog.py"),
        ("-n 2", "no command; name one, e.g. xsim mpiexec -n 4 python prog.py"),
        ("-n 2 a.py : -n 3", "no command; name one, e.g. xsim mpiexec -n 4 python prog.py"),
        ("-n", "-n needs a value"),
        ("-n two a.py", "-n two: expected an integer, got 'two'"),
        ("-n 0 a.py", "-n 0: 0 is out of range (at least 1)"),
        ("-c pass", "begin the command with python: python -c ..."),
        ("-m pytest", "unknown option -m; begin the command with python: python -m ..."),
        ("--oversubscibe a.py", "unknown option --oversubscibe; did you mean --oversubscribe?"),
        ("--zzz a.py", "unknown option --zzz"),
        ("--mca a", "--mca needs a value"),
        ("--output-filename f a.py", "--output-filename is not supported; see xsim mpiexec --help"),
        ("--output file=f a.py", "--output file=f is not supported; --output tag prefixes lines with the rank"),
        ("-stdin all a.py", "-stdin all: only rank 0 can read standard input; use 0 or none"),
        ("-configfile f", "-configfile f: no command in this file; add one per line"),
    ],
)
def test_what_cannot_be_understood_says_why(words: str, complaint: str):
    with pytest.raises(ConfigError) as caught:
        read(words, f="# nothing\n")
    assert complaint in str(caught.value)


def test_a_file_that_is_not_there_is_bad_input():
    with pytest.raises(ConfigError, match="cannot read gone: No such file or directory"):
        read_line(["-configfile", "gone"], VALUED)
