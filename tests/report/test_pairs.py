import numpy as np
import pytest

from xsim_py import simulate
from xsim_py.errors import ConfigError
from xsim_py.report.pairs import draw_pairs, matrix
from xsim_py.report.style import Look
from xsim_py.report.table import Table


def to_the_right():
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    request = comm.Isend(bytes(100 * (comm.rank + 1)), dest=(comm.rank + 1) % comm.size)
    comm.Recv(bytearray(400), source=(comm.rank - 1) % comm.size)
    request.Wait()


@pytest.mark.parametrize("shards", [1, 2])
def test_bytes_and_messages_stand_where_they_went(shards):
    table = simulate(to_the_right, ranks=4, shards=shards).tables["pairs"]
    expected = np.roll(np.eye(4, dtype=int), 1, axis=1)
    assert (matrix(table, ranks=4, of="messages") == expected).all()
    assert (matrix(table, ranks=4) == expected * [[100], [200], [300], [400]]).all()
    # The first two ranks are on one node: what stays on a node is on the diagonal.
    assert matrix(table, ranks=4, node_of=[0, 0, 1, 1]).tolist() == [[100, 200], [400, 300]]


def test_the_bytes_of_pairs_are_those_of_ranks():
    def program():
        from mpi4py import MPI

        MPI.COMM_WORLD.Allreduce(bytes(1001), bytearray(1001))
        MPI.COMM_WORLD.Allreduce(bytes(1001), bytearray(1001))
        MPI.COMM_WORLD.alltoall(["x" * size for size in range(5)])

    for collectives in (["arrays"], ["messages"]):
        result = simulate(program, ranks=5, collectives=collectives)
        sums = matrix(result.tables["pairs"], ranks=5)
        assert sums.sum(axis=1).tolist() == result.tables["ranks"]["bytes"]
        messages = matrix(result.tables["pairs"], ranks=5, of="messages")
        assert messages.sum(axis=1).tolist() == result.tables["ranks"]["messages"]


def test_a_picture_of_pairs_that_have_sent_no_bytes(tmp_path):
    def program():
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()

    simulate(program, ranks=4).draw_pairs(tmp_path / "pairs.svg")
    assert ">bytes</text>" in (tmp_path / "pairs.svg").read_text()


def test_a_picture_of_pairs(tmp_path):
    result = simulate(to_the_right, ranks=4)
    result.draw_pairs(tmp_path / "pairs.svg", of="messages", nodes=True)
    text = (tmp_path / "pairs.svg").read_text()
    assert ">from node</text>" in text
    assert ">messages</text>" in text
    with pytest.raises(ConfigError, match="'seconds'"):
        result.draw_pairs(tmp_path / "pairs.svg", of="seconds")


SMALL = Look(size=(3.5, 2.6))


@pytest.mark.parametrize(
    ("sizes", "of", "labels", "look"),
    [
        ([1, 10, 1000, 100_000], "bytes", ["2 B", "16 B", "128 B", "1 KiB", "8 KiB", "64 KiB"], Look()),
        ([3 << 20, 5 << 20], "bytes", ["0 B", "1 MiB", "2 MiB", "3 MiB", "4 MiB", "5 MiB"], SMALL),
        ([1, 2, 20_000], "messages", ["1", "10", "100", "1,000", "10,000"], SMALL),
        ([2, 4], "messages", ["0", "1", "2", "3", "4"], Look()),
    ],
)
def test_the_colour_bar_is_as_high_as_the_matrix_and_has_plain_labels(
    sizes: list[int], of: str, labels: list[str], look: Look
) -> None:
    columns = {"source": range(len(sizes)), "dest": range(1, len(sizes) + 1), "bytes": sizes, "messages": sizes}
    table = Table("pairs", {name: list(column) for name, column in columns.items()})
    figure = draw_pairs(table, ranks=len(sizes) + 1, of=of, look=look, title="a title")
    figure.draw_without_rendering()
    axes, bar = figure.axes[0], figure.axes[0].child_axes[0]
    assert [label.get_text() for label in bar.get_yticklabels()] == labels
    assert bar.get_window_extent().height == pytest.approx(axes.get_window_extent().height)
    assert axes.get_window_extent().height > 0.5 * figure.bbox.height
