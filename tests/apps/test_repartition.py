"""A mesh that is cut anew when processes die: balance, moves and the solution."""

import argparse
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.apps.helpers import APPS, Run, simulated, spoilt, within
from tests.campaign import CAMPAIGN, SHARDS, dealt

PROGRAM = "repartition.py"
SMALL = ("--vertices", 400, "--tolerance", 1e-3)


@pytest.fixture(scope="module")
def partition() -> ModuleType:
    spec = importlib.util.spec_from_file_location("partition", APPS / "partition.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def solved(ranks: int, *args: object, **told: object) -> Run:
    run = simulated(PROGRAM, *args, ranks=ranks, ft=True, **told)
    assert (run.err, run.status) == ("", 0), run
    assert run.out.endswith("\nright: True\n")
    return run


def grid(partition: ModuleType, side: int) -> object:
    """Return a square grid whose vertices are numbered row by row."""
    number = np.arange(side * side).reshape(side, side)
    pairs = [(number[:-1].ravel(), number[1:].ravel()), (number[:, :-1].ravel(), number[:, 1:].ravel())]
    one, other = (np.concatenate(each) for each in zip(*pairs, strict=True))
    begins, ends = np.concatenate((one, other)), np.concatenate((other, one))
    order = np.lexsort((ends, begins))
    first = np.searchsorted(begins[order], np.arange(side * side + 1))
    return partition.Graph(first, ends[order])


@pytest.mark.sampled
@pytest.mark.parametrize("count", [2, 3, 7, 12, 31])
def test_parts_have_their_shares_of_two_stages_that_lie_differently(partition: ModuleType, count: int):
    side, rng = 60, np.random.default_rng(count)
    steering, graph = partition.Steering(), grid(partition, side)
    steering.submit_graph(graph)
    stages = {partition.COMPUTATION: rng.integers(1, 5, side**2), partition.VISUALISATION: np.arange(side**2) < 1500}
    for kind, weights in stages.items():
        steering.set_weights(weights, np.ones(len(graph.adjacent)))
        steering.submit_stage(kind)
    for shares in (np.ones(count), np.arange(count) + 1.0, np.arange(count) % 2):
        parts = steering.get_partitioning(shares)
        for weights in stages.values():
            fair = weights.sum() * shares / shares.sum()
            loads = np.bincount(parts, weights, count)
            assert (loads[shares == 0] == 0).all()
            assert (loads <= np.maximum(1.05 * fair, fair + weights.max())).all()
    assert steering.cut(parts) == sum(parts[graph.owners] != parts[graph.adjacent])


def test_parts_of_equal_shares_change_names_so_that_little_moves_and_others_do_not(partition: ModuleType):
    before = np.array([0, 0, 0, 1, 1, 2, 2, -1])
    parts = np.array([1, 1, 1, 0, 0, 2, 2, 1])
    assert partition.renamed(parts, before, [1, 1, 1]).tolist() == [0, 0, 0, 1, 1, 2, 2, 0]
    assert partition.renamed(parts, before, [1, 2, 1]).tolist() == parts.tolist()
    assert partition.renamed(parts, np.full(8, -1), [1, 1, 1]).tolist() == parts.tolist()


@pytest.mark.parametrize("ranks", [3, 5, 6] if CAMPAIGN else [3, 5])
def test_as_much_of_a_chain_moves_as_the_formula_says(ranks: int):
    """Part d of P is shared out, the order kept: n/P ((P - 1) - (d (P - 1) - d^2 + P (P - 1) / 2) / (P - 1))."""
    vertices = 4 * ranks * (ranks - 1)
    for dead in range(ranks) if CAMPAIGN else (0, ranks // 2, ranks - 1):
        stays = (dead * (ranks - 1) - dead**2 + ranks * (ranks - 1) / 2) / (ranks - 1)
        words = ("--mesh", "chain", "--vertices", vertices, "--tolerance", 0.1, "--die", f"{dead}@3")
        moved, in_order = re.search(r"(\d+) moved \((\d+) in order\)", solved(ranks, *words).out).groups()
        assert int(in_order) == pytest.approx(vertices / ranks * (ranks - 1 - stays))
        assert int(moved) <= int(in_order)


def test_who_is_between_two_others_leaves_its_part_to_them_and_nothing_else_moves():
    assert (
        "without [1]: 8 vertices lost, 0 moved (0 in order)"
        in solved(3, "--mesh", "chain", "--vertices", 24, "--die", "1@3").out
    )


def test_any_number_of_ranks_computes_the_same_bits():
    states = {re.search(r"\d+ iterations, state \w{8}", solved(ranks, *SMALL).out)[0] for ranks in (1, 2, 5, 8)}
    assert len(states) == 1


@pytest.mark.parametrize(("ranks", "mesh"), dealt([[8], [12]], ["square", "chain"]))
def test_by_default_it_is_right_with_a_death_and_without(ranks: int, mesh: str):
    if ranks == 8:
        assert " lost" not in solved(ranks, "--mesh", mesh).out
    else:
        assert "without [3]" in solved(ranks, "--mesh", mesh, "--die", "3@30").out


@pytest.mark.parametrize("recovery", ["neighbours", "initial"])
def test_it_goes_on_until_one_is_left(recovery: str):
    deaths = [word for death in ("0@2", "4@6", "1@9", "2@9") for word in ("--die", death)]
    out = solved(5, *SMALL, "--recovery", recovery, *deaths).out
    assert [int(parts) for parts in re.findall(r"^(\d) parts, ", out, re.MULTILINE)] == [5, 4, 3, 1]


def test_a_second_failure_during_the_move_is_survived_and_shards_make_no_difference():
    failures = ["rank=2@400us", "rank=0 before its 2nd scatter"]
    runs = [solved(5, *SMALL, fail=failures, shards=shards) for shards in SHARDS]
    assert [run.out for run in runs] == [runs[0].out] * len(SHARDS)
    assert len(runs[0].causes) == 2


def test_the_depth_of_a_hole_is_the_distance_of_its_middle_from_others():
    def depths(program: Any) -> list[int]:
        chain, square = (program.mesh(argparse.Namespace(mesh=mesh, vertices=49)) for mesh in ("chain", "square"))
        holes = [(chain, abs(chain.x - 20) <= far) for far in (0, 1, 4)]
        holes += [(square, abs(square.x - 3) + abs(square.y - 3) <= far) for far in (0, 1, 2)]
        holes += [(chain, chain.x < 5), (chain, chain.x < 0), (chain, chain.x < 49)]
        return [program.depth_of(whole.graph, lost) for whole, lost in holes]

    assert within("repartition", depths) == [1, 2, 5, 1, 2, 3, 5, 0, 0]


def test_borders_have_their_limits():
    """A square of 6 by 6 in four squares, in four rows, and in a chessboard."""

    def found(program: Any) -> list[tuple[float, ...]]:
        whole = program.mesh(argparse.Namespace(mesh="square", vertices=36))
        squares, rows = whole.x // 3 * 2 + whole.y // 3, whole.y // 2
        board = (whole.x + whole.y) % 2
        return [(whole.borders(each), *program.border_limits(whole, each)) for each in (squares, rows, board)]

    squares, rows, board = within("repartition", found)
    assert squares == pytest.approx((12, 12, 1.3 * 8 * 18**0.5))
    assert rows == pytest.approx((12, 9, 1.3 * 6 * 24**0.5))
    assert board == pytest.approx((60, 6, 1.3 * 4 * 36**0.5))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("program", "mesh", "mended", "wrong"),
    [
        ("repartition.py", "chain", "shares[names] = 1\n", "shares[names] = 3\n        shares[names[0]] = 4\n"),
        (
            *("repartition.py", "chain", "+ self.around(self.values)) / self.diagonal"),
            "+ 0.999 * self.around(self.values)) / self.diagonal",
        ),
        ("repartition.py", "chain", "return round(vertices / count * (count - 1 - stay))", "return vertices // count"),
        ("repartition.py", "square", "np.argsort(along_the_curve(x, y, side))", "np.argsort(x * 89 % 37 + y * 9 % 4)"),
        ("partition.py", "chain", "parts[vertices] = names[0]", "parts[vertices] = names[0] // 2"),
        ("partition.py", "square", "float(self.edges[crossing].sum()) / 2", "float(self.edges[crossing].sum()) / 3"),
        ("partition.py", "chain", "refine(self, parts", "parts[::7] = parts[3]\n        refine(self, parts"),
    ],
)
def test_the_judge_finds_what_is_wrong(tmp_path: Path, program: str, mesh: str, mended: str, wrong: str):
    path = spoilt(tmp_path, PROGRAM, mended, wrong, within=program)
    run = simulated(path, "--mesh", mesh, "--die", "3@20", ranks=6, ft=True)
    assert run.out.endswith("right: False\n"), run
    assert run.status == 1


@pytest.mark.parametrize("words", [["--vertices", 1], ["--shift", 0], ["--steps", 0], ["--tolerance", -1]])
def test_arguments_without_sense_are_refused_once(words: list[object]):
    run = simulated(PROGRAM, *words, ranks=2)
    assert (run.out, run.status, run.err.count("repartition: ")) == ("", 2, 1)
