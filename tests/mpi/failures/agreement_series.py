"""Agreement after agreement on one communicator, each member keeping only those that somebody may still ask for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.mpi.failures.agreement_world import Event
from xsim_py.mpi.failures.agreement import Agreement, AgreementPacket, Ballot, Decision, Outgoing


class Node:
    """A member: the agreements that it keeps, by number, what came for later ones, and all deaths it ever heard of."""

    def __init__(self) -> None:
        self.kept: dict[int, Agreement] = {}
        self.early: dict[int, list[tuple[int, AgreementPacket]]] = defaultdict(list)
        self.known: frozenset[int] = frozenset()
        self.begun = 0
        self.decisions: list[Decision] = []

    @property
    def busy(self) -> bool:
        return len(self.decisions) < self.begun


class Series:
    """The members, what is under way between them, and who lives; like `World`, for several agreements.

    A member forgets an agreement when it has decided the next one: all who live have contributed to that by then, and
    so have decided the one before.
    """

    def __init__(self, size: int, tree: str, *, gossip: bool, rounds: int) -> None:
        self.size = size
        self.tree = tree
        self.gossip = gossip
        self.rounds = rounds
        self.nodes = [Node() for _ in range(size)]
        self.alive = set(range(size))
        self.under_way: dict[tuple[int, int], list[tuple[int, AgreementPacket]]] = defaultdict(list)

    def possible(self) -> Iterator[Event]:
        """What can happen next, deaths aside."""
        for source, member in sorted(ends for ends, queue in self.under_way.items() if queue):
            yield Event("deliver", member, source)
        for number in sorted(self.alive):
            node = self.nodes[number]
            if not node.busy and node.begun < self.rounds:
                yield Event("enter", number)
            awaited = node.kept[node.begun].waiting_for() if node.busy else ()
            for other in range(self.size) if self.gossip else awaited:
                if other not in self.alive and other not in node.known:
                    yield Event("learn", number, other)

    def happen(self, event: Event) -> None:
        """Let it happen."""
        number, node = event.member, self.nodes[event.member]
        out: list[tuple[int, int, AgreementPacket]] = []
        if event.kind == "enter":
            out = self._enter(number, node)
        elif event.kind == "deliver":
            out = self._take(node, event.other, *self.under_way[event.other, number].pop(0))
        elif event.kind == "learn":
            node.known |= {event.other}
            if node.busy:
                out = self._sent(node, node.begun, node.kept[node.begun].learn([event.other]))
        for to, round_number, packet in out[: event.sends]:
            if to in self.alive:
                self.under_way[number, to].append((round_number, packet))
        if event.sends is not None:
            self.alive.remove(number)
            for ends in [ends for ends in self.under_way if ends[1] == number]:
                del self.under_way[ends]
        living = [self.nodes[other].decisions for other in sorted(self.alive)]
        longest = max(living, key=len, default=[])
        assert all(decisions == longest[: len(decisions)] for decisions in living), "the living disagree"

    def check_end(self) -> None:
        """What must hold when nothing can happen any more, but deaths."""
        assert all(len(self.nodes[number].decisions) == self.rounds for number in self.alive), "someone waits for ever"

    def _enter(self, number: int, node: Node) -> list[tuple[int, int, AgreementPacket]]:
        node.begun += 1
        agreement = Agreement(me=number, size=self.size, tree=self.tree, failed=node.known)
        node.kept[node.begun] = agreement
        out = []
        for source, packet in node.early.pop(node.begun, []):
            out += self._sent(node, node.begun, agreement.receive(source, packet))
        ballot = Ballot((~(1 << number), node.begun), node.known, node.known)
        return out + self._sent(node, node.begun, agreement.contribute(ballot))

    def _take(
        self, node: Node, source: int, round_number: int, packet: AgreementPacket
    ) -> list[tuple[int, int, AgreementPacket]]:
        if round_number > node.begun:
            node.early[round_number].append((source, packet))
        elif agreement := node.kept.get(round_number):
            return self._sent(node, round_number, agreement.receive(source, packet))
        return []

    def _sent(self, node: Node, round_number: int, out: Outgoing) -> list[tuple[int, int, AgreementPacket]]:
        agreement = node.kept[round_number]
        node.known |= agreement.known
        if agreement.decision is not None and round_number > len(node.decisions):
            node.decisions.append(agreement.decision)
            node.kept.pop(round_number - 1, None)
        return [(to, round_number, packet) for to, packet in out]
