"""Buffers of one call that overlap are found, with the bytes that they share (MPI 4.1, 2.3)."""

import pytest

from tests.checks.found import found

SEND, RECEIVE = "bytes 16 to 31 of the send buffer", "bytes 0 to 15 of the receive buffer"


@pytest.mark.parametrize("call", ["Allreduce", "Alltoall", "Ialltoall", "Scan"])
def test_bytes_in_common_are_named(call: str) -> None:
    wait = ".Wait()" if call.startswith("I") else ""
    (finding,) = found(f"a = np.arange(6.0)\ncomm.{call}(a[:4], a[2:6]){wait}\n")
    assert (finding.category, finding.line, finding.ranks) == ("LocalConcurrency", 5, (0, 1))
    assert finding.text == f"the send and receive buffers of Comm.{call} overlap"
    assert finding.details == (f"{SEND} are {RECEIVE}",)


@pytest.mark.parametrize("call", ["Allreduce", "Iallreduce"])
def test_a_buffer_that_begins_where_the_other_does_is_an_error_of_the_call(call: str) -> None:
    (finding,) = found(f"a = np.arange(6.0)\ntry:\n    comm.{call}(a, a)\nexcept MPI.Exception:\n    raise\n")
    assert finding.category == "InvalidParameter"
    assert finding.text.endswith("use MPI.IN_PLACE)")


def test_a_prepared_collective_keeps_its_name() -> None:
    body = "a = np.arange(6.0)\nr = comm.Allreduce_init(a[:4], a[2:6])\nr.Start()\nr.Wait()\nr.Free()\n"
    (finding,) = found(body)
    assert (finding.line, finding.text) == (6, "the send and receive buffers of Comm.Allreduce_init overlap")
