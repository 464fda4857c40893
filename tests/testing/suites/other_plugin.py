"""A plugin with the options, marks and fixtures of others, and their habit to skip what one process cannot run."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--with-mpi", action="store_true")
    parser.addoption("--only-mpi", action="store_true")


def pytest_configure(config):
    config.addinivalue_line("markers", "mpi: of another plugin")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if "mpi" in item.keywords and not config.getoption("--with-mpi"):
            item.add_marker(pytest.mark.skip(reason="by another plugin"))


def pytest_runtest_setup(item):
    for mark in item.iter_markers(name="mpi"):
        if mark.kwargs.get("min_size", 1) > 1:
            pytest.skip("by another plugin")


@pytest.fixture
def mpi_tmpdir():
    from mpi4py import MPI

    return MPI.COMM_WORLD.bcast("of another plugin")


@pytest.fixture
def mpi_file_name():
    return "of another plugin.hdf5"
