"""Our CPU time a message beside that of SimGrid's SMPI, which runs C programs: ``make bench-peers``.

Both sides simulate the same messages on the same network (`machine.yaml`, and a SimGrid platform that is made to be
like it), run on one core, and take turns. What a program of one round costs is subtracted on both sides (of no round,
where there is but one), so that the figures are for messages: the starts of Python, of SimGrid and of all ranks, each
of which has waited once, stand in columns of their own. The simulated times must agree. SMPI counts 16 bytes of a
header with each message, hence they differ by less than 1 %.

The cases on a fat tree and on a dragonfly share links max-min fairly on both sides (`contention: flows`). SimGrid's
shares depend on latencies, so there are none there, and 1 ns here; and messages are long, because of the headers.
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
FAIR = ("network/optim:Full", "network/loopback-lat:0", "network/loopback-bw:1e15")
EAGER = ("smpi/async-small-thresh:1000000000", "smpi/send-is-detached-thresh:1000000000")
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


NETWORKS = {
    "tree": shared("fattree", "3;4,4,4;1,4,2;1,1,1"),
    "dragonfly": shared("cascade", "4,1;2,1;8,1;2"),
    "large tree": shared("fattree", "2;32,32;1,32;1,1"),
}


@dataclass(frozen=True)
class Case:
    """One program, for so many ranks and rounds."""

    program: str
    ranks: int
    rounds: int
    network: str = ""
    """One of `NETWORKS`; or else the switch."""
    more: tuple[str, ...] = ()
    """What else the program is told."""

    @property
    def messages(self) -> int:
        """How many messages all rounds have."""
        ranks = self.ranks
        pairs, powers = ranks * (ranks - 1), ranks * (ranks.bit_length() - 1)
        every = {"ring": ranks, "allreduce": powers, "powers": powers, "alltoall": pairs, "all": pairs}
        return self.rounds * every[self.more[0] if self.more else self.program]

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.network} {self.more[0]}" if self.more else self.program


QUICK = [
    Case("ring", 256, 100),
    Case("ring", 1024, 40),
    Case("ring", 4096, 10),
    Case("allreduce", 256, 40),
    Case("allreduce", 1024, 10),
    Case("allreduce", 4096, 10),
    Case("alltoall", 256, 1),
    Case("exchange", 64, 40, "tree", ("ring", "262144")),
    Case("exchange", 64, 10, "tree", ("powers", "262144")),
    Case("exchange", 64, 2, "tree", ("all", "65536")),
    Case("exchange", 128, 40, "dragonfly", ("ring", "262144")),
    Case("exchange", 128, 10, "dragonfly", ("powers", "262144")),
    Case("exchange", 128, 2, "dragonfly", ("all", "65536")),
]
LONG = [Case("alltoall", 1024, 1), Case("exchange", 1024, 1, "large tree", ("all", "65536"))]


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
        network = NETWORKS[case.network][0] if case.network else SWITCH
        platform.write_text(PLATFORM.format(last=case.ranks - 1, network=network))
        hosts.write_text("".join(f"node{rank}\n" for rank in range(case.ranks)))
        command = ["smpirun", "-np", case.ranks, "-platform", platform, "-hostfile", hosts, *self.options]
        command += [f"--cfg={option}" for option in (*FAIR, *EAGER) if case.network]
        cpu, printed = cpu_s([str(part) for part in [*command, self.folder / case.program, rounds, *case.more]])
        return cpu, max(map(float, printed.split()))


def ours(case: Case, rounds: int, collectives: str, folder: Path) -> tuple[float, float]:
    """CPU seconds, and the simulated seconds."""
    machine = HERE / "machine.yaml"
    if case.network:
        machine = folder / f"{case.network}.yaml"
        machine.write_text(NETWORKS[case.network][1])
    command = [sys.executable, "-m", "xsim_py", "run", "--quiet", "-n", str(case.ranks), "--json", "-"]
    command += ["--machine", str(machine), "--collectives", collectives]
    cpu, printed = cpu_s([*command, str(PROGRAMS / f"{case.program}.py"), str(rounds), *case.more])
    summary = json.loads(printed)
    assert summary["messages"] == case.messages // case.rounds * rounds
    return cpu, summary["virtual_time_s"]


def compare(case: Case, smpi: Smpi, repeats: int, must_agree: bool) -> None:
    """Measure all sides by turns, and print a line."""
    sides = {
        "smpi": lambda rounds: smpi.run(case, rounds),
        "messages": lambda rounds: ours(case, rounds, "messages", smpi.folder),
    }
    if case.program in ("allreduce", "alltoall"):
        sides["arrays"] = lambda rounds: ours(case, rounds, "arrays", smpi.folder)
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
        f"{case.name:18}{case.ranks:6}{case.messages:9}{start_s['smpi']:7.2f}{start_s['messages']:6.2f}"
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
    print(f"{'':33}{'start, CPU s':>13}{'CPU us a message':>22}{'as arrays':>15}{'simulated us':>24}")
    print(
        f"{'case':18}{'ranks':>6}{'messages':>9}{'SMPI':>7}{'ours':>6}{'SMPI':>8}{'ours':>7}{'ratio':>7}{'ours':>8}{'ratio':>7}"
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
