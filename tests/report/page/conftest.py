import pytest

from xsim_py.report.page import document


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """The library that draws is five megabytes, which would be written and read again for each page."""
    monkeypatch.setattr(document, "_plotly_js", lambda: "/** drawing */")
