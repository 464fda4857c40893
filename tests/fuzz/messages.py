"""Steps between two ranks, or few: every mode of sending with every way to receive."""

import numpy as np

from tests.fuzz.interpreter import step
from tests.fuzz.types import build, elements, noise, short, span

SENDS = ["Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend", "Irsend",
         "Send_init", "Ssend_init", "Bsend_init", "Rsend_init"]  # fmt: skip
RECEIVES = ["Recv", "Irecv", "Recv_init", "Mprobe", "Improbe", "Probe", "Iprobe"]
COUNTS = [0, 1, 2, 3, 40]
HANDSHAKE, WILD = 9, 100


def filled(run, datatype, count, *salt):
    """A buffer with something to send."""
    return noise(span(datatype, count), run.rank, run.number, *salt)


def blank(datatype, count):
    """A buffer to receive into; what nobody writes shows."""
    return np.full(span(datatype, count), 0xEE, np.uint8)


@step(comm=4, src=4, dst=4, tag=3, send=SENDS, receive=RECEIVES, wild=["", "", "source", "tag"], base="base",
      there="shape", here="shape", count=COUNTS, room=[0, 0, 1, 2, -1], later=2)  # fmt: skip
def message(run, comm, src, dst, tag, send, receive, wild, base, there, here, count, room, later):
    """One message of any mode and datatype, received by any means into another layout of the same signature."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    src, dst = src % comm.size, dst % comm.size
    if comm.rank not in (src, dst):
        return
    if src == dst and receive in ("Recv", "Mprobe", "Improbe", "Probe", "Iprobe"):
        receive = "Irecv"
    if "Rsend" in send or send == "Irsend":
        receive = "Irecv" if receive != "Recv_init" else receive
    tag = WILD + run.number if wild == "source" else tag
    total = elements(there) * count
    into = max(int(total > 0), -(-total // elements(here)) + room)  # MPICH may not see what has no room at all
    arrived = None
    if comm.rank == dst:
        wanted = run.mpi.ANY_SOURCE if wild == "source" else src, run.mpi.ANY_TAG if wild == "tag" else tag
        datatype = build(run.mpi, base, here)
        arrived = _begin_receive(run, comm, receive, wanted, (blank(datatype, into), into, datatype))
        if send in ("Rsend", "Irsend", "Rsend_init"):
            comm.Isend([None, 0, run.mpi.BYTE], src, HANDSHAKE).Wait() if src != dst else None
    sent = None
    if comm.rank == src:
        if send in ("Rsend", "Irsend", "Rsend_init") and src != dst:
            comm.Recv([None, 0, run.mpi.BYTE], dst, HANDSHAKE)
        datatype = build(run.mpi, base, there)
        sent = _begin_send(run, comm, send, dst, tag, [filled(run, datatype, count), count, datatype])
    for request, finish in (pair for pair in (sent, arrived) if pair is not None):
        run.later(request, finish)
    if not later:
        run.complete()


def _begin_send(run, comm, send, dst, tag, buffer):
    if send.endswith("_init"):
        request = getattr(comm, send)(buffer, dst, tag)
        request.Start()
    else:
        request = getattr(comm, send)(buffer, dst, tag)
        if request is None:
            return None
    return request, lambda status, number: (buffer, _freed(request, send))


def _freed(request, call):
    if call.endswith("_init"):
        request.Free()


def _begin_receive(run, comm, receive, wanted, place):
    """Receive, or begin to; what remains to be done is (request, what to do then)."""
    data, count, datatype = place
    buffer = [data, count, datatype]
    status = run.mpi.Status()

    def finish(status, number):
        run.note(run.status(status, datatype), short(data), number=number)
        _freed(request, receive)

    if receive in ("Irecv", "Recv_init"):
        request = getattr(comm, receive)(buffer, *wanted)
        if receive == "Recv_init":
            request.Start()
        return request, finish
    if receive in ("Probe", "Iprobe"):
        if receive == "Probe":
            comm.Probe(*wanted, status)
        while receive == "Iprobe" and not comm.Iprobe(*wanted, status):
            pass
        run.note(run.status(status, datatype))
        wanted = status.source, status.tag
    if receive in ("Mprobe", "Improbe"):
        found = comm.Mprobe(*wanted, status) if receive == "Mprobe" else None
        while found is None:
            found = comm.Improbe(*wanted, status)
        run.note(run.status(status, datatype))
        if receive == "Improbe":
            request = found.Irecv(buffer)
            return request, finish
        found.Recv(buffer, status)
    else:
        comm.Recv(buffer, *wanted, status)
    run.note(run.status(status, datatype), short(data))
    return None


def thing(number, rank):
    """A Python object that is not like another."""
    return [None, (rank, "text"), {"step": number, "from": rank}, [1.5] * (number % 7), b"x" * 300 * rank][number % 5]


@step(comm=4, src=4, dst=4, tag=3, send=["send", "ssend", "bsend", "isend", "issend", "ibsend"],
      receive=["recv", "irecv", "mprobe", "improbe", "probe", "iprobe"], wild=["", "source", "tag"])  # fmt: skip
def object_message(run, comm, src, dst, tag, send, receive, wild):
    """A pickled object."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    src, dst = src % comm.size, dst % comm.size
    tag = WILD + run.number if wild == "source" else tag
    request = None
    if comm.rank == src:
        send = send if src != dst or send.startswith("i") else f"i{send}"
        request = getattr(comm, send)(thing(run.number, comm.rank), dst, tag)
    if comm.rank == dst:
        wanted = run.mpi.ANY_SOURCE if wild == "source" else src, run.mpi.ANY_TAG if wild == "tag" else tag
        status = run.mpi.Status()
        if receive == "irecv":
            found = comm.irecv(None, *wanted).wait(status)
        elif receive in ("mprobe", "improbe"):
            matched = comm.mprobe(*wanted, status) if receive == "mprobe" else None
            while matched is None:
                matched = comm.improbe(*wanted, status)
            found = matched.recv(status)
        else:
            if receive == "probe":
                comm.probe(*wanted, status)
            while receive == "iprobe" and not comm.iprobe(*wanted, status):
                pass
            found = comm.recv(None, *wanted, status)
        run.note(run.status(status), repr(found))
    if request is not None:
        request.wait()


WAITS = ["Waitall", "Waitany", "Waitsome", "Testall", "Testany", "Testsome", "Wait", "Test"]


@step(comm=4, edges=[[[0, 1]], [[0, 1], [1, 0]], [[0, 1], [1, 2], [2, 0]], [[0, 0], [0, 1], [0, 2], [0, 3]],
                     [[1, 0], [2, 0], [3, 0]], [[0, 1], [0, 1], [0, 1]]],
      send=["Isend", "Issend", "Ibsend", "Send_init", "Ssend_init"], receive=["Irecv", "Recv_init"], wait=WAITS,
      backwards=2, base="base", there="shape", here="shape", count=COUNTS)  # fmt: skip
def exchange(run, comm, edges, send, receive, wait, backwards, base, there, here, count):
    """Many messages at once; their receives are posted in another order than they are sent."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    total = elements(there) * count
    into = -(-total // elements(here))
    edges = [(number, src % comm.size, dst % comm.size) for number, (src, dst) in enumerate(edges)]
    requests, buffers, received = [], [], {}
    datatype = build(run.mpi, base, here)
    for number, src, dst in edges[::-1] if backwards else edges:
        if comm.rank == dst:
            buffers.append([blank(datatype, into), into, datatype])
            received[len(requests)] = buffers[-1][0]
            requests.append(getattr(comm, receive)(buffers[-1], src, number))
    datatype_there = build(run.mpi, base, there)
    for number, src, dst in edges:
        if comm.rank == src:
            buffers.append([filled(run, datatype_there, count, number), count, datatype_there])
            requests.append(getattr(comm, send)(buffers[-1], dst, number))
    run.mpi.Prequest.Startall([request for request in requests if isinstance(request, run.mpi.Prequest)])
    keep = list(requests)
    statuses = wait_for(run, wait, requests)
    for index, data in received.items():
        run.note(index, run.status(statuses[index], datatype), short(data))
    for request in keep:
        if isinstance(request, run.mpi.Prequest):
            request.Free()


def wait_for(run, how, requests):
    """The statuses of all requests, completed in one of the ways there are."""
    request_class, statuses = run.mpi.Request, [run.mpi.Status() for _ in requests]
    if how == "Waitall":
        request_class.Waitall(requests, statuses)
    elif how == "Testall":
        while not request_class.Testall(requests, statuses):
            pass
    elif how in ("Wait", "Test"):
        for request, status in zip(requests, statuses, strict=True):
            while not getattr(request, how)(status):
                pass
    elif how in ("Waitany", "Testany"):
        left = len(requests)
        while left:
            status = run.mpi.Status()
            index = request_class.Waitany(requests, status) if how == "Waitany" else None
            while index is None:
                index, done = request_class.Testany(requests, status)
                index = index if done else None
            statuses[index] = status
            left -= 1
    else:
        left = len(requests)
        while left:
            some = [run.mpi.Status() for _ in requests]
            for index, status in zip(getattr(request_class, how)(requests, some) or (), some, strict=False):
                statuses[index] = status
                left -= 1
        run.note(how, getattr(request_class, how)(requests))
    return statuses


@step(comm=4, shift=4, ends=2, call=["Sendrecv", "Sendrecv_replace", "Isendrecv", "Isendrecv_replace", "sendrecv"],
      base="base", there="shape", here="shape", count=COUNTS)  # fmt: skip
def shifted(run, comm, shift, ends, call, base, there, here, count):
    """Everybody sends to a neighbour and receives from the other one; at open ends there is nobody."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    to, source = comm.rank + shift, comm.rank - shift
    to = run.mpi.PROC_NULL if ends and to >= comm.size else to % comm.size
    source = run.mpi.PROC_NULL if ends and source < 0 else source % comm.size
    status = run.mpi.Status()
    if call == "sendrecv":
        found = comm.sendrecv(thing(run.number, comm.rank), to, 1, None, source, 1, status)
        run.note(run.status(status), repr(found))
        return
    datatype = build(run.mpi, base, there)
    data, other, into = filled(run, datatype, count), datatype, count
    if call.endswith("replace"):
        if call[0] == "I":  # MPICH forgets elements of a type with gaps here
            base = base if isinstance(base, str) else "INT"
            datatype = other = build(run.mpi, base, ["contiguous", elements(there), ["leaf", 0]])
            data = filled(run, datatype, count)
        target, result = [data, count, datatype], getattr(comm, call)
        result = result([data, count, datatype], to, 2, source, 2, *([status] if call[0] == "S" else []))
    else:
        other = build(run.mpi, base, here)
        into = -(-elements(there) * count // elements(here))
        target = [blank(other, into), into, other]
        result = getattr(comm, call)([data, count, datatype], to, 2, target, source, 2,
                                     *([status] if call[0] == "S" else []))  # fmt: skip
    if result is not None:  # MPICH leaves the status of these as it was
        result.Wait()
        run.note(short(target[0]))
        return
    run.note(run.status(status, other), short(target[0]))


@step(comm=4, call=["Send", "Ssend", "Isend", "Recv", "Irecv", "Probe", "Iprobe", "Mprobe", "Improbe"])
def nobody(run, comm, call):
    """Messages to and from nobody."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    data, status = np.arange(3, dtype="i4"), run.mpi.Status()
    null = run.mpi.PROC_NULL
    if "send" in call.lower():
        result = getattr(comm, call)(data, null, 1)
    elif "robe" in call:
        result = getattr(comm, call)(null, 1, status)
        if "prob" in call and "M" in call.upper()[:2]:
            run.note(result == run.mpi.MESSAGE_NO_PROC)
            result.Recv(data, status)
            result = None
    else:
        result = getattr(comm, call)(data, null, 1, *([status] if call == "Recv" else []))
    if isinstance(result, run.mpi.Request):
        result.Wait(status)
    run.note(run.status(status, run.mpi.INT) if "end" not in call else None, data.tolist())


@step(comm=4, wait=["Wait", "Test", "Waitall", "Testall"], persistent=2)
def cancelled(run, comm, wait, persistent):
    """A receive that nobody will ever send to, taken back."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    data = np.zeros(2, "i4")
    request = (comm.Recv_init if persistent else comm.Irecv)(data, run.mpi.ANY_SOURCE, 77)
    if persistent:
        request.Start()
    request.Cancel()
    status = wait_for(run, wait, [request])[0]
    run.note(status.Is_cancelled(), data.tolist())
    if persistent:
        request.Free()


@step(comm=4, src=4, dst=4, parts=[1, 2, 4], order=2, count=[1, 5])
def partitioned(run, comm, src, dst, parts, order, count):
    """A message whose parts are ready one after the other."""
    comm = run.pick(run.comms, comm)
    if comm is None or src % comm.size == dst % comm.size:
        return
    src, dst = src % comm.size, dst % comm.size
    data = np.arange(parts * count, dtype="i4") + run.number
    if comm.rank == src:
        request = comm.Psend_init(data, parts, dst, 5)
        for _ in range(2):
            request.Start()
            for part in reversed(range(parts)) if order else range(parts):
                request.Pready(part)
            request.Wait()
            data += 1
        request.Free()
    elif comm.rank == dst:
        place = np.zeros_like(data)
        request = comm.Precv_init(place, parts, src, 5)
        for _ in range(2):
            request.Start()
            while not request.Parrived(parts - 1):
                pass
            request.Wait()
            run.note(place.tolist())
        request.Free()
