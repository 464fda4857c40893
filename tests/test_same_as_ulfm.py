"""Programs in which processes die give what a real Open MPI gave, as far as the rules say what that has to be."""

import io
import warnings
from collections.abc import Iterator
from itertools import groupby

import pytest

from tests.campaign import CAMPAIGN
from tests.real_ulfm import MPIRUN, run_real
from tests.ulfm_cases import EXPECTED, VARIANTS, UlfmCase, Values, all_cases, runs, values_in
from tests.versions import as_checked
from xsim_py import simulate

CASES = all_cases()
LEFT = set() if as_checked("numpy") else {"agree_arguments"}
"""Programs that print what another version of numpy makes of an argument."""
REAL = [case for case in CASES if not case.only_here]


def sampled() -> Iterator[tuple[UlfmCase, str]]:
    """Yield each case in one of its variants, in turn, and in a campaign in all of them."""
    for number, (_, group) in enumerate(groupby(runs(), key=lambda run: run[0])):
        pairs = list(group)
        yield from pairs if CAMPAIGN else [pairs[number % len(pairs)]]


RUNS = [
    pytest.param(case, variant, id=f"{case}-{variant}") for case, variant in sampled() if case.path.stem not in LEFT
]


def simulated(case: UlfmCase, variant: str, *, shards: int = 1) -> tuple[Values, str]:
    """What a simulation prints, and its digest."""
    stdout, stderr = io.StringIO(), io.StringIO()
    result = simulate(
        case.path,
        ranks=case.ranks,
        args=case.args,
        machine="shmem",
        set=VARIANTS[variant],
        ft=True,
        shards=shards,
        stdout=stdout,
        stderr=stderr,
    )
    assert stderr.getvalue() == ""
    return values_in(stdout.getvalue().splitlines()), str(result.digest)


def named(name: str) -> UlfmCase:
    return next(case for case in CASES if str(case) == name)


@pytest.mark.sampled
@pytest.mark.parametrize(("case", "variant"), RUNS)
def test_the_simulation_gives_what_the_real_mpi_gave_or_the_rules_ask_for(case: UlfmCase, variant: str):
    values, digest = simulated(case, variant)
    assert case.differences(values) == []
    assert simulated(case, variant, shards=3)[1] == digest


def test_every_record_belongs_to_a_program():
    assert {path.stem for path in EXPECTED.iterdir()} == {str(case) for case in REAL}


def test_there_are_as_many_programs_as_promised():
    assert len({case.path for case in REAL}) >= 50


def test_every_remark_is_about_something_that_is_printed():
    for path in {case.path for case in CASES}:
        cases = [case for case in CASES if case.path == path]
        printed = {place for case in cases for place in case.expected()}
        for remark in (*cases[0].free, *cases[0].quirks, *cases[0].rules):
            assert any(remark.concerns(place) for place in printed), f"{path.name}: {remark}"


def test_what_the_rules_leave_open_is_little():
    """A record of a busy machine can hold values that come of being late; then it is to be made again."""
    open_places = {str(case) for case in CASES for values in case.expected().values() if len(values) > 1}
    assert open_places == {
        "isend_to_dead",
        "revoke_asynchronous",
        "revoked_nonblocking",
        "sent_before_death_known",
        "shrink_revoked",
        "wildcard_message_waits",
    }


def test_a_wrong_value_a_missing_line_and_one_too_many_are_differences():
    case = named("collective_sets.bcast.1")
    right = {place: {min(values)} for place, values in case.expected().items()}
    assert case.differences(right) == []
    a_wrong_value = right | {(3, "bcast"): {"SUCCESS"}}
    one_too_many = right | {(1, "bcast"): {"SUCCESS"}}
    a_missing_line = {place: values for place, values in right.items() if place != (7, "bcast")}
    for wrong in (a_wrong_value, one_too_many, a_missing_line):
        assert len(case.differences(wrong)) == 1
        assert len(case.surprises(wrong)) == 1


def test_a_quirk_is_for_the_real_mpi_only():
    case = named("collective_sets.alltoall.3")
    real = case.recorded()
    assert case.surprises(real) == []
    assert len(case.differences(real)) == len(real)
    assert set().union(*case.expected().values()) == {"PROC_FAILED"}


if MPIRUN.exists():

    @pytest.mark.parametrize("case", REAL, ids=str)
    def test_the_real_mpi_still_gives_what_is_recorded(case: UlfmCase):
        surprises = []
        for _ in range(3):  # on a busy machine a rank may come late, and learn of a failure early
            surprises.append(case.surprises(run_real(case)))
            if not surprises[-1]:
                return
        pytest.fail(f"{surprises}")

else:
    warnings.warn(
        f"The programs of tests/ulfm_programs run under xsim only, and are compared with records of a real Open MPI: "
        f"there is no {MPIRUN} (see tests/real_ulfm.py).",
        stacklevel=1,
    )
