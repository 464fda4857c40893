"""mpi4py's own tests pass on virtual ranks wherever they pass under a real MPI; what those do is recorded."""

from __future__ import annotations

import pytest

from tests.campaign import CAMPAIGN
from tests.conformance.__main__ import run, simulation
from tests.conformance.judgement import broken, known_failures, reason_for
from tests.conformance.records import recorded
from tests.conformance.suite import modules, suite

# What a module takes on 4 ranks, in seconds of CPU; others take less than two.
SECONDS = {
    "test_cco_buf": 5, "test_cco_nb_buf": 8, "test_cco_nb_vec": 14, "test_cco_ngh_buf": 18, "test_cco_pr_buf": 12,
    "test_cco_pr_ngh_buf": 10, "test_cco_pr_vec": 20, "test_cco_vec": 11, "test_datatype": 12, "test_msgspec": 16,
    "test_p2p_buf": 7, "test_p2p_buf_matched": 2, "test_p2p_buf_part": 11, "test_pack": 11, "test_rma": 30,
    "test_rma_nb": 26, "test_util_dtlib": 22, "test_file": 5, "test_io": 24, "test_util_pool": 5,
}  # fmt: skip
PARTS = {1: 1, 2: 1, 4: 2} if CAMPAIGN else {1: 1, 4: 1}
"""In how many runs the suite is gone through, by the number of ranks: two workers have equal loads."""


LEFT_TO_CAMPAIGN = frozenset(
    {
        "test_cco_nb_buf",
        "test_cco_nb_vec",
        "test_cco_vec",
        "test_cco_pr_buf",
        "test_cco_pr_vec",
        "test_cco_ngh_buf",
        "test_cco_pr_ngh_buf",
        "test_datatype",
        "test_file",
        "test_io",
        "test_msgspec",
        "test_p2p_buf",
        "test_p2p_buf_part",
        "test_pack",
        "test_rma",
        "test_rma_nb",
        "test_util_dtlib",
        "test_util_pkl5",
    }
)
"""On several ranks, these do what they do on one, or what others do by calls of another form, and take very long."""


IN_CAMPAIGN_ONLY = frozenset(
    {"test_cco_pr_buf", "test_cco_pr_ngh_buf", "test_cco_pr_vec", "test_p2p_buf_part", "test_rma_nb"}
)
"""Persistent and non-blocking forms of what other modules do, with the same data."""


BUFFERS = ("test_cco_buf", "test_cco_vec")


def gone_through(ranks: int) -> list[str]:
    """The modules that are run on so many ranks; without a campaign, each is run on one number of them."""
    together = {name for name in modules() if "WORLD" in (suite() / f"{name}.py").read_text("utf-8")}
    if CAMPAIGN:
        return [name for name in modules() if ranks == 1 or name in together]
    wanted = [name for name in modules() if name not in IN_CAMPAIGN_ONLY]
    return [name for name in wanted if (name in together - LEFT_TO_CAMPAIGN) == (ranks > 1)]


def left_out(ranks: int) -> list[str]:
    """The classes that a campaign alone runs, as patterns: another class does the same on another communicator.

    On one rank all communicators are alike, and on several those of one rank are what they are on one. What a duplicate
    does on several ranks is seen in the modules of objects; those of buffers take ten times as long.
    """
    classes = {test.rpartition(".")[0] for outcomes in recorded(ranks) for test in outcomes}
    left, kept = ("World", "Self") if ranks == 1 else ("Self", "World")
    return [
        f"{name}.*"
        for name in sorted(classes)
        if (left in name and name.replace(left, kept) in classes)
        or (name.endswith("Dup") and (ranks == 1 or name.startswith(BUFFERS)))
    ]


def part(ranks: int, place: int) -> list[str]:
    """The modules of one of the parts, which take about the same time."""
    loads: list[list[str]] = [[] for _ in range(PARTS[ranks])]
    for module in sorted(gone_through(ranks), key=lambda name: (-SECONDS.get(name, 1), name)):
        min(loads, key=lambda load: sum(SECONDS.get(name, 1) for name in load)).append(module)
    return loads[place]


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "place"), [(ranks, place) for ranks, n in PARTS.items() for place in range(n)])
def test_what_passes_under_a_real_mpi_passes_here(ranks, place):
    chosen = part(ranks, place)
    # How an object's buffer is found does not depend on the number of ranks, nor how it is typed on whose memory it is.
    options = ["--numpy-arrays"] * (ranks > 1) + ["--types-dealt-out"] * (not CAMPAIGN)
    left = [] if CAMPAIGN else left_out(ranks)
    options += [word for pattern in left for word in ("-x", pattern)]
    ours, said = run(simulation(), chosen, ranks, seconds=1200, options=options)
    real = [
        {
            test: outcome
            for test, outcome in outcomes.items()
            if test.partition(".")[0] in chosen and f"{test.rpartition('.')[0]}.*" not in left
        }
        for outcomes in recorded(ranks)
    ]
    missed = broken(ours, real, known_failures())
    assert not missed, said


def test_every_module_is_in_one_part():
    for ranks, parts in PARTS.items():
        assert sorted(name for place in range(parts) for name in part(ranks, place)) == gone_through(ranks)


def test_nothing_passes_on_two_ranks_alone():
    """So it is enough that a campaign, and `make conformance`, go through the suite on two."""
    passed = {
        ranks: {test for outcomes in recorded(ranks) for test, outcome in outcomes.items() if outcome == "passed"}
        for ranks in (1, 2, 4)
    }
    assert passed[2] <= passed[1] | passed[4]


def test_what_is_known_to_fail_passes_under_a_real_mpi():
    passed = {test for ranks in (1, 2, 4) for outcomes in recorded(ranks) for test in outcomes}
    for entry in known_failures():
        assert any(reason_for(test, [entry]) for test in passed), entry.test
