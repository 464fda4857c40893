"""Each check takes the parameters of the method that it is for, in order, since the door passes them by position."""

from inspect import Parameter, signature

import pytest

from xsim_py.checks.calls import check_of
from xsim_py.mpi4py.door import OWNERS, methods_of

CHECKED = [(owner, name) for owner in OWNERS for name in methods_of(owner) if check_of(owner, name) is not None]


@pytest.mark.parametrize(("owner", "name"), CHECKED, ids=lambda each: getattr(each, "__name__", each))
def test_a_check_takes_the_parameters_of_its_method(owner: type, name: str):
    check = check_of(owner, name)
    method = vars(owner)[name]
    parameters = signature(getattr(method, "__func__", method)).parameters
    assert {each.kind for each in parameters.values()} == {Parameter.POSITIONAL_OR_KEYWORD}
    assert check is not None
    signature(check).bind(None, None, *parameters)
