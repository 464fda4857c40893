"""Unordered accesses of several ranks to the same bytes of a file (MPI 4.1, 14.6.1).

They are stored with the accesses to windows and compared the same way (`conflicts`). Atomic mode orders them.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from xsim_py.mpi.constants import MODE_RDONLY
from xsim_py.mpi.io import access
from xsim_py.process.ranks import current

from .elements import MOST_PIECES
from .records import READ, WRITE, Access

if TYPE_CHECKING:
    from collections.abc import Callable

    from xsim_py.process.ranks.patches import Patches

    from .monitor import Monitor, RankState
    from .records import Place


def install(patches: Patches, monitor: Monitor) -> None:
    """Notify a monitor of reads and writes of files that several ranks have opened together."""
    prepare, start = access.prepare, access._start
    pending: dict[Any, tuple[RankState, str, Place]] = {}

    @wraps(prepare)
    def prepared(file: Any, call: Any, offset: int, elements: Any) -> Callable[[], int]:
        body = prepare(file, call, offset, elements)
        mine = monitor.calls.get(current.here())
        if mine is None or not mine.is_open or len(file.comm.ranks) < 2 or file.amode & MODE_RDONLY:
            return body
        caller = mine.rank, mine.title, mine.place

        def followed() -> int:
            pending[current.fiber] = caller
            return body()

        return followed

    @wraps(start)
    def started(file: Any, call: Any, offset: int, etypes: int, chs: Any) -> int:
        at = start(file, call, offset, etypes, chs)
        caller = pending.pop(current.fiber, None)
        if caller is not None and etypes:
            view = file.view
            _record(monitor, file, view.pieces(at * view.unit, etypes * view.unit), caller, writes=call.writing)
        return at

    patches.set(access, "prepare", prepared)
    patches.set(access, "_start", started)


def _record(monitor: Monitor, file: Any, where: Any, caller: tuple[RankState, str, Place], *, writes: bool) -> None:
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
