"""Examples drawn by hypothesis, the same on all ranks of a test.

Hypothesis searches for a smaller example if a test fails. If only some ranks fail, the others would not take part in
the search. Then a failed rank leaves hypothesis with its exception.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import partial, wraps
from itertools import count
from typing import Any

from xsim_py.process.ranks import current, private_state

from .rank_waits import RankWaits

_NAME = "hypothesis.control"


def isolate_example() -> None:
    """Make the current example of hypothesis, kept per thread, private to the running rank."""
    control: Any = sys.modules.get(_NAME)
    if control is not None:
        # The garbage collector does not search objects from before the run, nor find their referrers.
        warnings.filterwarnings("ignore", "It looks like `register_random`")
        context = control._current_build_context
        setting = private_state.Setting(lambda: context.value, partial(setattr, context, "value"))
        private_state.touch(current.rank(), f"{_NAME}.context", setting)


class PartialFailure(BaseException):
    """An `error` in an example that fails on some ranks only; hypothesis passes it through."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Examples:
    """The examples of a test, by number, with the outcomes of the ranks."""

    def __init__(self, waits: RankWaits) -> None:
        self._waits = waits
        self._failed: defaultdict[int, set[int]] = defaultdict(set)
        self._passed: set[int] = set()

    def compared(self, test: Callable[..., object], drawn: Collection[str]) -> object:
        """Return the body of a test, with failures compared between ranks."""
        from hypothesis.core import failure_exceptions_to_catch
        from hypothesis.errors import UnsatisfiedAssumption

        numbers, rank = count(), current.rank()

        @wraps(test)
        def example(*args: object, **named: object) -> object:
            number = next(numbers)
            try:
                result = test(*args, **named)
            except UnsatisfiedAssumption:
                self._passed.add(number)
                raise
            except failure_exceptions_to_catch() as error:
                self._failed[number].add(rank.number)
                if self._fails_everywhere(number, rank.shard.population):
                    raise
                values = ", ".join(f"{name}={value!r}" for name, value in named.items() if name in drawn)
                error.add_note(f"Example: {values}")
                raise PartialFailure(error) from None
            self._passed.add(number)
            return result

        return example

    def _fails_everywhere(self, number: int, ranks: int) -> bool:
        """Wait until all ranks have failed, or until one has passed or waits for this rank."""
        failed = self._failed[number]
        self._waits.until(lambda: number in self._passed or len(failed) == ranks)
        return len(failed) == ranks


def draw_same_examples(function: Any, seed: int, examples: Examples) -> None:
    """Make a test draw the same examples on all ranks, unless it is configured otherwise."""
    function = getattr(function, "__func__", function)
    if not getattr(function, "is_hypothesis_test", False):
        return
    isolate_example()
    from hypothesis import Phase, core
    from hypothesis import seed as seeded
    from hypothesis import settings as made_settings

    settings = function._hypothesis_internal_use_settings
    # It would explain a failure by lines of all ranks and of the simulator.
    phases = [phase for phase in settings.phases if phase is not Phase.explain]
    function._hypothesis_internal_use_settings = made_settings(settings, phases=phases)
    if function._hypothesis_internal_use_seed is None and not settings.derandomize and core.global_force_seed is None:
        seeded(seed)(function)
    handle = function.hypothesis
    handle.inner_test = examples.compared(handle.inner_test, getattr(handle, "_given_kwargs", ()))
