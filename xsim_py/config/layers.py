"""The keys of a layer of a machine: message costs within a node and between nodes.

See `description`.
"""

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
    """Return the field of a segment that defaults to the section's value."""
    return option(kind, "As in the section, but only for messages of this segment.", shown="the section's", key=key)


@dataclass(frozen=True, kw_only=True)
class SegmentSpec:
    """One entry of ``segments``: the parameters of messages up to the next entry's size."""

    from_bytes: int = option(kinds.SIZE, "Smallest message size of the segment.", default=0, required=True)
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

    latency: float = option(up_to(1000), "Factor for the latencies, including per_hop.", default=1.0, shown="1")
    bandwidth: float = option(up_to(1000), "Factor for the bandwidths.", default=1.0, shown="1")
    overhead: float = option(up_to(1000), "Factor for the overheads and gaps.", default=1.0, shown="1")

    def factor(self, name: str) -> Fraction:
        """Return the factor of a layer's or a segment's field; 1 for a field that no factor changes."""
        if name in ("latency_ps", "per_hop_ps"):
            return Fraction(str(self.latency))
        if name == "ps_per_byte":
            return 1 / Fraction(str(self.bandwidth))
        return Fraction(str(self.overhead)) if "overhead" in name or name == "gap_ps" else Fraction(1)


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """Section ``same_node``: message costs between two ranks of one node."""

    latency_ps: int = option(
        kinds.COST,
        "Time from the end of the injection to the arrival, without the latency of hops. Required unless a segment "
        "begins at 0B or times is set.",
        default=0,
        shown="that of the segment that begins at 0B",
    )
    ps_per_byte: Fraction = option(
        kinds.BANDWIDTH,
        "Injection bandwidth of a rank: 1Gbps, 1.25GB/s, or a time per byte such as 6ns/B.",
        default=Fraction(0),
        shown="unlimited",
        key="bandwidth",
    )
    send_overhead_ps: int = option(kinds.COST, "Sender CPU time per message (LogP's o).", default=0, shown="0s")
    recv_overhead_ps: int = option(kinds.COST, "Receiver CPU time per message.", default=0, shown="0s")
    send_overhead_ps_per_byte: Fraction = option(
        kinds.TIME_PER_BYTE,
        "Sender CPU time per byte (LogGOPS' O).",
        default=Fraction(0),
        shown="0s/B",
        key="send_overhead_per_byte",
    )
    recv_overhead_ps_per_byte: Fraction = option(
        kinds.TIME_PER_BYTE,
        "Receiver CPU time per byte.",
        default=Fraction(0),
        shown="0s/B",
        key="recv_overhead_per_byte",
    )
    gap_ps: int = option(kinds.COST, "Minimum time between messages of a rank (LogP's g).", default=0, shown="0s")
    eager_threshold_bytes: int | None = option(
        kinds.SIZE_OR_UNLIMITED,
        "Size of the largest eager message; the send of a larger message waits for the matching receive (rendezvous).",
        shown="unlimited",
    )
    header_bytes: int | None = option(kinds.SIZE, "Bytes on the wire per message in addition to its data.", shown="0B")
    count_first_byte: bool = option(
        kinds.BOOLEAN,
        "false: the injection of n bytes takes the time of n-1 bytes, as in LogGP.",
        default=True,
        shown="true",
    )
    segments: tuple[SegmentSpec, ...] | None = option(
        ListOf(Section(SegmentSpec), "a list of {from: 8KiB, latency: 2us, bandwidth: 5GB/s}"),
        "Cost parameters for messages of a given size or larger, in ascending order of size.",
        shown="none",
    )
    times: Path | None = option(
        kinds.FILE,
        "CSV file of measured one-way times by size, instead of latency and bandwidth, with the columns bytes and "
        "seconds (or median_s); its path is relative to this file.",
        shown="none",
    )
    scale: ScaleSpec | None = option(
        Section(ScaleSpec),
        "Factors for the costs in this section, such as {latency: 0.8, bandwidth: 2}.",
        shown="none",
    )

    def scaled(self) -> Self:
        """Return the layer with its factors applied, and without `scale`.

        No time above zero becomes zero.
        """
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
    """One entry of ``layers``: message costs between ranks in the same unit."""

    name: str = option(kinds.NAME, "Name, such as core, socket or cabinet.", default="", required=True)
    cores: int | None = option(
        integer(1, 2**31 - 1),
        "Number of consecutive cores per unit, for a unit within a node.",
        shown="for a socket, cores_per_node divided by sockets_per_node",
    )
    nodes: int | None = option(
        integer(1, 2**31 - 1), "Number of consecutive nodes per unit, for a unit larger than a node."
    )


@dataclass(frozen=True, kw_only=True)
class NicSpec:
    """Section ``nic``: the network interfaces of a node, shared by its ranks."""

    ps_per_byte: Fraction | None = option(
        kinds.BANDWIDTH, "Bandwidth of each NIC, per direction.", shown="network.bandwidth", key="bandwidth"
    )
    latency_ps: int = option(
        kinds.COST, "Latency added by each of the two NICs on the route of a message.", default=0, shown="0s"
    )
    message_ps: int = option(
        kinds.MESSAGE_RATE,
        "Maximum message rate of each NIC, per direction.",
        default=0,
        shown="unlimited",
        key="message_rate",
    )
    duplex: str = option(
        choice("full", "half"),
        "full: both directions at full bandwidth; half: the two directions share it.",
        default="full",
    )
    both_ways: float = option(
        up_to(1),
        "Average fraction of the bandwidth that a full-duplex NIC provides in each direction while both directions "
        "are busy, from 0.5 to 1.",
        default=1.0,
        shown="1",
    )


@dataclass(frozen=True, kw_only=True)
class MemorySpec:
    """Section ``memory``: the memory per socket (or node), shared by its ranks' messages."""

    ps_per_byte: Fraction = option(
        kinds.BANDWIDTH,
        "Total bandwidth of all messages through the memory.",
        default=Fraction(0),
        required=True,
        key="bandwidth",
    )
    latency_ps: int = option(kinds.COST, "Latency added by the memory.", default=0, shown="0s")


@dataclass(frozen=True, kw_only=True)
class NoiseSpec:
    """Section ``network.noise``: lognormal random additions to messages between nodes."""

    latency: float | None = option(
        up_to(1000), "Median addition to the latency of each message, as a fraction of the latency.", shown="none"
    )
    bandwidth: float | None = option(
        up_to(1000), "Median addition to the transfer time of each message, as a fraction of this time.", shown="none"
    )
    nodes: float | None = option(
        up_to(1000),
        "Median addition to the latency and transfer time of all messages of a node, as a fraction of these times; "
        "drawn once per node.",
        shown="none",
    )
    sigma: float = option(up_to(10), "Standard deviation of the logarithm of the addition.", default=0.5, shown="0.5")


@dataclass(frozen=True, kw_only=True)
class ComputeNoiseSpec:
    """Section ``compute.noise``: random additions to compute times, as fractions of them."""

    work: float | None = option(
        up_to(1000), "Median addition to each compute time, as a fraction of this time.", shown="none"
    )
    ranks: float | None = option(
        up_to(1000),
        "Median addition to all compute times of a rank, as a fraction of them; drawn once per rank.",
        shown="none",
    )
    nodes: float | None = option(
        up_to(1000),
        "Median addition to all compute times of the ranks of a node, as a fraction of them; drawn once per node.",
        shown="none",
    )
    law: str = option(
        choice("lognormal", "exponential"),
        "Distribution of the addition; both have the given median.",
        default="lognormal",
    )
    sigma: float = option(
        up_to(10), "Standard deviation of the logarithm of the addition, for lognormal.", default=0.5,
        shown="0.5",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NetworkSpec(LayerSpec):
    """Section ``network``: message costs between two nodes."""

    per_hop_ps: int = option(kinds.COST, "Additional latency per hop.", default=0, shown="0s")
    model: str = option(
        choice("loggp"),
        "Cost model; loggp: constant overheads, gap, bandwidth and latency.",
        default="loggp",
    )
    contention: str = option(
        choice("none", "links", "flows"),
        "none: messages do not delay each other in the network; links: messages queue for a link; flows: messages "
        "share a link max-min fairly.",
        default="none",
    )
    noise: NoiseSpec | None = option(
        Section(NoiseSpec), "Random additions to the times of messages, determined by the seed.", shown="none"
    )
