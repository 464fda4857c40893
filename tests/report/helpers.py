"""Results that no run made, for tests of what is done with them."""

from typing import Any

from xsim_py.report import Result, Table
from xsim_py.trace import Mark, Message, Span, Trace
from xsim_py.units import exact_seconds

SUMMARY: dict[str, Any] = {
    "virtual_time_s": 34.914e-6,
    "virtual_time_exact_s": "0.000034914",
    "ranks_end_s": {"min": 1.5e-6, "mean": 12.8e-6, "max": 34.914e-6},
    "ranks": 1024,
    "shards": 1,
    "isolation": "greenlets",
    "seed": 7,
    "config_hash": "0123456789ab",
    "digest": "feedface",
    "events": 12345,
    "messages": 4096,
    "bytes": 1572864,
    "cpu_s": 0.25,
    "wall_s": 0.5,
    "peak_rss_bytes": 64 << 20,
    "exit_status": 0,
    "version": "0.1.0",
    "ended": "finished",
    "aborted": False,
    "restarts": 0,
    "failures": [],
}


def make_result(**changes: Any) -> Result:
    """Return a result of `SUMMARY` with some entries changed, two tables, and nothing to complain of."""
    if "virtual_time_ps" in changes:
        time_ps = changes.pop("virtual_time_ps")
        changes |= {"virtual_time_s": time_ps / 10**12, "virtual_time_exact_s": exact_seconds(time_ps)}
    rest = {name: changes.pop(name) for name in ("report", "warnings") if name in changes}
    tables = [
        Table("ranks", {"rank": [0, 1, 2], "finish_s": [1.5e-6, 2e-6, 34.914e-6]}, {"finish_s": "s"}),
        Table("collectives", {"name": ["Bcast"], "calls": [3]}),
    ]
    return Result({**SUMMARY, **changes}, tables=tables, machine="gige: 1,024 nodes", program="prog.py", **rest)


def make_trace(shift_ps: int = 0) -> Trace:
    """Return the trace of three ranks: one sends, one takes it and meets an error, one dies in a call."""
    spans = [
        Span(0, "Send", 1, 2_000_004, ""),
        Span(1, "Recv", 1_000_000, 8_000_000, ""),
        Span(2, "Recv", 3_000_000, 9_000_000, "did not return"),
        Span(1, "Barrier", 8_000_000, 12_000_000, "ERR_PROC_FAILED"),
    ]
    messages = [
        Message(0, 1, 0, 64, 2, False, "", "eager", 5_000_000, 7_000_000, 7_000_000),
        Message(0, 2, 0, 64, 2, False, "", "eager", 6_000_000, 10_000_000, None),
    ]
    marks = [Mark(2, 9_000_000, "failed", "injected")]
    moved = [
        [
            record._replace(
                **{key: value + shift_ps for key, value in record._asdict().items() if _is_time(key, value)}
            )
            for record in records
        ]
        for records in (spans, messages, marks)
    ]
    return Trace(*moved)


def _is_time(key: str, value: Any) -> bool:
    return key.endswith("_ps") and value is not None
