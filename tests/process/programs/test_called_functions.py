"""What ranks get of a function that is simulated, and of its arguments, and what they give back."""

import enum
import functools
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest

from xsim_py import simulate
from xsim_py.process.programs.called_functions import copy_of

try:  # as a program's module does, whose rank differs
    from xsim_py.process.ranks.current import rank_number

    NUMBER = rank_number()
except Exception:
    NUMBER = -1

pytestmark = pytest.mark.private_modules

counter = [0]


class Mode(enum.Enum):
    FAST = 1


@dataclass
class Settings:
    mode: Mode = Mode.FAST
    seen: list[int] = field(default_factory=list)

    def count(self) -> int:
        self.seen.append(NUMBER)
        return len(self.seen)


def top_level(*given):
    counter[0] += 1
    return NUMBER, counter[0], given


def knows(settings, array):
    settings.seen.append(NUMBER)
    return isinstance(settings, Settings), settings.mode is Mode.FAST, settings.seen, array[0]


def gives():
    return [Settings(seen=[NUMBER])]


def appends(seen):
    seen.append(NUMBER)


@pytest.mark.parametrize("call", [top_level, functools.partial(top_level)])
def test_each_rank_calls_the_function_of_its_own_copy_of_a_module(call):
    here = sys.modules[__name__]
    assert simulate(call, ranks=3).values == [(0, 1, ()), (1, 1, ()), (2, 1, ())]
    assert (counter, sys.modules[__name__]) == ([0], here)


def test_a_closure_shares_the_globals_of_its_module():
    assert simulate(lambda: NUMBER, ranks=2).values == [-1, -1]


def test_arguments_of_private_classes_are_copied_for_each_rank_and_others_are_not():
    settings, array, seen = Settings(), np.arange(3), []
    assert simulate(knows, ranks=2, args=[settings, array]).values == [(True, True, [n], 0) for n in (0, 1)]
    assert settings.seen == []
    simulate(appends, ranks=2, args=[seen])
    assert seen == [0, 1]
    assert simulate(settings.count, ranks=2).values == [1, 1]


def test_values_come_back_as_the_host_knows_them():
    assert simulate(gives, ranks=2).values == [[Settings(seen=[0])], [Settings(seen=[1])]]


def test_shared_things_are_kept_in_a_copy():
    thing = object()
    copy = copy_of([Settings, thing], lambda name: name == __name__)
    assert copy is not None
    kind, same = copy.get()
    assert (kind, same) == (Settings, thing)
    assert copy_of([thing, len], lambda name: name == __name__) is None
    assert copy_of([Settings, lambda: None], lambda name: name == __name__) is None


def test_modules_that_are_shared_by_wish_are_not_executed_again():
    assert simulate(top_level, ranks=2, share=__name__.partition(".")[0]).values == [(-1, 1, ()), (-1, 2, ())]
    counter[0] = 0
