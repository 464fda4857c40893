"""Our CPU time a message beside that of SimGrid's SMPI, which runs C programs: ``make bench-peers``.

Both sides simulate the same messages on the same network (`machine.yaml`, and a SimGrid platform that is made to be
like it), run on one core, and take turns. What a program of one round costs is subtracted on both sides (of no round,
where there is but one), so that the figures are for messages: the starts of Python, of SimGrid and of all ranks, each
of which has waited once, stand in columns of their own. The simulated times must agree. SMPI counts 16 bytes of a
header with each message, hence they differ by less than 1 %.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
PROGRAMS = HERE.parent / "programs"
TIMES_DIFFER_AT_MOST = 0.01

# Its flow model without corrections for TCP, and each link's two directions independent, as here.
SAME_NETWORK = (
    "network/model:CM02",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
    "network/latency-factor:1",
    "network/bandwidth-factor:1",
    "network/weight-S:0",
)
SMPI = ("smpi/simulate-computation:no", "smpi/allreduce:rdb", "smpi/alltoall:pair")
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="peers" prefix="node" suffix="" radical="0-{last}" speed="1Gf" bw="125MBps" lat="10us"/>
</platform>
"""


@dataclass(frozen=True)
class Case:
    """One program, for so many ranks and rounds."""

    program: str
    ranks: int
    rounds: int

    @property
    def messages(self) -> int:
        """How many messages all rounds have."""
        ranks = self.ranks
        return (
            self.rounds
            * {
                "ring": ranks,
                "allreduce": ranks * (ranks.bit_length() - 1),
                "alltoall": ranks * (ranks - 1),
            }[self.program]
        )


QUICK = [
    Case("ring", 256, 100),
    Case("ring", 1024, 40),
    Case("ring", 4096, 10),
    Case("allreduce", 256, 40),
    Case("allreduce", 1024, 10),
    Case("allreduce", 4096, 10),
    Case("alltoall", 256, 1),
]
LONG = [Case("alltoall", 1024, 1)]


def cpu_s(command: list[str], env: dict[str, str] | None = None) -> tuple[float, str]:
    """Run a command on one core; its CPU seconds, its children's included, and what it printed."""
    core = min(os.sched_getaffinity(0))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


class Smpi:
    """SimGrid's SMPI, in a folder of its own."""

    def __init__(self, folder: Path, network: tuple[str, ...]) -> None:
        self.folder = folder
        self.options = [f"--cfg={option}" for option in (*SMPI, *network)] + ["--log=root.thres:error"]
        for program in sorted({case.program for case in QUICK + LONG}):
            source = HERE / f"{program}.c"
            subprocess.run(["smpicc", "-O2", source, "-o", folder / program], check=True)

    def run(self, case: Case, rounds: int) -> tuple[float, float]:
        """CPU seconds, and the simulated seconds."""
        platform, hosts = self.folder / f"{case.ranks}.xml", self.folder / f"{case.ranks}.hosts"
        platform.write_text(PLATFORM.format(last=case.ranks - 1))
        hosts.write_text("".join(f"node{rank}\n" for rank in range(case.ranks)))
        command = ["smpirun", "-np", case.ranks, "-platform", platform, "-hostfile", hosts, *self.options]
        cpu, printed = cpu_s([str(part) for part in [*command, self.folder / case.program, rounds]])
        return cpu, float(printed.split()[-1])


def ours(case: Case, rounds: int, collectives: str) -> tuple[float, float]:
    """CPU seconds, and the simulated seconds."""
    command = [sys.executable, "-m", "xsim_py", "run", "--quiet", "-n", str(case.ranks), "--json", "-"]
    command += ["--machine", str(HERE / "machine.yaml"), "--collectives", collectives]
    cpu, printed = cpu_s([*command, str(PROGRAMS / f"{case.program}.py"), str(rounds)])
    summary = json.loads(printed)
    assert summary["messages"] == case.messages // case.rounds * rounds
    return cpu, summary["virtual_time_s"]


def compare(case: Case, smpi: Smpi, repeats: int, must_agree: bool) -> None:
    """Measure all sides by turns, and print a line."""
    sides = {"smpi": lambda rounds: smpi.run(case, rounds), "messages": lambda rounds: ours(case, rounds, "messages")}
    if case.program != "ring":
        sides["arrays"] = lambda rounds: ours(case, rounds, "arrays")
    first = min(case.rounds - 1, 1)
    start_s = dict.fromkeys(sides, float("inf"))
    whole_s = dict.fromkeys(sides, float("inf"))
    times: dict[str, float] = {}
    for _ in range(repeats):
        for name, run in sides.items():
            cpu, times[name] = run(case.rounds)
            whole_s[name] = min(whole_s[name], cpu)
            start_s[name] = min(start_s[name], run(first)[0])
    messages = case.messages - case.messages // case.rounds * first
    us = {name: (whole_s[name] - start_s[name]) / messages * 1e6 for name in sides}
    differ = times["smpi"] / times["messages"] - 1
    print(
        f"{case.program:10}{case.ranks:6}{case.messages:9}{start_s['smpi']:7.2f}{start_s['messages']:6.2f}"
        f"{us['smpi']:8.2f}{us['messages']:7.2f}{us['smpi'] / us['messages']:7.2f}"
        + (f"{us['arrays']:8.2f}{us['smpi'] / us['arrays']:7.1f}" if "arrays" in us else f"{'':15}")
        + f"{times['smpi'] * 1e6:12.3f}{times['messages'] * 1e6:12.3f}{differ:+9.2%}",
        flush=True,
    )
    if times.get("arrays", times["messages"]) != times["messages"]:
        raise SystemExit(f"{case}: as arrays the simulated time is another")
    if must_agree and abs(differ) > TIMES_DIFFER_AT_MOST:
        raise SystemExit(f"{case}: the simulated times differ")


def main() -> int:
    """Compare all cases; the exit status is 1 when the simulated times do not agree."""
    parser = argparse.ArgumentParser(
        "python -m tests.bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true", help="also the alltoall of 1,024 ranks, a million messages")
    parser.add_argument("--repeats", type=int, default=3, help="take the least of this many turns (default: 3)")
    parser.add_argument(
        "--as-it-comes", action="store_true", help="SMPI with its own network model, whose times are others than ours"
    )
    arguments = parser.parse_args()
    if not shutil.which("smpicc") or not shutil.which("smpirun"):
        print("skipped: there is no SimGrid here (smpicc, smpirun); on Debian and Ubuntu it is in libsimgrid-dev")
        return 0
    print(f"{'':25}{'start, CPU s':>13}{'CPU us a message':>22}{'as arrays':>15}{'simulated us':>24}")
    print(
        f"{'case':10}{'ranks':>6}{'messages':>9}{'SMPI':>7}{'ours':>6}{'SMPI':>8}{'ours':>7}{'ratio':>7}{'ours':>8}{'ratio':>7}"
        f"{'SMPI':>12}{'ours':>12}{'differ':>9}",
        flush=True,
    )
    with TemporaryDirectory() as folder:
        smpi = Smpi(Path(folder), () if arguments.as_it_comes else SAME_NETWORK)
        for case in QUICK + LONG * arguments.long:
            compare(case, smpi, arguments.repeats, not arguments.as_it_comes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
