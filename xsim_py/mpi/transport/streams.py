"""Streams of messages that must not overtake each other (MPI 4.1, section 3.5)."""

from __future__ import annotations

from .message import CONTROL, Message

_FEW = 1 << 14


def stream_of(message: Message) -> tuple[int, int, int, int] | None:
    """Return the stream of a message.

    Return None for the data of a rendezvous, whose envelope was matched. A stream contains messages that might match
    the same receive, or be confused in a collective: those of one communicator, of one collective, or the library's
    control messages.
    """
    cid = message.cid
    if cid or message.kind == CONTROL:
        return message.origin, message.to, cid, message.tag if cid & 1 else 0
    return None


class LastArrivals(dict[tuple[int, int, int, int], int]):
    """The arrival time in ps of each stream's last message."""

    limit = _FEW
    """The number of streams from which on a caller should `prune`.

    It grows with the messages in flight, so that pruning costs a constant time per message, whatever their number.
    """

    def prune(self, now_ps: int) -> None:
        """Drop the streams with no message in flight."""
        ahead = {stream: due_ps for stream, due_ps in self.items() if due_ps > now_ps}
        self.clear()
        self.update(ahead)
        self.limit = max(_FEW, 2 * len(self))
