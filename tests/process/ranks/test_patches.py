"""What is replaced by `Patches`, of what it is made, and that it comes back."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches, Wrapper, in_ranks, watched, with_real


class Base:
    kind = "base"

    def greet(self, name="you"):
        return f"hello {name}"

    @classmethod
    def made(cls):
        return cls()

    @staticmethod
    def twice(number):
        return 2 * number


class Derived(Base):
    pass


@pytest.fixture
def module(monkeypatch):
    found = ModuleType("patched_here")
    found.Base, found.Derived, found.number, found.text = Base, Derived, 7, str
    found.settings = SimpleNamespace(color="red")
    monkeypatch.setitem(sys.modules, "patched_here", found)
    return found


@pytest.fixture
def rank(monkeypatch):
    """Tells who is running: a rank, as long as it is not set to None."""
    running = SimpleNamespace(rank=SimpleNamespace(number=3))
    monkeypatch.setattr(current, "here", lambda: running if state.inside else None)
    state = SimpleNamespace(inside=True, rank=running.rank)
    return state


def test_rows_name_modules_classes_functions_and_objects(module):
    table = (
        ("patched_here", "real", {"number": 8}),
        ("patched_here.Base", "real", {"kind": "another"}),
        ("patched_here.Base.greet", "real", {"__defaults__": ("me",)}),
        ("patched_here.settings", "real", {"color": "blue"}),
    )
    with Patches() as run:
        run.install(table)
        assert (module.number, Base.kind, Base().greet(), module.settings.color) == (8, "another", "hello me", "blue")
    assert (module.number, Base.kind, Base().greet(), module.settings.color) == (7, "base", "hello you", "red")


def test_a_module_is_imported_for_what_is_to_be_replaced_in_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with Patches() as run:
        run.install((("colorsys", "real", {"ONE_THIRD": 8}),))
        assert sys.modules["colorsys"].ONE_THIRD == 8


def test_what_is_not_there_is_left_out(module, monkeypatch):
    monkeypatch.delitem(sys.modules, "sched", raising=False)
    with Patches() as run:
        run.install(
            (
                ("sched.scheduler", "real", {"number": 8}),
                ("patched_here.Missing.inner", "real", {"number": 8}),
                ("patched_here", "real", {"missing": 8, "absent": Wrapper(lambda real: real)}),
                ("patched_here.Base", "real", {"missing": Wrapper(lambda real: real)}),
            )
        )
        assert not hasattr(module, "missing")
        assert not hasattr(module, "absent")
        assert not hasattr(Base, "missing")


def test_a_class_gets_what_it_has_inherited_or_does_not_have_for_itself_until_the_end():
    with Patches() as run:
        run.set(Derived, "kind", "derived")
        run.set(Derived, "color", "green")
        assert (Derived.kind, Derived.color, Base.kind) == ("derived", "green", "base")
    assert not {"kind", "color"} & vars(Derived).keys()
    assert Derived.kind == "base"


def test_methods_of_classes_and_functions_in_them_come_back_as_what_they_were():
    before = vars(Base)["made"], vars(Base)["twice"]
    with Patches() as run:
        run.set(Base, "made", None)
        run.set(Base, "twice", None)
    assert (vars(Base)["made"], vars(Base)["twice"]) == before
    assert isinstance(Derived.made(), Derived)


def test_the_last_that_was_replaced_comes_back_first(module):
    with Patches() as run:
        run.install(
            (("patched_here", "real", {"number": 8}), ("patched_here", "real", {"number": Wrapper(int.__add__, 1)}))
        )
        assert module.number == 9
        run.at_end(lambda: seen.append(module.number))
        seen = []
    assert (seen, module.number) == ([9], 7)


def test_what_is_needed_late_is_replaced_for_the_same_run(module):
    with Patches() as run:
        run.install((("patched_here", "real", {"number": 8}),))
        Patches.latest.set(Base, "kind", "late")
    assert Base.kind == "base"


def test_a_function_is_replaced_for_ranks_only(module, rank):
    with Patches() as run:
        run.install((("patched_here", "virtual", {"text": in_ranks(lambda value: f"virtual {value}")}),))
        assert module.text(1) == "virtual 1"
        rank.inside = False
        assert module.text(1) == "1"


def test_a_function_is_watched_where_a_rank_calls_it(module, rank):
    seen = []
    with Patches() as run:
        table = {"text": watched(lambda *told: seen.append(told), "told")}
        run.install((("patched_here", "watched", table),))
        assert module.text(1) == "1"
        rank.inside = False
        assert module.text(2) == "2"
    assert seen == [(rank.rank, "told")]


def test_a_replacement_can_have_what_it_replaces(module):
    with Patches() as run:
        run.install((("patched_here", "real", {"text": with_real(lambda real, value: f"<{real(value)}>")}),))
        assert module.text(1) == "<1>"


def test_an_entry_of_a_table_and_what_was_in_one_come_back():
    table, kept = {"one": 1}, {"two": 2}
    with Patches() as run:
        run.put(table, "one", 10)
        run.keep(kept)
        kept["two"], kept["three"] = 20, 30
    assert (table, kept) == ({"one": 1}, {"two": 2, "three": 30})
