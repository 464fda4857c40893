"""A ring of messages whose ranks are woken by a revocation, and go on over the hole."""

import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.apps.helpers import APPS, simulated, spoilt
from tests.campaign import dealt
from xsim_py import simulate

APP = "propagate.py"
LAST = "propagate: 8 ranks, 5 laps, token 233840603535344288\nright: True\n"
PRIME, FACTOR, START = 2**61 - 1, 3**37, 20140617


def woken_us(ranks: int, *args: object, **machine: Any) -> float:
    """Return how long after the revocation the last rank woke, when rank 1 dies before its first message."""
    settings = {"network.bandwidth": "unlimited", **machine}
    run = simulated(APP, "--laps", 1, *args, ranks=ranks, set=settings, fail="rank=1 before its 1st Recv")
    assert run.status == 0
    return float(re.findall(r"^# time: the last woke ([\d.]+) us", run.out, re.MULTILINE)[0])


@pytest.mark.parametrize(
    ("failures", "shards"),
    dealt(
        [
            ([],),
            (["rank=1@300us"],),
            (["rank=0@300us"],),
            (["rank=7 before its 1st Dup"],),
            (["rank=7 after its 1st Dup", "rank=0 after its 2nd Recv"],),
            (["rank=1@300us", "rank=2@310us", "rank=5@900us"],),
            ([f"rank={rank}@{300 + 400 * rank}us" for rank in range(7)],),
        ],
        [1, 2, 3, 7],
    ),
)
def test_any_ranks_but_one_may_die(failures: list[str], shards: int):
    run = simulated(APP, ranks=8, fail=failures, ft=True, shards=shards)
    assert run.out.endswith(LAST)
    assert run.status == 0


@pytest.mark.parametrize("ranks", [1, 2, *range(8, 14)])
def test_the_last_token_is_what_one_process_computes(ranks: int):
    token = START
    for stage in range(5 * ranks):
        token = (FACTOR * token + stage % ranks + 1) % PRIME
    run = simulated(APP, ranks=ranks)
    assert run.out == f"propagate: {ranks} ranks, 5 laps, token {token}\nright: True\n"


def test_who_kills_itself_is_left_out():
    run = simulated(APP, "--die", "1@1", "--die", "2@1", "--die", "6@3", "--die", "0@3", ranks=8, ft=True)
    assert run.out.endswith(LAST)


@pytest.mark.parametrize(("ranks", "rounds"), [(8, 2), (16, 2), (64, 3)])
def test_the_last_wakes_after_the_rounds_of_a_reliable_broadcast(ranks: int, rounds: int):
    """Who is woken tells those 1, 2, 4, ... places away; of a power of two half its logarithm is enough, rounded up."""
    assert woken_us(ranks) == rounds * 20


@pytest.mark.parametrize("revoke", ["direct", "local"])
def test_other_revocations_take_one_round(revoke: str):
    assert woken_us(16, **{"mpi.ulfm.revoke": revoke}) == 20


def test_only_one_rank_finds_the_failure_and_the_others_are_woken():
    """Everybody else waits for a rank that lives, and would do so for ever."""
    result = simulate(APPS / APP, ranks=8, fail="rank=1 before its 1st Recv", trace=True, stdout=io.StringIO())
    first = {}
    for mark in result.trace.marks:
        if mark.kind in {"learned", "revoked"} and "agree" not in mark.text:
            first.setdefault(mark.rank, mark.kind)
    assert first == {2: "learned", **dict.fromkeys([0, 3, 4, 5, 6, 7], "revoked")}
    names = [span.name for span in result.trace.spans]
    assert {name for name in names if name in {"Revoke", "Shrink", "Spawn", "Split"}} == {"Revoke", "Shrink"}
    assert names.count("Shrink") == 7  # at the very end, so that somebody prints


def test_a_failure_that_nobody_propagates_is_a_stall(tmp_path: Path):
    """Without the revocation the program does not end: the ring is one that needs it."""
    once = "        if not well:\n            comm.Revoke()\n"
    path = spoilt(tmp_path, APP, once, "", within="recovery.py")
    assert simulated(path, ranks=8, fail="rank=1 before its 1st Recv").status == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value + done % self.ranks + 1)", "value + done % self.ranks + 2)"),
        ("done += 1", "done += 2"),
    ],
)
def test_a_wrong_token_is_called_wrong(tmp_path: Path, old: str, new: str):
    run = simulated(spoilt(tmp_path, APP, old, new), ranks=4)
    assert (run.out.endswith("right: False\n"), run.status) == (True, 1)
