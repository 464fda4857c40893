"""A compiled program and its twin in Python: the same messages, times and output, in a word the same digest."""

import io
import subprocess
from pathlib import Path

import pytest

from xsim_py import simulate
from xsim_py.cli.cc import command_line

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    for source in PROGRAMS.glob("*.c"):
        words = command_line("cc", ["-g", "-O1", str(source), "-o", str(folder / source.stem)])
        subprocess.run(words, check=True)
    return folder


@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.py")))
@pytest.mark.parametrize(("ranks", "shards"), [(2, 1), (7, 1), (7, 3)])
def test_the_twins_have_one_digest(
    built: Path, name: str, ranks: int, shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    results = []
    for program in (built / name, PROGRAMS / f"{name}.py"):
        output = io.StringIO()
        result = simulate(program, ranks=ranks, shards=shards, stdout=output, stderr=output, ft=name == "ulfm" or None)
        assert result.ended == "finished", f"{result.report}\n{output.getvalue()}"
        results.append((result.digest, result.virtual_time_ps, output.getvalue()))
    assert results[0] == results[1]
