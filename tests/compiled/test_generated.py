"""The generated files of the C interface are those that their generator writes today."""

from tests.compiled import generate


def test_nothing_generated_is_stale():
    assert [name for name, text in generate.texts().items() if (generate.HERE / name).read_text() != text] == []
