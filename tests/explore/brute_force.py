"""All matchings of small programs, by trying every order in which ranks and messages can move: no clocks, no tree.

A program is a list of calls for each rank; `enumerate_matchings` follows the rules of MPI 4.1 literally. Messages of a
pair of ranks arrive in order; one that arrives goes to the receive that was posted first of those that fit, or waits. A
receive that is posted takes one of those that wait and fit, the first of its sender; a probe sees one, and a receive
from any source need not get that one (MPI 4.1, example 3.19).
"""

from __future__ import annotations

from typing import Any, NamedTuple

ANY = -1
Program = tuple[tuple[tuple[Any, ...], ...], ...]
"""For each rank its calls: send, ssend (dest, tag); recv, irecv, probe (source, tag); wait (), for the oldest request
that is left, and waitany ()."""


class State(NamedTuple):
    """Where everything is."""

    at: tuple[int, ...]
    """The next call of each rank."""
    moving: tuple[tuple[int, int, int, int], ...]
    """Messages that have not arrived: source, dest, tag, and the place of the synchronous send in its rank, or -1."""
    waiting: tuple[tuple[int, int, int, int], ...]
    """Messages that have arrived and were not received."""
    posted: tuple[tuple[int, int, int, int, int], ...]
    """Receives that wait: rank, source, tag, number of the choice or -1, number of the request or -1."""
    requests: tuple[tuple[tuple[int, bool], ...], ...]
    """The requests of each rank that it has not waited for: number, and whether complete."""
    freed: frozenset[tuple[int, int]]
    """Synchronous sends that were received: rank and place."""
    choices: tuple[tuple[int, ...], ...]
    """What each rank has chosen; -2: nothing yet."""
    blocked: tuple[bool, ...]
    """Whether a rank has posted the receive that it waits in."""


def fits(message: tuple[int, int, int, int], rank: int, source: int, tag: int) -> bool:
    """Return whether a receive takes a message."""
    return message[1] == rank and source in (ANY, message[0]) and tag in (ANY, message[2])


def enumerate_matchings(program: Program) -> set[tuple[tuple[int, ...], ...]]:
    """Return what the ranks can have chosen at the end, whichever way things go."""
    size = len(program)
    start = State((0,) * size, (), (), (), ((),) * size, frozenset(), ((),) * size, (False,) * size)
    known, todo, ends = {start}, [start], set()
    while todo:
        state = todo.pop()
        following = list(_arrivals(state)) + [after for rank in range(size) for after in _steps(program, state, rank)]
        if not following:
            ends.add(state.choices)
        for after in following:
            if after not in known:
                known.add(after)
                todo.append(after)
    return ends


def _put(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _arrivals(state: State) -> Any:
    """Yield what becomes of the first message of each pair of ranks that is under way."""
    pairs = set()
    for number, message in enumerate(state.moving):
        if message[:2] in pairs:
            continue
        pairs.add(message[:2])
        moved = state._replace(moving=state.moving[:number] + state.moving[number + 1 :])
        taker = next((each for each in state.posted if fits(message, each[0], each[1], each[2])), None)
        if taker is None:
            yield moved._replace(waiting=(*moved.waiting, message))
        else:
            posted = tuple(each for each in moved.posted if each is not taker)
            yield _matched(moved._replace(posted=posted), message, taker)


def _matched(state: State, message: tuple[int, int, int, int], taker: tuple[int, int, int, int, int]) -> State:
    rank, _, _, choice, request = taker
    if message[3] >= 0:
        state = state._replace(freed=state.freed | {(message[0], message[3])})
    if choice >= 0:
        made = _put(state.choices[rank], choice, message[0])
        state = state._replace(choices=_put(state.choices, rank, made))
    if request >= 0:
        listed = tuple((number, done or number == request) for number, done in state.requests[rank])
        return state._replace(requests=_put(state.requests, rank, listed))
    return state._replace(at=_put(state.at, rank, state.at[rank] + 1), blocked=_put(state.blocked, rank, False))


def _steps(program: Program, state: State, rank: int) -> Any:
    """Yield what the next call of a rank can lead to."""
    place = state.at[rank]
    if place == len(program[rank]) or state.blocked[rank]:
        return
    name, *words = program[rank][place]
    gone = state._replace(at=_put(state.at, rank, place + 1))
    if name == "send":
        yield gone._replace(moving=(*state.moving, (rank, *words, -1)))
    elif name == "ssend":
        if (rank, place) in state.freed:
            yield gone
        elif not any(message[0] == rank and message[3] == place for message in (*state.moving, *state.waiting)):
            yield state._replace(moving=(*state.moving, (rank, *words, place)))
    elif name in ("recv", "irecv"):
        yield from _receive(state, rank, place, *words, later=name == "irecv")
    elif name == "probe":
        for message in _first_of_each(state, rank, *words):
            made = (*state.choices[rank], message[0]) if words[0] == ANY else state.choices[rank]
            yield gone._replace(choices=_put(state.choices, rank, made))
    elif name == "wait":
        (_, done), *rest = state.requests[rank]
        if done:
            yield gone._replace(requests=_put(state.requests, rank, tuple(rest)))
    elif name == "waitany":
        listed = state.requests[rank]
        for chosen, (_, done) in enumerate(listed):
            if done:
                made = (*state.choices[rank], chosen) if len(listed) > 1 else state.choices[rank]
                rest = listed[:chosen] + listed[chosen + 1 :]
                left = gone._replace(requests=_put(state.requests, rank, rest))
                yield left._replace(choices=_put(state.choices, rank, made))


def _first_of_each(state: State, rank: int, source: int, tag: int) -> list[tuple[int, int, int, int]]:
    """Return the messages that wait and that a call may get: of each sender the first that fits."""
    firsts: dict[int, tuple[int, int, int, int]] = {}
    for message in state.waiting:
        if fits(message, rank, source, tag):
            firsts.setdefault(message[0], message)
    return list(firsts.values())


def _receive(state: State, rank: int, place: int, source: int, tag: int, *, later: bool) -> Any:
    """Yield what becomes of a receive that begins."""
    choice, request = -1, -1
    if source == ANY:
        choice = len(state.choices[rank])
        state = state._replace(choices=_put(state.choices, rank, (*state.choices[rank], -2)))
    if later:
        request = place
        listed = (*state.requests[rank], (request, False))
        state = state._replace(requests=_put(state.requests, rank, listed), at=_put(state.at, rank, place + 1))
    taker = (rank, source, tag, choice, request)
    firsts = _first_of_each(state, rank, source, tag)
    for message in firsts:
        waiting = list(state.waiting)
        waiting.remove(message)
        yield _matched(state._replace(waiting=tuple(waiting)), message, taker)
    if not firsts:
        if not later:
            state = state._replace(blocked=_put(state.blocked, rank, True))
        yield state._replace(posted=(*state.posted, taker))


def perform(program: Program) -> None:
    """Make the calls of the running rank."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    requests: list[Any] = []
    for name, *words in program[comm.rank]:
        if name == "send":
            comm.send(0, *words)
        elif name == "ssend":
            comm.ssend(0, *words)
        elif name in ("recv", "irecv", "probe"):
            source = MPI.ANY_SOURCE if words[0] == ANY else words[0]
            tag = MPI.ANY_TAG if words[1] == ANY else words[1]
            if name == "irecv":
                requests.append(comm.irecv(source=source, tag=tag))
            else:
                getattr(comm, name)(source=source, tag=tag)
        elif name == "wait":
            requests.pop(0).wait()
        else:
            index = MPI.Request.waitany(requests)[0]
            del requests[index]
