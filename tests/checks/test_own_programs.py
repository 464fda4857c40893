"""The checks find nothing in the programs of this repository but what `known.yaml` says: no false alarm."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ulfm_cases
from tests.campaign import CAMPAIGN
from tests.cases import APPS, ROOT, Case, all_cases
from tests.doc_blocks import PAGES, blocks, findings
from tests.sweep_failures import PLACES, SWEEPS, Sweep
from xsim_py import simulate

KNOWN = yaml.safe_load((ROOT / "tests" / "checks" / "known.yaml").read_text(encoding="utf-8"))

PROGRAMS = [case for case in all_cases() if case.ranks in (2, 3, 4)]
OF_APPS = [Case(ROOT / "apps" / f"{name}.py", ranks, tuple(args)) for name, args in APPS.items() for ranks in (2, 4)]
CASES = [*PROGRAMS, *OF_APPS]
OTHERS = {
    "benchtolerate": (8, "--communicators 2 --iterations 2 --fault none"),
    "checkpoint": (2, "--work 20 --interval 5"),
    "ft_agree": (4, "--iterations 2"),
    "ft_respawn": (4, "--iterations 1"),
    "ft_shrink_barrier": (4, ""),
    "liveness": (8, "--variant repaired --calls 1"),
    "lossy": (4, "--n 16 --steps 5"),
    "multigrid": (4, "--rows 16"),
    "netpipe": (4, "--largest 64 --repetitions 2"),
    "network_benchmarks": (4, "allreduce --sizes 4 64 --repetitions 2"),
    "network_probe": (3, "--largest 4096 --sizes 4 --repetitions 2"),
    "simplemd": (4, f"{ROOT / 'apps' / 'simplemd.in'} --set steps=4 --set atoms=64 --set checkpoint_every=2"),
}
UNHARMED = [
    *(Sweep(ROOT / "apps" / f"{name}.py", n, tuple(args.split())) for name, (n, args) in OTHERS.items()),
    *SWEEPS,
]
WITH_DEATHS = ulfm_cases.all_cases()
SHOWN = [
    page
    for page in PAGES
    if "checks" not in page.relative_to(ROOT).parts and any(each.commands for each in blocks(page.read_text()))
]


def classes_found(case: Case | ulfm_cases.UlfmCase | Sweep, **options: Any) -> set[str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    result = simulate(
        case.path, ranks=case.ranks, args=case.args, check=True, stdout=stdout, stderr=stderr, wall_limit=60, **options
    )
    return {finding.category for finding in result.findings}


def known(case: Case | ulfm_cases.UlfmCase | Sweep) -> set[str]:
    name = case.path.stem
    return {*KNOWN["deliberate"].get(name, ()), *(["ResourceLeak"] if name in KNOWN["leaks"] else ())}


@pytest.mark.parametrize("case", CASES if CAMPAIGN else CASES[::32], ids=str)
def test_only_what_is_known_is_found(case: Case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert classes_found(case) <= known(case)


@pytest.mark.parametrize("case", WITH_DEATHS if CAMPAIGN else WITH_DEATHS[::32], ids=str)
def test_only_what_is_known_is_found_where_processes_die(case: ulfm_cases.UlfmCase, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert classes_found(case, machine="shmem", set=ulfm_cases.VARIANTS["as_open_mpi"], ft=True) <= known(case)


@pytest.mark.parametrize("case", UNHARMED if CAMPAIGN else UNHARMED[::32], ids=str)
def test_only_what_is_known_is_found_where_all_are_prepared_and_nobody_dies(case: Sweep, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert classes_found(case, machine="gige", set={"spawn.universe": PLACES}, ft=True) <= known(case)


@pytest.mark.parametrize(
    "page", SHOWN if CAMPAIGN else [ROOT / "docs" / "guides" / "mpi-io.md"], ids=lambda page: page.name
)
def test_only_what_is_known_is_found_in_programs_of_the_documentation(page: Path, tmp_path):
    (folder := tmp_path / "page").mkdir()
    assert findings(page, folder) == {*KNOWN["pages"].get(str(page.relative_to(ROOT)), ())}


def test_what_is_known_is_there():
    names = {case.path.stem for case in [*CASES, *WITH_DEATHS, *UNHARMED]}
    assert {*KNOWN["deliberate"], *KNOWN["leaks"]} <= names
    assert KNOWN["pages"].keys() <= {str(page.relative_to(ROOT)) for page in SHOWN}


def test_the_programs_of_all_studies_are_there():
    named = {
        name
        for study in (ROOT / "models" / "studies").glob("*.yaml")
        for name in re.findall(r"apps/(\w+)\.py", study.read_text(encoding="utf-8"))
    }
    assert named <= {case.path.stem for case in [*CASES, *UNHARMED]}
