"""The overview of `xsim` alone, and the completion scripts that shells get."""

import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from xsim_py.cli import main
from xsim_py.cli.commands import COMMANDS, FIRST
from xsim_py.cli.completion import SHELLS
from xsim_py.cli.completion import script as make_script

ROOT = Path(__file__).parents[2]
CASES = [
    ("xsim comp", {"compare", "compare-recovery", "completion"}),
    ("xsim run --mach", {"--machine"}),
    ("xsim run --machine torus", {"torus3d", "torus3dtt"}),
    ("xsim run --machine mod", {"models"}),
    ("xsim run --collectives t", {"tuned"}),
    ("xsim run -n 4 apps/ring", {"apps/ring.py"}),
    ("xsim check -n 4 apps/ring.py apps/ring", {"apps/ring.py"}),
    ("xsim explore w", {"wildcards"}),
    ("xsim explore failures --pict", {"--picture"}),
    ("xsim models show torus", {"torus3d", "torus3dtt"}),
    ("xsim study xsim-fig", {"xsim-fig1", "xsim-fig2", "xsim-fig3"}),
    ("xsim mpiexec --see", {"--seed"}),
]
IN_BASH = """
. "$1"; COMP_WORDS=($2)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shtab_xsim 2>/dev/null; printf '%s\\n' "${COMPREPLY[@]}"
"""
script = cache(make_script)


INSTALLED = [shell for shell in SHELLS if shutil.which(shell)]
COMPLETE = {"bash": IN_BASH, "fish": 'source $argv[1]; complete -C "$argv[2]"'}


@pytest.fixture
def file(shell: str, tmp_path: Path) -> Path:
    """The script of a shell, in a file."""
    (tmp_path / shell).write_text(script(shell))
    return tmp_path / shell


def test_xsim_alone_prints_the_overview_that_help_prints(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 2
    text = capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert capsys.readouterr().out == text
    first, more = text.split("\nmore commands:\n")
    listed = [re.findall(r"^  ([\w+-]+) +\S", part, re.MULTILINE) for part in (first, more)]
    assert listed == [list(FIRST), [name for name in COMMANDS if name not in FIRST]]
    assert len(FIRST) == 5


@pytest.mark.parametrize("shell", [shell for shell in INSTALLED if shell in COMPLETE])
@pytest.mark.parametrize(("line", "offered"), CASES)
def test_a_shell_completes(shell: str, file: Path, line: str, offered: set[str]):
    words = [shell, "-c", COMPLETE[shell], *(["bash"] if shell == "bash" else []), str(file), line]
    done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT)
    assert {each.split("\t")[0].rstrip("/") for each in done.stdout.splitlines()} == offered


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_commands_and_presets(shell: str):
    assert all(word in script(shell) for word in ("torus3d", "xsim-fig1", *COMMANDS))


@pytest.mark.parametrize("shell", INSTALLED)
def test_a_script_is_valid(shell: str, file: Path):
    assert subprocess.run([shell, "-n", str(file)], capture_output=True, check=True).stderr == b""


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert capsys.readouterr().err == "xsim: completion: shtab is not installed; pip install 'xsim-py[completion]'\n"
