"""Hierarchical FTCO: each group that shares memory has a leader, and the leaders run FTCO."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from xsim_py.ftco.model import NEVER, Configuration, Outcome, Plan
from xsim_py.ftco.steps import StepModel

_READ_DELAY: Final = 1
"""Steps from a write to the shared memory of a group to its read."""


def run_hierarchical(configuration: Configuration, plan: Plan) -> Outcome:
    """Run an Allreduce of groups of ``configuration.group`` neighbours.

    The leader is the lowest surviving member. It reads the others' values one after the other, one step each, takes
    part in FTCO's tree of all groups, and writes the result, which the others then read. A failure is detected after a
    timeout of 4 steps, two accesses and their overheads: one after the other up to the leader, and all later ones at
    once. A group without a surviving member is a failed node of the tree.
    """
    size, group = configuration.nodes, configuration.group
    count = -(-size // group)
    limit = 2 * (_READ_DELAY + 1)
    dead, start = np.zeros(count, np.int64), np.zeros(count, np.int64)
    survivors = [
        [node for node in range(first, min(first + group, size)) if plan.dead_step[node] > 0]
        for first in range(0, size, group)
    ]
    for index, members in enumerate(survivors):
        lost = min(group, size - index * group) - len(members)
        dead[index] = NEVER if members else 0
        if members:
            before = members[0] - index * group
            waits = limit * (before + (lost > before))
            reads = len(members) - 1
            start[index] = max(int(plan.start_step[node]) for node in members) + waits + (reads and reads + _READ_DELAY)
    radix = min(configuration.k, max(2, count))
    upper = replace(configuration, nodes=count, radix=radix, inactive=0, failures=0, algorithm="tree", imbalance="none")
    outcome = StepModel(upper, Plan(plan.seed, dead, start)).run()
    last = max((len(members) for members in survivors), default=1)
    after = _READ_DELAY + 1 if last > 1 else 0
    starts = [int(plan.start_step[node]) for members in survivors for node in members]
    locally = 2 * sum(len(members) - 1 for members in survivors if members)
    return replace(
        outcome,
        latency_steps=outcome.last_step + after - max(starts),
        messages=outcome.messages + locally,
        data=outcome.data + locally,
        input_spread=max(starts) - min(starts),
        dead=size - len(starts),
        first_start_step=min(starts),
        last_start_step=max(starts),
        last_step=outcome.last_step + after,
    )
