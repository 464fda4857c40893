"""The checks find nothing in the programs of this repository but what `known.yaml` says: no false alarm."""

import io
from typing import Any

import pytest
import yaml

from tests import ulfm_cases
from tests.campaign import CAMPAIGN
from tests.cases import APPS, ROOT, Case, all_cases
from xsim_py import simulate

KNOWN = yaml.safe_load((ROOT / "tests" / "checks" / "known.yaml").read_text(encoding="utf-8"))

PROGRAMS = [case for case in all_cases() if case.ranks in (2, 3, 4)]
OF_APPS = [Case(ROOT / "apps" / f"{name}.py", ranks, tuple(args)) for name, args in APPS.items() for ranks in (2, 4)]
CASES = [*PROGRAMS, *OF_APPS]
WITH_DEATHS = ulfm_cases.all_cases()


def classes_found(case: Case | ulfm_cases.UlfmCase, **options: Any) -> set[str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    result = simulate(
        case.path, ranks=case.ranks, args=case.args, check=True, stdout=stdout, stderr=stderr, wall_limit=60, **options
    )
    return {finding.category for finding in result.findings}


def known(case: Case | ulfm_cases.UlfmCase) -> set[str]:
    name = case.path.stem
    return {*KNOWN["deliberate"].get(name, ()), *(["ResourceLeak"] if name in KNOWN["leaks"] else ())}


@pytest.mark.parametrize("case", CASES if CAMPAIGN else CASES[::16], ids=str)
def test_only_what_is_known_is_found(case: Case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert classes_found(case) <= known(case)


@pytest.mark.parametrize("case", WITH_DEATHS if CAMPAIGN else WITH_DEATHS[::16], ids=str)
def test_only_what_is_known_is_found_where_processes_die(case: ulfm_cases.UlfmCase, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert classes_found(case, machine="shmem", set=ulfm_cases.VARIANTS["as_open_mpi"], ft=True) <= known(case)


def test_what_is_known_is_there():
    names = {case.path.stem for case in [*CASES, *WITH_DEATHS]}
    assert {*KNOWN["deliberate"], *KNOWN["leaks"]} <= names
