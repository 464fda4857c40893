"""Studies: many runs of a program, described in YAML, run in parallel, resumable, as tables and plots.

`load_study` reads and validates a study, `plan_runs` creates its runs, and `run_study` does everything, as ``xsim
study`` does.
"""

from __future__ import annotations

from xsim_py.study.conduct import run_study
from xsim_py.study.description import StudySpec
from xsim_py.study.loader import load_study
from xsim_py.study.plan import plan_runs
from xsim_py.study.results import StudyResults

__all__ = ["StudyResults", "StudySpec", "load_study", "plan_runs", "run_study"]
