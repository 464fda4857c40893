"""Fitted costs: errors on sizes that were not fitted, thresholds that the measurers know, and known machines."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.calibrate.helpers import data, every_other, made, pingpong, predicted_s
from xsim_py.calibrate.layers import fit_layer
from xsim_py.calibrate.measured import ISEND, PINGPONG, RECV, STREAM, Measured
from xsim_py.errors import ConfigError

pytestmark = pytest.mark.usefixtures("in_tmp_path")


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(
    ("file", "layer", "mean", "percentile"),
    [
        ("stampede-remote.csv", "network", 0.015, 0.05),
        ("stampede-local.csv", "same_node", 0.023, 0.07),
        ("graphene.csv", "network", 0.065, 0.25),
    ],
)
def test_half_of_the_sizes_predicts_the_others(file: str, layer: str, mean: float, percentile: float, first: int):
    series = data(file)
    others = dict(list(pingpong(series).items())[1 - first :: 2])
    spec = made(**{layer: fit_layer(every_other(series, first), what=layer)})
    errors = np.abs(predicted_s(spec, others, layer) / [*others.values()] - 1)
    assert len(errors) == 245
    assert errors.mean() <= mean
    assert np.percentile(errors, 95) <= percentile


@pytest.mark.parametrize(
    ("file", "least", "most"),
    [
        ("stampede-remote.csv", 17107, 17498),  # the measurers say 17,420
        ("stampede-local.csv", 8023, 8192),
        ("graphene.csv", 62793, 65626),
        ("aws-osu_latency.txt", 65536, 65536),
        ("google-osu_latency.txt", 32768, 32768),
    ],
)
@pytest.mark.parametrize("only", [True, False])
def test_the_threshold_is_found(file: str, least: int, most: int, only: bool):
    series = [each for each in data(file) if each.operation == PINGPONG or not only]
    if only and file == "graphene.csv":
        most = 70000  # TCP's own steps hide it
    fitted = fit_layer(series)
    assert fitted.threshold_bytes is not None
    assert least <= fitted.threshold_bytes <= most


@pytest.mark.parametrize(
    "file",
    ["stampede-remote.csv", "stampede-local.csv", "graphene.csv", "azure-osu_latency.txt", "aws-osu_latency.txt"],
)
def test_the_written_figures_reproduce_the_ping_pong(file: str):
    fitted = fit_layer(data(file))
    assert predicted_s(made(network=fitted), map(int, fitted.sizes)) == pytest.approx(fitted.fitted(), rel=2e-4)
    for each in fitted.figures:
        parts = (each.latency_s, each.s_per_byte, each.send_s, each.receive_s, each.send_s_per_byte, each.gap_s)
        assert min(parts) >= 0
    assert fitted.figures[0].latency_s > 0


# One-way times in us between two nodes of a cloud, by powers of two from 1 KiB on; that of 64 KiB is disturbed.
CLOUD = [37.41, 42.63, 47.89, 53.59, 69.66, 108.65, 313.34, 279.19, 306.77, 523.31, 1078.74, 1899.7, 3439.7]
ONE_SIZE = st.tuples(st.integers(0, 22), st.floats(0.5, 2))


@settings(max_examples=30, deadline=None)
@given(st.lists(ONE_SIZE, min_size=5, max_size=22, unique_by=lambda one: one[0]))
def test_no_segment_outruns_the_largest_messages(disturbed: list[tuple[int, float]]):
    """A stream of messages of any size keeps the interface busy for as long as the largest ones do, per byte."""
    cloud = {1 << (10 + step): time_us * 1e-6 for step, time_us in enumerate(CLOUD)}
    made_up = {1 << step: (5e-6 + 1e-9 * 2**step) * factor for step, factor in sorted(disturbed)}
    for seconds in (cloud, made_up):
        sizes = sorted(seconds)
        half = max((size for size in sizes if size <= sizes[-1] / 2), default=sizes[0])
        wire = (seconds[sizes[-1]] - seconds[half]) / (sizes[-1] - half)
        wire = min(wire, *(seconds[size] / size for size in sizes))
        figures = fit_layer([Measured(PINGPONG, seconds, "a.csv")]).figures
        ends = [*(each.from_bytes for each in figures[1:]), 2 * sizes[-1]]
        for each, end in zip(figures, ends, strict=True):
            for size in (each.from_bytes, end - 1):
                assert max(each.gap_s, size * each.s_per_byte) >= 0.89 * wire * size


def test_runs_of_different_links_are_told_apart():
    near, far = (dict.fromkeys((1, 64, 4096), factor * 1e-06) for factor in (0.4, 1.6))
    same = {size: time_s * 1.2 for size, time_s in near.items()}
    with pytest.raises(ConfigError, match=r"^a.txt: two runs of pingpong differ by a factor of 4.0; give each link"):
        fit_layer([Measured(PINGPONG, far, "a.txt"), Measured(PINGPONG, near, "a.txt")])
    with pytest.raises(ConfigError, match=r"^a.txt and b.txt: two runs of pingpong"):
        fit_layer([Measured(PINGPONG, near, "a.txt"), Measured(PINGPONG, far, "b.txt")])
    assert len(fit_layer([Measured(PINGPONG, near, "a.txt"), Measured(PINGPONG, same, "b.txt")]).sizes) == 3


def test_a_gap_between_sizes_is_told():
    fitted = fit_layer([Measured(PINGPONG, {0: 1.68e-6, 1 << 27: 10.97e-3, 1 << 28: 21.94e-3}, "a.txt")])
    assert "network: no measurement between 0 and 134,217,728 B; these times are interpolated" in fitted.notes


def unknown_machine(chance: np.random.Generator) -> tuple[Any, np.ndarray]:
    """One-way times of a machine with one to seven segments, steps up and down, perhaps a rendezvous; and sizes."""
    largest = 2.0 ** chance.integers(20, 27)
    breaks = np.unique(np.round(np.exp(chance.uniform(np.log(16), np.log(largest / 2), chance.integers(0, 7)))))
    rate = 10 ** chance.uniform(-10.5, -8.5)
    constants = [10 ** chance.uniform(-6.3, -4.5)]
    slopes = [rate * 10 ** chance.uniform(0, 1.2)]
    for at in breaks:
        before_s = constants[-1] + slopes[-1] * at
        after_s = before_s * np.exp(chance.choice([0, chance.uniform(0.1, 0.6), -chance.uniform(0.1, 0.4)]))
        slope = min(rate * 10 ** chance.uniform(-0.1, 0.6), 0.8 * after_s / at)
        constants.append(after_s - slope * at)
        slopes.append(slope)
    threshold = chance.choice([np.inf, *(2.0 ** np.arange(10, 18))])
    asking_s = constants[0] * chance.uniform(0.8, 2.2)

    def seconds(sizes: np.ndarray) -> np.ndarray:
        which = np.searchsorted(breaks, sizes)
        found: Any = np.array(constants)[which] + np.array(slopes)[which] * sizes + asking_s * (sizes > threshold)
        return found

    return seconds, np.unique(np.round(np.exp(chance.uniform(0, np.log(largest), 490))))


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_half_of_the_sizes_of_any_machine_predicts_the_others_nearly_to_the_noise(noise: float):
    chance, more = np.random.default_rng(21), list[float]()
    for _ in range(8):
        seconds, sizes = unknown_machine(chance)
        measured = seconds(sizes) * np.exp(noise * chance.standard_normal(len(sizes)))
        times = dict(zip(map(int, sizes[::2]), measured[::2], strict=True))
        spec = made(network=fit_layer([Measured(PINGPONG, times, "half")]))
        errors = np.abs(predicted_s(spec, map(int, sizes[1::2])) / measured[1::2] - 1).mean()
        more.append(errors - np.abs(seconds(sizes[1::2]) / measured[1::2] - 1).mean())
    assert np.median(more) < 0.0015 + noise / 25
    assert max(more) < 0.008


def test_overheads_are_those_that_were_measured_where_they_fit():
    remote, first = fit_layer(data("stampede-remote.csv")), data("stampede-remote.csv")
    isend = dict(next(each for each in first if each.operation == ISEND).seconds)
    figures = remote.figures[0]
    assert figures.send_s + 64 * figures.send_s_per_byte == pytest.approx(
        isend[min(isend, key=lambda n: abs(n - 64))], rel=0.05
    )
    # MPI_Recv takes 2.9 us there, of a ping-pong of 1.3 us: the latency keeps half.
    assert figures.latency_s == pytest.approx(remote.one_way_s(0) / 2)


def known(size: float, *, threshold: int = 4096) -> tuple[float, float, float]:
    """One-way time, send overhead and receive overhead of a machine that is known."""
    send, receive = 0.2e-6 + 0.05e-9 * size, 0.3e-6
    wire = 0.2e-9 * size if size <= 512 else 0.1e-9 * size + 0.2e-6
    if size > threshold:
        return 0.1e-6 + 0.3e-6 + 3 * 1e-6 + 0.1e-9 * size, 0.1e-6, 2 * 1e-6 + 0.1e-9 * size
    return send + wire + 1e-6 + receive, send, receive


def test_a_known_machine_is_found_again():
    sizes = np.unique(np.round(2 ** np.arange(0, 20, 0.1)).astype(int))
    series = [
        Measured(operation, {int(size): known(size)[at] for size in sizes}, "known")
        for at, operation in enumerate((PINGPONG, ISEND, RECV))
    ]
    fitted = fit_layer(series)
    assert fitted.threshold_bytes == 4096
    assert fitted.errors().max() < 1e-3
    first, last = fitted.figures[0], fitted.figures[-1]
    assert first.send_s == pytest.approx(0.2e-6, rel=0.01)
    assert first.receive_s == pytest.approx(0.3e-6, rel=0.01)
    assert first.latency_s == pytest.approx(1e-6, rel=0.01)
    assert last.send_s == pytest.approx(0.1e-6, rel=0.01)
    assert last.s_per_byte == pytest.approx(0.1e-9, rel=0.01)


def test_a_stream_gives_gap_and_bandwidth():
    sizes = [2**power for power in range(20)]
    oneway = {size: 1e-6 + 0.3e-9 * size for size in sizes}
    stream = {size: (63 * max(0.2e-6, 0.1e-9 * size) + oneway[size] + 1e-6) / 64 for size in sizes}
    fitted = fit_layer([Measured(PINGPONG, oneway, "a"), Measured(STREAM, stream, "b")], threshold_bytes=2**20)
    (figures, _) = fitted.figures
    assert figures.s_per_byte == pytest.approx(0.1e-9, rel=0.02)
    assert figures.gap_s == pytest.approx(0.2e-6, rel=0.02)
    assert fitted.errors().max() < 1e-6


def test_what_is_slow_at_first_or_disturbed_is_left_out():
    seconds = {size: 1e-6 + 1e-9 * size for size in (2**power for power in range(20))}
    seconds[1] *= 1.3
    seconds[64] *= 50
    fitted = fit_layer([Measured(PINGPONG, seconds, "a")])
    assert len(fitted.sizes) == 18
    assert fitted.errors().max() < 1e-3
    assert "1 B, took 1.301 us, longer than the next sizes" in fitted.notes[0]
    assert "1 of 20 sizes (64 B)" in fitted.notes[1]


def test_a_range_that_is_slow_is_kept():
    """TCP's delayed acknowledgements are no disturbance."""
    seconds = {
        size: (0.04 if 1000 <= size < 9000 else 1e-5) + 1e-8 * size for size in (2**power for power in range(24))
    }
    assert len(fit_layer([Measured(PINGPONG, seconds, "a")]).sizes) == 24


def test_where_nothing_was_measured_is_said():
    notes = fit_layer([Measured(PINGPONG, {1024: 1e-6, 4096: 2e-6}, "a")]).notes
    assert [note for note in notes if "no measurement below 1,024 B" in note]
    assert [note for note in notes if "no measurement above 4,096 B" in note]
    assert [note for note in notes if "every message is eager" in note]


def test_without_one_way_times_there_is_nothing_to_fit():
    with pytest.raises(ConfigError, match=r"same_node: needs one-way times .*, got isend"):
        fit_layer([Measured(ISEND, {1: 1e-6}, "a")], what="same_node")


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.integers(0, 10**8), st.floats(1e-9, 10), min_size=1, max_size=30),
    st.dictionaries(st.integers(0, 10**8), st.floats(0, 1), max_size=10),
    st.dictionaries(st.integers(0, 10**8), st.floats(0, 1), max_size=10),
    st.dictionaries(st.integers(1, 10**8), st.floats(1e-9, 1), max_size=10),
    st.none() | st.integers(0, 10**8),
)
def test_whatever_was_measured_gives_a_machine(times, isend, recv, stream, threshold):
    series = [
        Measured(operation, dict(sorted(seconds.items())), "a")
        for operation, seconds in ((PINGPONG, times), (ISEND, isend), (RECV, recv), (STREAM, stream))
        if seconds
    ]
    fitted = fit_layer(series, threshold_bytes=threshold)
    spec = made(network=fitted)
    sizes = [int(size) for size in fitted.sizes]
    assert predicted_s(spec, sizes) == pytest.approx(fitted.fitted(), rel=1e-3, abs=2e-11)
