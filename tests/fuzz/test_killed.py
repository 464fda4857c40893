"""Ranks in processes that are killed from outside at random moments: no hang, nothing left, right values."""

import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.killed import Blow, run
from xsim_py import isolation

CASES = max(15, min(settings().max_examples, 3000) // 6)  # 16, and 500 in a campaign
KINDS = ["reduce", "reduce", "ring", "bcast", "gather", "any", "sleep", "barrier"]
SIZES = [1, 10, 3_000, 100_000]  # the longest of these needs a rendezvous
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(SIZES)), min_size=1, max_size=5)
SIGNALS = st.sampled_from([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
BLOWS = st.builds(Blow, st.integers(0, 60), st.integers(0, 3), SIGNALS, st.booleans())


@pytest.mark.slow
def test_who_survives_goes_on_with_right_values_and_nothing_is_left(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "shared_memory_folder", lambda: str(tmp_path))

    @settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
    @given(st.integers(1, 4), st.sampled_from([1, 1, 1, 2]), STEPS, st.lists(BLOWS, max_size=3), st.booleans())
    def killed(ranks: int, each: int, steps: Any, blows: Any, ft: bool) -> None:
        result, hit = run(ranks, each, steps, blows, ft=ft)
        with pytest.raises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        assert list(tmp_path.iterdir()) == []
        failed = {failure["rank"] for failure in result.failures}
        assert bool(failed) <= bool(hit)
        # What has ended is not known of who was killed after that.
        values = {rank: value for rank, value in enumerate(result.values) if rank not in failed and value is not None}
        if ft and len(failed) < ranks:
            assert (result.ended, result.exit_status) == ("finished", 0), result.report
        elif failed:
            assert result.ended == "aborted"
            assert result.exit_status in {128 + blow.signal for blow in blows} | {137}
            return
        for done, left in values.values():
            assert all(done)
            assert set(range(ranks)) - failed <= set(left)
        if not hit:
            assert result.digest == run(ranks, 0, steps, [], ft=ft)[0].digest
            assert result.warnings == []

    killed()
