"""Nothing in a trace comes before what it follows from: no effect of a death or a revocation, and no message.

The checks rebuild from messages alone how each rank can have come to know what it knows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from tests.mpi.failures.recovery_oracle import FOR_EVER_PS, Run
from tests.mpi.failures.recovery_scenarios import MACHINES
from xsim_py.config import load_machine
from xsim_py.machine import Machine
from xsim_py.mpi.failures.settings import detector_settings
from xsim_py.network import make_network


class Causality:
    """The trace of a run, and the network that it ran on."""

    def __init__(self, run: Run) -> None:
        scenario = run.scenario
        spec = load_machine(MACHINES[scenario.machine][0], overrides=scenario.overrides)
        machine = Machine(spec, ranks=scenario.ranks)
        self.run = run
        self.trace = run.result.trace
        self.network = make_network(spec, places=machine)
        self.shared = spec.network is not None and spec.network.contention != "none"
        self.detector = detector_settings(spec, self.network)
        self.revoke = scenario.overrides["mpi.ulfm.revoke"]
        self.notices: dict[tuple[str, int], list[Any]] = defaultdict(list)
        self.unheard: set[tuple[int, int, int]] = set()
        for message in self.trace.messages:
            if message.kind == "notice" and message.taken_ps is not None:
                self.notices[message.call, message.dest].append(message)
            elif message.kind == "notice" and (message.arrival_ps or 0) >= run.death_ps(message.dest):
                self.unheard.add((message.source, message.dest, message.arrival_ps))

    def check(self) -> None:
        """All of it."""
        self.check_messages()
        self.check_the_dead()
        for mark in self.trace.marks:
            if mark.kind == "learned":
                self.check_learned(mark)
        self.check_revoked()

    # ------------------------------------------------------------------------------------------------- messages

    def check_messages(self) -> None:
        """No message is faster than the network, nor taken before it is there."""
        for message in self.trace.messages:
            cost = self.network.link(message.source, message.dest).cost(message.size_bytes)
            ways = 3 if message.kind == "rendezvous" else 1
            if message.arrival_ps is not None:
                least_ps = message.sent_ps + ways * cost.latency_ps + cost.wire_ps
                assert message.arrival_ps >= least_ps, message
                if ways == 1 and not self.shared:
                    assert message.arrival_ps == least_ps, message
            if message.taken_ps is not None:
                there_ps = message.sent_ps + cost.latency_ps if ways == 3 else message.arrival_ps
                assert message.taken_ps >= there_ps, message

    def check_the_dead(self) -> None:
        """The dead take nothing, call nothing, learn nothing, and send only what was on their interface already."""
        for rank, died_ps in self.run.died_ps.items():
            for span in self.trace.spans:
                if span.rank == rank:
                    assert max(span.start_ps, span.end_ps or 0) <= died_ps, span
            for mark in self.trace.marks:
                assert mark.rank != rank or mark.time_ps <= died_ps, mark
            assert all(m.dest != rank or (m.taken_ps or 0) <= died_ps for m in self.trace.messages)
            self._check_last_words(rank, died_ps)

    def _check_last_words(self, rank: int, died_ps: int) -> None:
        """An interface goes on after its rank as long as it is busy; a rank gives it nothing any more."""
        wanted = []  # from when, for how long, and whether it is the data of a rendezvous
        for message in self.trace.messages:
            if message.source == rank:
                cost = self.network.link(rank, message.dest).cost(message.size_bytes)
                rendezvous = message.kind == "rendezvous"
                wanted.append((message.sent_ps, 0 if rendezvous else cost.busy_ps, False))
                if rendezvous and message.taken_ps is not None and message.taken_ps + cost.latency_ps <= died_ps:
                    wanted.append((message.taken_ps + cost.latency_ps, cost.busy_ps, True))
        free_ps = 0
        for wanted_ps, busy_ps, of_rendezvous in sorted(wanted):
            assert of_rendezvous or wanted_ps <= max(died_ps, free_ps), (rank, died_ps, wanted_ps)
            free_ps = max(free_ps, wanted_ps) + busy_ps

    # ------------------------------------------------------------------------------------------------- failures

    def check_learned(self, mark: Any) -> None:
        """A rank learns of a failure from its own detector, no sooner than that can tell, or from one who knew."""
        number, how = re.fullmatch(r"rank (\d+) has failed \((\w+)\)", mark.text).groups()
        failed, rank, when_ps = int(number), mark.rank, mark.time_ps
        died_ps = self.run.died_ps[failed]
        if how == "timeout":
            since_ps = when_ps - self.detector.timeout_ps
            waited = self.detector.kind == "timeout" and (
                since_ps == died_ps or (since_ps > died_ps and self._calling(rank, since_ps))
            )
            assert waited or (rank, failed, since_ps) in self.unheard, mark
        elif how == "heartbeat":
            assert self.detector.kind == "heartbeat"
            self._check_silence(failed, rank, when_ps)
        else:
            call = {"agreement": "ulfm", "broadcast": "detector"}[how]
            assert any(
                message.taken_ps <= when_ps
                and (how == "agreement" or message.taken_ps == when_ps)
                and self.run.learned_ps.get((failed, message.source), FOR_EVER_PS) <= message.sent_ps
                for message in self.notices[call, rank]
            ), mark

    def _calling(self, rank: int, time_ps: int) -> bool:
        """Whether a rank has a call in progress at that time."""
        return any(
            record.since_ps <= time_ps <= (FOR_EVER_PS if record.end_ps is None else record.end_ps)
            for record in self.run.journal.records[rank]
        )

    def _check_silence(self, failed: int, rank: int, when_ps: int) -> None:
        """The next rank in the ring misses a sign of life; if it is dead, the next one finds out about both."""
        ranks = self.run.scenario.ranks
        died_ps = self.run.died_ps[failed]
        next_rank = (failed + 1) % ranks
        last_ps = died_ps // self.detector.period_ps * self.detector.period_ps
        noticed_ps = last_ps + self.network.link(failed, next_rank).latency_ps + self.detector.timeout_ps
        if rank == next_rank:
            assert when_ps == noticed_ps
            return
        between = [(failed + step) % ranks for step in range(1, (rank - failed) % ranks)]
        assert all(self.run.death_ps(other) <= when_ps for other in between)
        assert when_ps >= noticed_ps + len(between) * self.detector.timeout_ps

    # ---------------------------------------------------------------------------------------------- revocations

    def check_revoked(self) -> None:
        """A rank knows of a revocation by its own call, or from a message of one who knew."""
        calls = {(record.since_ps, rank) for rank, record in self.run.journal.all() if record.call == "Revoke"}
        known: dict[str, list[tuple[int, int]]] = defaultdict(list)
        marks = sorted(mark for mark in self.trace.marks if mark.kind == "revoked")
        for mark in marks:
            known[mark.text].append((mark.time_ps, mark.rank))
        for mark in marks:
            own = any(rank == mark.rank and at_ps <= mark.time_ps for at_ps, rank in calls)
            told = any(
                message.taken_ps == mark.time_ps
                and any(rank == message.source and at_ps <= message.sent_ps for at_ps, rank in known[mark.text])
                for message in self.notices["revocation", mark.rank]
            )
            near = self.revoke == "local" and any(
                at_ps + self.network.link(rank, mark.rank).latency_ps <= mark.time_ps for at_ps, rank in calls
            )
            assert own or told or near, mark
