"""Transport of the packets of windows, with their effects at the target.

Times are those of remote direct memory access. The origin's CPU pays the send overhead of a packet; its NIC sends the
data, whatever their size, because the target's memory is known to exist: no rendezvous. At the target the NIC performs
the operation on arrival, atomically, and replies: data are a separate message, an acknowledgement takes one latency
only. The target's CPU is not involved, as with a progress thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from xsim_py.mpi.checksum import crc32
from xsim_py.mpi.transport.message import Message
from xsim_py.mpi.transport.protocols import ControlHandler, LibraryPart

from .packets import RmaPacket
from .window import Shape, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from xsim_py.mpi.transport.fabric import Fabric
    from xsim_py.mpi.transport.mailbox import Mailbox
    from xsim_py.process.ranks.rank import Rank

_RMA = 5
"""The tag of a control message: a packet of a window."""


def windows_of(box: Mailbox) -> dict[int, Window]:
    """Return the windows of a rank, by number."""
    windows: dict[int, Window] = box.of_process("windows", dict)
    return windows


class Rma(LibraryPart):
    """The receiver of window packets for the ranks of one shard."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        # State shared by the ranks of a window, by its number; `segments` also by those of other shards.
        self.shapes: WeakValueDictionary[int, Shape] = WeakValueDictionary()
        shared = fabric.settings.segments
        self.segments: WeakValueDictionary[int, Any] = WeakValueDictionary() if shared is None else shared

    def control(self) -> dict[int, ControlHandler]:
        """Return the handlers of its control messages."""
        return {_RMA: ControlHandler("rma", self._receive)}

    def events(self) -> dict[str, Callable[[Any], None]]:
        """Return the handlers of its events."""
        return {"rma": self._answered}

    def _receive(self, rank: Rank, message: Message) -> None:
        """Process a packet that has arrived."""
        packet: RmaPacket = message.note
        window = windows_of(rank.mpi).get(packet.window)
        self.fabric.digest += hash((message.arrival_ps, rank.number, packet.kind, crc32(packet.data)))
        if window is not None:
            window.receive(packet)

    def inject(self, rank: Rank, to: int, packet: RmaPacket, size_bytes: int) -> int:
        """Pass a packet to the NIC of a rank now; return when its last byte has left."""
        fabric = self.fabric
        fabric.count(rank.number, (to,), size_bytes)
        message = Message.control(rank.number, to, _RMA, packet, size_bytes)
        return fabric.inject(rank, message, fabric.link(rank.number, to).cost(size_bytes), fabric.kernel.now_ps)

    def answer(self, window: Window, source: int, what: int, ticket: int = 0, code: int = 0, detail: str = "") -> None:
        """Reply without data: it takes the latency."""
        rank = window.comm.box.rank
        to = window.comm.ranks[source]
        when_ps = self.fabric.kernel.now_ps + self.fabric.link(rank.number, to).latency_ps
        rank.key += 1
        entry = (to, window.comm.cid, what, window.comm.me, ticket, (code, detail))
        self.fabric.shard.post_to(to, when_ps, rank.key, "rma", entry)

    def _answered(self, entry: tuple[int, int, int, int, int, tuple[int, str]]) -> None:
        number, cid, what, target, ticket, error = entry
        window = windows_of(self.fabric.shard.rank(number).mpi).get(cid)
        if window is not None:
            window.answered(what, target, ticket, error)


def service_of(fabric: Fabric) -> Rma:
    """Return the shard's service; it is created with the first window."""
    return fabric.part(Rma) if Rma in fabric.parts else fabric.add(Rma(fabric))
