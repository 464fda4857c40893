"""Messages whose envelope is there, and whose sender died before it sent the data: nobody takes them for received."""

import contextlib
import io
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xsim_py import simulate

DETECTORS = {
    "timeout": {"mpi.detector.type": "timeout", "mpi.detector.timeout": "10ms"},
    "heartbeat": {"mpi.detector.type": "heartbeat", "mpi.detector.period": "1ms", "mpi.detector.timeout": "10ms"},
}
LARGE = 1 << 18  # doubles: far above the rendezvous threshold
Receiving = Callable[[Any, Any], Any]
NAMED: dict[str, Receiving] = {
    "Recv": lambda comm, box: comm.Recv(box, source=1),
    "Irecv": lambda comm, box: comm.Irecv(box, source=1).Wait(),
    "Mprobe": lambda comm, box: comm.Mprobe(source=1).Recv(box),
}
ANY: dict[str, Receiving] = {
    "Recv": lambda comm, box: comm.Recv(box),
    "Irecv": lambda comm, box: comm.Irecv(box).Wait(),
}


def tried(receive: Receiving, box: Any) -> str:
    """Receive, and name what comes of it."""
    from mpi4py import MPI

    names = {MPI.ERR_PROC_FAILED: "failed", MPI.ERR_PROC_FAILED_PENDING: "pending"}
    try:
        receive(MPI.COMM_WORLD, box)
    except MPI.Exception as error:
        return names[error.Get_error_class()]
    return f"got {box[0]:g}"


def receives_late(receive: Receiving, begins_s: float) -> str | None:
    """Rank 1 offers a large message and dies after 0.2 s; rank 0 wants it from a time on."""
    from mpi4py import MPI

    box = np.full(LARGE, -1.0)
    if MPI.COMM_WORLD.rank == 1:
        MPI.COMM_WORLD.Isend(np.ones(LARGE), dest=0)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(begins_s)
    return f"{tried(receive, box)}, {box[0]:g}"


def acknowledges_first(receive: Receiving) -> list[str] | None:
    """Rank 0 knows that rank 1 is dead, finds its offer among those of anyone, and then that of rank 2."""
    from mpi4py import MPI

    comm, box = MPI.COMM_WORLD, np.full(LARGE, -1.0)
    if comm.rank:
        comm.Isend(np.full(LARGE, float(comm.rank)), dest=0)
        time.sleep(0.2)
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(10)
        return None
    time.sleep(0.3)
    with pytest.raises(MPI.Exception):
        comm.Barrier()
    comm.Ack_failed()
    return [tried(receive, box), tried(receive, box)]


def run(program: Any, ranks: int, detector: str, *args: Any) -> Any:
    overrides = DETECTORS[detector]
    return simulate(
        program, ranks=ranks, machine="shmem", ft=True, args=args, set=overrides, stdout=io.StringIO()
    ).values[0]


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("begins_s", [0.201, 0.5])
@pytest.mark.parametrize("name", NAMED)
def test_a_named_sender_that_died_makes_the_receive_fail(name: str, begins_s: float, detector: str):
    assert run(receives_late, 2, detector, NAMED[name], begins_s) == "failed, -1"


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("name", ANY)
def test_a_receive_from_anyone_that_has_matched_is_about_its_sender(name: str, detector: str):
    assert run(receives_late, 2, detector, ANY[name], 0.201) == "failed, -1"


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("name", ANY)
def test_an_offer_of_a_dead_rank_that_is_acknowledged_fails_the_receive_and_the_next_one_gets_the_other(
    name: str, detector: str
):
    assert run(acknowledges_first, 3, detector, ANY[name]) == ["failed", "got 2"]


def detaches_from_the_dead() -> list[str]:
    """What a rank gets for buffers with messages to one that dies, and to one that takes them late."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if comm.rank == 2:
        time.sleep(5)
        comm.Recv(np.zeros(LARGE), source=0)
        return []
    said = []
    for _ in range(2):
        MPI.Attach_buffer(bytearray(10**7))
        for dest in (1, 2)[: 2 - len(said)]:
            with contextlib.suppress(MPI.Exception):
                comm.Bsend(np.zeros(LARGE), dest)
        try:
            MPI.Detach_buffer()
            said.append(f"detached at {round(MPI.Wtime())}")
        except MPI.Exception as error:
            said.append(f"{error.Get_error_class() == MPI.ERR_PROC_FAILED} at {round(MPI.Wtime())}")
    return said


def test_a_buffer_is_detached_when_its_messages_are_gone_also_where_one_could_not_be_sent():
    assert run(detaches_from_the_dead, 3, "timeout") == ["True at 5", "detached at 5"]
