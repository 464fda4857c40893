"""Compiled modules find the real classes of `datetime` while they are imported, and Python ones the virtual."""

import datetime

from xsim_py.process.python import dates
from xsim_py.process.ranks.patches import Patches

REAL = datetime.datetime


def begin(inner: list[type]) -> type:
    """As a compiled module that imports a Python one, and then derives from a class."""
    with dates.virtual():
        inner.append(datetime.datetime)
    return datetime.datetime


def test_a_compiled_module_derives_from_the_real_classes_and_what_it_imports_finds_the_virtual_ones():
    inner: list[type] = []
    with Patches() as patches:
        dates.install(patches)
        stand_in = datetime.datetime
        assert dates._with_real(begin, inner) is REAL
        assert (datetime.datetime, inner) == (stand_in, [stand_in])
    assert datetime.datetime is REAL is not stand_in
