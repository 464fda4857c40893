"""Hints for file access.

The names, values and defaults are those of ROMIO, the MPI-IO of MPICH.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator

_SWITCHES = ("automatic", "enable", "disable")
_DEFAULTS = {
    "cb_buffer_size": "16777216",
    "cb_nodes": "",
    "ind_rd_buffer_size": "4194304",
    "ind_wr_buffer_size": "524288",
    "romio_cb_read": "automatic",
    "romio_cb_write": "automatic",
    "romio_ds_read": "automatic",
    "romio_ds_write": "automatic",
}


class Hints:
    """The hints of a file: the valid ones set by the program, and the defaults of others.

    The aggregators are the ranks that access the file for all in collective calls: one per node, and at most
    ``cb_nodes``.
    """

    __slots__ = ("_leaders", "values")

    def __init__(self, comm: Communicator) -> None:
        node_of = comm.fabric.settings.machine.node_of
        first: dict[int, int] = {}
        for place, number in enumerate(comm.ranks):
            first.setdefault(node_of[number], place)
        self._leaders = list(first.values())
        self.values = {**_DEFAULTS, "cb_nodes": str(len(self._leaders))}  # as MPI_File_get_info returns them

    def update(self, items: Iterable[tuple[str, str]]) -> None:
        """Set hints of a program; unknown or invalid ones are ignored (MPI 4.1, 14.2.8)."""
        for key, value in items:
            if key.startswith("romio_") and key in _DEFAULTS and value.lower() in _SWITCHES:
                self.values[key] = value.lower()
            elif key == "cb_nodes" and _is_count(value):
                self.values[key] = str(min(int(value), len(self._leaders)))
            elif key in _DEFAULTS and _is_count(value):
                self.values[key] = value

    @property
    def aggregators(self) -> list[int]:
        """The aggregators; see the class."""
        return self._leaders[: int(self.values["cb_nodes"])]

    @property
    def collective_buffer_bytes(self) -> int:
        """The number of bytes that an aggregator reads or writes at once."""
        return int(self.values["cb_buffer_size"])

    def sieve_bytes(self, *, writing: bool) -> int:
        """Return the buffer size of data sieving; 0 for none."""
        if self.values["romio_ds_write" if writing else "romio_ds_read"] == "disable":
            return 0
        return int(self.values["ind_wr_buffer_size" if writing else "ind_rd_buffer_size"])

    def two_phase(self, *, writing: bool) -> str:
        """Return when collective calls exchange data: ``"enable"``, ``"disable"`` or ``"automatic"``."""
        return self.values["romio_cb_write" if writing else "romio_cb_read"]


def _is_count(value: str) -> bool:
    return value.isdecimal() and int(value) > 0
