"""Results that no run made, for tests of what is done with them."""

from typing import Any

from xsim_py.report import Result, Table

SUMMARY: dict[str, Any] = {
    "virtual_time_s": 34.914e-6,
    "ranks": 1024,
    "shards": 1,
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
}


def make_result(**changes: Any) -> Result:
    """Return a result of `SUMMARY` with some entries changed, two tables, and nothing to complain of."""
    rest = {name: changes.pop(name) for name in ("report", "warnings") if name in changes}
    tables = [
        Table("ranks", {"rank": [0, 1, 2], "finish_s": [1.5e-6, 2e-6, 34.914e-6]}, {"finish_s": "s"}),
        Table("collectives", {"name": ["Bcast"], "calls": [3]}),
    ]
    return Result({**SUMMARY, **changes}, tables=tables, machine="gige: 1,024 nodes", program="prog.py", **rest)
