"""Construction of a run's arrays: a common part per configuration, and a copy per run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim_py.ftco.model import Configuration, Plan
from xsim_py.mpi.ftco.trees import Tree

from . import layout as at
from .layout import State

_PHASES = {"allreduce": (0, at.DONE), "reduce": (0, at.AWAIT_FATHERS), "bcast": (at.AWAIT_FATHERS, at.DONE)}


class Model:
    """The arrays of a configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._tree = configuration.shape()
        # In a reduce or bcast the other roots of a multi-root tree are node 0's first children.
        self._roots = self._tree.root_count if configuration.operation == "allreduce" else 1
        self._patience = self._patiences()
        self._nodes = self._make_nodes()
        self._contacts = self._make_contacts()
        self._numbers = self._make_numbers()
        self._room = {
            at.NO_ROOM_CONTACTS: len(self._contacts) + max(64, configuration.nodes // 4),
            at.NO_ROOM_EVENTS: max(256, 4 * configuration.nodes),
            at.NO_ROOM_SPANS: max(256, 2 * configuration.nodes),
            at.NO_ROOM_ACTIONS: 0,
        }
        self._state: State | None = None

    def _patiences(self) -> NDArray[np.int32]:
        shape, timing = self._tree, self._configuration.timing()
        depth = np.zeros(shape.size, np.int64)
        for first, end, above in shape.rounds():
            depth[first:end] = depth[above : above + end - first] + 1
        # From a node to the farthest that it may contact is the depth and one step between roots.
        columns = [timing.timeout_array(distance) for distance in range(1, int(depth.max()) + 3)]
        table = np.stack([np.zeros(shape.size, np.int64), *columns], axis=1)
        return np.ascontiguousarray(np.minimum(table, 2**28), np.int32)

    def _make_nodes(self) -> NDArray[np.int32]:
        shape, timing, roots = self._tree, self._configuration.timing(), self._roots
        rows = np.zeros((shape.size, at.NODE_WIDTH), np.int32)
        rows[:, at.PARENT] = shape.parent_array
        rows[:, at.SPOT] = _preorder(shape)
        rows[:, at.FATHERS] = 1
        rows[:roots, at.FATHERS] = roots - 1
        rows[:, at.CHILDREN] = np.diff(shape.child_start)
        if roots < shape.root_count:
            rows[1 : shape.root_count, at.PARENT] = 0
            rows[0, at.CHILDREN] += shape.root_count - 1
        rows[:, at.DEGREE] = shape.peers_array(1)
        known = rows[:, at.FATHERS] + rows[:, at.CHILDREN]
        rows[:, at.KNOWN] = rows[:, at.ROOM] = known
        rows[:, at.FIRST] = rows[:, at.CONTACTS] = np.cumsum(known) - known
        rows[:, at.ETA_SUB] = timing.eta_sub_array()
        rows[:, at.ETA_FULL] = timing.eta_full_array()
        rows[:, at.PHASE] = _PHASES[self._configuration.operation][0]
        rows[:, at.ALARM_STEP] = at.NEVER
        rows[:, at.QUERIES_FROM] = -1
        rows[:, at.FINISH] = -1
        rows[:, [at.LATEST, at.LATEST_KEEPALIVE, at.LATEST_ACK, at.NOTICES]] = -1
        rows[:, at.SPANS] = 1
        rows[:, at.LOW] = rows[:, at.SPOT]
        rows[:, at.HIGH] = rows[:, at.SPOT] + 1
        if self._configuration.operation == "bcast":
            rows[0, at.LOW], rows[0, at.HIGH] = 0, shape.size
        return rows

    def _make_contacts(self) -> NDArray[np.int32]:
        shape, nodes, roots = self._tree, self._nodes, self._roots
        size = shape.size
        rows = np.zeros((int(nodes[:, at.KNOWN].sum()), at.CONTACT_WIDTH), np.int32)
        first = nodes[:, at.FIRST].astype(np.int64)
        for root in range(roots if roots > 1 else 0):
            for index, father in enumerate(shape.fathers(root)):
                row = rows[first[root] + index]
                row[at.PEER] = father
                row[at.SLOT] = (root - father - 1) % roots
        children = np.arange(roots, size)
        parents = nodes[roots:, at.PARENT].astype(np.int64)
        # Siblings in numerical order, which is the order of sends.
        order = np.argsort(parents, kind="stable")
        children, parents = children[order], parents[order]
        start = np.concatenate(([0], np.cumsum(np.bincount(parents, minlength=size))))
        slot = nodes[parents, at.FATHERS] + np.arange(size - roots) - start[parents]
        up, down = first[children], first[parents] + slot
        rows[up, at.PEER] = parents
        rows[up, at.SLOT] = slot
        rows[down, at.PEER] = children
        rows[down, at.ROLE] = at.CHILD
        rows[:, at.DISTANCE] = 1
        rows[:, at.WHERE] = nodes[rows[:, at.PEER], at.SPOT]
        owner = np.repeat(np.arange(size), nodes[:, at.KNOWN])
        rows[:, at.PATIENCE] = self._patience[rows[:, at.PEER], 1]
        rows[:, at.INTERVAL] = np.maximum(rows[:, at.PATIENCE], self._patience[owner, 1])
        return rows

    def _make_numbers(self) -> NDArray[np.int64]:
        configuration, rules = self._configuration, self._configuration.rules
        numbers = np.zeros(at.NUMBERS_LENGTH, np.int64)
        numbers[at.P] = configuration.nodes
        numbers[at.LATENCY] = configuration.latency
        numbers[at.ROOTS] = self._roots
        numbers[at.LIMIT] = configuration.step_limit
        numbers[at.FIRST_PHASE], numbers[at.LAST_PHASE] = _PHASES[configuration.operation]
        numbers[at.ROOT_ENDS] = configuration.operation == "reduce"
        numbers[at.ORDER] = rules.order == "printed"
        numbers[at.ASK_ALL] = rules.keepalive == "all"
        numbers[at.CONTROL_FULL] = rules.control_latency == "full"
        numbers[at.SERVICE_KIND] = ("none", "rsd", "disd").index(rules.service)
        numbers[at.OWN_STREAMS] = rules.streams == "own"
        numbers[at.ETA_RESET] = rules.eta == "reset"
        numbers[at.FREE] = -1
        numbers[at.CONTACTS_USED] = len(self._contacts)
        numbers[at.DISTANCE_STEP] = -1
        return numbers

    def _allocate(self) -> State:
        configuration = self._configuration
        nodes = configuration.nodes
        slots = 1 << max(8, (4 * configuration.latency).bit_length())
        room = self._room
        return State(
            numbers=np.empty_like(self._numbers),
            seed=np.zeros(1, np.uint64),
            nodes=_aligned(nodes, at.NODE_WIDTH),
            contacts=_aligned(room[at.NO_ROOM_CONTACTS], at.CONTACT_WIDTH),
            events=_aligned(room[at.NO_ROOM_EVENTS], at.EVENT_WIDTH),
            wheel=np.empty((slots, 2), np.int32),
            awake=np.empty((2, nodes + nodes // at.GROUP + 1), np.uint8),
            spans=np.empty((room[at.NO_ROOM_SPANS], 2), np.int32),
            patience=self._patience,
            actions=np.empty((room[at.NO_ROOM_ACTIONS], 5), np.int32),
        )

    def start(self, plan: Plan, *, record: bool = False) -> State:
        """Return the initial arrays of a run; those of the last run are reused."""
        if record and not self._room[at.NO_ROOM_ACTIONS]:
            self.enlarge(at.NO_ROOM_ACTIONS)
        if self._state is None:
            self._state = self._allocate()
        state = self._state
        state.numbers[:] = self._numbers
        state.seed[0] = plan.seed
        state.nodes[:] = self._nodes
        state.nodes[:, at.DEAD_STEP] = np.minimum(plan.dead_step, at.NEVER)
        state.nodes[:, at.ENTRY] = plan.start_step
        state.contacts[: len(self._contacts)] = self._contacts
        state.wheel[:] = -1
        state.awake[:] = 0
        return state

    def enlarge(self, trouble: int) -> None:
        """Enlarge the array that was too small."""
        for kind, room in self._room.items():
            if trouble & kind:
                self._room[kind] = max(4096, 2 * room)
        self._state = None


def _aligned(rows: int, width: int) -> NDArray[np.int32]:
    """Return an uninitialised array whose rows begin with cache lines as often as possible."""
    numbers = np.empty(rows * width + 16, np.int32)
    first = -numbers.ctypes.data % 64 // 4
    return numbers[first : first + rows * width].reshape(rows, width)


def _preorder(shape: Tree) -> NDArray[np.int64]:
    """Return each node's position in preorder."""
    reach = np.ones(shape.size, np.int64)  # sizes of subtrees
    rounds = list(shape.rounds())
    for first, end, above in reversed(rounds):
        reach[above : above + end - first] += reach[first:end]
    spot = np.zeros(shape.size, np.int64)
    roots = shape.root_count
    spot[:roots] = np.cumsum(reach[:roots]) - reach[:roots]
    following = spot + 1  # where the next child's subtree begins
    for first, end, above in rounds:
        parents = slice(above, above + end - first)
        spot[first:end] = following[parents]
        following[first:end] = spot[first:end] + 1
        following[parents] += reach[first:end]
    return spot
