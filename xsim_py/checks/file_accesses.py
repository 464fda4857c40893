"""Unordered accesses of several ranks to the same bytes of a file (MPI 4.1, 14.6.1).

They are stored with the accesses to windows and compared the same way (`conflicts`). Atomic mode orders them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.mpi.constants import MODE_RDONLY

from .elements import MOST_PIECES
from .records import READ, WRITE, Access, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from xsim_py.mpi.io.openfile import OpenFile
    from xsim_py.mpi.io.view import Pieces

    from .monitor import Monitor, MpiCall, RankState


def accessing(monitor: Monitor, call: MpiCall | None, file: Any) -> Callable[[Any, bool], None] | None:
    """Return the function that takes the pieces that a call reads or writes; None if no other rank can conflict."""
    if call is None or not call.is_open or len(file.comm.ranks) < 2 or file.amode & MODE_RDONLY:
        return None
    return partial(_record, monitor, file, (call.rank, call.title, call.place))


def _record(
    monitor: Monitor, file: OpenFile, caller: tuple[RankState, str, Place], where: Pieces, writes: bool
) -> None:
    """Record an access, as complete at once even if it continues in the background."""
    state, title, place = caller
    if len(where.starts) > MOST_PIECES:
        return
    pieces = list(zip(where.starts.tolist(), (where.starts + where.sizes).tolist(), strict=True))
    made = Access(state.number, title, place, WRITE if writes else READ, "", pieces, exclusive=file.atomic)
    made.of = "a file"
    made.since = made.until = state.next_moment()
    monitor.accesses.setdefault(("file", file.comm.cid, file.comm.ranks[0]), []).append(made)
    state.steps.add([made], [made], True)
