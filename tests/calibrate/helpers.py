"""Measurements that others made, and machines that are made of them."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from xsim_py.calibrate.formats import read_measurements
from xsim_py.calibrate.layers import FittedLayer
from xsim_py.calibrate.machine_file import default_sections, machine_text
from xsim_py.calibrate.measured import PINGPONG, Measured
from xsim_py.config import MachineSpec, load_machine
from xsim_py.machine import Machine
from xsim_py.network import make_network

DATA = Path(__file__).parent / "data"


def data(name: str) -> list[Measured]:
    return read_measurements(str(DATA / name))


def pingpong(series: Iterable[Measured]) -> dict[int, float]:
    return dict(next(each for each in series if each.operation == PINGPONG).seconds)


def every_other(series: Iterable[Measured], first: int) -> list[Measured]:
    """Half of the sizes: those at even positions, or at odd ones."""
    return [
        Measured(each.operation, dict(list(each.seconds.items())[first::2]), each.file, each.layer, each.ranks)
        for each in series
    ]


def made(**layers: FittedLayer) -> MachineSpec:
    """The machine that is written for these layers, read again."""
    text = machine_text("made", layers, default_sections([*layers]), files=["a.csv"], command="a test")
    path = Path("made.yaml")
    path.write_text(text, encoding="utf-8")
    return load_machine(path)


def predicted_s(spec: MachineSpec, sizes: Iterable[int], layer: str = "network") -> np.ndarray:
    """The one-way times of the simulated network."""
    machine = Machine(spec, ranks=2)
    other = next((rank for rank, node in enumerate(machine.node_of) if (node == 0) == (layer == "same_node") and rank))
    link = make_network(spec, places=machine).link(0, other)
    return np.array([link.one_way_ps(size) / 1e12 for size in sizes])


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))
