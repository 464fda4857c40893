"""The failure model: from the statements about failures to the failures of each rank."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

from xsim_py.config import DrawSpec, MachineSpec
from xsim_py.config.entries import Problem, raise_all
from xsim_py.failure.components import Components
from xsim_py.failure.draws import Renewals
from xsim_py.failure.schedule import INJECTED, CallSite, Failure, Schedule
from xsim_py.failure.sources import impossible_failures, read_failures
from xsim_py.failure.statements import Timed

_NEVER_PS: Final = 1 << 200


def check_failures(spec: MachineSpec) -> None:
    """Check the section ``failures`` of a description, except for numbers of ranks.

    Raises a `ConfigError` with one line per problem.
    """
    raise_all(read_failures(spec, (), None).problems)


class FailureModel:
    """The failures of all ranks, on one machine with one seed.

    Raises a `ConfigError` with one line per problem.
    """

    def __init__(
        self,
        spec: MachineSpec,
        *,
        extra: Sequence[str] = (),  # more failures, in the form of ``--fail``
        ranks: int,
        node_of: Sequence[int],  # by rank
        # The number of ranks that fit on a node; None: as many as on the fullest node.
        cores_per_node: int | None = None,
        seed: int,
        # The valid names of calls, including the name for any call; None: all names are valid.
        known_calls: Collection[str] | None = None,
    ) -> None:
        sources = read_failures(spec, extra, known_calls)
        self._ranks = ranks
        self._components = Components(sources.levels, node_of=node_of, cores_per_node=cores_per_node)
        present = sources
        if spec.spawn.universe is not None:  # absent ranks may be spawned later
            present = sources._replace(explicit=[entry for entry in sources.explicit if self._exists(entry[1])])
        raise_all([*sources.problems, *impossible_failures(present, self._components)])
        explicit = [what for _, what in sources.explicit]
        self._timed = [what for what in explicit if isinstance(what, Timed)]
        self._sites = tuple(what for what in explicit if isinstance(what, CallSite))
        self.has_sites = bool(self._sites)
        # The ranks that fail some time into one of their calls.
        self.failing_inside_calls = frozenset(site.rank for site in self._sites if site.into_ps is not None)
        self._events = sorted(event for _, event in sources.events)
        self._faults = [entry for entries in sources.faults.values() for entry in entries]
        # Those of each kind in this run, as in a `Schedule`.
        self.faults = {
            name: sorted((fault for _, fault in entries), key=attrgetter("at_ps", "rank"))
            for name, entries in sources.faults.items()
        }
        self._renewals = list(self._make_renewals([draw for _, draw in sources.draws], seed))

    def _make_renewals(self, draws: Sequence[DrawSpec], seed: int) -> Iterator[Renewals]:
        before: Counter[str] = Counter()
        for draw in draws:
            count = self._components.count(draw.per)
            yield Renewals(draw, occurrence=before[draw.per], count=count, seed=seed)
            before[draw.per] += 1

    def _exists(self, what: Timed | CallSite) -> bool:
        """Return True if a statement concerns an existing rank, or one that can never exist."""
        level, number = ("rank", what.rank) if isinstance(what, CallSite) else (what.level, what.number)
        return number < 0 or bool(self._components.members(level, number))

    def check_for_ftco(self) -> None:
        """Raise an error for faults that a run with collectives by FTCO cannot have."""
        raise_all([Problem(place, "", why) for place, fault in self._faults if (why := fault.not_with_ftco)])

    def never_came(self, occurred: Collection[str], begin_ps: int) -> list[str]:
        """Return, as written, the faults after a time that have not occurred."""
        past = {*occurred, *self.past_at(begin_ps)}
        return [text for each in chain(*self.faults.values()) if (text := str(each)) not in past]

    def past_at(self, begin_ps: int) -> list[str]:
        """Return, as written, the failures and other faults up to the time at which a job resumes."""
        every = [(each.time_ps, str(each)) for each in self._timed]
        every += [(each.at_ps, str(each)) for each in chain(*self.faults.values())]
        return [text for time_ps, text in every if 0 < begin_ps >= time_ps]

    @property
    def can_fail(self) -> bool:
        """True if processes can fail.

        A hang becomes a failure only in a fault-tolerant run.
        """
        return bool(self._timed or self._sites or self._events or self._renewals)

    def schedule(self, start_ps: int = 0, *, struck: Collection[CallSite] = ()) -> Schedule:
        """Return the failures of one start of the job.

        The job starts at `start_ps`. A failure at that very time is over, except at time zero. The call sites `struck`,
        at which earlier starts have lost a rank, do not apply again. The schedule has for each rank its earliest
        failure, if any, and all remaining call sites.
        """
        after_ps = start_ps if start_ps else -1
        times_ps = [_NEVER_PS] * self._ranks
        causes: list[str | Renewals] = [""] * self._ranks
        for time_ps, level, number, cause in self._single_failures(after_ps):
            for rank in self._components.members(level, number):
                if time_ps < times_ps[rank]:
                    times_ps[rank], causes[rank] = time_ps, cause
        for renewals in self._renewals:
            next_ps = renewals.next_ps(after_ps)
            for rank, component in enumerate(self._components.of_ranks(renewals.draw.per)):
                if next_ps[component] < times_ps[rank]:
                    times_ps[rank], causes[rank] = next_ps[component], renewals
        dying = [rank for rank, time_ps in enumerate(times_ps) if time_ps < _NEVER_PS]
        dying.sort(key=times_ps.__getitem__)  # stable: simultaneous failures stay in the order of ranks
        timed = tuple(Failure(rank, times_ps[rank], self._cause(causes[rank], rank)) for rank in dying)
        sites = tuple(site for site in self._sites if site not in struck)
        written = {f"{INJECTED}{what}": str(what) for what in self._timed}
        injected = {(rank, cause): written[cause] for rank, _, cause in timed if cause in written}
        faults = {name: [each for each in every if each.at_ps > after_ps] for name, every in self.faults.items()}
        written_sites = {(site.rank, site.cause): str(site) for site in sites}
        return Schedule(timed, sites, injected | written_sites, faults)

    def of_spawned(self, number: int, node: int, begin_ps: int) -> Failure | None:
        """Return the failure of a spawned rank on a node, or None."""
        found: list[tuple[int, str]] = []
        for time_ps, level, component, cause in self._single_failures(begin_ps):
            if self._components.of_spawned(level, number, node) == component:
                found.append((time_ps, cause))
        for renewals in self._renewals:
            own_component = self._components.of_spawned(renewals.draw.per, number, node)
            if own_component is not None:
                found.append((renewals.next_of_ps(own_component, begin_ps), renewals.cause(own_component)))
        return Failure(number, *min(found)) if found else None

    def node_fails(self, node: int, time_ps: int) -> bool:
        """Return True if a whole node fails at a time, alone or with a larger component."""

        def holds(level: str, number: int) -> bool:
            return self._components.of_spawned(level, -1, node) == number  # -1: no rank

        traced = self._events[bisect_left(self._events, (time_ps,)) : bisect_left(self._events, (time_ps + 1,))]
        if any(holds(what.level, what.number) for what in self._timed if what.time_ps == time_ps):
            return True
        if any(holds(event.level, event.number) for event in traced):
            return True
        for renewals in self._renewals:
            own_component = self._components.of_spawned(renewals.draw.per, -1, node)
            if (
                own_component is not None
                and own_component >= 0
                and renewals.next_of_ps(own_component, time_ps - 1) == time_ps
            ):
                return True
        return False

    def _cause(self, cause: str | Renewals, rank: int) -> str:
        if isinstance(cause, str):
            return cause
        return cause.cause(self._components.of_ranks(cause.draw.per)[rank])

    def _single_failures(self, after_ps: int) -> Iterator[tuple[int, str, int, str]]:
        """Yield the explicit failures and, for each component, its first failure in the traces."""
        for what in self._timed:
            if what.time_ps > after_ps:
                yield what.time_ps, what.level, what.number, f"{INJECTED}{what}"
        seen = set()
        for event in self._events[bisect_left(self._events, (after_ps + 1,)) :]:
            component = (event.level, event.number)
            if component not in seen:
                seen.add(component)
                yield event.time_ps, *component, event.cause
