"""python -m tests.inputs SEED FIRST LAST tries the inputs of these numbers; python -m tests.inputs FILE one again."""

import sys
import tempfile
from pathlib import Path

from tests.inputs.corpus import Case
from tests.inputs.judge import Verdict, judge, load_everything, read, written
from tests.inputs.mutations import case

_SHOWN = 3000


def main(words: list[str]) -> int:
    """Try them, and say what is wrong with each that fails."""
    cases = [read(Path(words[0]).read_text())] if len(words) == 1 else _numbered(*map(int, words))
    load_everything()
    failed = 0
    for each in cases:
        verdict = judge(each)
        if verdict.wrong or len(words) == 1:
            failed += bool(verdict.wrong)
            print(_about(each, verdict), flush=True)
    return min(failed, 1)


def _numbered(seed: int, first: int, last: int):
    return (case(seed, number) for number in range(first, last + 1))


def _about(each: Case, verdict: Verdict) -> str:
    with tempfile.NamedTemporaryFile("w", prefix="input-", suffix=".json", delete=False) as file:
        file.write(written(each))
    said = verdict.said if len(verdict.said) < _SHOWN else f"{verdict.said[:500]} ... {verdict.said[-_SHOWN:]}"
    command = " ".join(word[:100] for word in each.argv)
    return (
        f"--- {each.about}: {verdict.wrong or 'all right'}\nxsim {command}\nstatus {verdict.status},"
        f" {verdict.cpu_s:.2f} s CPU, {verdict.peak_bytes >> 20} MB; again: python -m tests.inputs {file.name}\n{said}"
    ).encode(errors="backslashreplace").decode()  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
