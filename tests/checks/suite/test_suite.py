"""The checks find the known mistakes of the labelled suite and nothing else: of a sample, and in a campaign of all."""

from tests.campaign import CAMPAIGN
from tests.checks.suite.judge import judged
from tests.checks.suite.programs import all_programs
from xsim_py.findings import CATEGORIES

STEP = 1 if CAMPAIGN else 113


def test_nothing_but_the_mistakes_is_found():
    verdicts = judged(list(all_programs())[::STEP])
    assert [verdict.told() for verdict in verdicts if verdict.crash or verdict.late or verdict.kind == "FP"] == []
    found = [verdict for verdict in verdicts if verdict.kind == "TP"]
    missed = [verdict.told() for verdict in verdicts if verdict.kind == "FN"]
    assert 2 * len(found) / (2 * len(found) + len(missed)) >= 0.98, "\n".join(missed)
    misnamed = [verdict.told() for verdict in found if not verdict.is_right]
    assert len(misnamed) <= 0.05 * len(found), "\n".join(misnamed)


def test_the_suite_has_what_it_promises():
    programs = list(all_programs())
    mistaken = [program for program in programs if not program.is_correct]
    assert len(mistaken) >= 400
    assert {program.classes[0] for program in mistaken} == {*CATEGORIES}
    assert len({program.name for program in programs}) == len(programs)
    twins = {program.name: program for program in programs if program.is_correct}
    for program in mistaken:
        assert program.lines, program.name
        assert twins[f"{program.name}-mended"].files != program.files
    for program in programs:
        for name, text in program.files.items():
            compile(text, f"{program.name}/{name}", "exec")
