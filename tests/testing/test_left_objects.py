import re
import shutil
from pathlib import Path

from tests.testing.running import SUITES, run


def test_a_failure_leaves_no_more_than_its_report_and_the_ranks_that_wait_for_ever(tmp_path: Path):
    shutil.copy(SUITES / "counting.py", tmp_path / "conftest.py")
    session = run(tmp_path, "-rN", "-q", "--tb=no", suites=("left",))
    left = {name: float(count) for name, count in re.findall(r"(\w+) leaves (\S+) objects", session.text)}
    assert left["test_one_raises"] < left["test_without_ranks"] + 5, session.text
    # Suspended greenlets stay: to free one would run the program's code in it.
    assert left["test_others_wait"] < left["test_without_ranks"] + 3 * 100, session.text
