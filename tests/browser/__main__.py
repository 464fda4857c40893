"""Pages in a real browser, without a network: ``make browser``.

Headless Chromium opens a page of each kind, with a script added that looks at what was drawn: no error, nothing
fetched, every figure there and inside the page, tables in order after a click on any heading, and, in timelines, the
calls that the trace has at random places, before and after zooming in.
"""

from __future__ import annotations

import argparse
import html
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.browser.programs import RING, STEPS, STUDY, UNFRIENDLY
from xsim_py import simulate
from xsim_py.cli import main as xsim
from xsim_py.report import Result

ROOT = Path(__file__).parent.parent.parent
PROBES = 40
WATCH = """<script>
window.seen = [];
addEventListener("error", (event) => window.seen.push(String(event.message)));
addEventListener("unhandledrejection", (event) => window.seen.push(String(event.reason)));
document.addEventListener("securitypolicyviolation", (event) => window.seen.push(`blocked: ${event.blockedURI}`));
</script>"""
PROBE = (Path(__file__).parent / "probe.js").read_text(encoding="utf-8")


class Looked:
    """What the browser has seen of a page."""

    def __init__(self, page: Path, points: list[tuple[float, int]], screenshot: Path | None) -> None:
        text = page.read_text(encoding="utf-8")
        script = f"<script>const POINTS = {json.dumps(points)};\n{PROBE}</script></body>"
        probed = page.with_suffix(".probed.html")
        probed.write_text(text.replace("<head>", f"<head>{WATCH}", 1).replace("</body>", script), encoding="utf-8")
        told = re.search(r'<pre id="probe">(.*?)</pre>', browse(probed, "--dump-dom"), re.DOTALL)
        if told is None:
            raise AssertionError("the page says nothing: its script came to no end")
        self.told: dict[str, Any] = json.loads(html.unescape(told[1]))
        self.size_bytes = len(text.encode())
        if screenshot is not None:
            height = int(self.told["height"]) + 40
            browse(page.absolute(), f"--screenshot={screenshot}", f"--window-size=1300,{height}")


def browse(page: Path, *options: str) -> str:
    """Open a page in headless Chromium, for which no name leads anywhere, and return what it prints."""
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1300,900"]
    command += ["--virtual-time-budget=8000", "--host-resolver-rules=MAP * ~NOTFOUND", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout


def browser() -> str:
    """Return the browser's command; empty where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""


# --------------------------------------------------------------------------------------------------------- the pages


def traced(folder: Path, **told: Any) -> tuple[Path, Result | None]:
    """Simulate, and return the page of the run and its result."""
    page = folder / "run.html"
    with (folder / "output.txt").open("w") as output:
        result = simulate(**told, trace=True, stdout=output, stderr=output)
    result.to_html(page)
    return page, result


def commanded(folder: Path, *words: str) -> tuple[Path, Result | None]:
    """Run a command of xsim, and return the page that it makes."""
    page = folder / "page.html"
    with (folder / "output.txt").open("w") as output, redirect_stdout(output), redirect_stderr(output):
        status = xsim([*words[:1], "--report", str(page), *words[1:]])
    assert status == 0, (folder / "output.txt").read_text()
    return page, None


def write(folder: Path, name: str, text: str) -> str:
    """Write a file and return its name."""
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


PAGES: dict[str, Callable[[Path], tuple[Path, Result | None]]] = {
    "a plain run": lambda folder: traced(folder, program=write(folder, "ring.py", RING), ranks=8),
    "names with <, & and quotes": lambda folder: traced(folder, program=write(folder, UNFRIENDLY, RING), ranks=3),
    "failures and ULFM": lambda folder: traced(
        folder, program=ROOT / "apps/ft_shrink_barrier.py", ranks=8, fail="rank=3 before its 1st Reduce"
    ),
    "256 ranks": lambda folder: traced(
        folder, program=ROOT / "apps/heat2d.py", args=["--steps", "6"], ranks=256, machine="torus3d", links=True
    ),
    "4,096 ranks": lambda folder: traced(folder, program=write(folder, "ring.py", RING), ranks=4096),
    "a study with speed-up": lambda folder: commanded(
        folder,
        *("study", "--out", str(folder / "out")),
        write(folder, "steps.yaml", STUDY.replace("steps.py", write(folder, "steps.py", STEPS))),
    ),
    "compare": lambda folder: commanded(
        folder, *("compare", "--machines", "gige,shmem", "-n", "1,4,16"), write(folder, "steps.py", STEPS)
    ),
    "compare-recovery": lambda folder: commanded(folder, "compare-recovery", "-n", "8,16", "--failures", "none,1,2s"),
}


# -------------------------------------------------------------------------------------------------------- the checks


def points_of(result: Result | None) -> list[tuple[float, int]]:
    """Return random times, as shares of the run, and ranks."""
    if result is None:
        return []
    chosen = random.Random(result.digest)
    return [(chosen.random(), chosen.randrange(result.ranks)) for _ in range(PROBES)]


def wrong(told: dict[str, Any], points: list[tuple[float, int]], result: Result | None) -> Iterator[str]:
    """Yield what is not as it should be."""
    yield from told["seen"]
    if told["fetched"]:
        yield f"it has fetched {told['fetched']}"
    if not told["figures"] or not told["tables"]:
        yield "it has no figures, or no tables"
    yield from (f"figure {number} is empty, or not in the page" for number in told["bad_figures"])
    yield from (f"a click does not sort by {heading}" for heading in told["unsorted"])
    if told["too_wide"]:
        yield f"it is {told['too_wide']} pixels wider than the window"
    for (share, rank), texts in zip(points, told["points"], strict=True):
        assert result is not None
        for zoomed, text in zip(("in sight of all", "zoomed in"), texts, strict=True):
            if (said := judged(result, share, rank, text)) is not None:
                yield f"rank {rank} at {share:.6f} of the time, {zoomed}: {said}"


def judged(result: Result, share: float, rank: int, text: str | None) -> str | None:
    """Return what is wrong with the text at a place of a timeline; None where nothing is."""
    if text is None or text.startswith("ranks "):
        return None  # not drawn at this place: it is at the edge of a cell, or a row stands for several ranks
    assert result.trace is not None
    time_ps = share * result.virtual_time_ps
    here = [
        span for span in result.trace.spans
        if span.rank == rank and span.start_ps <= time_ps <= (span.end_ps or result.virtual_time_ps)
    ]  # fmt: skip
    alive = any(who == rank and begin <= time_ps <= end for who, begin, end in result.lives())
    expected = {span.name for span in here} or ({"own work"} if alive else {""})
    said = re.sub(r"<[^>]*>", " ", text)
    ok = not text if expected == {""} else text.startswith(f"rank {rank}") and any(name in said for name in expected)
    return None if ok else f"the page says {said!r}, and the trace {sorted(expected)}"


def main() -> int:
    """Look at all pages, and return 1 if one is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser", description=__doc__)
    parser.add_argument("--screenshots", type=Path, metavar="DIR", help="keep a picture of each page")
    parser.add_argument("--only", default="", metavar="WORD", help="the pages with this in their names")
    args = parser.parse_args()
    if not browser():
        print("skipped: there is no Chromium here; on Debian: apt-get install chromium")
        return 0
    bad = 0
    for number, (name, make) in enumerate(PAGES.items()):
        if args.only not in name:
            continue
        with TemporaryDirectory() as folder:
            page, result = make(Path(folder))
            points = points_of(result)
            screenshot = None
            if args.screenshots is not None:
                args.screenshots.mkdir(parents=True, exist_ok=True)
                screenshot = (args.screenshots / f"page-{number}.png").absolute()
            looked = Looked(page, points, screenshot)
        told = looked.told
        found = list(wrong(told, points, result))
        bad += bool(found)
        probed = sum(text is not None for texts in told["points"] for text in texts)
        facts = f"{looked.size_bytes / 1e6:.1f} MB, {told['figures']} figures, {told['tables']} tables, {probed} places"
        print(f"{'BAD ' if found else 'good'}  {name}: {facts}")
        print(*(f"      {said}" for said in found[:10]), sep="\n", end="\n" if found else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
