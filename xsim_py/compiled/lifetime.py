"""Begin and end of MPI, and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.attributes import delete_all
from xsim_py.mpi4py.inside import comm_of
from xsim_py.mpi4py.phase import of_process_now

from .by_hand import MPI, Given, by_hand
from .calls import write_integers

if TYPE_CHECKING:
    from .child import Child


@by_hand
def Init(child: Child, given: Given) -> None:
    _begin(child, c.THREAD_SINGLE)


@by_hand
def Init_thread(child: Child, given: Given) -> None:
    write_integers(child, given[3], [_begin(child, given[2])], "i")


def _begin(child: Child, required: int) -> int:
    if child.initialized:
        errors.fail(c.ERR_OTHER, "MPI is initialized already")
    child.initialized = True
    child.enter(inside=True)
    phase = of_process_now()
    phase.initialized = False
    return int(MPI.Init_thread(min(max(required, c.THREAD_SINGLE), c.THREAD_SERIALIZED)))


@by_hand
def Initialized(child: Child, given: Given) -> None:
    write_integers(child, given[0], [child.initialized], "i")


@by_hand
def Finalize(child: Child, given: Given) -> None:
    for comm in (MPI.COMM_SELF, MPI.COMM_WORLD):  # the latter as in MPICH and Open MPI
        delete_all(comm, comm_of(comm).attributes)
    MPI.Finalize()
    child.finalized = True
    child.enter(inside=False)


@by_hand
def Finalized(child: Child, given: Given) -> None:
    write_integers(child, given[0], [child.finalized], "i")
