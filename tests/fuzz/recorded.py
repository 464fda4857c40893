"""Programs with what a real MPI made of them, for where there is none, and those in which xsim once differed.

recorded/samples.json holds programs that were drawn as the random test draws them; each other file there is named after
what was wrong. `python -m tests.fuzz.recorded` runs them all under the real MPI and says what differs; with ``--write``
it records, with ``--samples N`` it draws new samples first.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings

from tests.fuzz.programs import programs
from tests.fuzz.real import Log, RealMPI

FOLDER = Path(__file__).parent / "recorded"
SAMPLES = FOLDER / "samples.json"


class Recorded(NamedTuple):
    """A program and the logs of its ranks."""

    name: str
    ranks: int
    steps: list[dict[str, Any]]
    logs: list[Log]

    def __str__(self) -> str:
        return self.name


def recorded() -> list[Recorded]:
    """Return all of them."""
    return [
        Recorded(
            path.stem if path != SAMPLES else f"sample {number}", *(entry[key] for key in ("ranks", "steps", "logs"))
        )
        for path in sorted(FOLDER.glob("*.json"))
        for number, entry in enumerate(json.loads(path.read_text(encoding="utf-8")))
    ]


def _drawn(how_many: int) -> list[tuple[int, list[dict[str, Any]]]]:
    """Random programs that do something: the first ones drawn are nearly empty."""
    found: list[tuple[int, list[dict[str, Any]]]] = []

    @settings(max_examples=6 * how_many, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(programs())
    def draw(program: Any) -> None:
        found.append(program)

    draw()
    return [program for program in found if len(program[1]) > 4][-how_many:]


def _rerun(real: RealMPI, programs: Any) -> Iterator[dict[str, Any]]:
    for ranks, steps in programs:
        logs = real.walk(ranks, steps)
        if logs is not None:
            yield {"ranks": ranks, "steps": steps, "logs": logs}


def main() -> None:
    """Compare with the records, or make them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the records")
    parser.add_argument("--samples", type=int, default=0, help="draw so many new samples")
    arguments = parser.parse_args()
    with RealMPI() as real:
        for path in sorted({*FOLDER.glob("*.json"), SAMPLES}):
            old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
            is_new = path == SAMPLES and arguments.samples
            programs = _drawn(arguments.samples) if is_new else [(entry["ranks"], entry["steps"]) for entry in old]
            new = list(_rerun(real, programs))
            if arguments.write:
                lines = ",\n".join(json.dumps(entry) for entry in new)
                path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
            elif new != old:
                print(f"{path.stem} differs from its record")


if __name__ == "__main__":
    main()
