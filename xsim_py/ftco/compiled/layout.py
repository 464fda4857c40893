"""Where things are in the arrays: plain integers in rows, which numba compiles, caches and copies quickly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]


class State(NamedTuple):
    """One run: where all of it is, apart from what the compiled functions keep in variables.

    Attributes
    ----------
    numbers : numpy.ndarray of int64
        What the whole run has, by the names below.
    seed : numpy.ndarray of uint64, shape (1,)
        The run's seed.
    nodes : numpy.ndarray of int32, shape (nodes, NODE_WIDTH)
        A node a row.
    contacts : numpy.ndarray of int32, shape (room, CONTACT_WIDTH)
        What a node remembers of another, a row. The contacts of a node are next to each other: its fathers, its
        children, and then those whom it has adopted; a node that adopts moves to a free place with room for more.
    events : numpy.ndarray of int32, shape (room, EVENT_WIDTH)
        Messages under way or in queues, death notices, deaths, and alarms of sleeping nodes.
    wheel : numpy.ndarray of int32, shape (a power of two, 2)
        First and last event of each step of the near future; those of the far future wait in its last slot.
    awake : numpy.ndarray of uint8, shape (2, ...)
        Which nodes look for something to do in this step and in the next one.
    spans : numpy.ndarray of int32, shape (room, 2)
        Sets of nodes that are more than one span (see `sets`).
    patience : numpy.ndarray of int32, shape (nodes, distances)
        After how many steps a node that has not answered counts as dead, by distance.
    actions : numpy.ndarray of int32, shape (room, 5)
        What nodes did: step, node, 0 for send and 1 for take, kind, and the other node; no room: not recorded.
    """

    numbers: NDArray[np.int64]
    seed: NDArray[np.uint64]
    nodes: Ints
    contacts: Ints
    events: Ints
    wheel: Ints
    awake: NDArray[np.uint8]
    spans: Ints
    patience: Ints
    actions: Ints


DATA, KEEPALIVE, ACK, NOTICE, DEATH, ALARM = range(6)
"""Kinds of events: messages as in `xsim_py.mpi.ftco.node`, then what is no message."""

FATHER, CHILD, ADOPTED_FATHER, ADOPTED_CHILD = range(4)
"""What a contact is to a node."""

(
    AWAIT_CHILDREN,
    AWAIT_ADOPTED_CHILDREN,
    SEND_FATHERS,
    SEND_ADOPTED_FATHERS,
    AWAIT_ALL_AT_FIRST,
    AWAIT_FATHERS,
    AWAIT_ADOPTED_FATHERS,
    AWAIT_ALL,
    SEND_CHILDREN,
    SEND_ADOPTED_CHILDREN,
    DONE,
) = range(11)
"""Where a node is in the operation."""

NODE_COLUMNS = (
    DEAD_STEP,  # step, or NEVER
    ENTRY,  # step
    NOTICES,  # first death notice, or -1
    LATEST,  # last message of each of three kinds that has come, or -1
    LATEST_KEEPALIVE,
    LATEST_ACK,
    QUEUED,  # messages in the queue
    LONGEST,  # the most that ever were
    IDLE,  # whether it has nothing left to do
    OWED,  # number of contacts that are to have a receipt
    QUIET_UNTIL,  # no contact is to be asked before, whatever is expected
    RINGS,  # step of the earliest alarm that is set
    PHASE,
    CONTACTS,  # first contact
    KNOWN,  # number of contacts
    ASKS_FROM,  # step from which it asks others; -1: it is to see first whether it may go on
    FATHERS,
    CHILDREN,
    PLACE,  # number of the contact that the phase has come to
    SPANS,  # number of spans that the set consists of
    LOW,  # the span, if it is one
    HIGH,
    ETA_SUB,
    ETA_FULL,
    DEGREE,  # number of neighbours in the tree
    FINISH,  # step, or -1
    SPOT,  # place in preorder, in which every subtree is a span
    PARENT,  # -1: a root
    FIRST,  # first contact of those that it begins with
    ROOM,  # for contacts
    HEAP,  # where they are, if they are more
    HEAP_ROOM,
) = range(32)
NODE_WIDTH = len(NODE_COLUMNS)

CONTACT_COLUMNS = (
    WHO,
    DISTANCE,
    ROLE,
    SLOT,  # number of this node among the other's contacts, or -1
    GONE,  # whether it is known to be dead
    IS_OWED,
    WAITED_FOR,  # whether an answer is awaited
    HEARD,
    SENT,  # when DATA or KEEPALIVE was last sent there, or 0
    PATIENCE,  # how long an answer may take
    INTERVAL,  # how long to wait before the next question
    WHERE,  # its place in preorder
) = range(12)
CONTACT_WIDTH = len(CONTACT_COLUMNS)

EVENT_COLUMNS = (
    NEXT,
    KIND,
    TO,
    SOURCE,
    HOW_FAR,  # distance, as the sender sees it
    TIME,  # step
    DUE,  # step in which the sender hears of it if the receiver is dead
    AT,  # number of the sender among the receiver's contacts, or -1
    COUNT,  # spans of the value
    SPAN_LOW,  # the span, if it is one, else where they are
    SPAN_HIGH,
    SPARE_EVENT,
) = range(12)
EVENT_WIDTH = len(EVENT_COLUMNS)

NUMBERS = (
    P,
    LATENCY,
    ROOTS,
    LIMIT,  # step
    FIRST_PHASE,
    LAST_PHASE,  # the one in which there is nothing left to do
    ROOT_ENDS,  # whether the operation ends as soon as node 0 has everything
    ORDER,
    ASK_ALL,
    CONTROL_FULL,
    SERVICE_KIND,
    OWN_STREAMS,
    ETA_RESET,
    STEP,
    FREE,  # first free event, or -1
    EVENTS_USED,
    PENDING,  # events in the wheel
    CONTACTS_USED,
    SPANS_USED,
    ACTIONS_USED,
    BUSY,  # living nodes other than 0 that are not finished
    SENT_DATA,
    SENT_KEEPALIVES,
    SENT_ACKS,
    OTHERS,  # living nodes other than 0
    FULL,  # whether node 0 has found that it has everything
    AWAKE_EVEN,
    AWAKE_ODD,
    DISTANCE_STEP,
    DISTANCE_NOW,
    FARTHEST,  # distance of a contact that anybody has adopted, or 0
    TROUBLE,
    MADE_OF,  # see `jit.SOURCES`
) = range(33)
NUMBERS_LENGTH = len(NUMBERS)

NO_ROOM_CONTACTS, NO_ROOM_EVENTS, NO_ROOM_SPANS, NO_ROOM_ACTIONS = 1, 2, 4, 8
"""Trouble: an array is too small. The run is worth nothing then, and has to be repeated with a larger one."""

NEVER = 2**31 - 1
GROUP = 64
"""Nodes for whom one flag says whether any of them is awake."""
