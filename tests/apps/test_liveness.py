"""Liveness discovery as a plain program: the lists that the simulator's own calls find, and the same hang."""

import re
from itertools import pairwise

import pytest

from tests.apps.helpers import simulated
from tests.campaign import CAMPAIGN
from tests.mpi.failures.liveness_world import known_dead, listed

APP = "liveness.py"


def dying(*dead: int) -> list[object]:
    return [word for rank in dead for word in ("--die", rank)]


@pytest.mark.sampled
@pytest.mark.parametrize("variant", ["naive", "legio", "repaired", "safe"])
@pytest.mark.parametrize("dead", [(), (2, 5), (0, 4, 6), (0, 1, 2, 3, 5)])
@pytest.mark.parametrize("shards", [1, 3])
def test_it_finds_whom_the_state_machine_finds(variant: str, dead: tuple[int, ...], shards: int):
    run = simulated(APP, "--variant", variant, *dying(*dead), ranks=8, ft=True, shards=shards)
    lists = {tuple(listed(member) or ()) for member in known_dead(8, dead, variant)[0].values()}
    first, second, _ = run.out.splitlines()
    assert first == f"liveness: {variant}, 8 ranks, {len(dead)} dead, a group of 8"
    assert second == f"found: {min(map(len, lists))} alive, {len(lists)} list{'s' * (len(lists) > 1)}"
    assert run.status == (len(lists) > 1)


def test_legio_hangs_and_the_others_do_not():
    for variant, status in (("legio", 3), ("repaired", 0), ("safe", 0)):
        assert simulated(APP, "--variant", variant, *dying(0, 1, 2, 3, 4), ranks=7, ft=True).status == status


def test_with_the_first_half_dead_twice_the_group_takes_twice_the_time():
    """The worst case, which the paper calls linear: who takes over asks each of the dead before it in turn."""
    took = []
    for size in (16, 32, 64):
        run = simulated(
            APP, "--variant", "repaired", *dying(*range(size // 2)), ranks=size, ft=True, machine="karolina"
        )
        found = re.search(r"discovery ([0-9.]+) us", run.out)
        assert found
        took.append(float(found[1]))
    assert [later / before for before, later in pairwise(took)] == pytest.approx([2, 2], rel=0.02)


@pytest.mark.sampled
@pytest.mark.parametrize("victim", range(5))
def test_the_safe_variant_survives_a_death_at_any_time(victim: int):
    """From before the discovery to the end of the program; a late death may stop the report, but nothing hangs."""
    for at_us in range(51_060, 51_200, 23 if CAMPAIGN else 46):
        run = simulated(APP, "--variant", "safe", ranks=5, ft=True, fail=f"rank={victim}@{at_us}us")
        assert run.status != 3
        found = re.search(r"found: (\d) alive, (\d) list", run.out)
        assert found is None or found[2] == "1"


def test_calls_are_measured_and_nonsense_is_refused():
    run = simulated(APP, "--variant", "repaired", "--calls", 1, "--dead", 25, ranks=8, ft=True)
    names = re.findall(r"^time: (\w+) ", run.out, re.MULTILINE)
    assert names == ["discovery", "Agree", "Shrink", "agree_group", "shrink_group", "create", "overhead"]
    assert simulated(APP, "--group", 9, ranks=8, ft=True).status == 2
    assert simulated(APP, "--die", 8, ranks=8, ft=True).status == 2
