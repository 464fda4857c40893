"""Programs that put new processes in the place of those that die, whatever else dies meanwhile."""

import re

import pytest

from tests.apps.helpers import simulated
from tests.campaign import CAMPAIGN, dealt

LAST = "ft_replace: 6 ranks, heat 1000.000, hottest 102.578173, state 42de5d82\nright: True\n"
ROOM = {"spawn.universe": 32}  # so that processes can be named before they are started


def replaced(out: str) -> list[str]:
    return re.findall(r"^# replaced (.*) after", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("failures", "expected", "shards"),
    dealt(
        [
            ([], []),
            (["rank=2 before its 20th Sendrecv"], ["[2]"]),
            (["rank=0@300us"], ["[0]"]),
            (["rank=1@210us", "rank=3@210us", "rank=5@210us"], ["[1, 3, 5]"]),
            (
                ["rank=3@210us", "rank=0 before its 20th Sendrecv", "rank=1 after its 45th Sendrecv"],
                ["[3]", "[0]", "[1]"],
            ),
            (["rank=4 after its 1st allgather"], ["[4]"]),
        ],
        [1, 2, 3, 7],
    ),
)
def test_who_dies_is_replaced_and_the_result_stays(failures: list[str], expected: list[str], shards: int):
    run = simulated("ft_replace.py", ranks=6, fail=failures, ft=True, shards=shards)
    assert (replaced(run.out), run.status) == (expected, 0)
    assert run.out.endswith(LAST)


@pytest.mark.parametrize("machine", ["torus3d", "torus3dtt"])
def test_on_a_machine_that_is_full_the_core_of_who_died_is_used(machine: str):
    run = simulated("ft_replace.py", "--die", "2@7", "--die", "4@7", ranks=6, ft=True, machine=machine)
    assert replaced(run.out) == ["[2, 4]"]
    assert run.out.endswith(LAST)


def test_who_kills_itself_is_replaced():
    run = simulated("ft_replace.py", "--die", "2@7", "--die", "4@7", "--die", "1@22", ranks=6, ft=True)
    assert replaced(run.out) == ["[2, 4]", "[1]"]
    assert run.out.endswith(LAST)


def test_it_goes_on_until_one_of_the_first_processes_is_left():
    deaths = [word for death in ("0@2", "5@7", "1@12", "4@17", "3@22") for word in ("--die", death)]
    run = simulated("ft_replace.py", *deaths, ranks=6, ft=True)
    assert replaced(run.out) == ["[0]", "[5]", "[1]", "[4]", "[3]"]
    assert run.out.endswith(LAST)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "second",
    [
        *(f"rank=4 before its 1st {call}" for call in ("Shrink", "Spawn", "Merge", "bcast", "Split", "allgather")),
        *(f"rank=4 before its {which} Agree" for which in ("2nd", "3rd", "4th", "5th")),
        "rank=0 before its 1st bcast",
        "rank=4 before its 3rd Barrier",
        *(f"rank=6 before its 1st {call}" for call in ("Merge", "bcast", "Split", "Agree", "recv", "Barrier")),
        "rank=6 before its 3rd Sendrecv",
    ],
)
def test_a_second_failure_during_the_replacement_changes_nothing(second: str):
    """Rank 6 is the first new process."""
    failures = ["rank=2 before its 20th Sendrecv", second]
    shards = (1, 3) if CAMPAIGN else (3,)
    runs = [simulated("ft_replace.py", ranks=6, fail=failures, ft=True, set=ROOM, shards=n) for n in shards]
    assert all(run == runs[0] for run in runs)
    assert {f"injected: {failure}" for failure in failures} <= {*runs[0].causes}
    assert (runs[0].out.endswith(LAST), runs[0].err, runs[0].status) == (True, "", 0)


@pytest.mark.parametrize("neighbour", [1, 3])
def test_data_whose_copy_dies_too_are_named(neighbour: int):
    failures = ["rank=2 before its 20th Sendrecv", f"rank={neighbour} before its 1st Merge"]
    run = simulated("ft_replace.py", ranks=6, fail=failures, ft=True)
    assert run.out.endswith(f"lost: the data of ranks [{min(2, neighbour)}], with all copies\n")
    assert (run.err, run.status) == ("", 1)


def test_where_nothing_has_been_saved_yet_it_begins_again():
    run = simulated("ft_replace.py", ranks=6, fail=["rank=2@0", "rank=3@0"], ft=True)
    assert run.out.endswith(LAST)


def test_where_no_process_can_be_started_it_says_so():
    run = simulated("ft_replace.py", ranks=6, fail=["node=2@300us"], ft=True, set={"spawn.universe": 6})
    assert "ft_replace.py: 1 new processes cannot be started\n" in run.err
    assert run.status == 1


# -------------------------------------------------------------------------------------------------------- five phases

LATENCY, TIMEOUT, START = 20, 200, 240_000  # us, those of gige and its launcher
ONE_STEP = {
    "network.bandwidth": "unlimited",
    "mpi.collectives.barrier": "linear",
    "mpi.collectives.bcast": "linear",
}
TREES = {
    "two_phase": lambda rank: rank - (1 << rank.bit_length() >> 1),  # binomial
    "early_returning": lambda rank: (rank - 1) // 2,  # binary
}


def depth(rank: int, tree: str, without: int = 0) -> int:
    """How many live above a member of a tree, one of them being dead."""
    above = 0
    while rank:
        rank = TREES[tree](rank)
        above += rank != without or not rank
    return above


def phases_us(ranks: int, victim: int, tree: str) -> list[int]:
    """The closed forms of docs/guides/failures-and-ulfm.md."""
    shrinking = max(depth(rank, tree, victim) for rank in range(ranks) if rank != victim)
    living = max(depth(rank, tree) for rank in range(ranks - 1))
    whole, newest = max(depth(rank, tree) for rank in range(ranks)), depth(ranks - 1, tree)
    spawning = 4 + 2 * living - shrinking if ranks > 2 else 3
    merging = max(2 * living, 1 + newest) + whole - living
    return [TIMEOUT, 0, 4 * shrinking * LATENCY, START + spawning * LATENCY, merging * LATENCY]


@pytest.mark.parametrize(("ranks", "tree"), dealt([[2], [3], [4], [5], [8], [11]], TREES))
def test_the_five_phases_have_their_closed_forms_and_add_up_to_the_picosecond(ranks: int, tree: str):
    algorithms = {"mpi.ulfm.agree": tree, "mpi.ulfm.shrink": "agreement" if tree == "early_returning" else tree}
    run = simulated("ft_respawn.py", "--iterations", 0, ranks=ranks, ft=True, set=ONE_STEP | algorithms)
    _, *rows, last = run.out.splitlines()
    expected = [phases_us(ranks, ranks - 1 - done, tree) for done in range(ranks - 1)]
    assert [row.split()[1:] for row in rows] == [[f"{us}.000000" for us in (*each, sum(each))] for each in expected]
    assert last == f"ft_respawn: {ranks} processes, 1 of them from the beginning"


@pytest.mark.parametrize(("ranks", "rounds"), [(8, 2), (16, 2), (64, 3)])
def test_where_one_sees_the_failure_the_revocation_takes_its_rounds(ranks: int, rounds: int):
    words = ("--iterations", 1, "--wait", "chain")
    runs = [simulated("ft_respawn.py", *words, ranks=ranks, ft=True, set=ONE_STEP, shards=n) for n in (1, 7)]
    assert runs[0] == runs[1]
    detection, revoke = runs[0].out.splitlines()[1].split()[1:3]
    assert (float(detection), float(revoke)) == (TIMEOUT, rounds * LATENCY)
