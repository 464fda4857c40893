"""The bound of the paper's figure 7."""

import pytest

from xsim_py.ftco.bounds import lower_bound

SINGLE = {1024: 100, 2048: 108, 4096: 118, 8192: 126, 16384: 134, 32768: 144, 65536: 152}
MULTI = {1024: 90, 2048: 100, 4096: 108, 8192: 116, 16384: 125, 32768: 134, 65536: 142}


@pytest.mark.parametrize(("roots", "expected"), [("single", SINGLE), ("multi", MULTI)])
def test_the_best_tree_takes_what_is_derived_for_the_paper(roots: str, expected: dict[int, int]):
    assert {nodes: lower_bound(nodes, 10, roots=roots) for nodes in expected} == expected


def test_small_cases_by_hand():
    assert [lower_bound(1, 10, roots=roots) for roots in ("single", "multi")] == [0, 0]
    assert lower_bound(2, 10, roots="single") == 2 * 12
    assert lower_bound(2, 10, roots="multi") == 12
    assert lower_bound(2, 10, operation="bcast") == 12
    assert lower_bound(3, 10, operation="reduce") == 13  # the second child's value is taken one step after the first's
