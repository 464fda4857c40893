"""An error that the program catches is no finding; one that ends a rank is classified, whatever it was wrapped in."""

import pytest

from tests.checks.found import found

CALL = "comm.send(1, dest=7)"
WAYS = {
    "try:\n    CALL\nexcept MPI.Exception:\n    pass\n": [],
    "CALL\n": [4],
    "try:\n    CALL\nfinally:\n    comm.rank\n": [5],
    "try:\n    CALL\nexcept MPI.Exception as error:\n    raise RuntimeError('sent nothing') from error\n": [5],
    "try:\n    CALL\nexcept MPI.Exception:\n    {}[1]\n": [5],
    "for i in range(2):\n    try:\n        CALL\n    except MPI.Exception:\n        if i:\n            raise\n": [6],
}


@pytest.mark.parametrize("way", WAYS)
def test_only_an_uncaught_error_is_a_finding(way: str) -> None:
    findings = found(way.replace("CALL", CALL))
    assert [each.line for each in findings] == WAYS[way]
    assert all(each.category == "InvalidParameter" for each in findings)


PYTHON_REPORTS = {
    "a thread": ("import threading\nthread = threading.Thread(target=send)\nthread.start()\nthread.join()\n"),
    "a hook of threads": (
        "import threading\nthreading.excepthook = print\n"
        "thread = threading.Thread(target=send)\nthread.start()\nthread.join()\n"
    ),
    "a finalizer": "class Owner:\n    def __del__(self): send()\nowner = Owner()\ndel owner\n",
    "an atexit function": "import atexit\natexit.register(send)\n",
    "an attribute callback": (
        "key = MPI.Comm.Create_keyval(delete_fn=send)\ncomm.Set_attr(key, 1)\ncomm.Delete_attr(key)\n"
    ),
}


@pytest.mark.parametrize("where", PYTHON_REPORTS)
def test_an_error_that_python_reports_and_that_ends_no_rank_is_a_finding(where: str) -> None:
    findings = found(f"def send(*_):\n    {CALL}\n{PYTHON_REPORTS[where]}")
    assert ("InvalidParameter", 5) in [(each.category, each.line) for each in findings]


RECEIVES = (
    "comm.Recv(short, 0)",
    "request = comm.Irecv(short, 0)\n    request.Wait()",
    "request = comm.Irecv(short, 0)\n    MPI.Request.Waitall([request])",
)


@pytest.mark.parametrize("receive", RECEIVES)
def test_a_message_that_is_too_long_is_a_finding_unless_the_error_is_caught(receive: str) -> None:
    body = "short = np.zeros(1)\nif comm.rank == 0:\n    comm.Send(np.zeros(2), 1)\nelif comm.rank == 1:\n    {}\n"
    (finding,) = found(body.format(receive))
    assert (finding.category, finding.line) == ("ParameterMatching", 8)
    assert finding.text.endswith("expects 1 x float64, but the message has 2 x float64")
    caught = receive.replace("\n", "\n    ")
    assert found(body.format(f"try:\n        {caught}\n    except MPI.Exception:\n        pass")) == ()


def test_a_freed_send_is_no_finding_and_its_buffer_is_guarded_until_the_message_is_received() -> None:
    body = """
data = np.zeros(2000)
if comm.rank == 0:
    comm.Issend(data, 1).Free()
    WRITE
    comm.Barrier()
    data[:] = 1
else:
    comm.Recv(data, 0)
    comm.Barrier()
"""
    assert found(body.replace("WRITE", "pass")) == ()
    (finding,) = found(body.replace("WRITE", "memoryview(data)[0] = 1.0"))
    assert finding.text == "the send buffer of Comm.Issend is written before the request completes"
