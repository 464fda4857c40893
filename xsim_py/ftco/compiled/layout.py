"""Layout of the arrays: rows of plain integers, which numba compiles and copies quickly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]


class State(NamedTuple):
    """The whole state of one run, except for variables of the compiled functions.

    Attributes
    ----------
    numbers : numpy.ndarray of int64
        State of the whole run, by the names below.
    seed : numpy.ndarray of uint64, shape (1,)
        The run's seed.
    nodes : numpy.ndarray of int32, shape (nodes, NODE_WIDTH)
        One row per node.
    contacts : numpy.ndarray of int32, shape (room, CONTACT_WIDTH)
        One row per other node that a node knows. The contacts of a node are adjacent: its fathers, its children, and
        then adopted ones; a node that adopts moves to a free block with room for more.
    events : numpy.ndarray of int32, shape (room, EVENT_WIDTH)
        Messages in flight or in queues, failure notices, failures, and alarms of sleeping nodes.
    wheel : numpy.ndarray of int32, shape (a power of two, 2)
        First and last event of each step of the near future; those of the far future wait in its last slot.
    awake : numpy.ndarray of uint8, shape (2, ...)
        Nodes that look for work in this step and in the next one.
    spans : numpy.ndarray of int32, shape (room, 2)
        Sets of nodes with more than one span (see `sets`).
    patience : numpy.ndarray of int32, shape (nodes, distances)
        Timeout of a query in steps, by distance.
    actions : numpy.ndarray of int32, shape (room, 5)
        Actions of nodes: step, node, 0 for send and 1 for take, kind, and the other node; no room: not recorded.
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
"""Kinds of events: messages as in `xsim_py.mpi.ftco.node`, then other events."""

FATHER, CHILD, ADOPTED_FATHER, ADOPTED_CHILD = range(4)
"""Roles of a contact."""

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
"""Phases of a node in the operation."""

NODE_COLUMNS = (
    DEAD_STEP,  # step, or NEVER
    ENTRY,  # step
    NOTICES,  # first failure notice, or -1
    LATEST,  # last message of each of three kinds that has arrived, or -1
    LATEST_KEEPALIVE,
    LATEST_ACK,
    QUEUED,  # messages in the queue
    LONGEST,  # the maximum so far
    IDLE,  # whether it has no work left
    OWED,  # number of contacts that are due an ACK
    QUIET_UNTIL,  # no contact is due a query before, whatever is expected
    ALARM_STEP,  # step of the earliest set alarm
    PHASE,
    CONTACTS,  # first contact
    KNOWN,  # number of contacts
    QUERIES_FROM,  # step from which it queries others; -1: it first checks whether it may continue
    FATHERS,
    CHILDREN,
    PLACE,  # number of the contact that the phase has reached
    SPANS,  # number of spans of the set
    LOW,  # the span, if it is one
    HIGH,
    ETA_SUB,
    ETA_FULL,
    DEGREE,  # number of neighbours in the tree
    FINISH,  # step, or -1
    SPOT,  # position in preorder, in which every subtree is a span
    PARENT,  # -1: a root
    FIRST,  # first of its initial contacts
    ROOM,  # for contacts
    HEAP,  # their location, if there are more
    HEAP_ROOM,
) = range(32)
NODE_WIDTH = len(NODE_COLUMNS)

CONTACT_COLUMNS = (
    PEER,
    DISTANCE,
    ROLE,
    SLOT,  # number of this node among the other's contacts, or -1
    FAILED,  # whether it is known to have failed
    ACK_OWED,
    AWAITS_REPLY,  # whether a reply is pending
    HEARD,
    SENT,  # when DATA or KEEPALIVE was last sent there, or 0
    PATIENCE,  # timeout of a reply
    INTERVAL,  # interval until the next query
    WHERE,  # its position in preorder
) = range(12)
CONTACT_WIDTH = len(CONTACT_COLUMNS)

EVENT_COLUMNS = (
    NEXT,
    KIND,
    TO,
    SOURCE,
    SENT_DISTANCE,  # distance, as the sender sees it
    TIME,  # step
    DUE,  # step in which the sender is notified if the receiver has failed
    AT,  # number of the sender among the receiver's contacts, or -1
    COUNT,  # spans of the value
    SPAN_LOW,  # the span, if it is one, else their location
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
    LAST_PHASE,  # the one in which it has no work left
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
    BUSY,  # survivors other than 0 that are not finished
    SENT_DATA,
    SENT_KEEPALIVES,
    SENT_ACKS,
    OTHERS,  # survivors other than 0
    FULL,  # whether node 0 has found that it has everything
    AWAKE_EVEN,
    AWAKE_ODD,
    DISTANCE_STEP,
    DISTANCE_NOW,
    FARTHEST,  # distance of an adopted contact of any node, or 0
    TROUBLE,
    SOURCES_ID,  # see `jit.SOURCES`
) = range(33)
NUMBERS_LENGTH = len(NUMBERS)

NO_ROOM_CONTACTS, NO_ROOM_EVENTS, NO_ROOM_SPANS, NO_ROOM_ACTIONS = 1, 2, 4, 8
"""Trouble: an array is too small. The run is then invalid, and must be repeated with a larger array."""

NEVER = 2**31 - 1
GROUP = 64
"""Number of nodes that share a flag: whether any of them is awake."""
