"""A figure of each kind that xsim_py draws, with long names and many values, in any look.

python -m tests.report.figures FOLDER      writes contact sheets of all, in one and two columns, colour and grey
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tests.report.helpers import make_result
from xsim_py.report import Comparison, Table
from xsim_py.report.chart import Chart, Series
from xsim_py.report.failure_space import FailureSpace, JudgedCase, Place
from xsim_py.report.fitted_times import FittedTimes, draw_fitted_times
from xsim_py.report.machine_picture import MachinePicture, draw_machine
from xsim_py.report.messageflow import Arrow, MessageFlow
from xsim_py.report.pairs import draw_pairs
from xsim_py.report.phases import Phase, Phases
from xsim_py.report.ruler import Ruler
from xsim_py.report.scaling import LABELS, against_fewest
from xsim_py.report.style import Look
from xsim_py.report.timeline import Timeline
from xsim_py.report.view import PictureView
from xsim_py.report.waits import PARTS, draw_waits
from xsim_py.study.recovery.comparison import Case, RecoveryRun
from xsim_py.study.recovery.comparison import phase_bars as bars_of
from xsim_py.trace import Mark, Message, Span, Trace

TITLE = "stencil_with_a_long_name.py --size 4096: 32 ranks on a fat tree with 648 nodes of two sockets, block placement"
US = 1_000_000
RANKS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]


def a_trace(ranks: int = 32, steps: int = 6) -> Trace:
    """Return a trace of a halo exchange in which rank 5 fails and two ranks learn of it."""
    spans, messages = [], []
    for step in range(steps):
        for rank in range(ranks):
            start = step * 40 * US + (rank * 7 % 5) * US
            for at, name in enumerate(("Isend", "Irecv", "Waitall", "Allreduce")):
                spans.append(Span(rank, name, start + at * 8 * US, start + (at * 8 + 6) * US, ""))
            if step < 2:
                other = (rank + 1) % ranks
                messages.append(
                    Message(rank, other, 0, 8, 2, False, "", "eager", start, start + 20 * US, start + 21 * US)
                )
    marks = [Mark(5, 90 * US, "failed", "injected"), Mark(6, 120 * US, "learned", "rank 5 has failed")]
    return Trace(spans, messages, [*marks, Mark(8, 130 * US, "revoked", ""), Mark(0, 200 * US, "aborted", "")])


def timeline(look: Look) -> Figure:
    lives = [(rank, 0, (90 if rank == 5 else 240) * US) for rank in range(32)]
    return Timeline(a_trace(), ranks=32, lives=lives, title=TITLE, view=PictureView(look=look)).draw()


def waits_table(ranks: int = 48) -> Table:
    parts = {name: [(1 + (rank * at) % 7) * 1e-5 for rank in range(ranks)] for at, name in enumerate(PARTS, 1)}
    columns = {"rank": list(range(ranks)), **{f"{name}_s": values for name, values in parts.items()}}
    return Table("waits", columns | {"total_s": np.sum(list(parts.values()), axis=0).tolist()})


def waits(look: Look) -> Figure:
    return draw_waits(waits_table(), title=TITLE, look=look)


def pairs_table(ranks: int = 64) -> Table:
    pairs = [(rank, other, 10 ** (1 + (rank + other) % 7)) for rank in range(ranks) for other in (rank ^ 1, rank ^ 8)]
    source, dest, sizes = (list(column) for column in zip(*pairs, strict=True))
    return Table("pairs", {"source": source, "dest": dest, "bytes": sizes, "messages": sizes})


def pairs(look: Look) -> Figure:
    return draw_pairs(pairs_table(), ranks=64, title=TITLE, look=look)


def a_series(number: int, *, machines: int = 4, panel: str = "", scale: float = 1.0) -> Series:
    y = [scale * (number + 1) * (1 / p + 0.002 * number) for p in RANKS]
    label = f"machine {number % machines}, algorithm {number // machines}"
    return Series(label, RANKS, y, [0.05 * each for each in y], number % machines, number // machines, panel=panel)


def lines(look: Look) -> Figure:
    chart = Chart(
        title="Time of an iteration of a halo exchange on eight combinations of machines and algorithms",
        x_label="number of ranks",
        y_label="virtual time of an iteration, without the first one [ms]",
        lines=[a_series(number) for number in range(8)],
        x_scale="log2",
        y_scale="log",
        legend="machine,\nalgorithm",
    )
    return chart.draw(look=look)


def few_lines(look: Look) -> Figure:
    ruler = Ruler.of(["64B", "1KiB", "64KiB", "1MiB", "16MiB"])
    assert ruler is not None
    sizes = [ruler.place(text) for text in ("64B", "1KiB", "64KiB", "1MiB", "16MiB")]
    made = [
        Series(f"{name}", sizes, [(at + 1) * size / 1e3 + 5 for size in sizes], [], at, 0)
        for at, name in enumerate(("GigE", "SHMEM", "3D torus"))
    ]
    chart = Chart(
        title="One way",
        x_label="message size",
        y_label="time [us]",
        lines=made,
        x_scale="log2",
        y_scale="log",
        ruler=ruler,
    )
    return chart.draw(look=look)


def speedup_lines() -> list[Series]:
    return against_fewest([a_series(number, machines=8) for number in range(5)], "speedup")


def speedup(look: Look) -> Figure:
    chart = Chart(
        title="",
        x_label="ranks",
        y_label=LABELS["speedup"],
        lines=speedup_lines(),
        x_scale="log2",
        y_scale="log2",
    )
    return chart.draw(look=look)


def named(look: Look) -> Figure:
    names = ["recursive doubling", "ring", "Rabenseifner", "linear", "binomial tree", "FTCO, k-nomial"]
    made = [
        Series(f"{ranks} ranks", names, [at + 1.0 for at in range(6)], [], at, 0) for at, ranks in enumerate((8, 64))
    ]
    return Chart(title="Allreduce", x_label="algorithm", y_label="time [us]", lines=made).draw(look=look)


def panels(look: Look) -> Figure:
    made = [
        a_series(number, panel=f"size {size}", scale=size)
        for size in (64, 4096, 65536, 1048576, 16777216)
        for number in range(3)
    ]
    chart = Chart(
        title="Five sizes of a problem",
        x_label="ranks",
        y_label="virtual time [ms]",
        lines=made,
        x_scale="log2",
        y_scale="log",
    )
    return chart.draw(look=look)


def comparison(look: Look) -> Figure:
    times = {
        (machine, ranks): make_result(virtual_time_ps=round((at + 1) * 1e9 / ranks + at * 1e7), ranks=ranks)
        for at, machine in enumerate(("gige", "shmem", "torus3d", "fattree648"))
        for ranks in RANKS[2:9]
    }
    return Comparison(times, title="apps/heat2d.py --size 4096 --steps 100 --tolerance 1e-6").draw(look=look)


def message_flow(look: Look) -> Figure:
    arrows = [
        Arrow(("DATA", "KEEPALIVE", "ACK")[at % 3], at % 15, 2 * at, (at * 5 + 1) % 15, 2 * at + 6, 2 * at + 8)
        for at in range(20)
    ]
    flow = MessageFlow(
        nodes=15,
        title="Reduce of 15 nodes in a binary tree with one root, in which node 3 dies in step 11",
        arrows=arrows,
        deaths={3: 11},
        starts={0: 3},
        finishes={2: 9, 0: 50},
        learned=[(30, 0, 3), (33, 14, 3)],
        end=50,
    )
    return flow.draw(look=look)


def failure_space(look: Look) -> Figure:
    calls = [
        Place(rank, name, at, "prog.py:3")
        for rank in range(8)
        for at, name in enumerate(("Bcast", "Isend", "Irecv", "Waitall", "Allreduce", "Barrier", "Reduce"))
    ]
    outcomes = ("survived", "wrong result", "aborted", "stalled")
    cases = [
        JudgedCase(outcomes[(place.rank + place.ordinal + at) % 4], (), (place._replace(when=when),), "")
        for place in calls
        for at, when in enumerate(("before", "in", "after"))
    ]
    return FailureSpace(cases, calls, ranks=8).draw(look=look)


def machine(look: Look) -> Figure:
    places = [(float(at), 0.0) for at in range(16)] + [(2.0 * at + 0.5, 1.0) for at in range(8)]
    links = [(at, 16 + at // 2) for at in range(16)] + [(16 + at, 16 + (at + 1) % 8) for at in range(8)]
    picture = MachinePicture(
        "a tree: 16 nodes with two ports each, eight leaf switches, tapered two to one, static routes",
        [f"h{at}" for at in range(16)] + [f"s1.{at}" for at in range(8)],
        places,
        [True] * 16 + [False] * 8,
        links,
        [1e6 * (at + 1) for at in range(len(links))],
    )
    return draw_machine(picture, look=look)


def fitted(look: Look) -> Figure:
    sizes = [0.0, *(float(2**power) for power in range(23))]
    seconds = [1e-6 + size / 1e9 for size in sizes]
    layers = [
        FittedTimes(name, sizes, seconds, [1.05 * each for each in seconds], [(sizes, seconds)], 4096)
        for name in ("network: 7 segments, mean error 1.5 %", "same_node: 3 segments, mean error 2.1 %")
    ]
    return draw_fitted_times(layers, look=look)


def phase_bars(look: Look) -> Figure:
    runs = []
    for code in ("none", "1", "2s"):
        for scheme, times in {
            "ftco": {"collective": 60, "detection": 2_000_000, "resume": 150},
            "ulfm": {"detection": 2_000_000, "propagation": 1, "revoke": 8, "repair": 400, "retry": 200},
            "legio-hierarchical": {"detection": 2_000_000, "repair": 300, "retry": 200, "own work": 100},
        }.items():
            phases, at = [], 0
            for name, time_us in times.items():
                phases.append(Phase(name, at, at + time_us * US))
                at += time_us * US
            victims = () if code == "none" else ("1",)
            runs.append(
                RecoveryRun(
                    Case("gige", 64, code, scheme),
                    victims,
                    Phases(3, tuple(phases)),
                    "2nd Allreduce",
                    ended="finished",
                    exit_status=0,
                    said="",
                    virtual_time_ps=at,
                    messages=100,
                    digest="feed",
                )
            )
    return bars_of(runs).draw(title="apps/lattice_boltzmann.py on gige, 64 ranks", look=look)


KINDS: dict[str, Callable[[Look], Figure]] = {
    draw.__name__: draw
    for draw in (
        timeline,
        waits,
        pairs,
        lines,
        few_lines,
        speedup,
        named,
        panels,
        comparison,
        message_flow,
        failure_space,
        machine,
        fitted,
        phase_bars,
    )
}


def main(folder: Path, names: list[str]) -> None:
    """Write a sheet for each width, and each kind in each format."""
    from PIL import Image

    from xsim_py.report.figure import save

    folder.mkdir(parents=True, exist_ok=True)
    for columns in (1, 2):
        for font in ("serif", "sans-serif"):
            images = []
            for name in names or KINDS:
                figure = KINDS[name](Look(columns=columns, font=font))
                file = folder / f"{name}-{columns}-{font}.png"
                save(figure, file)
                images.append(Image.open(file).convert("RGB"))
            for mode in ("RGB", "L"):
                _sheet(images, 4 if columns == 1 else 2).convert(mode).save(
                    folder / f"sheet-{columns}-{font}-{mode}.png"
                )


def _sheet(images: list, across: int):
    """Return images in columns, each below the shortest one so far."""
    from PIL import Image

    width = max(image.width for image in images) + 24
    heights = [0] * across
    places = []
    for image in images:
        column = heights.index(min(heights))
        places.append((column * width, heights[column]))
        heights[column] += image.height + 24
    sheet = Image.new("RGB", (across * width, max(heights)), "#88aacc")
    for image, place in zip(images, places, strict=True):
        sheet.paste(image, place)
    return sheet


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
