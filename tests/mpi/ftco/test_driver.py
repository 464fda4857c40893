"""Collectives by FTCO on the simulated network: times, messages, knowledge, and what stands for the dead."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.campaign import CAMPAIGN
from tests.mpi.ftco.programs import NETWORKS
from xsim_py import ftco, simulate
from xsim_py.errors import ConfigError, XsimError

LATENCY_S, OVERHEAD_S = 10e-6, 1e-6
LOGP = {
    "topology": {"type": "switch"},
    "network": {"latency": LATENCY_S, "send_overhead": OVERHEAD_S, "recv_overhead": OVERHEAD_S},
}
BINARY = {"tree": "kary", "radix": 2, "roots": "single"}
FTCO = {"collectives": "ftco"}
WAYS = pytest.mark.parametrize(
    "mpi", [FTCO, FTCO | {"ftco": {"algorithm": "recursive_doubling"}}], ids=["tree", "halves"]
)


def run(
    program: Callable[..., Any], ranks: int, *failures: str, machine: Any = LOGP, mpi: Any = FTCO, **options: Any
) -> Any:
    """Simulate a function on a machine whose collectives are FTCO's."""
    return simulate(
        program,
        ranks=ranks,
        machine=machine | {"mpi": mpi},
        fail=failures,
        stdout=io.StringIO(),
        stderr=io.StringIO(),
        **options,
    )


def world() -> Any:
    from mpi4py import MPI

    return MPI.COMM_WORLD


# ------------------------------------------------------------------------------------------------- without failures


def reduce_and_tell(name: str) -> float:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    mine, total = np.ones(1), np.zeros(1)
    if name == "Reduce and Bcast":
        comm.Reduce(mine, total)
        comm.Bcast(total)
    else:
        getattr(comm, name)(*([total] if name == "Bcast" else [mine, total]))
    return MPI.Wtime()


PLAIN = {"collectives": {"reduce": "binary", "bcast": "binary_tree"}}


@pytest.mark.parametrize("ranks", [3, 7, 15, 63, 127])
@pytest.mark.parametrize(
    ("by_ftco", "plain", "receipts"),
    [("Allreduce", "Reduce and Bcast", 1), ("Bcast", "Bcast", 1), ("Reduce", "Reduce", 2)],
)
def test_without_failures_it_costs_one_receipt_more_than_the_plain_tree(
    ranks: int, by_ftco: str, plain: str, receipts: int
) -> None:
    """The paper, "Message Priorities": one ACK. After a Reduce the root sends two, the second an overhead later."""
    whole = max(run(reduce_and_tell, ranks, args=[plain], mpi=PLAIN).values)
    result = run(reduce_and_tell, ranks, args=[by_ftco], mpi=FTCO | {"ftco": BINARY})
    receipt_s = LATENCY_S + (1 + receipts) * OVERHEAD_S
    assert max(result.values) == pytest.approx(whole + receipt_s, abs=1e-12)
    values = (ranks - 1) * (2 if by_ftco == "Allreduce" else 1)
    assert values < result.messages <= 2 * values


def test_values_are_not_counted_shorter_than_they_are() -> None:
    def program() -> None:
        comm = world()
        comm.Allreduce(np.ones(1000), np.zeros(1000))
        comm.Allgather(np.full(100, comm.rank), np.zeros((comm.size, 100), int))

    ranks, header = 8, 16
    result = run(program, ranks, mpi=FTCO | {"ftco": BINARY})
    receipts = result.messages - 4 * (ranks - 1)
    folded = 2 * (ranks - 1) * 8000
    gathered = result.summary["bytes"] - folded - (4 * (ranks - 1) + receipts) * header
    assert gathered == 808 * (ranks * (ranks - 1) + _subtrees(ranks))


def _subtrees(ranks: int) -> int:
    """The sizes of all subtrees of a binary tree but the whole, together: what goes up in a gather."""
    from xsim_py.mpi.ftco.trees import tree

    shape = tree(ranks, "kary", radix=2)
    return sum(1 + sum(shape.is_below(node, top) for node in range(ranks)) for top in range(1, ranks))


@pytest.mark.parametrize("machine", sorted(NETWORKS))
def test_a_barrier_of_two_and_of_one(machine: str) -> None:
    def program() -> None:
        comm = world()
        comm.Barrier()
        comm.Split(comm.rank).Barrier()

    for ranks in (1, 2):
        assert run(program, ranks, machine=NETWORKS[machine]).ended == "finished"


# ------------------------------------------------------------------------------------------------------ with failures


@pytest.mark.sampled
@pytest.mark.parametrize("ranks", [64, 128] if CAMPAIGN else [16])
@pytest.mark.parametrize(
    ("dead", "timeouts"),
    [((), 0), ((5,), 1), ((5, 6), 1), ((5, 9), 2), ((5, 9, 6), 2)],
    ids=["none", "1", "2p", "2s", "3m"],
)
def test_table_1_timeouts_count_one_after_the_other_only(ranks: int, dead: tuple[int, ...], timeouts: int) -> None:
    """Rank 9 is below rank 5 in the binary tree, and rank 6 beside it."""
    failures = [f"rank={rank}@0s" for rank in dead]
    result = run(reduce_and_tell, ranks, *failures, args=["Allreduce"], mpi=FTCO | {"ftco": BINARY | {"timeout": "2s"}})
    last_s = max(value for value in result.values if value is not None)
    network_s = last_s - 2 * timeouts
    assert 0 < network_s < 40 * (LATENCY_S + 2 * OVERHEAD_S)
    deeper = run(
        reduce_and_tell, 4 * ranks, *failures, args=["Allreduce"], mpi=FTCO | {"ftco": BINARY | {"timeout": "2s"}}
    )
    assert max(value for value in deeper.values if value is not None) - 2 * timeouts > network_s


def test_what_was_found_is_known_for_good() -> None:
    def program() -> Any:
        from mpi4py import MPI

        comm = world()
        times = []
        for _ in range(3):
            begin = MPI.Wtime()
            comm.Barrier()
            times.append(MPI.Wtime() - begin)
        return times, ftco.failed(comm), ftco.missing(comm), comm.Get_failed().Get_size()

    result = run(program, 16, "rank=5@0s", trace=True, mpi=FTCO | {"ftco": {"timeout": "1s"}})
    for value in result.values[:5] + result.values[6:]:
        times, failed, missing, count = value
        assert times[0] > 1 > 1e-3 > max(times[1:])
        assert (failed, missing, count) == ([5], [5], 1)
    _, failed, rank, _, how = zip(*result.tables["learned"].rows(), strict=True)
    assert sorted(rank) == [number for number in range(16) if number != 5]
    assert (set(failed), set(how)) == ({5}, {"ftco"})
    marks = [mark for mark in result.trace.marks if mark.kind == "learned"]
    assert {mark.text for mark in marks} == {"rank 5 has failed (ftco)"}
    assert {message.call for message in result.trace.messages} == {"ftco"}


def test_what_is_known_otherwise_needs_no_time() -> None:
    def program() -> float:
        from mpi4py import MPI

        comm = world()
        comm.Agree(1) if comm.rank != 3 else comm.recv(source=3)
        begin = MPI.Wtime()
        comm.Barrier()
        return MPI.Wtime() - begin

    def agree() -> float | None:
        from mpi4py import MPI

        try:
            return program()
        except MPI.Exception:
            world().Barrier()
            return None

    result = run(agree, 8, "rank=3@1us", mpi=FTCO | {"ftco": {"timeout": "1s"}})
    assert result.ended == "finished"
    assert result.virtual_time_s < 0.5


@pytest.mark.sampled
@pytest.mark.parametrize("detector", ["timeout", "heartbeat"])
def test_a_rank_that_takes_a_message_and_dies_without_an_answer_is_noticed(detector: str) -> None:
    """Every moment at which the parent of the others can die, a microsecond apart; of a campaign, otherwise four."""

    def program() -> list[int]:
        comm = world()
        total = np.zeros(4, int)
        mine = np.zeros(4, int)
        mine[comm.rank] = 1
        comm.Allreduce(mine, total)
        return total.tolist()

    for dead in (0, 1):
        for at_us in range(0, 60, 1 if CAMPAIGN else 4):
            mpi = FTCO | {"ftco": BINARY, "detector": {"type": detector}}
            result = run(program, 4, f"rank={dead}@{at_us + 0.5}us", mpi=mpi)
            assert result.ended == "finished", (dead, at_us)
            living = [result.values[rank] for rank in range(4) if rank != dead]
            if living[0] is not None:
                assert all(value == living[0] for value in living)
                assert all(living[0][rank] == 1 for rank in range(4) if rank != dead)
            assert result.virtual_time_s < 1e-3


@WAYS
def test_who_comes_late_is_asked_ever_less_often_and_dies_all_the_same(mpi: Any) -> None:
    def program() -> float:
        import time

        from mpi4py import MPI

        if world().rank == 1:
            time.sleep(3600)
        world().Barrier()
        return MPI.Wtime()

    late = run(program, 8, mpi=mpi)
    assert late.ended == "finished"
    assert 3600 < min(late.values) <= max(late.values) < 3601
    assert late.messages < 500
    dead = run(program, 8, "rank=1@1000s", mpi=mpi)
    assert dead.ended == "finished"
    assert 1000 < min(value for value in dead.values if value) < 1001


@WAYS
def test_a_program_that_is_stuck_is_seen_to_be(mpi: Any) -> None:
    def program() -> None:
        if world().rank == 1:
            world().recv(source=2)
        world().Barrier()

    result = run(program, 4, mpi=mpi)
    assert result.ended == "stalled"
    assert "Comm.Barrier() on MPI_COMM_WORLD" in result.report


@WAYS
def test_ranks_in_different_collectives_are_found(mpi: Any) -> None:
    def program() -> None:
        if world().rank == 2:
            world().allreduce(1)
        world().Barrier()

    result = run(program, 4, mpi=mpi)
    assert result.exit_status == 3
    assert "collective mismatch on MPI_COMM_WORLD" in result.report


@WAYS
def test_revocation_ends_it_also_in_the_middle(mpi: Any) -> None:
    def program() -> Any:
        from mpi4py import MPI

        part = world().Dup()
        if part.rank == 0:
            part.Revoke()
        try:
            part.Barrier()
        except MPI.Exception as error:
            world().Barrier()
            return error.Get_error_class() == MPI.ERR_REVOKED
        return False

    result = run(program, 8, "rank=7@0s", mpi=mpi)
    assert result.ended == "finished"
    assert result.values[:7] == [True] * 7


@WAYS
def test_what_nobody_can_ask_for_is_forgotten(mpi: Any) -> None:
    def program() -> int:
        comm = world()
        data = np.zeros(1)
        for _ in range(300):
            comm.Bcast(data, root=1)
        kept = len(comm._comm().box.knowledge.sessions)
        for _ in range(5):
            comm.Allreduce(np.ones(1), data)
        return kept + 1000 * len(comm._comm().box.knowledge.sessions)

    for value in run(program, 5, "rank=4@1ms", mpi=mpi).values[:4]:
        assert value // 1000 == 1
        assert value % 1000 < 150


# ---------------------------------------------------------------------------------------------- which communicators


def test_a_hint_chooses_for_one_communicator() -> None:
    def program() -> Any:
        from mpi4py import MPI

        hints = MPI.Info.Create({"xsim_collectives": "ftco"})
        plain = world().Dup()
        ftco_serves = world().Dup_with_info(hints)
        plain.Barrier()
        used = [plain._comm().box.knowledge is not None]  # made for the first message of FTCO
        ftco_serves.Barrier()
        used.append(plain._comm().box.knowledge is not None)
        copy = ftco_serves.Dup()
        back = ftco_serves.Dup_with_info(MPI.Info.Create({"xsim_collectives": "tuned"}))
        names = [comm._comm().preference.get("barrier") for comm in (plain, ftco_serves, copy, back)]
        world().Set_info(hints)
        names.append(world()._comm().preference.get("barrier"))
        world().Set_info(MPI.INFO_NULL)
        names.append(world()._comm().preference.get("barrier"))
        try:
            world().Set_info(MPI.Info.Create({"xsim_collectives": "ftc"}))
        except MPI.Exception as error:
            names.append(error.Get_error_class() == MPI.ERR_INFO_VALUE)
        return names, used

    result = run(program, 4, mpi={})
    assert result.values == [([None, "ftco", "ftco", None, "ftco", None, True], [False, True])] * 4


def test_a_machine_chooses_by_operation_and_size() -> None:
    def program() -> Any:
        half = world().Split(world().rank % 2)
        world().Allreduce(np.ones(1), np.zeros(1))
        before = world()._comm().box.knowledge is not None
        half.Allreduce(np.ones(1), np.zeros(1))
        return before, world()._comm().box.knowledge is not None, half._comm().preference

    mpi = {"collectives": {"allreduce": {1: "linear", 3: "ftco", 6: "tuned"}}}
    assert run(program, 6, mpi=mpi).values == [(False, True, {"allreduce": "ftco"})] * 6
    assert run(program, 4, mpi=mpi).values == [(True, True, {"allreduce": "linear"})] * 4


def test_two_groups_keep_the_ordinary_way() -> None:
    def program() -> Any:
        comm = world()
        part = comm.Split(comm.rank % 2)
        between = part.Create_intercomm(0, comm, 1 - comm.rank % 2)
        return between.allreduce(comm.rank), between._comm().preference, between._comm().local.preference

    assert run(program, 4).values == [(4, {}, {}), (2, {}, {})] * 2


def test_communicators_are_made_without_the_dead() -> None:
    def program() -> Any:
        comm = world()
        copy = comm.Dup()
        part = copy.Split(comm.rank % 2, -comm.rank)
        cart = comm.Create_cart([2, 2])
        return part.allgather(comm.rank), cart != cart.__class__(), comm.group.size

    result = run(program, 6, "rank=4@0s")
    assert result.ended == "finished"
    assert [value[0] for value in result.values if value] == [[2, 0], [5, 3, 1], [2, 0], [5, 3, 1], [5, 3, 1]]


# ------------------------------------------------------------------------------------------- what stands for the dead


def holes(mode: Any) -> Any:
    from mpi4py import MPI

    comm = world()
    if mode == "value":
        ftco.replace(comm, 7)
    elif mode == "function":
        ftco.replace(comm, lambda rank: np.array([10.0 * rank, -rank]))
    blocks = np.full((comm.size, 2), -1.0)
    seen: list[Any] = []
    for call in (
        lambda: comm.Allgather(np.full(2, 1.0 + comm.rank), blocks) or blocks[2].tolist(),
        lambda: comm.allgather(comm.rank)[2],
        lambda: _total(comm),
        lambda: _from_the_dead(comm),
        lambda: comm.allreduce(1),
    ):
        try:
            value = call()
            seen.append(value.tolist() if isinstance(value, np.ndarray) else value)
        except MPI.Exception as error:
            seen.append(error.Get_error_class() == MPI.ERR_PROC_FAILED)
    assert ftco.missing(comm) == [2]
    return seen


def _total(comm: Any) -> list[float]:
    total = np.zeros(2)
    comm.Allreduce(np.ones(2), total)
    return total.tolist()


def _from_the_dead(comm: Any) -> list[float]:
    data = np.zeros(2)
    comm.Bcast(data, root=2)
    return data.tolist()


@pytest.mark.parametrize(
    ("missing", "mode", "expected"),
    [
        ("none", "", [[-1.0, -1.0], None, [3.0, 3.0], True, 3]),
        ("zero", "", [[0.0, 0.0], None, [3.0, 3.0], True, 3]),
        ("error", "", [True, True, True, True, True]),
        ("none", "value", [[7.0, 7.0], 7, [10.0, 10.0], [7.0, 7.0], 10]),
        ("error", "function", [[20.0, -2.0], [20.0, -2.0], [23.0, 1.0], [20.0, -2.0], [23.0, 1.0]]),
    ],
)
def test_what_stands_for_the_dead(missing: str, mode: str, expected: Any) -> None:
    result = run(holes, 4, "rank=2@0s", args=[mode], mpi=FTCO | {"ftco": {"missing": missing}})
    assert result.ended == "finished", result.report
    assert [value for value in result.values if value] == [expected] * 3


def test_a_replacement_that_does_not_fit_is_an_error_of_the_call() -> None:
    def program() -> Any:
        from mpi4py import MPI

        ftco.replace(world(), b"123")
        try:
            _total(world())
        except MPI.Exception as error:
            return error.Get_error_class() == MPI.ERR_BUFFER, str(error).endswith("3 bytes; 16 are needed)")
        return None

    assert run(program, 3, "rank=1@0s").values == [(True, True), None, (True, True)]


def test_outside_of_a_simulation_there_is_nothing_to_ask() -> None:
    for call in (lambda: ftco.failed(None), lambda: ftco.missing(None), lambda: ftco.replace(None, 0)):
        with pytest.raises(XsimError, match="xsim run"):
            call()


# ---------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"radix": 1}, "mpi.ftco.radix: expected an integer from 2 to 2147483647, got 1"),
        ({"tree": "binary"}, "mpi.ftco.tree: unknown value 'binary'; did you mean kary?"),
        ({"timeout": "0s"}, "mpi.ftco.timeout: 0 is out of range: the timeout must be positive"),
        ({"timeout": "-1s"}, "mpi.ftco.timeout: "),
        ({"timeout": "19us"}, "mpi.ftco.timeout: 19 us is out of range: below the longest round trip (20 us)"),
        ({"missing": "one"}, "mpi.ftco.missing: unknown value 'one'; did you mean none?"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        run(world, 4, mpi=FTCO | {"ftco": settings})
    assert message in str(refused.value)
