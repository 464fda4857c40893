"""The checks find in mpi4py's own tests what `findings.yaml` says, and change no answer."""

import pytest

from tests.campaign import CAMPAIGN
from tests.conformance.__main__ import main, run, simulation
from tests.conformance.findings import Place, alarms, expected, findings_of, never_found
from tests.conformance.judgement import broken, known_failures
from tests.conformance.records import recorded
from tests.conformance.suite import suite
from xsim_py.findings import CATEGORIES

SAMPLE = (
    "test_attributes",
    "test_cco_obj_inter",
    "test_doc",
    "test_exceptions",
    "test_grequest",
    "test_info",
    "test_objmodel",
)

REPORT = """\
outcome passed test_a.A.one
test/test_a.py:12: InvalidParameter: Comm.Send: ERR_RANK: invalid rank
    ranks 0-1
test/test_a.py:3: ResourceLeak: the group of Comm.Get_group is never freed
    rank 1
xsim: finished: virtual time 0 s
"""


def test_a_sample_has_its_findings_and_no_other():
    ours, said = run(simulation("--check"), SAMPLE, 2, seconds=120)
    found = findings_of(said)
    assert alarms(found, expected()) == []
    assert never_found(SAMPLE, [found]) == []
    real = [{test: o for test, o in outcomes.items() if test.startswith(SAMPLE)} for outcomes in recorded(2)]
    assert broken(ours, real, known_failures()) == []


@pytest.mark.slow
@pytest.mark.parametrize("asked", [["--check"]] if CAMPAIGN else [["--check", "-m", "^test_op$", "-n", "3"]])
def test_all_have_theirs_and_no_other(asked, capsys):
    assert main(asked) == 0, capsys.readouterr().out


def test_a_report_is_read():
    found = findings_of(REPORT)
    first, second = Place("test_a", 3, "ResourceLeak"), Place("test_a", 12, "InvalidParameter")
    assert sorted(found) == [first, second]
    assert alarms(found, [first]) == ["test_a:12: InvalidParameter: Comm.Send: ERR_RANK: invalid rank"]
    assert alarms(found, [first, second]) == []


def test_what_is_listed_and_not_found_is_told():
    place = next(place for place in sorted(expected()) if place.module == "test_rma")
    assert place in never_found(["test_rma"], [{}, {}])
    assert place not in never_found(["test_rma"], [{}, {place: ""}])
    assert never_found(["test_op"], []) == []


def test_every_finding_that_is_expected_has_a_line_and_a_reason():
    for place, why in expected().items():
        assert place.category in CATEGORIES
        assert 0 < place.line <= len((suite() / f"{place.module}.py").read_text("utf-8").splitlines())
        assert len(why) > 20
