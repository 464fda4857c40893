"""The table ``links`` of a run: the load of each link, from the messages per pair of ranks."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.network.link import least_ps_per_byte
from xsim_py.report.table import Table, table_of_rows
from xsim_py.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xsim_py.machine import Machine


def links_table(
    pairs: Mapping[str, Sequence[int]], nodes: Sequence[int], machine: Machine, *, virtual_time_ps: int
) -> Table:
    """Return the load of each link with traffic, sorted by name.

    Every message counts with its bytes on each link of its route, whether or not links are shared. `pairs` is the table
    of that name, and `nodes` has the node of each rank; docs/reference/result.md explains the columns.
    """
    if len(machine.node_of) < len(nodes):  # ranks spawned in another process
        machine.add_ranks(len(machine.node_of), nodes[len(machine.node_of) :])
    counts: Counter[Any] = Counter()
    sums: Counter[Any] = Counter()
    for (origin, to), (messages, size_bytes) in _by_pair(pairs).items():
        if max(origin, to) < len(nodes):  # others belong to an earlier start of the job
            for link in machine.route(origin, to):
                counts[link] += messages
                sums[link] += size_bytes
    topology, network = machine.topology, machine.spec.network
    fastest = Fraction(0) if network is None else least_ps_per_byte(network)
    rows = []
    for link, messages in counts.items():
        layer = topology.layer(link)
        ps_per_byte = (
            Fraction(0) if topology.link_parameters is None else topology.link_parameters[layer][0]
        ) or fastest
        busy_s = float(sums[link] * ps_per_byte) / PS_PER_S
        part = busy_s * PS_PER_S / virtual_time_ps if virtual_time_ps else 0.0
        ends = topology.vertex(link[0]), topology.vertex(link[1])
        rows.append((topology.link_name(link), topology.layers[layer], *ends, sums[link], messages, busy_s, part))
    rows.sort()
    return table_of_rows("links", rows)


def _by_pair(pairs: Mapping[str, Sequence[int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return messages and bytes of each pair of ranks, summed over all sizes."""
    columns = [np.array(pairs[name], np.int64) for name in ("source", "dest", "messages", "bytes")]
    ends, which = np.unique(columns[0] << 32 | columns[1], return_inverse=True)
    sums = np.zeros((len(ends), 2), np.int64)
    np.add.at(sums, which, np.stack(columns[2:], axis=1))
    found = zip(ends.tolist(), sums.tolist(), strict=True)
    return {(both >> 32, both & 0xFFFFFFFF): (messages, size) for both, (messages, size) in found}
