"""The order in which the runs of a study start, and the time left, by estimated costs.

Before any run is finished, the cost is the rank count times the square root of each other number in the columns. Ridge
regression multiplies this, for each column, by a factor per name, or by a power of the number whose exponent may grow
with it, as in costs like a + b n. What the finished runs have not varied yet stays as it was.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from xsim_py.study.columns import key_columns, ruler_of
from xsim_py.study.description import StudySpec
from xsim_py.study.plan import PlannedRun
from xsim_py.study.template import text_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_TERMS: Final = 32
"""A column with more names than this is ignored."""
_PENALTY: Final = 0.1
"""Ratio of the variance of a measured logarithm to that of a coefficient."""
_EXPONENT: Final = 0.5
"""The power of a number, such as a size, with which the cost grows unless runs show a different one."""
_SHORTEST_S: Final = 1e-3


class RunQueue(Iterator[PlannedRun]):
    """The runs to do, longest first; what `finished` reports improves the estimates.

    `before` are finished runs with their wall-clock times in seconds. `workers` is the number of runs at once; 0 if it
    is unknown, and a run counts only when it is finished. `begun` has the indices in `todo` of the runs yielded.
    """

    def __init__(
        self,
        spec: StudySpec,
        todo: Sequence[PlannedRun],
        before: Iterable[tuple[PlannedRun, float]] = (),
        *,
        workers: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        known = list(before)
        self.begun: list[int] = []
        self.todo = todo
        self._workers = workers
        self._clock = clock
        self._since_s = clock()
        self._terms = _terms(spec, [*todo, *(run for run, _ in known)])
        self._measured_s = {len(todo) + index: seconds for index, (_, seconds) in enumerate(known)}
        self._waiting = list(range(len(todo)))
        self._started_s: dict[int, float | None] = {}  # None where all workers are busy
        self._done_s = 0.0
        self._fit()

    def __next__(self) -> PlannedRun:
        if not self._waiting:
            raise StopIteration
        number = self._waiting.pop()
        self.begun.append(number)
        self._started_s[number] = None
        self._give()
        return self.todo[number]

    def finished(self, place: int, seconds: float | None) -> None:
        """Take the wall-clock time of the run at a place in `begun`; None for a run that was lost."""
        number = self.begun[place]
        started_s = self._started_s.pop(number)
        if seconds is not None:
            self._measured_s[number] = seconds
        elif started_s is not None:
            seconds = self._clock() - started_s
        self._ahead_s -= self._costs_s[number] if started_s is None else 0.0
        self._done_s += seconds or 0.0
        self._give()
        if len(self._measured_s) > 1.1 * self._fitted:  # not after each of a million
            self._fit()

    def left_s(self) -> float | None:
        """Return the estimated seconds until all runs are finished; None before the first one is."""
        if not self._done_s or not self._fitted:
            return None
        now_s = self._clock()
        running = list(islice(self._started_s.items(), self._workers))
        costs = [(self._costs_s[number], now_s - (now_s if at_s is None else at_s)) for number, at_s in running]
        spent_s = math.fsum(min(cost, elapsed) for cost, elapsed in costs)
        left = [max(cost - elapsed, 0.0) for cost, elapsed in costs]
        longest_s = max([*left, *(self._costs_s[number] for number in self._waiting[-1:])], default=0.0)
        elapsed_s = max(now_s - self._since_s, _SHORTEST_S)
        rate = (self._done_s + spent_s) / elapsed_s  # of all workers, with their idle time
        return max((max(self._ahead_s, 0.0) + math.fsum(left)) / rate, longest_s)

    def _give(self) -> None:
        """Note the start of the runs for which there is a worker."""
        for number in islice(self._started_s, self._workers):
            if self._started_s[number] is None:
                self._started_s[number] = self._clock()
                self._ahead_s -= self._costs_s[number]

    def _fit(self) -> None:
        self._fitted = len(self._measured_s)
        self._costs_s = _fitted(self._terms, self._measured_s)
        self._waiting.sort(key=lambda number: (self._costs_s[number], -number))
        queued = [number for number, at_s in self._started_s.items() if at_s is None]
        self._ahead_s = math.fsum(self._costs_s[number] for number in (*self._waiting, *queued))


def _terms(spec: StudySpec, runs: Sequence[PlannedRun]) -> NDArray[np.float64]:
    """Return one row per run: the logarithm of its initial cost, 1, and its columns' terms."""
    import numpy as np

    prior = [math.log(run.arguments.get("ranks", 1)) for run in runs]
    columns = [[1.0] * len(runs)]
    for name in key_columns(spec):
        values = {text_of(run.columns[name]): run.columns[name] for run in runs}
        ruler = ruler_of(spec, name, values.values())
        places = {} if ruler is None else {text: ruler.place(value) for text, value in values.items()}
        if len(values) < 2:
            continue
        if places and 0 < min(places.values()) < max(places.values()):
            logs = {text: math.log(place) for text, place in places.items()}
            low, high = min(logs.values()), max(logs.values())
            scaled = {text: (2 * log - low - high) / (high - low) for text, log in logs.items()}
            terms: list[Mapping[str, float]] = [scaled, {text: place**2 for text, place in scaled.items()}]
            if name != "ranks" and "." not in name:  # keys of the machine hardly change the work of the host
                prior = [
                    log + _EXPONENT * logs[text_of(run.columns[name])] for log, run in zip(prior, runs, strict=True)
                ]
        else:
            terms = [{text: 1.0} for text in values] if len(values) <= _MOST_TERMS else []
        columns += [[term.get(text_of(run.columns[name]), 0.0) for run in runs] for term in terms]
    return np.array([prior, *columns]).T


def _fitted(terms: NDArray[np.float64], measured_s: Mapping[int, float]) -> list[float]:
    """Return the estimated cost of each run in seconds; before any is measured, a relative cost."""
    import numpy as np

    prior, terms = terms[:, 0], terms[:, 1:]
    if not measured_s:
        return np.exp(np.clip(prior, -30, 30)).tolist()  # type: ignore[no-any-return]
    known = list(measured_s)
    seconds = np.maximum(list(measured_s.values()), _SHORTEST_S)
    penalty = np.full(terms.shape[1], _PENALTY)
    penalty[0] = 1e-9
    seen = terms[known]
    normal = seen.T @ seen + np.diag(penalty)
    coefficients = np.linalg.solve(normal, seen.T @ (np.log(seconds) - prior[known]))
    costs = np.exp(np.clip(prior + terms @ coefficients, -30, 30).round(9))
    return (costs * (seconds.sum() / costs[known].sum())).tolist()  # type: ignore[no-any-return]
