import functools
import io
import itertools
import queue
import random
import threading
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tests.testing.running import run
from xsim_py.testing.copies import Copies


class Sampler:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)


class OnlyDeep:
    """Is copied by `copy.deepcopy` only."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("not by pickle")

    def __deepcopy__(self, memo: Any) -> "OnlyDeep":
        made = OnlyDeep()
        made.seen += self.seen
        return made


class NeedsArgument:
    """Can be taken apart, and not be made again."""

    def __new__(cls, seen: list[int]) -> "NeedsArgument":
        return super().__new__(cls)

    def __init__(self, seen: list[int]) -> None:
        self.seen = seen


def added(seen: Any) -> int:
    seen.append(1)
    return len(seen)


def drawn(array: Any) -> float:
    array[0] += 1
    return float(array[0])


def called(double: Any) -> int:
    double()
    return int(double.call_count)


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "generator": (lambda: np.random.default_rng(0), lambda it: it.random()),
    "RandomState": (lambda: np.random.RandomState(0), lambda it: it.rand()),
    "Random": (lambda: random.Random(1), lambda it: it.random()),
    "method": (lambda: random.Random(1).random, lambda it: it()),
    "partial": (lambda: functools.partial(random.Random(1).random), lambda it: it()),
    "deque": (deque, added),
    "bytearray": (bytearray, added),
    "Counter": (Counter, lambda it: (it.update("a"), it["a"])),
    "masked": (lambda: np.ma.zeros(1), drawn),
    "array": (lambda: np.zeros(3, order="F"), drawn),
    "array of objects": (lambda: np.array([[1], 2], dtype=object), lambda it: added(it[0])),
    "namespace": (lambda: SimpleNamespace(seen=[]), lambda it: added(it.seen)),
    "StringIO": (io.StringIO, lambda it: (it.write("a"), it.getvalue())),
    "Queue": (queue.Queue, lambda it: (it.put(1), it.qsize())),
    "Event": (threading.Event, lambda it: (it.is_set(), it.set())),
    "Mock": (mock.Mock, called),
    "Mock of a class": (lambda: mock.Mock(spec=Path), lambda it: called(it.exists)),
    "count": (itertools.count, next),
    "iterator": (lambda: iter([1, 2]), next),
    "own class": (Sampler, lambda it: it.rng.random()),
    "inside": (lambda: {"of": [np.random.default_rng(0)]}, lambda it: it["of"][0].random()),
    "view of a dict": (lambda: MappingProxyType({"of": []}), lambda it: added(it["of"])),
    "deepcopy": (OnlyDeep, lambda it: added(it.seen)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_independent_of_what_is_copied_and_of_other_copies(kind: str):
    make, change = KINDS[kind]
    copies = Copies({"it": make()}, lambda name: False)
    assert change(copies.get()["it"]) == change(copies.get()["it"]) == change(make())
    assert copies.uncopied == {}


def test_what_two_values_have_in_common_stays_common():
    rng = np.random.default_rng(0)
    found = Copies({"rng": rng, "sampler": [rng, rng.bit_generator]}, lambda name: False).get()
    assert found["sampler"][0] is found["rng"] is not rng
    assert found["sampler"][1] is found["rng"].bit_generator


def test_an_object_of_a_private_class_is_one_of_the_class_that_is_found_by_name(monkeypatch: pytest.MonkeyPatch):
    copies = Copies({"it": Sampler()}, lambda name: name == __name__)
    own = type("Sampler", (), {"__module__": __name__})
    monkeypatch.setitem(globals(), "Sampler", own)
    assert type(copies.get()["it"]) is own


@pytest.mark.parametrize(
    "thing",
    [
        pytest,
        Path,
        added,
        added.__code__,
        lambda: 3,
        len,
        pytest.MonkeyPatch(),
        object(),
        functools.lru_cache(lambda: 3),
        np.sin,
        np.broadcast_to(1.0, (2, 2)),
    ],
)
def test_what_nothing_changes_stays_one_object_and_is_not_named(thing: Any):
    copies = Copies({"it": [thing]}, lambda name: False)
    assert copies.get()["it"][0] is thing
    assert copies.uncopied == {}


def deep_list() -> list[Any]:
    return functools.reduce(lambda inner, _: [inner], range(100_000), [])


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: (each for each in ()), "generator"),
        (lambda: memoryview(b"a"), "memoryview"),
        (lambda: NeedsArgument([]), "NeedsArgument"),
        (deep_list, "list"),
    ],
)
def test_what_cannot_be_copied_is_named_and_all_else_is_copied(make: Callable[[], Any], kind: str):
    it, seen = make(), list[int]()
    copies = Copies({"seen": seen, "it": it, "with": [seen]}, lambda name: False)
    found = copies.get()
    assert copies.uncopied == {"it": [kind]}
    assert found["it"] is it
    assert found["with"][0] is found["seen"] is not seen


SHARES = """
import numpy as np
import pytest

import library

numbers = None

def setup_module():
    global numbers
    numbers = (each for each in range(9))

@pytest.fixture(scope="session")
def rng():
    return np.random.default_rng(0)

@pytest.fixture(scope="session")
def lines():
    yield (line for line in "abc")

@pytest.fixture
def late():
    return [], library

@pytest.fixture(params=[[]])
def seen(comm, request):
    request.param.append(comm.rank)
    return request.param

@pytest.mark.ranks(3)
@pytest.mark.parametrize("again", [False, True])
def test_each_rank_has_its_own(comm, rng, lines, seen, request, monkeypatch, capsys, tmp_path, caplog, again):
    assert len(set(comm.allgather(rng.random()))) == 1
    held, module = request.getfixturevalue("late")
    held.append(1)
    assert len(held) == len(seen) == 1 and module is library
"""


def test_fixtures_are_copied_for_each_rank_and_one_warning_names_the_others(tmp_path: Path):
    (tmp_path / "test_shares.py").write_text(SHARES)
    (tmp_path / "library.py").write_text("VALUE = 7\n")
    session = run(tmp_path)
    assert set(session.outcomes.values()) == {"PASSED"}, session.text
    said = "fixture lines (generator), test_shares.numbers (generator); a fixture that uses comm is set up on each"
    assert session.text.count("PytestWarning: cannot be copied") == 1, session.text
    assert said in session.text
