"""The keys of a layer of a machine: what messages cost within a node and between nodes; see `description`."""

# ruff: noqa: RUF009 - `option` makes a dataclasses.field, which is what a default here has to be

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from xsim_py.config import value_kinds as kinds
from xsim_py.config.value_kinds import ListOf, Section, choice, integer, option, up_to
from xsim_py.units import round_half_up


def _own(kind: kinds.Kind, *, key: str = "") -> Any:
    """Make the field of a figure that is the section's where a segment leaves it out."""
    return option(kind, "As in the section itself, for these sizes.", shown="the section's", key=key)


@dataclass(frozen=True, kw_only=True)
class SegmentSpec:
    """One entry of ``segments``: the figures of messages from one size up to the next entry's."""

    from_bytes: int = option(kinds.SIZE, "The smallest message that has these figures.", default=0, required=True)
    latency_ps: int | None = _own(kinds.COST)
    ps_per_byte: Fraction | None = _own(kinds.BANDWIDTH, key="bandwidth")
    send_overhead_ps: int | None = _own(kinds.COST)
    recv_overhead_ps: int | None = _own(kinds.COST)
    send_overhead_ps_per_byte: Fraction | None = _own(kinds.TIME_PER_BYTE, key="send_overhead_per_byte")
    recv_overhead_ps_per_byte: Fraction | None = _own(kinds.TIME_PER_BYTE, key="recv_overhead_per_byte")
    gap_ps: int | None = _own(kinds.COST)


@dataclass(frozen=True, kw_only=True)
class ScaleSpec:
    """Section ``network.scale``: factors for all values of a layer, also those of its segments."""

    latency: float = option(up_to(1000), "Factor of the latencies, also that of each hop.", default=1.0, shown="1")
    bandwidth: float = option(up_to(1000), "Factor of the bandwidths.", default=1.0, shown="1")
    overhead: float = option(up_to(1000), "Factor of the overheads and gaps.", default=1.0, shown="1")

    def factor(self, name: str) -> Fraction:
        """Return the factor of a layer's or a segment's field; 1 for a field that no factor changes."""
        if name in ("latency_ps", "per_hop_ps"):
            return Fraction(str(self.latency))
        if name == "ps_per_byte":
            return 1 / Fraction(str(self.bandwidth))
        return Fraction(str(self.overhead)) if "overhead" in name or name == "gap_ps" else Fraction(1)


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """Section ``same_node``: what a message costs between two ranks of one node."""

    latency_ps: int = option(
        kinds.COST,
        "Time from the end of the injection to the arrival, before any hops. Needed where no segment begins at 0B, and "
        "there are no times.",
        default=0,
        shown="that of the segment from 0B",
    )
    ps_per_byte: Fraction = option(
        kinds.BANDWIDTH,
        "How fast a rank injects bytes: 1Gbps, 1.25GB/s, or a time per byte such as 6ns/B.",
        default=Fraction(0),
        shown="unlimited",
        key="bandwidth",
    )
    send_overhead_ps: int = option(
        kinds.COST, "Time of the sender's processor for a message (LogP's o).", default=0, shown="0s"
    )
    recv_overhead_ps: int = option(kinds.COST, "Time of the receiver's processor for a message.", default=0, shown="0s")
    send_overhead_ps_per_byte: Fraction = option(
        kinds.TIME_PER_BYTE,
        "Time of the sender's processor for each byte (LogGOPS' O).",
        default=Fraction(0),
        shown="0s/B",
        key="send_overhead_per_byte",
    )
    recv_overhead_ps_per_byte: Fraction = option(
        kinds.TIME_PER_BYTE,
        "Time of the receiver's processor for each byte.",
        default=Fraction(0),
        shown="0s/B",
        key="recv_overhead_per_byte",
    )
    gap_ps: int = option(
        kinds.COST, "Least time from one message of a rank to its next (LogP's g).", default=0, shown="0s"
    )
    eager_threshold_bytes: int | None = option(
        kinds.SIZE_OR_UNLIMITED,
        "Largest message that is sent without asking; a larger one waits for its receive (rendezvous).",
        shown="unlimited",
    )
    header_bytes: int | None = option(
        kinds.SIZE, "What each message has on the wire besides its own bytes.", shown="0B"
    )
    count_first_byte: bool = option(
        kinds.BOOLEAN,
        "false: the injection of n bytes takes the time of n-1 bytes, as in LogGP.",
        default=True,
        shown="true",
    )
    segments: tuple[SegmentSpec, ...] | None = option(
        ListOf(Section(SegmentSpec), "a list of {from: 8KiB, latency: 2us, bandwidth: 5GB/s}"),
        "Other figures for messages from some sizes on, in ascending order.",
        shown="none",
    )
    times: Path | None = option(
        kinds.FILE,
        "Measured one-way times by size, in place of a bandwidth: a CSV file with columns bytes and seconds (or "
        "median_s); relative to this file.",
        shown="none",
    )
    scale: ScaleSpec | None = option(
        Section(ScaleSpec),
        "Factors for all values of this section, such as {latency: 0.8, bandwidth: 2}.",
        shown="none",
    )

    def scaled(self) -> Self:
        """Return the layer with its factors applied, and without `scale`. No time above zero becomes zero."""
        if self.scale is None:
            return self
        segments = self.segments and tuple(_scaled(each, self.scale) for each in self.segments)
        scaled: Self = replace(_scaled(self, self.scale), scale=None, segments=segments)
        return scaled


def _scaled(values: Any, scale: ScaleSpec) -> Any:
    """Return a layer or a segment with the factors applied to its own fields."""
    changed: dict[str, Any] = {}
    for each in fields(values):
        factor, value = scale.factor(each.name), getattr(values, each.name)
        if factor != 1 and value:
            product = value * factor
            whole = isinstance(value, int)
            changed[each.name] = max(1, round_half_up(product.numerator, product.denominator)) if whole else product
    return replace(values, **changed)


@dataclass(frozen=True, kw_only=True)
class PlacedLayerSpec(LayerSpec):
    """One entry of ``layers``: what a message costs between ranks that are near each other."""

    name: str = option(kinds.NAME, "What it is called, such as core, socket or cabinet.", default="", required=True)
    cores: int | None = option(
        integer(1, 2**31 - 1),
        "How many cores of a node, one after the other, make one of these.",
        shown="of a socket its part of the cores of a node",
    )
    nodes: int | None = option(
        integer(1, 2**31 - 1), "How many nodes, one after the other, make one of these, if it is more than a node."
    )


@dataclass(frozen=True, kw_only=True)
class NicSpec:
    """Section ``nic``: the network interfaces of a node, which its ranks share."""

    ps_per_byte: Fraction | None = option(
        kinds.BANDWIDTH, "Of each, one way.", shown="that of network", key="bandwidth"
    )
    latency_ps: int = option(kinds.COST, "What each of the two on the way adds.", default=0, shown="0s")
    message_ps: int = option(
        kinds.MESSAGE_RATE,
        "How many messages it takes or gives in a second at most.",
        default=0,
        shown="unlimited",
        key="message_rate",
    )
    duplex: str = option(
        choice("full", "half"),
        "full: as fast in both directions at a time; half: both share the bandwidth.",
        default="full",
    )
    both_ways: float = option(
        up_to(1),
        "Which part of its bandwidth a full-duplex one has in each direction while both are busy, 0.5 to 1.",
        default=1.0,
        shown="1",
    )


@dataclass(frozen=True, kw_only=True)
class MemorySpec:
    """Section ``memory``: that of a socket (or of a node with one), which messages between ranks of a node share."""

    ps_per_byte: Fraction = option(
        kinds.BANDWIDTH,
        "How fast messages go through it, all together.",
        default=Fraction(0),
        required=True,
        key="bandwidth",
    )
    latency_ps: int = option(kinds.COST, "What it adds to the latency.", default=0, shown="0s")


@dataclass(frozen=True, kw_only=True)
class NoiseSpec:
    """Section ``network.noise``: what is added to messages between nodes by chance, by lognormal laws."""

    latency: float | None = option(
        up_to(1000), "Median of what is added to the latency of each message, as a part of it.", shown="none"
    )
    bandwidth: float | None = option(
        up_to(1000), "Median of what is added to the time of its bytes on the wire, as a part of it.", shown="none"
    )
    nodes: float | None = option(
        up_to(1000),
        "Median of what is added to both for all messages of a node, as a part of them; drawn once for each.",
        shown="none",
    )
    sigma: float = option(up_to(10), "Standard deviation of the logarithm of what is added.", default=0.5, shown="0.5")


@dataclass(frozen=True, kw_only=True)
class ComputeNoiseSpec:
    """Section ``compute.noise``: what is added to computing by chance, as a part of what it takes."""

    work: float | None = option(
        up_to(1000), "Median of what is added to each piece of computing, as a part of it.", shown="none"
    )
    ranks: float | None = option(
        up_to(1000), "Median of what is added to all that a rank computes; drawn once for each.", shown="none"
    )
    nodes: float | None = option(
        up_to(1000), "Median of what is added to all that the ranks of a node compute; drawn once.", shown="none"
    )
    law: str = option(
        choice("lognormal", "exponential"), "The law of what is added; both have the median.", default="lognormal"
    )
    sigma: float = option(
        up_to(10), "Standard deviation of the logarithm of what is added, where it is lognormal.", default=0.5,
        shown="0.5",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NetworkSpec(LayerSpec):
    """Section ``network``: what a message costs between two nodes."""

    per_hop_ps: int = option(kinds.COST, "Additional latency of each hop.", default=0, shown="0s")
    model: str = option(
        choice("loggp"),
        "How the cost of a message follows from its size; loggp: overheads, gap, bandwidth and latency are constants.",
        default="loggp",
    )
    contention: str = option(
        choice("none", "links", "flows"),
        "links: messages that meet on a link of the network wait for each other. flows: they share it max-min fairly.",
        default="none",
    )
    noise: NoiseSpec | None = option(
        Section(NoiseSpec), "What is added to messages by chance, drawn by the seed.", shown="none"
    )
