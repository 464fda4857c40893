"""The latency of the best tree of any shape, for comparison with the paper's figure 7.

A node of a tree spends one step on each child in each direction, and a message between parent and child takes L + 2
steps from send to send (Karp, Sahay, Santos, Schauser: "Optimal broadcast and summation in the LogP model", SPAA'93).
So the largest tree that finishes within t steps grows by one more child: N(t) = N(t - d) + N(t - d (L + 2)), with d = 1
direction for Reduce and Bcast, and d = 2 for Allreduce. With k roots, each has such a tree, and they exchange their
values in max(k - 1, L + 1) + k - 1 steps.
"""

from __future__ import annotations


def lower_bound(nodes: int, latency: int, *, roots: str = "multi", operation: str = "allreduce") -> int:
    """Return the steps of an operation without faults, on the best tree of any shape.

    The latency of the network is in steps (L/o). Roots are ``single`` or ``multi``: several gain nothing for operations
    in one direction. The operation is ``allreduce``, ``reduce`` or ``bcast``.
    """
    if operation != "allreduce":
        return _height(nodes, latency + 2, 1)
    single = _height(nodes, latency + 2, 2)
    if roots == "single" or nodes < 2:
        return single
    best, count = single, 2
    # With more roots, the exchange alone takes longer than the current best.
    while count <= nodes and (exchange := max(count - 1, latency + 1) + count - 1) < best:
        best = min(best, exchange + _height(-(-nodes // count), latency + 2, 2))
        count += 1
    return best


def _height(nodes: int, hop: int, directions: int) -> int:
    """Return the smallest t for which N(t) is at least the number of nodes."""
    sizes: list[int] = []
    while True:
        step = len(sizes)
        fewer = sizes[step - directions] if step >= directions else 1
        child = sizes[step - directions * hop] if step >= directions * hop else 0
        sizes.append(fewer + child)
        if sizes[-1] >= nodes:
            return step
