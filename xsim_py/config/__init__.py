"""Machine descriptions: YAML, its validation, the presets and the JSON Schema.

The keys are defined once, in `xsim_py.config.description`. `load_machine` reads and validates a description and returns
a `MachineSpec` of plain numbers.
"""

from __future__ import annotations

from xsim_py.config.description import (
    FAULTS,
    ComponentSpec,
    ComputeSpec,
    DetectorSpec,
    DrawSpec,
    FailuresSpec,
    FtcoSpec,
    MachineSpec,
    MpiSpec,
    NodesSpec,
    ProcessSpec,
    ResilienceSpec,
    SpawnSpec,
    SpeedSpec,
    StorageSpec,
    UlfmSpec,
)
from xsim_py.config.layers import (
    ComputeNoiseSpec,
    LayerSpec,
    MemorySpec,
    NetworkSpec,
    NicSpec,
    NoiseSpec,
    PlacedLayerSpec,
    SegmentSpec,
)
from xsim_py.config.loader import (
    config_hash,
    description_text,
    load_machine,
    machine_name,
    machine_names,
    preset_path,
    presets,
)
from xsim_py.config.topologies import EdgeSpec, LinkSpec, TopologySpec, TwistSpec

__all__ = [
    "FAULTS",
    "ComponentSpec",
    "ComputeNoiseSpec",
    "ComputeSpec",
    "DetectorSpec",
    "DrawSpec",
    "EdgeSpec",
    "FailuresSpec",
    "FtcoSpec",
    "LayerSpec",
    "LinkSpec",
    "MachineSpec",
    "MemorySpec",
    "MpiSpec",
    "NetworkSpec",
    "NicSpec",
    "NodesSpec",
    "NoiseSpec",
    "PlacedLayerSpec",
    "ProcessSpec",
    "ResilienceSpec",
    "SegmentSpec",
    "SpawnSpec",
    "SpeedSpec",
    "StorageSpec",
    "TopologySpec",
    "TwistSpec",
    "UlfmSpec",
    "config_hash",
    "description_text",
    "load_machine",
    "machine_name",
    "machine_names",
    "preset_path",
    "presets",
]
