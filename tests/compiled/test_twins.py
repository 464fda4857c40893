"""A compiled program and its twin in Python: the same messages, times and output, in a word the same digest."""

import io
from pathlib import Path
from typing import Any

import pytest

from xsim_py import simulate

PROGRAMS = Path(__file__).parent / "programs"
SOURCES = [*PROGRAMS.glob("*.c")]
SETTINGS: dict[str, dict[str, Any]] = {
    "stored": {"set": {"storage.latency": "1ms", "storage.bandwidth": "1GB/s"}},
    "ulfm": {"ft": True},
}


@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.py")))
@pytest.mark.parametrize(("ranks", "shards"), [(2, 1), (7, 1), (7, 3)])
def test_the_twins_have_one_digest(
    built: Path, name: str, ranks: int, shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    results = []
    for program in (built / name, PROGRAMS / f"{name}.py"):
        output = io.StringIO()
        options = {"ranks": ranks, "shards": shards, "stdout": output, "stderr": output, **SETTINGS.get(name, {})}
        result = simulate(program, **options)
        assert result.ended == "finished", f"{result.report}\n{output.getvalue()}"
        results.append((result.digest, result.virtual_time_ps, output.getvalue()))
    assert results[0] == results[1]
