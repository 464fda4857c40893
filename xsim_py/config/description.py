"""The keys of a machine description: one dataclass per section, one field per key.

This module and `layers` have the only list of the keys. The checker, the JSON Schema, the manual's table and the
configuration's hash are derived from it, so a new key (of a failure model, a file system) is one more field here;
`config_hash` omits it if it has its default, so that the hashes of older descriptions stay the same. Times are
picoseconds, sizes are bytes, and bandwidths are exact picoseconds per byte (see `xsim_py.units`).
"""

# ruff: noqa: RUF009 - `option` makes a dataclasses.field, which is what a default here has to be

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from xsim_py.config import value_kinds as kinds
from xsim_py.config.algorithms import ALGORITHMS, FTCO, FTCO_OPERATIONS
from xsim_py.config.described import Described
from xsim_py.config.layers import ComputeNoiseSpec, LayerSpec, MemorySpec, NetworkSpec, NicSpec, PlacedLayerSpec
from xsim_py.config.topologies import TopologySpec
from xsim_py.config.value_kinds import BySize, ListOf, MapOf, OneOf, Section, WordOr, choice, integer, option, options

_MOST = 2**31 - 1


def _algorithm(operation: str, names: tuple[str, ...]) -> OneOf:
    """Return the kind of an operation's algorithm: one, or several by communicator size."""
    word = choice("tuned", *names, *([FTCO] if operation in FTCO_OPERATIONS else []))
    by_size = BySize(word, "a section of ranks: algorithm, such as {1: tuned, 64: linear}")
    return OneOf(word, by_size, f"{word.words}, or {by_size.words}")


@dataclass(frozen=True, kw_only=True)
class NodesSpec:
    """Section ``machine``: nodes, cores, and the placement of ranks."""

    nodes: int | None = option(
        integer(1, _MOST),
        "Number of nodes. For a torus or a graph, the topology determines this number.",
        shown="as many as the ranks need",
    )
    cores_per_node: int | None = option(
        integer(1, _MOST), "Cores per node; each core runs one rank.", shown="1; on a single node, the number of ranks"
    )
    sockets_per_node: int | None = option(
        integer(1, _MOST), "Sockets per node, with equal numbers of cores.", shown="1"
    )
    nics_per_node: int | None = option(
        integer(1, _MOST), "NICs per node, each shared by an equal number of cores; see nic.", shown="1"
    )
    placement: str = option(
        choice("block", "round_robin"),
        "block: fill one node after another; round_robin: assign consecutive ranks to the nodes in turn.",
        default="block",
    )
    memory_per_node_bytes: int | None = option(
        kinds.SIZE,
        "Memory per node for the data of numpy arrays, divided equally between its ranks. A rank that exceeds its "
        "share receives a MemoryError.",
        shown="unlimited",
    )
    rank_file: Path | None = option(
        kinds.FILE,
        "CSV file that replaces placement, with the columns rank, node and core and one line per initial rank; its "
        "path is relative to this file.",
        shown="none",
    )
    oversubscribe: bool = option(
        kinds.BOOLEAN,
        "true: allow more ranks than cores; k ranks that compute on the same core run at 1/k of its speed.",
        default=False,
        shown="false",
    )
    processor_name: str | None = option(
        kinds.LINE,
        "Result of MPI.Get_processor_name(); {node} stands for the node's number, or its name in a graph.",
        shown="node{node}; in a graph, {node}",
    )


@dataclass(frozen=True, kw_only=True)
class DetectorSpec:
    """Section ``mpi.detector``: how a rank detects the failure of another."""

    type: str = option(
        choice("timeout", "heartbeat"),
        "timeout: a rank that waits or polls for a failed rank detects the failure after the timeout; heartbeat: each "
        "rank observes its neighbour in a ring and, if heartbeats are missing, notifies all ranks.",
        default="timeout",
    )
    timeout_ps: int | None = option(
        kinds.TIME,
        "timeout: time from the failure or the start of the operation, whichever is later, to the error; heartbeat: "
        "time from the last heartbeat to the detection.",
        shown="ten times the machine's longest latency; heartbeat: 1s",
    )
    period_ps: int | None = option(kinds.TIME, "Time between heartbeats of a rank.", shown="300ms")


@dataclass(frozen=True, kw_only=True)
class UlfmSpec:
    """Section ``mpi.ulfm``: the algorithms of the calls that repair communicators."""

    agree: str = option(
        choice("two_phase", "early_returning", "liveness"),
        "two_phase: a reduction and a broadcast, as in xSim; early_returning: Open MPI's tree agreement; liveness: "
        "the liveness discovery of Legio for a group.",
        default="two_phase",
    )
    shrink: str = option(
        choice("two_phase", "agreement", "liveness"),
        "two_phase: a reduction and a broadcast in each phase, as in xSim; agreement: an agreement on the failed "
        "ranks, by the algorithm of agree; liveness: one liveness discovery.",
        default="two_phase",
    )
    revoke: str = option(
        choice("reliable_broadcast", "direct", "local"),
        "Propagation of a revocation. reliable_broadcast: each notified rank notifies some other ranks; direct: each "
        "notified rank notifies all other ranks; local: each rank is notified after one latency, without messages, as "
        "in xSim.",
        default="reliable_broadcast",
    )


@dataclass(frozen=True, kw_only=True)
class FtcoSpec:
    """Section ``mpi.ftco``: fault-tolerant collectives, if ``mpi.collectives`` selects them."""

    algorithm: str = option(
        choice("tree", "recursive_doubling"),
        "Algorithm of operations in which all ranks contribute data and receive results (Allreduce, Barrier, "
        "Allgather, Reduce_scatter). tree: up and down a tree; recursive_doubling: exchanges between ranks whose "
        "numbers differ in one bit. Reduce and Bcast always use a tree.",
        default="tree",
    )
    tree: str = option(
        choice("knomial", "kary"),
        "knomial: in each round, children are added to all existing nodes; kary: children are added only to the "
        "newest nodes.",
        default="knomial",
    )
    radix: int | None = option(
        WordOr("auto", integer(2, _MOST)),
        "Children per node and round (one fewer in a k-nomial tree), and number of roots; auto: the fastest radix for "
        "the network and message size.",
        shown="auto",
    )
    roots: str = option(
        choice("single", "multi"),
        "single: one root; multi: as many roots as the radix, which exchange their results. Reduce and Bcast always "
        "have one root.",
        default="multi",
    )
    service: str = option(
        choice("rsd", "disd", "none"),
        "Messages that a rank serves first. rsd: messages from a random distance in the tree (1 with probability 1/2, "
        "2 with probability 1/4, ...); disd: messages from a distance that changes at fixed intervals; none: no "
        "preference.",
        default="rsd",
        key="service_distance",
    )
    timeout_ps: int | None = option(
        WordOr("paper", kinds.TIME),
        "Time without a reply after which a rank is declared failed; paper: a function of its position in the tree "
        "and the network latency.",
        shown="paper",
    )
    missing: str = option(
        choice("nan", "zero", "none", "error"),
        "Contents of the block of a failed rank in a buffer; in a list of objects, the element is None. nan: NaN in "
        "floating-point elements, zeros in all others; zero: zeros; none: the buffer is unchanged, with a warning; "
        "error: MPI_ERR_PROC_FAILED, also in reductions.",
        default="nan",
    )


_DEAD = choice("skip", "stop", "raise")


@dataclass(frozen=True, kw_only=True)
class ResilienceSpec:
    """Section ``mpi.resilience``: a layer that lets unmodified programs survive failures.

    It is off without this section. The effect of a call that needs a failed process: ``skip``, it does nothing and
    returns; ``stop``, the caller gets SIGINT; ``raise``, MPI_ERR_PROC_FAILED.
    """

    type: str = option(
        choice("legio"),
        "legio: ranks agree on the outcome of each collective call; survivors repeat a failed call.",
        default="legio",
    )
    broadcast: str = option(_DEAD, "Effect of a broadcast with a failed root.", default="stop")
    reduce: str = option(_DEAD, "Effect of a reduction with a failed root.", default="skip")
    gather: str = option(_DEAD, "Effect of a gather with a failed root.", default="skip")
    scatter: str = option(_DEAD, "Effect of a scatter with a failed root.", default="stop")
    send: str = option(_DEAD, "Effect of a send to a failed rank.", default="skip")
    recv: str = option(_DEAD, "Effect of a receive from a failed rank.", default="stop")
    any_source: str = option(
        choice("raise", "wait"),
        "Effect of a receive from any source after a failure. raise: one receive raises an error; wait: the receive "
        "waits for the other ranks. In both cases, the failure is acknowledged.",
        default="raise",
    )
    put: str = option(_DEAD, "Effect of Put to a failed rank.", default="skip")
    get: str = option(_DEAD, "Effect of Get from a failed rank.", default="stop")
    gather_shift: bool = option(
        kinds.BOOLEAN,
        "true: close the gaps that failed ranks leave in the root's buffer of a gather.",
        default=False,
        shown="false",
    )
    missing: str = option(
        choice("nan", "zero", "none"),
        "Contents of a missing block in a gather. nan: NaN in floating-point elements, zeros in all others; zero: "
        "zeros; none: the buffer is unchanged, with a warning.",
        default="nan",
    )
    scatter_shift: bool = option(
        kinds.BOOLEAN,
        "true: distribute the root's blocks of a scatter to the survivors from the first block on, without gaps.",
        default=False,
        shown="false",
    )
    group: int | None = option(
        WordOr("flat", integer(1, _MOST)),
        "flat: one communicator; a number: the hierarchical variant, with local communicators of this size and one "
        "communicator of their masters.",
        shown="flat",
    )


@dataclass(frozen=True, kw_only=True)
class MpiSpec:
    """Section ``mpi``: the simulated MPI library."""

    poll_time_ps: int = option(
        kinds.COST,
        "Cost of a call that polls unsuccessfully (Test, Iprobe), so that virtual time advances in a loop around "
        "it. The cost grows during a long wait.",
        default=100_000,
        shown="100ns",
    )
    collectives: str | Mapping[str, str | tuple[tuple[int, str], ...]] = option(
        OneOf(
            choice("tuned", FTCO),
            MapOf(
                {operation: _algorithm(operation, names) for operation, names in ALGORITHMS.items()},
                "a section of operation: algorithm",
            ),
            "tuned, ftco, or a section of operation: algorithm",
        ),
        "Algorithm of each collective. tuned: selected by size, as in Open MPI's tuned module; ftco: survives "
        "failures. In a section, the algorithm may depend on the communicator size: allreduce: {1: tuned, 64: ftco} "
        "uses ftco on 64 ranks or more.",
        default=dict,
        shown="tuned",
    )
    fault_tolerance: bool | None = option(
        kinds.BOOLEAN,
        "Whether the job survives process failures, as under mpirun --with-ft ulfm.",
        shown="true if process failures are injected or mpi.resilience is set, except with --restart",
    )
    create_group: str = option(
        choice("plain", "liveness"),
        "Creation of a communicator from a group (Create_group, Create_from_group). plain: as without failures; "
        "liveness: the members first discover which of them are alive, as in Legio.",
        default="plain",
    )
    library_version: str = option(
        kinds.TEXT,
        "Result of MPI.Get_library_version(), for programs that accept only certain libraries. This key has no other "
        "effect.",
        default="",
        shown="a description of xsim_py",
    )
    detector: DetectorSpec = option(Section(DetectorSpec), "Failure detection.", default=DetectorSpec)
    ulfm: UlfmSpec = option(Section(UlfmSpec), "Algorithms of the calls that repair communicators.", default=UlfmSpec)
    ftco: FtcoSpec = option(Section(FtcoSpec), "Collectives that survive failures.", default=FtcoSpec)
    resilience: ResilienceSpec | None = option(
        Section(ResilienceSpec),
        "A layer that lets unmodified programs survive failures. Several keys set the effect of a call that needs a "
        "failed rank. skip: the call does nothing; stop: the caller receives SIGINT; raise: the call raises "
        "MPI_ERR_PROC_FAILED.",
        shown="none",
    )


@dataclass(frozen=True, kw_only=True)
class SpeedSpec:
    """One entry of ``compute.speeds``: ranks or nodes that compute faster or slower than others."""

    speed: float = option(
        kinds.POSITIVE, "Relative speed; the speeds of several entries multiply.", default=1.0, required=True
    )
    ranks: tuple[tuple[int, int], ...] | None = option(
        kinds.NUMBERS, "Ranks to which the entry applies.", shown="all ranks of the nodes"
    )
    nodes: tuple[tuple[int, int], ...] | None = option(
        kinds.NUMBERS, "Nodes to which the entry applies.", shown="all nodes of the ranks"
    )


@dataclass(frozen=True, kw_only=True)
class ComputeSpec:
    """Section ``compute``: the cost of the program's computation between MPI calls."""

    mode: str = option(
        choice("none", "measured"),
        "Cost of computation. none: no virtual time; measured: the CPU time on the host (not reproducible).",
        default="none",
    )
    times: Path | None = option(
        kinds.FILE,
        "File with the times of compute intervals, recorded by `--compute record=FILE`; its path is relative to this "
        "file.",
        shown="none",
    )
    speed: float = option(
        kinds.POSITIVE,
        "Speed of all computation, relative to the processor for which the compute times were measured or declared.",
        default=1.0,
        shown="1",
    )
    speeds: tuple[SpeedSpec, ...] | None = option(
        ListOf(Section(SpeedSpec), "a list such as [{nodes: 0-3, speed: 0.5}]", least=0),
        "Speeds of single ranks and nodes; each is multiplied by compute.speed.",
        shown="none",
    )
    flops: float | None = option(
        kinds.FLOPS,
        "Floating-point operations per second of a core at speed 1, for work declared by xsim_py.work.",
        shown="unlimited",
    )
    ps_per_byte: Fraction | None = option(
        kinds.BANDWIDTH,
        "Memory bandwidth of a core at speed 1, for work declared by xsim_py.work.",
        shown="unlimited",
        key="bandwidth",
    )
    noise: ComputeNoiseSpec | None = option(
        Section(ComputeNoiseSpec), "Random addition to compute times, determined by the seed.", shown="none"
    )


_PACKAGES = ListOf(kinds.PACKAGE, "a list of packages such as [pyomo]")


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """Section ``process``: the private state of a virtual process."""

    private: tuple[str, ...] = option(
        _PACKAGES,
        "Installed packages of which each rank has its own modules, in addition to packages that import mpi4py; "
        "all-imported: all pure Python packages.",
        default=(),
        shown="none",
    )
    share: tuple[str, ...] = option(
        _PACKAGES,
        "Packages shared by all ranks although they import mpi4py or belong to the program.",
        default=(),
        shown="none",
    )


@dataclass(frozen=True, kw_only=True)
class ComponentSpec:
    """One entry of ``failures.components``: a part of the machine that fails as a unit."""

    name: str = option(kinds.NAME, "Name, such as cabinet, blade or socket.", default="", required=True)
    nodes: int | None = option(integer(1, _MOST), "Number of consecutive nodes per component.")
    cores: int | None = option(integer(1, _MOST), "Number of cores per component, for a part of a node.")


@dataclass(frozen=True, kw_only=True)
class DrawSpec:
    """One entry of ``failures.draws``: components that fail repeatedly at random."""

    per: str = option(
        kinds.TEXT,
        "Level of the components that fail, each independently and with all its ranks: rank, node, machine, or one of "
        "failures.components.",
        default="",
        required=True,
    )
    law: str = option(
        choice("exponential", "weibull"),
        "Distribution of the time between failures of a component.",
        default="exponential",
    )
    mtbf_ps: int = option(kinds.TIME, "Mean time between failures of one component.", default=1, required=True)
    shape: float | None = option(
        kinds.POSITIVE,
        "Shape of a Weibull distribution, from 0.1 to 100; below 1, failures come in bursts (HPC systems: 0.7 to 0.8).",
    )


class FaultList(ListOf):
    """A list of the faults of one kind."""


def faults(of: str, help: str, example: str) -> Any:
    """Return the field of a kind of faults, whose class is imported on first use."""
    return option(FaultList(Section(of), f"a list such as {example}", least=0), help, shown="none")


@dataclass(frozen=True, kw_only=True)
class FailuresSpec:
    """Section ``failures``: process failures and other faults."""

    at: tuple[str, ...] = option(
        ListOf(kinds.TEXT, "a list such as [rank=5@1.2ms, node=3@10ms, rank=3 before its 2nd Allreduce]", least=0),
        "Single failures: of a rank, a node or another component at a virtual time, or of a rank before, some time "
        "into or after its n-th call of a function (call: any function).",
        default=(),
        shown="none",
    )
    trace: Path | None = option(
        kinds.FILE,
        "CSV file of failures with a header: time, then rank, node or another component, and optionally cause; its "
        "path is relative to this file.",
    )
    draws: tuple[DrawSpec, ...] = option(
        ListOf(Section(DrawSpec), "a list such as [{per: node, mtbf: 6.7h}]", least=0),
        "Random failures, determined by the seed.",
        default=(),
        shown="none",
    )
    components: tuple[ComponentSpec, ...] = option(
        ListOf(
            Section(ComponentSpec), "a list such as [{name: cabinet, nodes: 96}, {name: socket, cores: 8}]", least=0
        ),
        "Components between the machine and a rank, in addition to nodes; each must consist of whole smaller "
        "components.",
        default=(),
        shown="none",
    )
    # The kinds of faults besides failures of processes: each is one field, and one class (see `failure.fault`).
    flips: tuple[Any, ...] | None = faults(
        "xsim_py.failure.flips:Flip",
        "Soft errors: bit flips in messages and arrays.",
        "[{rank: 3, at: 1.2ms, target: message, bit: 17}]",
    )
    hangs: tuple[Any, ...] | None = faults(
        "xsim_py.failure.hangs:Hang",
        "Transient failures: processes that hang for some time.",
        "[{rank: 3, at: 1.2ms, for: 500us}]",
    )


FAULTS: Final[dict[str, Any]] = {
    key.name: key.kind.items for key in options(FailuresSpec) if isinstance(key.kind, FaultList)
}
"""The section of an entry, for each kind of faults, by the name of the list in ``failures``."""


@dataclass(frozen=True, kw_only=True)
class StorageSpec:
    """Section ``storage``: the parallel file system with the program's files."""

    latency_ps: int = option(
        kinds.COST,
        "Time per operation (open, read, write, rename, stat, ...), without the transfer of its bytes.",
        default=1,
        required=True,
    )
    ps_per_byte: Fraction = option(
        kinds.BANDWIDTH,
        "Read and write bandwidth of a server; requests queue while it is busy.",
        default=Fraction(0),
        shown="unlimited",
        key="bandwidth",
    )
    layout: str = option(
        choice("shared", "node"),
        "shared: one server and one file tree for all nodes; node: one server and one file tree per node.",
        default="shared",
    )
    block_bytes: int = option(
        kinds.SIZE,
        "Buffer of an open file, up to 1GiB: smaller reads and writes are combined into blocks of this size.",
        default=2**20,
        shown="1MiB",
    )
    path: tuple[str, ...] | None = option(
        ListOf(kinds.TEXT, "a list of directories such as [/scratch, out]"),
        "Directories on this file system, relative to the directory in which the run starts.",
        shown="all directories except those of Python and of devices",
    )


@dataclass(frozen=True, kw_only=True)
class SpawnSpec:
    """Section ``spawn``: dynamic processes (MPI_Comm_spawn)."""

    startup_ps: int = option(
        kinds.COST,
        "Time from the request to the launcher until the processes begin, for any number of processes.",
        default=200 * 10**9,
        shown="200ms",
    )
    startup_per_process_ps: int = option(
        kinds.COST,
        "Additional time per process; all processes begin at the same time.",
        default=40 * 10**9,
        shown="40ms",
    )
    universe: int | None = option(
        integer(1, _MOST),
        "Maximum number of processes at a time, initial and spawned: the value of MPI.UNIVERSE_SIZE.",
        shown="the machine's cores; unlimited if their number is not given",
    )


@dataclass(frozen=True, kw_only=True)
class MachineSpec(Described):
    """A complete, validated machine description."""

    name: str = option(kinds.LINE, "Short name.", default="", shown="the file's name")
    description: str = option(kinds.TEXT, "One-line description.", default="")
    source: str = option(kinds.TEXT, "Source of the parameters.", default="")
    machine: NodesSpec = option(Section(NodesSpec), "Nodes and cores.", default=NodesSpec)
    topology: TopologySpec = option(Section(TopologySpec), "Connections between the nodes.", default=TopologySpec)
    network: NetworkSpec | None = option(Section(NetworkSpec), "Message costs between two nodes.")
    same_node: LayerSpec | None = option(
        Section(LayerSpec), "Message costs between two ranks of one node.", shown="the costs between neighbouring nodes"
    )
    layers: tuple[PlacedLayerSpec, ...] | None = option(
        ListOf(Section(PlacedLayerSpec), "a list such as [{name: socket, cores: 24, latency: 300ns}]", least=0),
        "Message costs between ranks of one core, socket, cabinet or other unit. A message has the costs of the "
        "smallest unit that contains both ranks.",
        shown="none",
    )
    nic: NicSpec | None = option(Section(NicSpec), "NICs shared by the ranks of a node.", shown="one per rank")
    memory: MemorySpec | None = option(
        Section(MemorySpec),
        "Memory of a socket or node, shared by the messages between its ranks.",
        shown="unlimited",
    )
    mpi: MpiSpec = option(Section(MpiSpec), "The simulated MPI library.", default=MpiSpec)
    compute: ComputeSpec = option(Section(ComputeSpec), "Computation of the program.", default=ComputeSpec)
    process: ProcessSpec = option(Section(ProcessSpec), "Private state of a process.", default=ProcessSpec)
    failures: FailuresSpec = option(Section(FailuresSpec), "Injected failures.", default=FailuresSpec)
    spawn: SpawnSpec = option(Section(SpawnSpec), "Spawned processes.", default=SpawnSpec)
    storage: StorageSpec | None = option(
        Section(StorageSpec), "A parallel file system.", shown="files of the host, without cost"
    )
