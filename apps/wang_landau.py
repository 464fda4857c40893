"""Replica-exchange Wang-Landau sampling: the window of a failed process repairs itself.

The density of states g(E) of Ising's model on a square lattice is sampled in windows of energies, which overlap by
three quarters. A window has some processes with some walkers each, and a separate communicator, on which they average
ln g after each round. Then walkers of neighbouring windows may exchange their configurations, alternately with the
window above and the one below. When ln g has been found, the same walkers continue for some rounds at fixed weights,
with a different temperature in each window: this is the check, in which the exact statistics of exchanges are known.

If a process fails, its window revokes its communicator, shrinks it, spawns a process, merges, restores the old order,
and goes back to the last checkpoint, of which each process has a copy on the next one of its window. Other windows
never leave their loop; a neighbour waits at the next exchange. Messages go from the first survivor of three doors of a
window to all doors of the other one, over a communicator that is never repaired. Walkers draw the same random numbers
again after a rollback; recent messages of a window are in its checkpoint, and sent again. So all windows end bit for
bit as without the failure. A window whose doors have all failed, and which continues in new processes, is reconnected
to its neighbours by MPI_Comm_connect and MPI_Comm_accept. Simultaneous failures of a process and of the next one in its
window are not tolerated.

This is the pattern of the University of Georgia's Wang-Landau code in the slides on ULFM (Vogel, Li, Wuest, Landau).
The sampling and the whole recovery are real; the lattice is small, and `--work` declares the cost of a round.

    xsim run -n 8 wang_landau.py
    xsim run -n 8 --fail "rank=3 before its 20th Allgather" wang_landau.py
    mpirun --with-ft ulfm -n 8 python wang_landau.py --die 3@20

Validation: g(E) against the exact numbers of states of the 4x4 lattice, or the first ones of a larger one; the energy
and heat capacity against the exact solution; the exchanges by the check; and all bits against a process that computes
everything alone, if that is not too much.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import ising
import numpy as np
import recovery
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UP, DOWN = 1, -1
END, BYE = 1 << 30, 1 << 31  # numbers of a window's last messages: it has left its loop, and the end was printed
LATELY = 3  # number of messages kept to be sent again
POLL_S = 0.01
MOST_TWIN_STEPS = 250_000_000  # of all walkers: some seconds of one core
PRINTED = "wang_landau printed"  # a published name


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    parser.add_argument("--side", type=recovery.number(int, 4), default=4, help="the lattice's side, an even number")
    parser.add_argument(
        "--windows",
        type=recovery.positive,
        help="number of windows (default: 4, or fewer, so that each has two processes)",
    )
    parser.add_argument("--walkers", type=recovery.positive, default=2000, help="walkers per process")
    parser.add_argument(
        "--rounds", type=recovery.positive, default=100, help="number of averages of ln g in the windows"
    )
    parser.add_argument(
        "--checks", type=recovery.number(int, 4), default=20, help="rounds of the check, half of which count"
    )
    parser.add_argument("--steps", type=recovery.positive, default=80, help="steps of a walker per round")
    parser.add_argument("--tolerance", type=recovery.above_0, default=0.05, help="largest error of ln g")
    parser.add_argument("--ln-f", type=recovery.above_0, default=1e-6, help="final value of its modification factor")
    parser.add_argument("--work", type=recovery.seconds, default=0.0, help="seconds of work per round")
    parser.add_argument(
        "--patience", type=recovery.above_0, default=10.0, help="seconds without a message after which a window is lost"
    )
    parser.add_argument("--seed", type=recovery.natural, default=0, help="seed of all random numbers")
    parser.add_argument("--place", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side % 2:
        parser.error(f"--side {arguments.side}: not an even number")
    most, ranks = most_windows(arguments.side, MPI.COMM_WORLD.size), MPI.COMM_WORLD.size
    if arguments.windows is not None and arguments.windows > most and not recovery.is_new():
        parser.error(
            f"--windows {arguments.windows}: more than {most}; each has two of {ranks} ranks, and five levels of energy"
        )
    return arguments


def most_windows(side: int, ranks: int) -> int:
    """Return the maximum number of windows, with two ranks in each if there are two."""
    return max(1, min(ranks // 2, ising.most_windows(side)))


class Layout(NamedTuple):
    """The ranks of each window; the last window has the remaining ones."""

    ranks: int
    windows: int

    @property
    def share(self) -> int:
        """Return the number of ranks of each window except the last."""
        return self.ranks // self.windows

    def window(self, rank: int) -> int:
        """Return the window of a rank."""
        return min(rank // self.share, self.windows - 1)

    def doors(self, window: int) -> range:
        """Return the ranks that receive the messages to a window."""
        first = window * self.share
        last = self.ranks if window == self.windows - 1 else first + self.share
        return range(first, min(first + 3, last)) if 0 <= window < self.windows else range(0)

    def sides(self, window: int) -> list[int]:
        """Return the sides on which a window has neighbours."""
        return [side for side in (UP, DOWN) if 0 <= window + side < self.windows]


# ------------------------------------------------------------------------------------------------------------ recovery


@dataclass(eq=False)
class Line:
    """A connection to a process of another window: a communicator, and the rank in it."""

    window: int
    comm: MPI.Comm
    rank: int
    gone: bool = False
    """Whether that process is known to have failed."""
    last: int = -1
    """The highest message number received from it."""


class Doors:
    """Messages of a process to and from other windows, each identified by its distance upwards.

    A message goes to all doors of a window, so that the replacement of a door has received the same messages.
    """

    def __init__(self, arguments: argparse.Namespace, layout: Layout, window: int, mail: MPI.Intracomm | None) -> None:
        self.window, self.patience = window, arguments.patience + 4 * arguments.work
        self.lines: dict[int, list[Line]] = {side: [] for side in layout.sides(window)}
        for other in range(layout.windows) if mail else ():
            if other != window:
                self.lines[other - window] = [Line(other, mail, door) for door in layout.doors(other)]
        self.received: dict[int, dict[int, Any]] = {side: {} for side in self.lines}
        self.recent: dict[int, dict[int, Any]] = {UP: {}, DOWN: {}}
        self.requests: list[MPI.Request] = []

    def send(self, side: int, number: int, content: Any) -> None:
        """Send a numbered message to all doors of a neighbour, and keep it for later ones."""
        recent = {**self.recent[side], number: content}
        self.recent[side] = {each: recent[each] for each in sorted(recent)[-LATELY:]}
        self._send(side, number, content)

    def _send(self, side: int, number: int, content: Any) -> None:
        self.requests = [each for each in self.requests if recovery.attempt(each.Test) == (False, True)]
        for line in self.lines[side]:
            if not line.gone:
                request, well = recovery.attempt(line.comm.isend, (number, content), line.rank)
                self.requests += [request] if well else []

    def receive(self, side: int, number: int) -> Any:
        """Return a neighbour's message of that number, from the first surviving door, or raise `Lost`."""
        received = self.received[side]
        while number not in received:
            living = [line for line in self.lines[side] if not line.gone]
            if END in received:
                raise recovery.Lost(received[END] or f"window {self.window + side}, which ended before the others")
            if living and living[0].last > number:  # numbers ascend: too old, as this window has restarted
                raise recovery.Lost(f"window {self.window}, of which no checkpoint is left")
            if living:
                self._take(side, living[0])
            elif not self.join([side]):
                if number == END:
                    return None
                raise recovery.Lost(f"window {self.window + side}, none of whose processes answers")
        if number == END and received[END]:
            raise recovery.Lost(received[END])
        return received[number]

    def take(self, before: int) -> None:
        """Receive available messages, as doors without a gate do, and drop those before some number."""
        for side in self.recent:
            for line in self.lines.get(side, ()):
                while not line.gone and recovery.attempt(line.comm.iprobe, line.rank)[0]:
                    self._take(side, line)
                self.received[side] = {each: said for each, said in self.received[side].items() if each >= before}

    def _take(self, side: int, line: Line) -> None:
        letter, well = recovery.attempt(line.comm.recv, source=line.rank)
        if well:
            self.received[side][letter[0]] = letter[1]
            line.last = max(line.last, letter[0])
        else:
            line.gone = True

    def _hear(self, side: int, number: int) -> bool:
        """Receive from all doors of a window up to some number; return True if one has sent it."""
        for line in self.lines[side]:
            while not line.gone and line.last < number:
                self._take(side, line)
        return any(line.last >= number for line in self.lines[side])

    def close(self, lost: str | None) -> bool:
        """Tell all others that this window has left its loop; return True if one below has printed."""
        for side in self.lines:
            self._send(side, END, lost)
        for side in self.lines:
            self._hear(side, END)
        informed = [self._hear(side, BYE) for side in sorted(self.lines) if side < 0]
        if self.window and not any(informed):  # below may be only new processes
            if self.join([DOWN]):
                self._send(DOWN, END, lost)
                return self._hear(DOWN, END) and self._hear(DOWN, BYE)
            return named(PRINTED) is not None
        return any(informed)

    def leave(self) -> None:
        """Tell the windows above that the end was printed."""
        for side in sorted(self.lines):
            if side > 0:
                self._send(side, BYE, None)
        for request in self.requests:
            recovery.attempt(request.Wait)

    def join(self, sides: Iterable[int]) -> bool:
        """Reconnect to disconnected neighbours; return True if all of them are connected."""
        coming = {side: self._accepted() if side == UP else self._connected() for side in sides}
        end = time.monotonic() + self.patience
        while coming and time.monotonic() < end and not named(PRINTED):
            for side, steps in list(coming.items()):
                link = next(steps)
                if link:
                    del coming[side]
                    self.lines[side] = [Line(self.window + side, link, 0)]
                    for number, content in self.recent[side].items():
                        self._send(side, number, content)
            time.sleep(POLL_S)
        return not coming

    def _accepted(self) -> Iterator[MPI.Intercomm | None]:
        """Accept a connection of the window above once it is announced, because nothing ends Accept.

        The window above asks, gets the name of a port, and confirms. If the asking process fails before that, its
        replacement asks under the next number. A number that has been answered before is used up.
        """
        place, port, number, answered = f"wang_landau {self.window}", MPI.Open_port(), 0, False
        while named(f"{place} answer {number}"):
            number += 1
        while not (answered and named(f"{place} coming {number}")):
            if answered and named(f"{place} question {number + 1}"):
                number, answered = number + 1, False
            elif not answered and named(f"{place} question {number}"):
                publish(f"{place} answer {number}", port)
                answered = True
            yield None
        yield recovery.attempt(MPI.COMM_SELF.Accept, port)[0]

    def _connected(self) -> Iterator[MPI.Intercomm | None]:
        """Connect to the window below, which is in `_accepted`."""
        place, number = f"wang_landau {self.window - 1}", 0
        while not publish(f"{place} question {number}", "?"):
            number += 1
        while not (port := named(f"{place} answer {number}")):
            yield None
        publish(f"{place} coming {number}", "!")
        yield recovery.attempt(MPI.COMM_SELF.Connect, port)[0]


def publish(name: str, port: str) -> bool:
    """Publish a name, and return True if it was not published before."""
    try:
        MPI.Publish_name(name, port)
    except MPI.Exception as error:
        if error.Get_error_class() not in (MPI.ERR_NAME, MPI.ERR_SERVICE):
            raise
        return False
    return True


def named(name: str) -> str | None:
    """Return the value published under a name, or None."""
    try:
        return MPI.Lookup_name(name)
    except MPI.Exception as error:
        if error.Get_error_class() != MPI.ERR_NAME:
            raise
        return None


class Member:
    """A process of a window: walkers, their checkpoints, and for doors, connections."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.doors, self.gate, self.lost = arguments, None, 0, None
        self.end = arguments.rounds + arguments.checks
        self.buddies, self.mail = recovery.Buddies(), None
        self.window, ranks = arguments.place or (0, 1)
        self.layout = self.layout_of(ranks)

    def layout_of(self, ranks: int) -> Layout:
        """Return the layout of a number of ranks."""
        return Layout(ranks, self.arguments.windows or min(4, most_windows(self.arguments.side, ranks)))

    def divide(self, world: MPI.Intracomm) -> tuple[MPI.Intracomm, MPI.Intracomm]:
        """Return the window's communicator, and one between windows."""
        layout = self.layout_of(world.size)
        return world.Split(layout.window(world.rank), world.rank), world.Dup()

    def begin(self, comm: MPI.Intracomm, mail: MPI.Intracomm) -> None:
        """Start as an initial process of a window; an argument tells later ones their window."""
        self.mail, self.layout = mail, self.layout_of(mail.size)
        self.window = self.layout.window(mail.rank)
        if mail.rank in self.layout.doors(self.window):
            self.doors = Doors(self.arguments, self.layout, self.window, mail)
        sys.argv += ["--place", str(self.window), str(mail.size)]
        self.start(comm)

    def start(self, comm: MPI.Intracomm) -> None:
        """Set the initial state."""
        arguments, number = self.arguments, self.window * self.layout.share + comm.rank
        seed = (arguments.seed, self.window, number)
        self.bounds = ising.windows_of(arguments.side, self.layout.windows)
        self.walkers = ising.Walkers(arguments.side, self.bounds[self.window], arguments.walkers, seed)
        self.round, self.found, self.offered = 0, [], dict.fromkeys(self.layout.sides(self.window), ())

    def compute(self, comm: MPI.Intracomm) -> list[ising.Found] | str:
        """Do all remaining rounds; return the results of this window and those above, or the loss."""
        try:
            while self.round < self.end + 3 and not self.lost:
                self.buddies.save(comm, self.round, self.state())
                recovery.die_at(self.arguments.die, self.round)
                if self.round < self.end:
                    sample(self, comm)
                else:
                    self.finish(comm, self.round - self.end)
                self.round += 1
        except recovery.Lost as lost:
            self.lost = str(lost)
        return self.lost or self.found

    def finish(self, comm: MPI.Intracomm, step: int) -> None:
        """End in three steps: results pass down, permission to end up, completion down."""
        if step == 0:
            above = self.received(comm, UP, self.round)
            self.found = [result(self, comm), *(above or [])]
            self.send(comm, DOWN, self.round, self.found)
        elif step == 1:
            self.received(comm, DOWN, self.round)
            self.send(comm, UP, self.round, True)
        else:
            self.received(comm, UP, END)

    def send(self, comm: MPI.Intracomm, side: int, number: int, content: Any) -> None:
        """Send to a neighbour, if there is one and this is the gate."""
        if side in self.offered and comm.rank == self.gate:
            self.doors.send(side, number, content)

    def received(self, comm: MPI.Intracomm, side: int, number: int) -> Any:
        """Return a neighbour's message, if there is one, received by the gate for all; or raise `Lost`."""
        content = None
        if side in self.offered and comm.rank == self.gate:
            try:
                content = self.doors.receive(side, number)
            except recovery.Lost as lost:
                content = str(lost)
        if side in self.offered:
            content = comm.bcast(content, root=self.gate)
        if isinstance(content, str):
            raise recovery.Lost(content)
        return content

    def exchanged(self, comm: MPI.Intracomm, side: int, ln_g: np.ndarray, mine: ising.Offer) -> Any:
        """Exchange ln g and the offers of this round with a neighbour."""
        if self.doors:
            self.doors.take(self.round - 2)
        self.offered[side] = (*self.offered[side][-1:], (self.round, ln_g, mine))
        self.offer(comm, side, *self.offered[side][-1])
        return self.received(comm, side, self.round)

    def offer(self, comm: MPI.Intracomm, side: int, number: int, ln_g: np.ndarray, mine: ising.Offer) -> None:
        """Send an offer to a neighbour, for the first time or as a repetition."""
        offers = comm.gather(mine, root=self.gate)
        self.send(comm, side, number, (ln_g, offers))

    def restore(self, comm: MPI.Intracomm) -> None:
        """Go back to the last checkpoint of the whole window, and repeat possibly lost messages."""
        self.lost = None
        doors = comm.allgather(self.doors is not None)
        self.gate = doors.index(True) if any(doors) else 0
        self.start(comm)
        try:
            saved = self.buddies.restore(comm)
        except recovery.Lost as lost:
            self.lost = f"window {self.window}: {lost}"
            return
        if saved:
            self.round, (state, self.found, offered) = saved
            self.walkers.become(state)
            self.offered = dict(offered)
        if not any(doors) and comm.rank == 0:
            self.doors = Doors(self.arguments, self.layout, self.window, None)
        for side, offers in self.offered.items():
            for each in offers:
                self.offer(comm, side, *each)
        if self.round > self.end:
            self.send(comm, DOWN, self.end, self.found)
        if self.round > self.end + 1:
            self.send(comm, UP, self.end + 1, True)
        if not any(doors) and comm.rank == 0:
            self.doors.join(self.offered)

    def state(self) -> tuple[Any, ...]:
        """Return the contents of a checkpoint."""
        return self.walkers.state(), self.found, dict(self.offered)

    def end_with(self, comm: MPI.Intracomm, lines: list[str], right: bool) -> NoReturn:
        """End, after all others have left their loops; the first surviving window prints how."""
        informed = self.doors.close(self.lost) if self.doors else False
        # A door reports whether it was informed, and a process that is not a door does not know.
        first = self.window == 0 or recovery.agree_on(comm, int(not informed) | (not self.doors) << 1) == 1
        try:
            if first and self.window == 0 and not self.lost:
                recovery.conclude(comm, lines, right)
            if first:
                recovery.give_up(comm, self.lost or "window 0, with the result")
            sys.exit(int(self.lost is not None))
        finally:
            if first:
                publish(PRINTED, "!")
            else:
                comm.Free()
            if self.doors:
                self.doors.leave()
            if self.mail:
                self.mail.Free()


def repaired(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Replace the failed ranks of a window, and report it."""
    made = recovery.replace(comm)
    dead = recovery.known_dead(comm)
    if comm.rank == min({*range(comm.size)}.difference(dead)):
        window = sys.argv[sys.argv.index("--place") + 1] if "--place" in sys.argv else "all"
        print(f"# window {window}: replaced {dead} after {MPI.Wtime():.3f} s", flush=True)
    return made


# ------------------------------------------------------------------------------------------------------------ sampling


def sample(member: Member, comm: MPI.Intracomm) -> None:
    """Sample for a round, average ln g or check, and exchange."""
    arguments, walkers = member.arguments, member.walkers
    checked = member.round - arguments.rounds
    if checked == 0:
        walkers.freeze()
    if checked == arguments.checks // 2:
        walkers.forget()
    time.sleep(arguments.work)
    walkers.walk(arguments.steps)
    if checked < 0:
        own = np.concatenate((walkers.ln_g, walkers.visits))
        all_of_them = np.empty((comm.size, len(own)))
        comm.Allgather(own, all_of_them)  # no Allreduce: the order of summation must not depend on the MPI
        walkers.average(*np.split(all_of_them, 2, axis=1))
    exchange(member, comm)


def exchange(member: Member, comm: MPI.Intracomm) -> None:
    """Exchange configurations alternately with the window above and the one below."""
    side = UP if (member.window + member.round) % 2 == 0 else DOWN
    if side in member.layout.sides(member.window):
        walkers = member.walkers
        mine, ln_g = walkers.offer(), walkers.ln_g.copy()
        theirs, offers = member.exchanged(comm, side, ln_g, mine)
        if comm.rank < len(offers):
            offered = offers[comm.rank]
            lower = mine if side == UP else offered
            bounds = member.bounds[member.window + side]
            walkers.exchange(theirs, bounds, offered, lower.chance, counts=side == UP)


def result(member: Member, comm: MPI.Intracomm) -> ising.Found:
    """Return the results of the window."""
    walkers = member.walkers
    own = walkers.visits, walkers.tried, walkers.accepted, walkers.name, walkers.astray()
    visits, tried, accepted, names, astray = zip(*comm.allgather(own), strict=True)
    return ising.Found(*walkers.found, sum(visits), sum(tried), sum(accepted), np.concatenate(names), sum(astray))


# ---------------------------------------------------------------------------------------------------------- validation


def judged(
    arguments: argparse.Namespace, bounds: list[tuple[int, int]], found: list[ising.Found]
) -> tuple[list[str], bool]:
    """Return the lines to print for all windows, and True if right.

    ln g must be within the tolerance; energy, heat capacity and the levels visited in the check within a tenth of it,
    and the share of accepted exchanges within half of it. Each initial configuration must still exist once, in its
    window and with the energy that its walker has recorded.
    """
    side, ln_f = arguments.side, max(each.ln_f for each in found)
    ln_g, known = ising.joined([each.ln_g for each in found], bounds, side), ising.exact(side)
    off = np.nanmax(np.abs(ln_g - known))
    heat = np.array(ising.at_temperature(ln_g, side, ising.CRITICAL))
    heat_off = np.abs(heat - ising.exact_at(side, ising.CRITICAL)).max()
    visits, shares = ising.in_the_check(ln_g if np.isnan(known).any() else known, side, bounds)
    visited = np.array([each.visits / each.visits.sum() for each in found])
    visits_off = np.abs(visited - visits).max()
    accepted = np.array([each.accepted / each.tried for each in found[:-1]])
    shares_off = np.abs(accepted - shares).max(initial=0.0)
    names, astray = np.concatenate([each.names for each in found]), sum(each.astray for each in found)
    amiss = len(names) - len({*names.tolist()}) + astray
    digest = zlib.crc32(
        repr([(*each.ln_g.tolist(), *each.visits.tolist(), *each.names.tolist()) for each in found]).encode()
    )
    lines = [
        f"wang_landau: {side}x{side} spins, {len(found)} windows, {len(names)} walkers, ln f {ln_f:.3e}",
        f"ln g is off by at most {off:.4f}",
        f"at T = {ising.CRITICAL} E/N is {heat[0]:.6f}, C/N {heat[1]:.6f}, off by at most {heat_off:.4f}",
        f"accepted exchanges: {' '.join(f'{each:.4f}' for each in accepted)}, off by at most {shares_off:.4f}",
        f"visited levels are off by at most {visits_off:.4f}, and {amiss} walkers are inconsistent",
        f"state {digest:08x}",
    ]
    within = off, 10 * heat_off, 10 * visits_off, 2 * shares_off
    return lines, ln_f <= arguments.ln_f and max(within) < arguments.tolerance and amiss == 0


def alone(arguments: argparse.Namespace, layout: Layout, bounds: list[tuple[int, int]]) -> list[ising.Found]:
    """Return the results of all windows if one process computes them, without messages and failures."""
    windows: list[list[ising.Walkers]] = [[] for _ in bounds]
    for rank in range(layout.ranks):
        window = layout.window(rank)
        seed = (arguments.seed, window, rank)
        windows[window].append(ising.Walkers(arguments.side, bounds[window], arguments.walkers, seed))
    for number in range(arguments.rounds + arguments.checks):
        checked = number - arguments.rounds
        for members in windows:
            for walkers in members:
                if checked == 0:
                    walkers.freeze()
                if checked == arguments.checks // 2:
                    walkers.forget()
                walkers.walk(arguments.steps)
            if checked < 0:
                both = np.array([[walkers.ln_g for walkers in members], [walkers.visits for walkers in members]])
                for walkers in members:
                    walkers.average(*both.astype(float))
        for lower in range(number % 2, len(windows) - 1, 2):
            sides = windows[lower], windows[lower + 1]
            offers = [[walkers.offer() for walkers in members] for members in sides]
            ln_g = [members[0].ln_g.copy() for members in sides]
            for here, members in enumerate(sides):
                for walkers, below, offered in zip(members, offers[0], offers[1 - here], strict=False):
                    there = bounds[lower + 1 - here]
                    walkers.exchange(ln_g[1 - here], there, offered, below.chance, counts=here == 0)
    return [found_by(members) for members in windows]


def found_by(members: list[ising.Walkers]) -> ising.Found:
    """Return the results of a window's walkers."""
    own = [(each.visits, each.tried, each.accepted, each.name, each.astray()) for each in members]
    visits, tried, accepted, names, astray = zip(*own, strict=True)
    return ising.Found(*members[0].found, sum(visits), sum(tried), sum(accepted), np.concatenate(names), sum(astray))


def main() -> None:
    """Sample; recoverable failures do not change the result."""
    arguments = parse_arguments()
    member = Member(arguments)
    comm, new = recovery.joined(), arguments.place is not None
    if not new:
        (comm, mail), _ = recovery.until_agreed(comm, member.divide, repaired)
        member.begin(comm, mail)
    _, comm = recovery.roll_back_until_agreed(comm, member.compute, member.restore, repaired, restoring=new)
    if member.window or member.lost:
        member.end_with(comm, [], True)
    lines, right = judged(arguments, member.bounds, member.found)
    walked = member.layout.ranks * arguments.walkers * arguments.steps * (arguments.rounds + arguments.checks)
    if comm.rank == 0 and walked <= MOST_TWIN_STEPS:
        right = right and lines == judged(arguments, member.bounds, alone(arguments, member.layout, member.bounds))[0]
    member.end_with(comm, lines, right)


if __name__ == "__main__":
    main()
