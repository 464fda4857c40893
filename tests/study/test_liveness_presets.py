"""The studies of liveness discovery, on few ranks: the shapes that the paper on non-collective repair describes."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.campaign import CAMPAIGN
from tests.study.test_presets import by, results_of
from xsim_py.study import StudyResults
from xsim_py.study.loader import presets

pytestmark = pytest.mark.usefixtures("in_this_process")


def smaller(name: str, folder: Path, ranks: int | list[int], *, only: list[str], repetitions: int = 1) -> StudyResults:
    """Run a study whose program has fewer ranks."""
    text = Path(presets()[name]).read_text()
    written = re.compile(r"^( *ranks: )(2048|\d+\.\.2048 \*2)$", re.MULTILINE)
    assert len(written.findall(text)) == 1
    file = folder / f"{name}.yaml"
    file.write_text(written.sub(rf"\g<1>{ranks}", text))
    return results_of(str(file), folder / "results", only=only, repetitions=repetitions)


def test_discovery_is_flat_without_failures_and_takes_many_times_as_long_with_half_dead(tmp_path):
    """Figure 4: in a group 8 times as large it takes as much longer as its tree is higher, or more than that."""
    repetitions = 2 if CAMPAIGN else 1
    results = smaller("lda-fig4", tmp_path, 128, only=["group=16,128", "dead=none,50 %"], repetitions=repetitions)
    none, half = (by(results, "discovery_us", dead=dead) for dead in ("none", "50 %"))
    assert none[1] / none[0] < 2.5
    assert half[1] / half[0] > 2.5
    assert half[1] > 10 * none[1]


def test_the_overhead_grows_with_the_logarithm_of_the_group_and_not_with_the_network(tmp_path):
    """Figures 5 and 6: a line over log2 of the group explains it, and doubling the network changes less than 5 %."""
    sizes = [256, 512] if CAMPAIGN else [64, 128]
    results = smaller("lda-fig6", tmp_path, sizes, only=[f"group=4,16,{sizes[0] // 2}"])
    one, two = (np.array(by(results, "overhead_us", ranks=ranks)) for ranks in sizes)
    groups = np.log2(by(results, "group", ranks=sizes[0]))
    slope, base = np.polyfit(groups, one, 1)
    rest = one - (base + slope * groups)
    assert 1 - rest.var() / one.var() > 0.95
    assert slope > 0
    assert np.abs(two / one - 1).max() < 0.05


def test_non_collective_agree_takes_as_long_as_ulfms(tmp_path):
    """Figure 7, on few ranks: on 2,048 the lists make agree a third slower, and shrink a little.

    On few, shrink is no slower, for no MPI library's work for a communicator without a parent is charged.
    """
    sizes = [128, 256] if CAMPAIGN else [64, 128]
    results = smaller("lda-fig7", tmp_path, sizes, only=["dead=none,10 %"])
    agree, agree_group, shrink, shrink_group = (
        by(results, name) for name in ("agree_us", "agree_group_us", "shrink_us", "shrink_group_us")
    )
    for ours, ulfm in zip(agree_group, agree, strict=True):
        assert abs(ours / ulfm - 1) < 0.2
    for ours, ulfm in zip(shrink_group, shrink, strict=True):
        assert 0.7 < ours / ulfm < 1.3
