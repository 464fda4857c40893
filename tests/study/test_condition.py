import pytest

from xsim_py.study.condition import Condition

ROW = {"ranks": 64, "machine": "gige", "network.latency": "base", "size": "1024", "on": True}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("ranks<=64", True),
        ("ranks < 64", False),
        ("ranks>=64", True),
        ("ranks>64", False),
        ("ranks=64", True),
        ("ranks==64.0", True),
        ("ranks!=64", False),
        ("size=1024", True),
        ("size<2e3", True),
        ("machine=gige", True),
        ("machine=shmem, gige", True),
        ("machine!=shmem,gige", False),
        ("machine<5", False),
        ("on=true", True),
        ("network.latency=base", True),
        ("ranks<=8 or machine=gige", True),
        ("ranks<=8 or machine=shmem", False),
    ],
)
def test_a_condition_compares_a_column_with_values(text, holds):
    condition = Condition(text)
    condition.check(ROW)
    assert condition.holds(ROW) is holds


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ranks", "expected a condition, got 'ranks'; write for example ranks<=64"),
        ("<=64", "expected a condition, got"),
        ("ranks<=few", "compares numbers, got 'few'"),
        ("ranks<=1,2", "compares numbers, got '1,2'"),
        ("ranks<=8 or machine", "expected a condition, got"),
    ],
)
def test_what_is_no_condition_is_refused(text, complaint):
    with pytest.raises(ValueError, match=r".") as caught:
        Condition(text)
    assert complaint in str(caught.value)


def test_a_column_that_is_not_there_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="'machine=gige or rank<=8': unknown name rank; did you mean ranks"):
        Condition("machine=gige or rank<=8").check(ROW)
