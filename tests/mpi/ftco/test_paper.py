"""FTCO's own rules: whoever dies, and whenever, all who live end with one result that has every survivor in it once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mpi.ftco.world import Scenario, World, failing, happenings
from xsim_py.mpi.ftco.node import ACK, DATA, KEEPALIVE
from xsim_py.mpi.ftco.paper import OPERATIONS, PaperNode
from xsim_py.mpi.ftco.trees import tree


@st.composite
def scenarios(draw: st.DrawFn, most: int = 64) -> Scenario:
    size = draw(st.integers(1, 10) | st.integers(1, most))
    radix = draw(st.integers(2, 6))
    roots = draw(st.sampled_from(["single", "multi"] if radix <= size else ["single"]))
    shape = tree(size, draw(st.sampled_from(["kary", "knomial"])), radix=radix, roots=roots)
    return Scenario(tree=shape, size=size, operation=draw(st.sampled_from(OPERATIONS)), **draw(happenings(size)))


@given(scenarios())
def test_all_who_live_have_one_result_with_every_survivor_in_it_once(scenario):
    World(scenario).play().check()


class Hasty(PaperNode):
    """Decides as a root does that knows of no dead root, though it does."""

    @property
    def _has_failed_root(self) -> bool:
        return False


class Deserting(PaperNode):
    """Answers nobody once it is done, as the authors' simulator."""

    def deliver(self, packet, now):
        if not self.may_return:
            super().deliver(packet, now)


def plain(size: int, operation: str, roots: str, **changes: object) -> Scenario:
    return Scenario(
        **{
            "tree": tree(size, radix=3, roots=roots),
            "size": size,
            "operation": operation,
            "order": "code",
            "timeout": 30,
            "slowest": 4,
            "starts": (0,) * size,
            "seed": 1,
            "patience": 20_000,
            **changes,
        }
    )


def test_these_checks_find_rules_that_are_too_simple():
    roots = [
        plain(9, "allreduce", "multi", last_acts={0: acts, 3: 1}, seed=seed)
        for acts in range(1, 12)
        for seed in range(10)
    ]
    assert failing(Hasty, roots)
    assert not failing(PaperNode, roots)
    downward = [
        plain(12, "bcast", "single", last_acts={1: acts}, seed=seed) for acts in range(1, 8) for seed in range(5)
    ]
    assert failing(Deserting, downward)
    assert not failing(PaperNode, downward)


@pytest.mark.sampled
@pytest.mark.parametrize("roots", ["single", "multi"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_every_node_dies_after_every_one_of_its_actions(size, operation, roots):
    """And every pair of nodes, in groups of up to 4."""
    if roots == "multi" and size < 3:
        return
    whole = World(plain(size, operation, roots)).play()
    whole.check()
    for first in range(size):
        for acts in range(whole.acts[first] + 2):
            deaths = {"last_acts": {first: acts}} if acts else {"deaths": {first: 0}}
            World(plain(size, operation, roots, **deaths)).play().check()
            if size > 4:
                continue
            for second in range(first):
                for others in range(1, whole.acts[second] + 6):
                    last = {**deaths.get("last_acts", {}), second: others}
                    World(plain(size, operation, roots, **{**deaths, "last_acts": last})).play().check()


@pytest.mark.parametrize(("operation", "values"), [("allreduce", 2), ("bcast", 1), ("reduce", 1)])
def test_without_failures_each_link_has_a_value_in_each_direction_and_at_most_a_receipt_for_it(operation, values):
    size = 40
    world = World(plain(size, operation, "single", timeout=1000))
    world.play().check()
    assert world.sent[DATA] == values * (size - 1)
    assert world.sent[KEEPALIVE] == 0
    # A value is a receipt, too, for what has come from where it goes to.
    assert (values - 0.5) * (size - 1) < world.sent[ACK] <= values * (size - 1)
