"""Machine descriptions with fitted costs and remarks, as readable YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from xsim_py.calibrate.layers import Figures, FittedLayer
from xsim_py.calibrate.measured import NETWORK, SAME_NODE
from xsim_py.config import load_machine
from xsim_py.config.loader import preset_path
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine
from xsim_py.units import PS_PER_S, format_time

_WIDTH = 118
_TOGETHER = "\N{NO-BREAK SPACE}"  # prevents a line break
_NO_TIME_S = 1e-19  # per byte: a picosecond for ten million bytes
_OURS = ("name", "description", "source", NETWORK, SAME_NODE)
_KEPT = ("model", "contention", "noise", "per_hop")
_COMMENT = re.compile(r"(?:^[ \t]*#.*\n)+|[ \t]+#[^'\"\n]*$", re.MULTILINE)  # whole lines, or one after an entry
_ON_A_NODE = re.compile(r"\bsame_node\b|measured within a node")
_ALONE = "# nothing was measured within a node"
_ALONE_ON_A_NODE = re.compile(rf"^[ \t]+cores_per_node: 1[ \t]+{_ALONE}\n", re.MULTILINE)
_TOP_LEVEL = re.compile(r"([A-Za-z_]\w*)\s*:")


@dataclass(frozen=True)
class OtherSections:
    """The other sections of a machine, besides the fitted costs.

    `network` has the lines of its section that are not message costs. Hops between neighbours add `way_s` to each
    latency.
    """

    text: str
    network: tuple[str, ...] = ()
    way_s: float = 0.0


def default_sections(layers: Sequence[str]) -> OtherSections:
    """Return a switch with enough nodes for the ranks; a single node if only that was measured."""
    if NETWORK not in layers:
        return OtherSections("topology:\n  type: single\n")
    text = "topology:\n  type: switch\n"
    if SAME_NODE not in layers:
        text = f"machine:\n  cores_per_node: 1       {_ALONE}\n\n{text}"
    return OtherSections(text)


def other_sections_of(source: str, out: str, layers: Sequence[str]) -> OtherSections:
    """Return the other sections of an existing machine, without comments on a layer fitted now.

    Raise ConfigError if its graph file would not be found from the new file's directory.
    """
    spec = load_machine(source)
    path = Path(source) if Path(source).suffix in (".yaml", ".yml") else preset_path(source)
    if spec.topology.file is not None and out != "-" and path.parent.resolve() != Path(out).parent.resolve():
        raise ConfigError(f"--like {source}: its topology.file is relative to its folder; write --out into that, too")
    blocks = _blocks(path.read_text(encoding="utf-8"))
    if {key for key, _ in blocks} <= {""}:
        raise ConfigError(f"--like {source}: write each of its sections from the beginning of a line")
    left_out = {*_OURS[:3], *layers}
    if SAME_NODE in layers:  # remarks on its absence no longer apply
        blocks = [(key, _ALONE_ON_A_NODE.sub("", block)) for key, block in blocks]
    text = "".join(block for key, block in blocks if key and key not in left_out and block.strip() != f"{key}:")
    if SAME_NODE in layers:
        text = _COMMENT.sub(lambda found: "" if _ON_A_NODE.search(found[0]) else found[0], text)
    kept: list[str] = []
    if NETWORK in layers and spec.network is not None:
        inside = next((block for key, block in blocks if key == NETWORK), "")
        kept = [found for key in _KEPT if (found := _entry(inside, key))]
    way_ps = 0
    if spec.network is not None:
        way_ps = (Machine(spec, ranks=1).topology.least_hops or 0) * spec.network.per_hop_ps
    return OtherSections(text, tuple(kept), way_ps / PS_PER_S)


def _blocks(text: str) -> list[tuple[str, str]]:
    """Return the sections of a description by key, as written, each with the comments before it."""
    blocks: list[tuple[str, str]] = []
    before = ""
    for line in text.splitlines(keepends=True):
        if found := _TOP_LEVEL.match(line):
            blocks.append((found[1], before + line))
            before = ""
        elif line.lstrip().startswith("#") and not line.startswith(" "):
            before += line
        elif blocks:
            blocks[-1] = (blocks[-1][0], blocks[-1][1] + before + line)
            before = ""
    return blocks


def _entry(section: str, key: str) -> str:
    """Return one entry of a section, on one line or several, or in braces."""
    found = re.search(rf"^\s+{key}\s*:(.*\n(?:(?:\s*#.*|\s{{4,}}\S.*)\n)*)", section, re.MULTILINE)
    if found is not None and not section.split("\n", 1)[0].rstrip().endswith("}"):
        return f"{key}:{found[1].rstrip()}"
    found = re.search(rf"[{{,]\s*{key}\s*:\s*([^,{{}}]+|\{{[^}}]*\}})", section)
    return f"{key}: {found[1].strip()}" if found else ""


def machine_text(
    name: str,
    layers: dict[str, FittedLayer],
    frame: OtherSections,
    *,
    files: Sequence[str],
    command: str,
    source: str = "",
) -> str:
    """Return the description of a machine.

    `source` is that of the measurements, in addition to the file names. Its first lines name the files and the command.
    """
    source_line = f"Fitted by {command} to {', '.join(files)}."
    lines = wrap(source or source_line, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    parts = [
        _comment("", source_line) + f"name: {_scalar(name)}\n" + f"description: {_scalar(f'{name}, calibrated')}\n",
        "source: >-\n" + "\n".join(lines) + "\n",
        frame.text.strip("\n") + "\n",
    ]
    for layer, fitted in layers.items():
        network = layer == NETWORK
        parts.append("\n".join(_layer(layer, fitted, frame if network else OtherSections(""))) + "\n")
    return "\n".join(parts)


def _scalar(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z][\w .,()-]*", text) else json.dumps(text)


def _comment(indent: str, text: str) -> str:
    return "".join(f"{indent}# {line}\n" for line in wrap(text, _WIDTH - len(indent)))


def _layer(name: str, fitted: FittedLayer, frame: OtherSections) -> Iterator[str]:
    """Yield the lines of a section."""
    yield f"{name}:"
    errors = 100 * fitted.errors()
    worst = int(np.argmax(errors))
    yield _comment(
        "  ",
        f"{len(errors)} sizes from {int(fitted.sizes[0]):,} to {int(fitted.sizes[-1]):,} B. Errors of the fitted "
        f"one-way times: mean {errors.mean():.2f} %, 95th percentile {np.percentile(errors, 95):.1f} %, largest "
        f"{errors[worst]:.1f} % (at {int(fitted.sizes[worst]):,} B).",
    ).rstrip("\n")
    for note in fitted.notes:
        yield _comment("  ", f"{note.partition(': ')[2]}.").rstrip("\n")
    for line in frame.network:
        yield f"  {line}"
    if fitted.threshold_bytes is not None:
        yield f"  eager_threshold: {fitted.threshold_bytes}B  # {fitted.threshold_why}"
    yield "  segments:"
    for each in fitted.figures:
        if each.why:
            yield f"    # {each.why}"
        entries = ", ".join(entry.replace(" ", _TOGETHER) for entry in _figures(each, frame.way_s))
        lines = wrap(f"{{{entries}}}", _WIDTH - 6, break_long_words=False)
        yield "    - " + f"\n{' ' * 7}".join(lines).replace(_TOGETHER, " ")


def _figures(each: Figures, way_s: float) -> Iterator[str]:
    yield f"from: {each.from_bytes}B"
    yield f"latency: {_time(max(each.latency_s - way_s, 0.0))}"
    yield f"bandwidth: {_bandwidth(each.s_per_byte)}"
    for key, value in (("send_overhead", each.send_s), ("recv_overhead", each.receive_s), ("gap", each.gap_s)):
        if value:
            yield f"{key}: {_time(value)}"
    for key, value in (
        ("send_overhead_per_byte", each.send_s_per_byte),
        ("recv_overhead_per_byte", each.receive_s_per_byte),
    ):
        if value >= _NO_TIME_S:
            yield f"{key}: {_digits(value * 1e9)}ns/B"


def _digits(value: float) -> str:
    """Return five significant digits without an exponent."""
    text = np.format_float_positional(value, precision=5, fractional=False, trim="-")
    return str(text)


def _time(seconds: float) -> str:
    return f"{_digits(round(seconds * 1e12) / 1e6)}us" if seconds >= 0.5e-12 else "0s"


def _bandwidth(s_per_byte: float) -> str:
    return "unlimited" if s_per_byte < _NO_TIME_S else f"{_digits(1e-9 / s_per_byte)}GB/s"


def residual_columns(fitted: FittedLayer) -> dict[str, list[Any]]:
    """Return measured and fitted times of all sizes as columns of a table."""
    times = fitted.fitted()
    return {
        "bytes": [int(size) for size in fitted.sizes],
        "measured": [format_time(round(time * PS_PER_S)) for time in fitted.seconds],
        "fitted": [format_time(round(time * PS_PER_S)) for time in times],
        "error_%": [f"{100 * error:+.1f}" for error in times / fitted.seconds - 1],
    }
