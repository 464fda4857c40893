"""CPU time per message and memory, compared with those of SimGrid's SMPI, which runs C programs: ``make bench-peers``.

SMPI runs the C programs of this folder. Here their twins in Python run, collectives also as arrays, and the same C
programs: up to 256 ranks as processes, and compiled with ``--fast``. All simulate the same messages on the same network
(`machine.yaml`, and a SimGrid platform that is made to be like it, with 16 bytes of a header for each message), run on
one core, and take turns. What a program of one round costs is subtracted (of no round, where there is but one), so that
the figures are for messages: the starts of Python, of SimGrid and of all ranks, each of which has waited once, are
a separate column. Each program checks the values that it receives. All simulated times here must be equal, and
agree with those of SMPI.

The cases on a fat tree and on a dragonfly share links max-min fairly on both sides (`contention: flows`). SimGrid's
shares depend on latencies, so there are none there, and 1 ns here; and messages are long, because of the headers.

``--also RANKS SOURCES ARGUMENTS`` compares a C or C++ program of yours, for which CPU time includes the start and the
program. Lines of its output that depend neither on the network nor on the time of computations must be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from xsim_py.cli.cc import command_line

HERE = Path(__file__).parent
PROGRAMS = HERE.parent / "programs"
TIMES_DIFFER_AT_MOST = 1e-4
MOST_PROCESSES = 256

# Its flow model without corrections for TCP, and each link's two directions independent, as here.
SAME_NETWORK = (
    "network/model:CM02",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
    "network/latency-factor:1",
    "network/bandwidth-factor:1",
    "network/weight-S:0",
)
SMPI = (
    "smpi/simulate-computation:no",
    "smpi/wtime:0",
    "smpi/async-small-thresh:65536",
    "smpi/display-timing:yes",
    "smpi/allreduce:rdb",
    "smpi/alltoall:pair",
    "smpi/barrier:ompi_bruck",
    "smpi/reduce:binomial",
)
FAIR = ("network/optim:Full", "network/loopback-lat:0", "network/loopback-bw:1e15")
EAGER = ("smpi/async-small-thresh:1000000000", "smpi/send-is-detached-thresh:1000000000")
LOG = ("root.thres:error", "smpi_utils.thres:info")
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="all" routing="Full">
    <cluster id="peers" prefix="node" suffix="" radical="0-{last}" speed="1Gf" {network}/>
  </zone>
</platform>
"""
SWITCH = 'bw="125MBps" lat="10us"'


def shared(kind: str, shape: str) -> tuple[str, str]:
    """Return a network of links of 1.25 GB/s without latency for SimGrid, and as a machine of ours."""
    simgrid = {"fattree": "FAT_TREE", "cascade": "DRAGONFLY"}[kind]
    ours = f"topology: {{type: {kind}, shape: '{shape}', links: {{every: {{latency: 0s}}}}}}"
    costs = "network: {latency: 1ns, bandwidth: 1.25GB/s, contention: flows}"
    return f'bw="1.25GBps" lat="0us" topology="{simgrid}" topo_parameters="{shape}"', f"{ours}\n{costs}\n"


MACHINE = (HERE / "machine.yaml").read_text(encoding="utf-8")
NETWORKS = {
    "": (SWITCH, MACHINE),
    "shared": (SWITCH, MACHINE.replace("network:\n", "network:\n  contention: flows\n")),
    "tree": shared("fattree", "3;4,4,4;1,4,2;1,1,1"),
    "dragonfly": shared("cascade", "4,1;2,1;8,1;2"),
    "large tree": shared("fattree", "2;32,32;1,32;1,1"),
}


@dataclass(frozen=True)
class Case:
    """One program, for a number of ranks and rounds."""

    program: str
    ranks: int
    rounds: int
    network: str = ""
    """One of `NETWORKS`."""
    more: tuple[str, ...] = ()
    """What else the program is told."""
    sources: tuple[str, ...] = ()
    """Sources and options of the compiler, for a program that is not in this folder."""

    @property
    def messages(self) -> int:
        """How many messages all rounds have."""
        ranks = self.ranks
        pairs, powers = ranks * (ranks - 1), ranks * (ranks.bit_length() - 1)
        every = {
            "ring": ranks,
            "halo": 4 * ranks,
            "allreduce": powers,
            "powers": powers,
            "alltoall": pairs,
            "all": pairs,
        }
        return self.rounds * every[self.more[0] if self.more else self.program]

    @property
    def name(self) -> str:
        """What the table calls it."""
        return self.program if self.sources or not self.network else f"{self.network} {self.more[0]}"


QUICK = [
    Case("ring", 64, 400),
    Case("ring", 256, 100),
    Case("ring", 1024, 40),
    Case("ring", 4096, 10),
    Case("halo", 64, 100),
    Case("halo", 256, 40),
    Case("allreduce", 64, 100),
    Case("allreduce", 256, 40),
    Case("allreduce", 1024, 10),
    Case("allreduce", 4096, 10),
    Case("alltoall", 64, 10),
    Case("alltoall", 256, 1),
    Case("exchange", 64, 40, "tree", ("ring", "262144")),
    Case("exchange", 64, 10, "tree", ("powers", "262144")),
    Case("exchange", 64, 2, "tree", ("all", "65536")),
    Case("exchange", 128, 40, "dragonfly", ("ring", "262144")),
    Case("exchange", 128, 10, "dragonfly", ("powers", "262144")),
    Case("exchange", 128, 2, "dragonfly", ("all", "65536")),
]
LONG = [Case("alltoall", 1024, 1), Case("exchange", 1024, 1, "large tree", ("all", "65536"))]


class Run(NamedTuple):
    """What a run costs, and what it gives."""

    cpu_s: float
    simulated_s: float
    messages: int
    output: str


def execute(command: list[str], folder: Path) -> tuple[float, str, str]:
    """Run a command on one core; its CPU seconds, its children's included, its output and its errors."""
    core = min(os.sched_getaffinity(0))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout, done.stderr


def peak_mib(command: list[str], folder: Path) -> float:
    """Run a command again, and return the most memory that it and its children have had at a time."""

    def tree(process: int) -> Iterator[int]:
        yield process
        with suppress(OSError):
            for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
                yield from tree(int(child))

    peak = 0
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while running.poll() is None:
            used = 0
            for process in tree(running.pid):
                with suppress(OSError):
                    found = re.search(r"^Pss: +(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)
                    used += int(found[1]) if found else 0
            peak = max(peak, used)
            time.sleep(0.01)
    return peak / 1024


class Side:
    """A way to simulate a case, with its files in a separate folder."""

    def __init__(self, case: Case, folder: Path, name: str, network: tuple[str, ...] = SAME_NETWORK) -> None:
        self.case, self.folder, self.name, self.network = case, folder, name, network
        self.program = PROGRAMS / f"{case.program}.py"
        if name in ("SMPI", "C", "fast C"):
            self.program = folder / f"{case.program}-{name.partition(' ')[0]}"
            words = ["-O2", *(case.sources or [str(HERE / f"{case.program}.c")]), "-o", str(self.program)]
            plus = any(word.endswith((".cc", ".cpp", ".cxx")) for word in words)
            smpi = ["smpicxx" if plus else "smpicc", *words]
            fast = ["--fast"] * (name == "fast C")
            line = smpi if name == "SMPI" else command_line("c++" if plus else "cc", [*fast, *words])
            subprocess.run(line, check=True)

    def command(self, rounds: int, *options: str) -> list[str]:
        """Return the command, for some rounds."""
        case = self.case
        simgrid, ours = NETWORKS[case.network]
        platform, hosts, machine = (self.folder / name for name in ("platform.xml", "hosts", "machine.yaml"))
        if self.name == "SMPI":
            platform.write_text(PLATFORM.format(last=case.ranks - 1, network=simgrid))
            hosts.write_text("".join(f"node{rank}\n" for rank in range(case.ranks)))
            words = ["smpirun", "-np", case.ranks, "-platform", platform, "-hostfile", hosts]
            words += [
                f"--cfg={option}"
                for option in (*SMPI, *self.network, *(() if case.network in ("", "shared") else FAIR + EAGER))
            ]
            words += [f"--log={option}" for option in LOG]
        else:
            machine.write_text(ours)
            words = [
                sys.executable,
                "-m",
                "xsim_py",
                "run",
                "--quiet",
                "-n",
                case.ranks,
                "--machine",
                machine,
                *options,
            ]
            words += ["--collectives", "arrays" if self.name == "arrays" else "messages"]
            words += ["--set", "network.header=16B", "--json", self.folder / "result.json"]
        return [str(word) for word in (*words, self.program, *([] if case.sources else [rounds]), *case.more)]

    def run(self, rounds: int, *options: str) -> Run:
        """Run the case, for some rounds."""
        cpu_s, output, errors = execute(self.command(rounds, *options), self.folder)
        if self.name == "SMPI":
            found = re.search(r"Simulated time: (\S+) seconds", errors)
            if not found:
                raise SystemExit(f"SMPI gives no simulated time:\n{errors}")
            return Run(cpu_s, float(found[1]), 0, output)
        summary = json.loads((self.folder / "result.json").read_text())
        assert self.case.sources or summary["messages"] == self.case.messages // self.case.rounds * rounds
        return Run(cpu_s, summary["virtual_time_s"], summary["messages"], output)


def compare(case: Case, sides: list[Side], repeats: int, must_agree: bool) -> None:
    """Measure all sides alternately, and print a line for each."""
    first = min(case.rounds - 1, 1)
    least: dict[tuple[str, int], Run] = {}
    for _ in range(repeats):
        for side in sides:
            for rounds in {case.rounds, *([] if case.sources else [first])}:
                last = least.get((side.name, rounds))
                run = side.run(rounds)
                least[side.name, rounds] = run if last is None else min(last, run)
    smpi, ours = (least[sides[i].name, case.rounds] for i in (0, 1))
    messages = ours.messages if case.sources else case.messages - case.messages // case.rounds * first
    us_of_smpi, label = 0.0, f"{case.name:18}{case.ranks:6}{ours.messages:9}"
    for side in sides:
        whole, start_s = least[side.name, case.rounds], 0.0 if case.sources else least[side.name, first].cpu_s
        us = (whole.cpu_s - start_s) / messages * 1e6
        us_of_smpi = us_of_smpi or us
        differ = smpi.simulated_s / whole.simulated_s - 1
        mib = peak_mib(side.command(case.rounds), side.folder)
        print(
            f"{label:33}  {side.name:8}{start_s:8.2f}{us:9.2f}{us_of_smpi / us:8.2f}{mib:9.1f}"
            f"{whole.simulated_s * 1e6:14.3f}{differ:+9.2%}",
            flush=True,
        )
        label = ""
        if side.name != "SMPI" and whole.simulated_s != ours.simulated_s:
            raise SystemExit(f"{case}: {side.name} has another simulated time than {sides[1].name}")
        if must_agree and abs(differ) > TIMES_DIFFER_AT_MOST:
            raise SystemExit(f"{case}: the simulated times differ")


def compare_values(case: Case, smpi: Side, ours: Side) -> None:
    """Compare the lines of a program's output that depend neither on the network nor on the time of computations."""
    other = "--set", "network.per_hop=11us", "--compute", "measured"
    runs = ours.run(case.rounds), ours.run(case.rounds, *other), smpi.run(case.rounds)
    lines, elsewhere, theirs = (Counter(run.output.splitlines()) for run in runs)
    values = lines & elsewhere
    if missed := values - theirs:
        raise SystemExit(f"{case.name}: SMPI has other values:\n" + "\n".join(missed))
    print(f"{case.name}: {values.total()} of {lines.total()} lines of output do not depend on time, and are equal")


def main() -> int:
    """Compare all cases; the exit status is 1 when the simulated times do not agree."""
    parser = argparse.ArgumentParser(
        "python -m tests.bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true", help="also the alltoall of 1,024 ranks, a million messages")
    parser.add_argument("--only", default="", help="only cases whose names match this expression")
    parser.add_argument("--repeats", type=int, default=3, help="take the least of this many turns (default: 3)")
    parser.add_argument(
        "--as-it-comes", action="store_true", help="SMPI with its own network model, whose times are others than ours"
    )
    parser.add_argument(
        "--also", nargs=3, action="append", default=[], metavar=("RANKS", "SOURCES", "ARGUMENTS"), help="see above"
    )
    arguments = parser.parse_args()
    if not shutil.which("smpicc") or not shutil.which("smpirun"):
        print("skipped: there is no SimGrid here (smpicc, smpirun); on Debian and Ubuntu it is in libsimgrid-dev")
        return 0
    print(f"{'':43}{'start':>8}{'message':>9}")
    print(
        f"{'case':18}{'ranks':>6}{'messages':>9}  {'side':8}{'CPU s':>8}{'CPU us':>9}{'ratio':>8}{'MiB':>9}"
        f"{'simulated us':>14}{'differ':>9}",
        flush=True,
    )
    network = () if arguments.as_it_comes else SAME_NETWORK
    own = [case for case in QUICK + LONG * arguments.long if re.search(arguments.only, f"{case.name} {case.ranks}")]
    with TemporaryDirectory() as folder:
        for case in [*own, *(_also(*each) for each in arguments.also)]:
            names = ["SMPI"] if case.sources else ["SMPI", "Python"]
            names += (
                ["arrays"] * (case.program in ("allreduce", "alltoall"))
                + ["C"] * (case.ranks <= MOST_PROCESSES)
                + ["fast C"]
            )
            sides = [Side(case, Path(folder), name, network) for name in names]
            if case.sources:
                compare_values(case, sides[0], sides[-1])
            compare(case, sides, arguments.repeats, not (arguments.as_it_comes or case.sources))
    return 0


def _also(ranks: str, sources: str, arguments: str) -> Case:
    """Return the case of a program of the user."""
    words = tuple(path for word in shlex.split(sources) for path in (sorted(glob(word)) or [word]))
    name = Path(next(word for word in words if not word.startswith("-"))).resolve().parent.name
    return Case(name, int(ranks), 1, "shared", more=tuple(shlex.split(arguments)), sources=words)


if __name__ == "__main__":
    sys.exit(main())
