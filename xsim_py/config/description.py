"""The keys of a machine description: one dataclass a section, one field a key.

Here and in `layers` is the only list of the keys. The checker, the JSON Schema, the manual's table and the
configuration's hash are all made from it, so a new key (of a failure model, a file system) is one more field here;
`config_hash` leaves it out where it says nothing, so that the hashes of older descriptions stay what they were.

Times are picoseconds, sizes are bytes, and bandwidths are the exact picoseconds of a byte (see `xsim_py.units`).
"""

# ruff: noqa: RUF009 - `option` makes a dataclasses.field, which is what a default here has to be

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from xsim_py.config import value_kinds as kinds
from xsim_py.config.algorithms import ALGORITHMS, FTCO, FTCO_OPERATIONS
from xsim_py.config.described import Described
from xsim_py.config.layers import ComputeNoiseSpec, LayerSpec, MemorySpec, NetworkSpec, NicSpec, PlacedLayerSpec
from xsim_py.config.topologies import TopologySpec
from xsim_py.config.value_kinds import BySize, ListOf, MapOf, OneOf, Section, WordOr, choice, integer, option

_MOST = 2**31 - 1


def _algorithm(operation: str, names: tuple[str, ...]) -> OneOf:
    """Return the algorithm of an operation: one, or several by the size of the communicator."""
    word = choice("tuned", *names, *([FTCO] if operation in FTCO_OPERATIONS else []))
    by_size = BySize(word, "a section of ranks: algorithm, such as {1: tuned, 64: linear}")
    return OneOf(word, by_size, f"{word.words}, or {by_size.words}")


@dataclass(frozen=True, kw_only=True)
class NodesSpec:
    """Section ``machine``: nodes, cores, and which rank runs where."""

    nodes: int | None = option(
        integer(1, _MOST),
        "Nodes of the machine. A torus and a graph know their own number.",
        shown="as many as the ranks need",
    )
    cores_per_node: int | None = option(
        integer(1, _MOST), "Ranks that fit on a node.", shown="1; on a single node as many as there are ranks"
    )
    sockets_per_node: int | None = option(
        integer(1, _MOST), "Sockets of a node, each with an equal part of its cores.", shown="1"
    )
    nics_per_node: int | None = option(
        integer(1, _MOST), "Network interfaces of a node, each for an equal part of its cores; see nic.", shown="1"
    )
    placement: str = option(
        choice("block", "round_robin"),
        "Fill one node after the other, or deal ranks out to the nodes in turn.",
        default="block",
    )
    memory_per_node_bytes: int | None = option(
        kinds.SIZE,
        "Memory of a node, of which each of its ranks has an equal part: the data of its numpy arrays. What is more "
        "raises MemoryError.",
        shown="unlimited",
    )
    rank_file: Path | None = option(
        kinds.FILE,
        "CSV with columns rank, node and core, one line for each of the first ranks, in place of placement; relative "
        "to this file.",
        shown="none",
    )
    oversubscribe: bool = option(
        kinds.BOOLEAN,
        "Whether there may be more ranks than cores; of those on a core, k that compute do so at 1/k of its speed.",
        default=False,
        shown="false",
    )
    processor_name: str | None = option(
        kinds.LINE,
        "What MPI.Get_processor_name() answers; {node} stands for the node's number, or its name in a graph.",
        shown="node{node}, and in a graph {node}",
    )


@dataclass(frozen=True, kw_only=True)
class DetectorSpec:
    """Section ``mpi.detector``: how a rank learns that another one is dead."""

    type: str = option(
        choice("timeout", "heartbeat"),
        "timeout: a rank that waits or polls for a dead rank learns of it after so long; heartbeat: each rank observes "
        "its neighbour in a ring, and who misses its heartbeats tells all.",
        default="timeout",
    )
    timeout_ps: int | None = option(
        kinds.TIME,
        "From the failure (or the operation's start, if that is later) to the error, or from the last heartbeat to "
        "the verdict.",
        shown="ten times the machine's longest latency; heartbeat: 1s",
    )
    period_ps: int | None = option(kinds.TIME, "Time from one heartbeat of a rank to its next.", shown="300ms")


@dataclass(frozen=True, kw_only=True)
class UlfmSpec:
    """Section ``mpi.ulfm``: the algorithms of the calls that repair communicators."""

    agree: str = option(
        choice("two_phase", "early_returning", "liveness"),
        "two_phase: a reduction and a broadcast, as in xSim; early_returning: Open MPI's tree agreement; liveness: "
        "liveness discovery, as Legio does it for a group.",
        default="two_phase",
    )
    shrink: str = option(
        choice("two_phase", "agreement", "liveness"),
        "two_phase: both of its phases are a reduction and a broadcast, as in xSim; agreement: it agrees on who has "
        "failed as agree does; liveness: one liveness discovery.",
        default="two_phase",
    )
    revoke: str = option(
        choice("reliable_broadcast", "direct", "local"),
        "How a revocation spreads: each rank that learns of it tells some others; each that learns of it tells all; or "
        "it costs no messages, as in xSim, and each rank knows after one latency.",
        default="reliable_broadcast",
    )


@dataclass(frozen=True, kw_only=True)
class FtcoSpec:
    """Section ``mpi.ftco``: collectives that outlive failures, where ``mpi.collectives`` asks for them."""

    algorithm: str = option(
        choice("tree", "recursive_doubling"),
        "How what all contribute to and all get is done (Allreduce, Barrier, Allgather, Reduce_scatter): up a tree and "
        "down again, or by exchanges with the ranks whose numbers differ in one bit. Reduce and Bcast go by a tree.",
        default="tree",
    )
    tree: str = option(
        choice("knomial", "kary"),
        "The tree: in each round all nodes so far get children, or only the newest.",
        default="knomial",
    )
    radix: int | None = option(
        WordOr("auto", integer(2, _MOST)),
        "How many children a node gets in a round (one less in a k-nomial tree), and how many roots there are; auto: "
        "what is fastest on this network for messages of that length.",
        shown="auto",
    )
    roots: str = option(
        choice("single", "multi"),
        "One root, or as many as the radix says, which exchange what they have; Reduce and Bcast always have one.",
        default="multi",
    )
    service: str = option(
        choice("rsd", "disd", "none"),
        "Whose messages a rank turns to first: of a distance in the tree that is random, or follows fixed intervals; "
        "or it makes no difference.",
        default="rsd",
        key="service_distance",
    )
    timeout_ps: int | None = option(
        WordOr("paper", kinds.TIME),
        "After how long a rank that does not answer counts as dead; paper: by its place in the tree and the network's "
        "latency.",
        shown="paper",
    )
    missing: str = option(
        choice("nan", "zero", "none", "error"),
        "What a rank gets for the block of a failed one, None in a list: nan, NaN in floating-point elements and zeros "
        "in all others; zero, zeros; none, a buffer keeps what it holds, with a warning; error, MPI_ERR_PROC_FAILED, "
        "also in reductions.",
        default="nan",
    )


_DEAD = choice("skip", "stop", "raise")


@dataclass(frozen=True, kw_only=True)
class ResilienceSpec:
    """Section ``mpi.resilience``: a layer under which unmodified programs outlive failures; off without this section.

    What a call does that needs a dead process: ``skip``, nothing, and it returns; ``stop``, the caller gets SIGINT;
    ``raise``, MPI_ERR_PROC_FAILED.
    """

    type: str = option(
        choice("legio"),
        "legio: each collective call is agreed on, and repeated by those who are left.",
        default="legio",
    )
    broadcast: str = option(_DEAD, "What a broadcast does without its root.", default="stop")
    reduce: str = option(_DEAD, "What a reduction does without its root.", default="skip")
    gather: str = option(_DEAD, "What a gather does without its root.", default="skip")
    scatter: str = option(_DEAD, "What a scatter does without its root.", default="stop")
    send: str = option(_DEAD, "What a send does without its receiver.", default="skip")
    recv: str = option(_DEAD, "What a receive from one rank does without it.", default="stop")
    any_source: str = option(
        choice("raise", "wait"),
        "What a receive from any source does when somebody has failed; both acknowledge the failure: raise, the error "
        "once; wait, it waits for the others.",
        default="raise",
    )
    put: str = option(_DEAD, "What Put does without its target.", default="skip")
    get: str = option(_DEAD, "What Get does without its target.", default="stop")
    gather_shift: bool = option(
        kinds.BOOLEAN,
        "Whether a gather closes the gaps of the dead in the root's buffer.",
        default=False,
        shown="false",
    )
    missing: str = option(
        choice("nan", "zero", "none"),
        "What a buffer of a gather gets where no block comes: nan, NaN in floating-point elements and zeros in all "
        "others; zero, zeros; none, it keeps what it holds, with a warning.",
        default="nan",
    )
    scatter_shift: bool = option(
        kinds.BOOLEAN,
        "Whether a scatter deals out the root's blocks from the first on, without gaps.",
        default=False,
        shown="false",
    )
    group: int | None = option(
        WordOr("flat", integer(1, _MOST)),
        "The hierarchical variant: local communicators of so many ranks, and one of their masters. flat: none.",
        shown="flat",
    )


@dataclass(frozen=True, kw_only=True)
class MpiSpec:
    """Section ``mpi``: the simulated MPI library."""

    poll_time_ps: int = option(
        kinds.COST,
        "What a call costs that only looks (Test, Iprobe) and finds nothing, so that a loop around it cannot stop the "
        "clock. It grows in a long wait.",
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
        "Algorithm of each collective operation; tuned decides by size as Open MPI's module of that name does, ftco "
        "outlives failures. allreduce: {1: tuned, 64: ftco} goes by the size of the communicator: this from 64 ranks "
        "on, that below.",
        default=dict,
        shown="tuned",
    )
    fault_tolerance: bool | None = option(
        kinds.BOOLEAN,
        "Whether the job outlives the death of a process, as under mpirun --with-ft ulfm.",
        shown="true if failures other than hangs are injected",
    )
    create_group: str = option(
        choice("plain", "liveness"),
        "Creating a communicator of a group (Create_group, Create_from_group); liveness: its members find out first "
        "which of them are alive, as Legio does.",
        default="plain",
    )
    library_version: str = option(
        kinds.TEXT,
        "What MPI.Get_library_version() says, for programs that know some libraries only. It changes nothing else.",
        default="",
        shown="what xsim_py is",
    )
    detector: DetectorSpec = option(Section(DetectorSpec), "How failures are detected.", default=DetectorSpec)
    ulfm: UlfmSpec = option(Section(UlfmSpec), "Algorithms of recovery.", default=UlfmSpec)
    ftco: FtcoSpec = option(Section(FtcoSpec), "Collectives that outlive failures.", default=FtcoSpec)
    resilience: ResilienceSpec | None = option(
        Section(ResilienceSpec), "A layer under which unmodified programs outlive failures.", shown="none"
    )


@dataclass(frozen=True, kw_only=True)
class SpeedSpec:
    """One entry of ``compute.speeds``: ranks or nodes that compute faster or slower than the others."""

    speed: float = option(
        kinds.POSITIVE, "How many times faster they are; several entries multiply.", default=1.0, required=True
    )
    ranks: tuple[tuple[int, int], ...] | None = option(kinds.NUMBERS, "Which ranks.", shown="all of the nodes")
    nodes: tuple[tuple[int, int], ...] | None = option(kinds.NUMBERS, "Which nodes.", shown="all of the ranks")


@dataclass(frozen=True, kw_only=True)
class ComputeSpec:
    """Section ``compute``: what the program's own work between MPI calls costs."""

    mode: str = option(
        choice("none", "measured"),
        "none: nothing; measured: its CPU time here (then no two runs are the same).",
        default="none",
    )
    times: Path | None = option(
        kinds.FILE,
        "What each stretch between two calls takes, as `--compute record=FILE` writes it; relative to this file.",
        shown="none",
    )
    speed: float = option(
        kinds.POSITIVE,
        "How many times faster all computing is, measured or declared, than on the processor for which it is known.",
        default=1.0,
        shown="1",
    )
    speeds: tuple[SpeedSpec, ...] | None = option(
        ListOf(Section(SpeedSpec), "a list such as [{nodes: 0-3, speed: 0.5}]", least=0),
        "Ranks and nodes with another speed, by which compute.speed is multiplied.",
        shown="none",
    )
    flops: float | None = option(
        kinds.FLOPS,
        "Operations a second of a core at speed 1, for the work that xsim_py.work declares.",
        shown="unlimited",
    )
    ps_per_byte: Fraction | None = option(
        kinds.BANDWIDTH,
        "How fast a core reaches its memory at speed 1, for the same.",
        shown="unlimited",
        key="bandwidth",
    )
    noise: ComputeNoiseSpec | None = option(
        Section(ComputeNoiseSpec), "What is added to computing by chance, drawn by the seed.", shown="none"
    )


_PACKAGES = ListOf(kinds.PACKAGE, "a list of packages such as [pyomo]")


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """Section ``process``: what a virtual process has to itself."""

    private: tuple[str, ...] = option(
        _PACKAGES,
        "Installed packages of which each rank has its own modules, besides those that import mpi4py; all-imported "
        "tries all that are pure Python.",
        default=(),
        shown="none",
    )
    share: tuple[str, ...] = option(
        _PACKAGES,
        "Packages that all ranks share, although they import mpi4py or belong to the program.",
        default=(),
        shown="none",
    )


@dataclass(frozen=True, kw_only=True)
class ComponentSpec:
    """One entry of ``failures.components``: a part of the machine that fails as a whole."""

    name: str = option(kinds.NAME, "What it is called, such as cabinet, blade or socket.", default="", required=True)
    nodes: int | None = option(integer(1, _MOST), "How many nodes, one after the other, make one of these.")
    cores: int | None = option(
        integer(1, _MOST), "How many cores of a node make one of these, if it is less than a node."
    )


@dataclass(frozen=True, kw_only=True)
class DrawSpec:
    """One entry of ``failures.draws``: components that fail again and again at random."""

    per: str = option(
        kinds.TEXT,
        "What fails, each for itself and with all of its ranks: rank, node, machine, or one of failures.components.",
        default="",
        required=True,
    )
    law: str = option(
        choice("exponential", "weibull"),
        "Distribution of the time from one failure of a component to its next.",
        default="exponential",
    )
    mtbf_ps: int = option(kinds.TIME, "Mean time between failures of one component.", default=1, required=True)
    shape: float | None = option(
        kinds.POSITIVE,
        "Shape of a Weibull distribution, from 0.1 to 100; below 1 failures come in bursts (HPC systems: 0.7 to 0.8).",
    )


@dataclass(frozen=True, kw_only=True)
class FlipSpec:
    """One entry of ``failures.flips``: a bit of a rank's data that changes, and nobody is told (a soft error)."""

    rank: int = option(integer(0, _MOST), "Whose data it is.", default=0, required=True)
    at_ps: int = option(kinds.TIME, "When, by that rank's own clock.", default=0, required=True)
    target: str = option(
        choice("message", "array"),
        "What is hit: the next message that leaves the rank from then on, or an array that the program has exposed by "
        "xsim_py.expose.",
        default="message",
    )
    array: str | None = option(
        kinds.NAME, "The name of that array.", shown="one of those exposed by then, drawn by the seed"
    )
    bit: int | None = option(
        integer(0, 2**53),
        "Which bit, bit % 8 of byte bit // 8; messages and arrays without it are passed over.",
        shown="drawn by the seed",
    )


@dataclass(frozen=True, kw_only=True)
class HangSpec:
    """One entry of ``failures.hangs``: a process that stands still for a while (a transient failure)."""

    rank: int = option(integer(0, _MOST), "Whose process it is.", default=0, required=True)
    at_ps: int = option(kinds.TIME, "From when on, by that rank's own clock.", default=0, required=True)
    for_ps: int = option(
        kinds.TIME,
        "How long. If that is longer than the failure detector's timeout, the others take the process for dead, and it "
        "is killed when it comes back.",
        default=0,
        required=True,
    )


@dataclass(frozen=True, kw_only=True)
class FailuresSpec:
    """Section ``failures``: which ranks die when, and what else goes wrong."""

    at: tuple[str, ...] = option(
        ListOf(kinds.TEXT, "a list such as [rank=5@1.2ms, node=3@10ms, rank=3 before its 2nd Allreduce]", least=0),
        "Failures one by one: a rank, a node or another component at a virtual time, or a rank before or after its "
        "n-th call of a name (call: of any).",
        default=(),
        shown="none",
    )
    trace: Path | None = option(
        kinds.FILE,
        "CSV of failures with a header: time, then rank or node or another component, and perhaps cause; relative to "
        "this file.",
    )
    draws: tuple[DrawSpec, ...] = option(
        ListOf(Section(DrawSpec), "a list such as [{per: node, mtbf: 6.7h}]", least=0),
        "Failures drawn at random from streams of the run's seed.",
        default=(),
        shown="none",
    )
    components: tuple[ComponentSpec, ...] = option(
        ListOf(
            Section(ComponentSpec), "a list such as [{name: cabinet, nodes: 96}, {name: socket, cores: 8}]", least=0
        ),
        "Parts of the machine between the whole and a rank, apart from nodes; each must be made of whole smaller ones.",
        default=(),
        shown="none",
    )
    flips: tuple[FlipSpec, ...] | None = option(
        ListOf(Section(FlipSpec), "a list such as [{rank: 3, at: 1.2ms, target: message, bit: 17}]", least=0),
        "Soft errors: bits of messages and of arrays that change.",
        shown="none",
    )
    hangs: tuple[HangSpec, ...] | None = option(
        ListOf(Section(HangSpec), "a list such as [{rank: 3, at: 1.2ms, for: 500us}]", least=0),
        "Transient failures: processes that stand still for a while.",
        shown="none",
    )


@dataclass(frozen=True, kw_only=True)
class StorageSpec:
    """Section ``storage``: a parallel file system that the program's files are on."""

    latency_ps: int = option(
        kinds.COST,
        "Time of each operation (open, read, write, rename, stat, ...) besides that of its bytes.",
        default=1,
        required=True,
    )
    ps_per_byte: Fraction = option(
        kinds.BANDWIDTH,
        "How fast a server reads and writes; whoever comes while it is busy waits.",
        default=Fraction(0),
        shown="unlimited",
        key="bandwidth",
    )
    layout: str = option(
        choice("shared", "node"),
        "shared: one server and one tree of files for all; node: each node has its own.",
        default="shared",
    )
    block_bytes: int = option(
        kinds.SIZE,
        "The buffer of an open file, up to 1GiB: smaller reads and writes are joined to blocks of this size.",
        default=2**20,
        shown="1MiB",
    )
    path: tuple[str, ...] | None = option(
        ListOf(kinds.TEXT, "a list of folders such as [/scratch, out]"),
        "The folders that are on it, relative to the directory in which the run starts.",
        shown="all but those of Python and of devices",
    )


@dataclass(frozen=True, kw_only=True)
class SpawnSpec:
    """Section ``spawn``: processes that are started while others run (MPI_Comm_spawn)."""

    startup_ps: int = option(
        kinds.COST,
        "Time from when the launcher is asked for processes to when they begin, however many they are.",
        default=200 * 10**9,
        shown="200ms",
    )
    startup_per_process_ps: int = option(
        kinds.COST, "Time that each of them adds; they begin together.", default=40 * 10**9, shown="40ms"
    )
    universe: int | None = option(
        integer(1, _MOST),
        "How many processes there can be at a time, first and later ones; it is what MPI.UNIVERSE_SIZE says.",
        shown="the machine's cores; without a limit where their number is left open",
    )


@dataclass(frozen=True, kw_only=True)
class MachineSpec(Described):
    """A whole machine description, checked."""

    name: str = option(kinds.LINE, "A short name.", default="", shown="the file's name")
    description: str = option(kinds.TEXT, "One line about it.", default="")
    source: str = option(kinds.TEXT, "Where the figures come from.", default="")
    machine: NodesSpec = option(Section(NodesSpec), "Nodes and cores.", default=NodesSpec)
    topology: TopologySpec = option(Section(TopologySpec), "How nodes are connected.", default=TopologySpec)
    network: NetworkSpec | None = option(Section(NetworkSpec), "Costs between two nodes.")
    same_node: LayerSpec | None = option(
        Section(LayerSpec), "Costs between two ranks of one node.", shown="those between neighbouring nodes"
    )
    layers: tuple[PlacedLayerSpec, ...] | None = option(
        ListOf(Section(PlacedLayerSpec), "a list such as [{name: socket, cores: 24, latency: 300ns}]", least=0),
        "Costs between ranks of one core, socket, cabinet, ...: a message has those of the smallest that holds both.",
        shown="none",
    )
    nic: NicSpec | None = option(
        Section(NicSpec), "Network interfaces that the ranks of a node share.", shown="each rank has its own"
    )
    memory: MemorySpec | None = option(
        Section(MemorySpec), "Memory that messages within a node share.", shown="unlimited"
    )
    mpi: MpiSpec = option(Section(MpiSpec), "The simulated MPI library.", default=MpiSpec)
    compute: ComputeSpec = option(Section(ComputeSpec), "The program's own work.", default=ComputeSpec)
    process: ProcessSpec = option(Section(ProcessSpec), "What a process has to itself.", default=ProcessSpec)
    failures: FailuresSpec = option(Section(FailuresSpec), "Which ranks die when.", default=FailuresSpec)
    spawn: SpawnSpec = option(Section(SpawnSpec), "Processes that are started later.", default=SpawnSpec)
    storage: StorageSpec | None = option(
        Section(StorageSpec), "A parallel file system.", shown="files are this computer's, and cost no time"
    )
