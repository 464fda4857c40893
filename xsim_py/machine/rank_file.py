"""Rank files: the node and core of each rank."""

from __future__ import annotations

import csv
from array import array

from xsim_py.config import MachineSpec
from xsim_py.errors import ConfigError

_COLUMNS = ("rank", "node", "core")


def read_rank_file(spec: MachineSpec, ranks: int, nodes: int, cores_per_node: int) -> tuple[array[int], array[int]]:
    """Return the node and the core of each of the initial ranks.

    The description's ``machine.rank_file`` names the file: CSV with columns rank, node and core, with lines in any
    order. Lines of further ranks are ignored. `nodes` and `cores_per_node` are the size of the machine.

    Raises a `ConfigError` if the file cannot be read or has no line for a rank, if a node or core does not exist, or if
    two ranks have the same core although ``machine.oversubscribe`` is false.
    """
    path = spec.machine.rank_file
    assert path is not None
    node_of, core_of = array("i", [-1] * ranks), array("i", [0] * ranks)
    taken: dict[tuple[int, int], int] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            if missing := [name for name in _COLUMNS if name not in (rows.fieldnames or ())]:
                raise ConfigError(f"{path}: missing column {missing[0]}; the header needs rank, node and core")
            for row in rows:
                rank, node, core = (_whole(row[name], f"{path}:{rows.line_num}: {name}") for name in _COLUMNS)
                if rank >= ranks:
                    continue
                where = f"{path}:{rows.line_num}"
                if node_of[rank] >= 0:
                    raise ConfigError(f"{where}: duplicate line of rank {rank}")
                if node >= nodes or core >= cores_per_node:
                    raise ConfigError(
                        f"{where}: out of range: expected a node from 0 to {nodes - 1} and a core from 0 to"
                        f" {cores_per_node - 1}"
                    )
                if (node, core) in taken and not spec.machine.oversubscribe:
                    other = taken[node, core]
                    raise ConfigError(
                        f"{where}: rank {other} is on the same core; set machine.oversubscribe to share cores"
                    )
                taken[node, core] = rank
                node_of[rank], core_of[rank] = node, core
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    if -1 in node_of:
        raise ConfigError(f"{path}: missing line for rank {node_of.index(-1)}")
    return node_of, core_of


def _whole(text: str | None, where: str) -> int:
    if text is None or not text.strip().isdecimal():
        raise ConfigError(f"{where}: expected the number of a node or core, got {text!r}")
    return int(text)
