"""The trace of a run as data: calls, messages, and instants that are worth a mark, each with its times.

Prior art: OTF2 and the Chrome trace events. What differs: every time is an exact integer number of picoseconds of one
global clock, so nothing needs to be corrected, and a message knows when it left, arrived and was taken.

Nothing here knows of a running program: the floors above record, and the reports read.
"""

from __future__ import annotations

from xsim_py.trace.recorder import Recorder
from xsim_py.trace.trace import Entrance, Mark, Message, Records, Span, Trace, Wait

__all__ = ["Entrance", "Mark", "Message", "Recorder", "Records", "Span", "Trace", "Wait"]
