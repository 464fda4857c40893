"""The trace of a run as data: calls, messages and marked instants, each with its times.

Prior art: OTF2 and the Chrome trace events. Unlike there, every time is an exact integer number of picoseconds of one
global clock, so nothing needs correction, and a message has its times of departure, arrival and receipt.

Nothing here depends on a running program: upper layers record, and reports read.
"""

from __future__ import annotations

from xsim_py.trace.recorder import Recorder
from xsim_py.trace.trace import Entrance, Mark, Message, Records, Span, Trace, Wait

__all__ = ["Entrance", "Mark", "Message", "Recorder", "Records", "Span", "Trace", "Wait"]
