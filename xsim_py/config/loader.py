"""Loading of a `MachineSpec` from a preset's name, a file or a mapping."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache, lru_cache, reduce
from operator import attrgetter, getitem
from pathlib import Path
from typing import Any, Final

from xsim_py.config.contradictions import contradictions
from xsim_py.config.described import read_description
from xsim_py.config.description import FAULTS, MachineSpec, ProcessSpec, SpawnSpec
from xsim_py.config.document import read_text, read_yaml, read_yaml_file, yaml_text
from xsim_py.config.entries import Entry, Problem, from_python
from xsim_py.config.topologies import TopologySpec
from xsim_py.config.value_kinds import MapOf, OneOf, Reading, Section, options
from xsim_py.errors import ConfigError, advice

_WHAT: Final = "machine description"
_PACKAGE: Final = Path(__file__).resolve().parents[1]


@cache
def bundled(name: str) -> Path:
    """Return the directory ``models`` or ``apps``.

    A wheel contains it with a leading underscore.
    """
    installed = _PACKAGE / f"_{name}"
    return installed if installed.is_dir() else _PACKAGE.parent / name


def bundled_apps() -> Path:
    """Return the directory of the bundled programs."""
    return bundled("apps")


@cache
def files_by_name(folder: Path) -> Mapping[str, Path]:
    """Return the descriptions in a directory, by name."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml"), key=lambda path: path.stem)}


def presets() -> Mapping[str, Path]:
    """Return the files of the machines that come with xsim_py, by name."""
    return files_by_name(bundled("models"))


def preset_path(name: str) -> Path:
    """Return the file of a preset; raise ConfigError with the available names if there is none."""
    found = presets().get(name)
    if found is None:
        raise ConfigError(
            f"unknown preset machine {name!r}: {advice(name, presets())}\n"
            f"presets: {', '.join(presets())}; the name of a file ends in .yaml"
        )
    return found


def load_machine(source: str | Path | Mapping[str, Any], *, overrides: Mapping[str, Any] | None = None) -> MachineSpec:
    """Read and check a machine description: a preset (``"gige"``), a YAML file, or a mapping.

    `overrides` are values by dotted path, such as ``{"network.latency": "5us"}``; text is read as YAML. Raise
    ConfigError with one problem per line: ``file:line:column: path: message``.
    """
    if isinstance(source, Mapping):
        return _checked("custom", from_python(source), overrides, [])
    path, set_here = _path(source), tuple((overrides or {}).items())
    read = _read if all(isinstance(value, str) for _, value in set_here) else _read.__wrapped__
    return read(path, read_text(path, what=_WHAT), set_here)


@lru_cache(maxsize=64)  # pytest, studies and explorations read the same machine for each run
def _read(path: Path, text: str, overrides: tuple[tuple[str, Any], ...]) -> MachineSpec:
    problems: list[Problem] = []
    root = read_yaml(text, name=str(path), folder=path.parent, problems=problems)
    return _checked(path.stem, root, dict(overrides), problems)


def _checked(name: str, root: Entry, overrides: Mapping[str, Any] | None, problems: list[Problem]) -> MachineSpec:
    reading = Reading(every_path=every_path(), problems=problems)
    spec = read_description(MachineSpec, _WHAT, root, reading, contradictions, name=name, overrides=overrides)
    layers = spec.layers and tuple(each.scaled() for each in spec.layers)
    between, within = spec.network and spec.network.scaled(), spec.same_node and spec.same_node.scaled()
    return dataclasses.replace(spec, network=between, same_node=within, layers=layers)


def description_text(source: str | Path | Mapping[str, Any], *, overrides: Mapping[str, Any] | None = None) -> str:
    """Return a machine description as YAML, with the keys set by `overrides`.

    See `load_machine`.
    """
    return yaml_text(load_machine(source, overrides=overrides).plain)


def machine_name(source: str | Path | Mapping[str, Any]) -> str:
    """Return the name of a machine: the one in its description, or else of its file.

    The description may be invalid.
    """
    try:
        if isinstance(source, Mapping):
            root, name = from_python(source), "custom"
        else:
            path = _path(source)
            root, name = read_yaml_file(path, what=_WHAT, problems=[]), path.stem
    except ConfigError:
        return Path(str(source)).stem
    named = root.value.get("name") if isinstance(root.value, dict) else None
    return named.value if named is not None and isinstance(named.value, str) and named.value else name


def machine_names(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the names of several machines for tables and figures: their names, or as requested.

    `sources` maps each requested machine to its source. Machines with equal names, or whose name was requested for
    another machine, are named as requested: all names are different.
    """
    names = {asked: machine_name(source) for asked, source in sources.items()}
    while len(counts := Counter(names.values())) < len(names):
        names = {asked: name if counts[name] == 1 else asked for asked, name in names.items()}
    return names


def _path(source: object) -> Path:
    if not isinstance(source, str | Path) or not str(source):
        raise ConfigError(f"machine: expected a preset, a file or a mapping, got {source!r}")
    path = Path(source)
    preset = isinstance(source, str) and path.suffix not in (".yaml", ".yml") and len(path.parts) == 1
    return preset_path(str(source)) if preset else path


@cache
def every_path() -> tuple[str, ...]:
    """Return the dotted path of every key that a description may have, in order."""
    return tuple(path for path, _ in _paths(MachineSpec, ""))


def kind_of(path: str) -> Any | None:
    """Return the kind of value at a dotted path; None if there is no such key."""
    return dict(_paths(MachineSpec, "")).get(path)


def _paths(cls: type[Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for _, key, kind, *_ in options(cls):
        path = prefix + key
        yield path, kind
        if isinstance(kind, Section):
            yield from _paths(kind.cls, f"{path}.")
        elif isinstance(kind, OneOf) and isinstance(kind.other, MapOf):
            yield from ((f"{path}.{key}", each) for key, each in kind.other.kinds.items())


_OF_LAYER: Final = dict.fromkeys(("segments", "times", "header_bytes"))
_OLD_OF_TOPOLOGY: Final = {"type", "dims", "twist", "file", "edges", "hosts"}
_NEWER_KEYS: Final[dict[str, dict[str, Any]]] = {
    "": {**dict.fromkeys(("layers", "nic", "memory")), "spawn": SpawnSpec(), "process": ProcessSpec()},
    "machine": {
        **dict.fromkeys(("sockets_per_node", "nics_per_node", "rank_file", "memory_per_node_bytes")),
        "oversubscribe": False,
    },
    "topology": dict.fromkeys({key.name for key in options(TopologySpec)} - _OLD_OF_TOPOLOGY),
    "network": {**_OF_LAYER, "noise": None},
    "same_node": _OF_LAYER,
    "compute": dict.fromkeys(("times", "speeds", "flops", "ps_per_byte", "noise")),
    "mpi": {"library_version": "", "create_group": "plain", "resilience": None},
    "mpi.ftco": {"algorithm": "tree"},
    "failures": dict.fromkeys(FAULTS),
}
"""By section, the keys that are younger than `config_hash`, and their defaults."""


def config_hash(spec: MachineSpec) -> str:
    """Return sixteen hexadecimal digits that are equal for two descriptions of the same machine.

    Order of keys, units and comments are ignored, and so are the name, description and source. The contents of a
    graph's file count, but not its path.
    """
    values = _without_defaults(dataclasses.replace(spec, name="", description="", source=""), _NEWER_KEYS[""])
    for path, newer in _NEWER_KEYS.items():
        if path and (section := attrgetter(path)(spec)) is not None:
            *above, name = path.split(".")
            reduce(getitem, above, values)[name] = _without_defaults(section, newer)
    if spec.topology.type == "fattree":
        values["topology"] |= {key: getattr(spec.topology, key) for key in ("leaves", "nodes_per_leaf", "spines")}
    text = json.dumps(values, default=_plain, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _without_defaults(section: object, newer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a section without those younger than hashes that have their defaults."""
    values: Any = _plain(section)
    return {name: value for name, value in values.items() if name not in newer or value != newer[name]}


def _plain(value: object) -> object:
    """Return a value in a form that JSON can represent."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Path):
        with value.open("rb") as file:
            return hashlib.file_digest(file, hashlib.blake2b).hexdigest()
    assert dataclasses.is_dataclass(value), value
    names = (field.name for field in options(type(value)))
    return {name: getattr(value, name) for name in names if name != "scale"}  # `load_machine` has applied the scale
