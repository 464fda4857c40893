"""Which algorithms a communicator's collectives are to have."""

import pytest

from xsim_py.config.algorithms import FTCO_OPERATIONS
from xsim_py.mpi.algorithm_selection import Preference, for_communicator, from_description, selection_of_word
from xsim_py.mpi.calls import survives
from xsim_py.mpi.collectives.choose import REGISTRY
from xsim_py.mpi.ftco.operations import ALGORITHMS


def test_a_word_stands_for_all_operations_that_have_the_algorithm() -> None:
    assert from_description("tuned") == selection_of_word("tuned") == {}
    assert from_description("ftco") == selection_of_word("ftco") == dict.fromkeys(FTCO_OPERATIONS, "ftco")
    assert tuple(ALGORITHMS) == FTCO_OPERATIONS
    assert set(FTCO_OPERATIONS) < set(REGISTRY)


@pytest.mark.parametrize(("size", "name"), [(1, "linear"), (7, "linear"), (8, "ftco"), (63, "ftco"), (64, "tuned")])
def test_the_last_that_begins_at_or_below_the_size_counts(size: int, name: str) -> None:
    wanted = from_description({"allreduce": ((1, "linear"), (8, "ftco"), (64, "tuned")), "bcast": "chain"})
    assert for_communicator(wanted, size, inter=False) == {"allreduce": name, "bcast": "chain"}


def test_below_the_first_it_is_decided_by_size() -> None:
    assert for_communicator({"allreduce": ((8, "ftco"),)}, 7, inter=False) == {"allreduce": "tuned"}


@pytest.mark.parametrize(("size", "inter"), [(1, False), (8, True)])
@pytest.mark.parametrize("wanted", [selection_of_word("ftco"), {"barrier": "ftco", "allreduce": ((1, "ftco"),)}])
def test_one_rank_and_two_groups_have_no_ftco(size: int, inter: bool, wanted: dict[str, object]) -> None:
    assert for_communicator(wanted, size, inter=inter) == {}


class Comm:
    """As much of a communicator as it takes."""

    def __init__(self, **preference: str) -> None:
        self.preference = Preference(preference)


@pytest.mark.parametrize(
    "name",
    ["Comm.Allreduce", "Comm.Iallreduce", "Comm.allreduce", "Comm.Dup", "Comm.Idup", "Intracomm.Create_cart"],
)
def test_calls_survive_that_are_made_of_what_is_served(name: str) -> None:
    assert survives(Comm(allreduce="ftco"), name)
    assert not survives(Comm(allgather="ftco", reduce="ftco"), name)
    assert not survives(Comm(), name)


def test_what_is_said_of_an_operation_holds_for_its_other_forms() -> None:
    ftco_serves = Comm(allgather="ftco", reduce_scatter="ftco")
    for name in ("Comm.Allgatherv", "Comm.Iallgather", "Comm.Split", "Comm.Reduce_scatter_block"):
        assert survives(ftco_serves, name)
    for name in ("Comm.Alltoall", "Intracomm.Scan", "Comm.Ialltoallw", "Intracomm.Create_intercomm"):
        assert not survives(ftco_serves, name)
    assert not survives(Comm(allgather="ftco", allgatherv="ring"), "Comm.Allgatherv")
