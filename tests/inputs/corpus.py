"""Good inputs of every kind, to be spoilt: files, and a command line that reads them.

They are the machines and studies of ``models/`` and of the documentation, and some more that say everything that can
be said. Whatever runs is small: a few ranks, and a program that does nothing.
"""

import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.doc_blocks import PAGES, blocks
from xsim_py.study import load_study, plan_runs

ROOT = Path(__file__).parents[2]

# How large a valid run may be shows in the words that are changed: none of the nasty ones is a possible number of ranks
# or runs that takes long.
_RUN = ["run", "-n", "2", "--machine", "m.yaml", "-c", "pass"]
_ON_MACHINES = [
    ["models", "check", "m.yaml", "-n", "4"],
    ["models", "check", "m.yaml"],
    ["failures", "-n", "4", "--machine", "m.yaml"],
    _RUN,
]


class Case(NamedTuple):
    """One input.

    Attributes
    ----------
    argv
        The command line after ``xsim``.
    files
        What is in the current folder, by name.
    about
        What kind of input it is.
    """

    argv: list[str]
    files: dict[str, bytes]
    about: str


_EVERYTHING = """\
name: everything
description: All that a machine can say.
machine: {nodes: 4, cores_per_node: 2, placement: round_robin, processor_name: "n{node}"}
topology:
  type: torus
  dims: [2, 2]
  twist:
  - {wrap: y, shift: x, by: 1}
network: &net
  latency: 1.5us
  bandwidth: 10Gbps
  send_overhead: 100ns
  recv_overhead: 0.1us
  send_overhead_per_byte: 1ps/B
  gap: 10ns
  eager_threshold: 64KiB
  count_first_byte: false
  per_hop: 50ns
  contention: links
same_node: {latency: 0.2us, bandwidth: 0.1ns/B}
mpi:
  poll_time: 100ns
  collectives: {allreduce: ring, bcast: binomial}
  fault_tolerance: true
  detector: {type: heartbeat, timeout: 1s, period: 300ms}
  ulfm: {agree: early_returning, shrink: agreement, revoke: direct}
  ftco: {tree: kary, radix: 3, roots: single, service_distance: disd, timeout: 2s, missing: zero}
compute: {mode: none, speed: 2.5}
failures:
  at: [rank=1@1.2ms, "rank=3 before its 2nd Allreduce"]
  trace: t.csv
  draws: [{per: node, law: weibull, mtbf: 6.7h, shape: 0.7}]
  components: [{name: cabinet, nodes: 2}, {name: socket, cores: 1}]
spawn: {startup: 200ms, startup_per_process: 40ms, universe: 16}
storage: {latency: 1ms, bandwidth: 1GB/s, layout: node, block: 1MiB, path: [/scratch, out]}
"""
_TRACE = "time,rank,node\n1ms,3,\n2.5 s,,1\n0.1h,0,\n"
_GRAPH = """\
name: graph
topology: {type: graph, FILE, hosts: "n*"}
network: {latency: 1us, per_hop: 10ns, bandwidth: 1Gbps}
"""
_EDGES = "# two switches\nn0 s0\nn1 s0\nn2 s1 {'weight': 3}\nn3 s1\ns0 s1\n"
_GRAPHML = """\
<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="edge" attr.name="weight" attr.type="double"><default>1.5</default></key>
  <graph edgedefault="undirected">
    <node id="n0"/><node id="n1"/><node id="s0"/>
    <edge id="e0" source="n0" target="s0"><data key="d0">2.0</data></edge>
    <edge source="n1" target="s0"/>
  </graph>
</graphml>
"""
_STUDY = """\
name: all
description: All that a study can say.
program: "{code}"
kind: code
args: [--steps, "{steps * 2}", "{words}"]
machine: gige
set: {network.per_hop: "{steps}us"}
seed: 3
shards: 1
fail: ["rank={ranks // 2}@1ms"]
ft: true
restart: on-abort,max=2,delay=1s
wall_limit: 60s
sweep:
  ranks: 2..4 *2
  network.latency: [1us, 2us]
  steps: [1, 2]
  code: {pass: pass}
  words: {none: [], two: [a, b]}
only: [ranks<=4 or steps=1, "network.latency!=3us"]
repetitions: 2
accept: {ended: [finished, aborted], exit_status: [0, 1]}
capture: {time_us: 'time: ([0-9.]+) us', more: {pattern: "x=(.*)", unit: s, take: mean}}
table: [virtual_time_s, time_us]
published: {file: known.csv, label: theirs}
plots:
- {file: a.png, title: A plot, x: ranks, y: [time_us, more], series: [steps, words, network.latency], x_scale: log}
"""
_KNOWN = "# by hand\nranks,steps,time_us,source\n2,1,1.5,page 3\n4,2,,\n"
_FTCO_STUDY = """\
command: ftco
options: {tree: "{tree}", runs: 2, failures: 0, inactive: 1, window: 0..20, L: 10, o: 1, overhead_time: 0.13us}
sweep: {nodes: 4..16 *2, tree: ["knomial:2", "kary:auto"]}
seed: 1
table: [latency_steps, work]
"""
_RECOVERY_STUDY = """\
command: compare-recovery
options: {machine: gige, failures: 1, timeout: 2s, restart_delay: 1s, call: 2nd Allreduce, args: "--steps 1"}
sweep: {ranks: [4, 8], scheme: [ftco, ulfm, restart]}
"""
_FAILURES = [
    "rank=1@1.2ms",
    "node=0@10ms",
    "rank=3 before its 2nd Allreduce",
    "rank=0 after its 7th call",
    "exponential:node,mtbf=6.7h",
    "weibull:rank,mtbf=1h,shape=0.7",
    "trace=t.csv",
]
_LINES = """
run -n 2 --machine gige --seed 3 --set network.latency=5us --shards 2 --wall-limit 60s --compute none -c pass
run -n 2 --collectives ftco --collectives arrays --fail rank=1@1ms --ft --label --json r.json --quiet -c pass
run -n 2 --out results --trace t.json --timeline - --profile -c pass
run -np 2 --restart on-abort,max=3,delay=30s p.py a --b
run --ranks 2 --machine m.yaml -m this.module
compare --machines gige,m.yaml -n 1,2 --seed 1 --set mpi.poll_time=1us --shards 1 --out c -c pass
compare-recovery -n 4 --machine gige --failures none,1,2p --schemes ftco,ulfm --timeout 2s --call '2nd Allreduce'
study s.yaml -j 1 --only 'ranks<=2' --set network.latency=5us --out o --fresh --list
study
study --schema
failures -n 4 --machine m.yaml --seed 1 --fail exponential:node,mtbf=6.7h --until 10h --json -
models
models show gige
models check m.yaml -n 2 --set network.latency=3us
ftco --nodes 16,32 --tree knomial:auto --roots multi --L 10 --o 1 --inactive 1 --failures 0 --runs 2 -j 1 --csv c.csv
ftco --nodes 16 --window 0..20 --imbalance uniform:8 --operation reduce --rules paper --service disd --runs 2 -j 1
ftco --nodes 16 --timeout 100 --overhead-time 1us --seed 1 -j 1 --runs 2 --json - --quiet
ftco --nodes 8 --trace --kill 3@12 --quiet -j 1 --runs 1
"""


@cache
def good() -> dict[str, list[Case]]:
    """All of them, by what is to be spoilt: one of the files, or the command line."""
    return {
        "machine": list(_machines()),
        "graph": list(_graphs()),
        "failures": list(_failures()),
        "study": list(_studies()),
        "log": list(_logs()),
        "command line": [Case(shlex.split(line), _FILES, "command line") for line in _LINES.split("\n")[1:-1]],
    }


def _machines():
    presets = [path.read_text() for path in sorted((ROOT / "models").glob("*.yaml"))]
    for text in [_EVERYTHING, _EVERYTHING, *presets, *_documented(study=False)]:
        for argv in _ON_MACHINES:
            yield Case(argv, {"m.yaml": text.encode(), "t.csv": _TRACE.encode(), **_SIDE}, "machine")


def _graphs():
    for name, text in {"g.edges": _EDGES, "g.graphml": _GRAPHML}.items():
        machine = _GRAPH.replace("FILE", f"file: {name}").encode()
        for argv in _ON_MACHINES:
            yield Case(argv, {name: text.encode(), "m.yaml": machine}, "graph")


def _failures():
    for failure in _FAILURES:
        for argv in (["failures", "-n", "4"], ["run", "-n", "4", "-c", "pass"]):
            yield Case([argv[0], "--fail", failure, *argv[1:]], {"t.csv": _TRACE.encode()}, "failures")


def _studies():
    for text in [*[_STUDY] * 4, _FTCO_STUDY, _RECOVERY_STUDY, *_documented(study=True)]:
        for argv in (["study", "s.yaml", "--list"], ["study", "s.yaml", "--out", "o"]):
            yield Case(argv, {"s.yaml": text.encode(), **_SIDE}, "study")


def _documented(*, study: bool):
    """The machines, or the studies, of the documentation."""
    for page in PAGES:
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.language == "yaml" and ("study" in block.kind.split()) == study:
                yield re.sub("(repetitions|runs): [0-9]+", r"\1: 2", block.body)


def _logs():
    """A study's log: first in the dictionary, which makes it what is spoilt."""
    yield Case(["study", "s.yaml", "--out", "o"], {"o/runs.jsonl": _log(), "s.yaml": _LOGGED.encode()}, "log")
    yield Case(["study", "s.yaml", "--out", "o", "--list"], {"o/runs.jsonl": _log(), "s.yaml": _LOGGED.encode()}, "log")


_LOGGED = "{name: l, program: pass, kind: code, ranks: 1, sweep: {seed: 0..9}, capture: {a: 'a=(.*)'}}"


def _log() -> bytes:
    """What a study leaves behind: the same that `tests.inputs.judge` lets a run give."""
    with_folder = {"name": "l", "program": "pass", "kind": "code", "ranks": 1}
    spec = load_study({**with_folder, "sweep": {"seed": "0..9"}, "capture": {"a": "a=(.*)"}})
    lines = [
        {"key": run.key, "columns": run.columns, "settings": run.settings, "outcome": outcome(number)}
        for number, run in enumerate(plan_runs(spec))
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def outcome(number: int = 1) -> dict:
    """What came of a run that nobody made."""
    figures = dict.fromkeys(("virtual_time_s", "cpu_s", "wall_s"), 0.5)
    counts = dict.fromkeys(("events", "messages", "bytes", "restarts", "failures", "peak_rss_bytes"), number)
    words = {"config_hash": "c", "digest": "d", "said": "", "last_lines": ["a=1"], "wall_limit_s": None}
    return {"ended": "finished", "exit_status": 0, **figures, **counts, **words, "captured": {"a": number}}


_SIDE = {"known.csv": _KNOWN.encode(), "g.edges": _EDGES.encode(), "p.py": b"pass\n"}
_FILES = {
    **_SIDE,
    "m.yaml": b"network: {latency: 1us}\n",
    "s.yaml": b"{program: pass, kind: code, ranks: 2}\n",
    "t.csv": _TRACE.encode(),
}
