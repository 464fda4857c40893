"""Studies: many runs of a program, described in YAML, done in parallel, resumed, tabulated and drawn.

`load_study` reads and checks a study, `plan_runs` makes its runs, and `run_study` does all of it; ``xsim study`` is the
same from a shell.
"""

from __future__ import annotations

from xsim_py.study.conduct import run_study
from xsim_py.study.description import StudySpec
from xsim_py.study.loader import load_study
from xsim_py.study.plan import plan_runs
from xsim_py.study.results import StudyResults

__all__ = ["StudyResults", "StudySpec", "load_study", "plan_runs", "run_study"]
