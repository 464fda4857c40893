"""Each check takes the parameters of the method that it is for, in order, since the door passes them by position."""

from inspect import Parameter, signature

from xsim_py.checks.calls import check_of
from xsim_py.mpi4py.door import OWNERS, methods_of

CHECKED = [(owner, name) for owner in OWNERS for name in methods_of(owner) if check_of(owner, name) is not None]


def test_a_check_takes_the_parameters_of_its_method():
    assert len(CHECKED) > 200
    for owner, name in CHECKED:
        check = check_of(owner, name)
        method = vars(owner)[name]
        parameters = signature(getattr(method, "__func__", method)).parameters
        assert {each.kind for each in parameters.values()} == {Parameter.POSITIONAL_OR_KEYWORD}, (owner, name)
        assert check is not None
        try:
            signature(check).bind(None, None, *parameters)
        except TypeError as error:
            raise AssertionError(f"{owner.__name__}.{name}: {error}") from error
