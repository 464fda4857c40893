"""Each rank filters, catches and shows its own warnings, and remembers its own."""

import warnings
from pathlib import Path

import numpy
import pytest

from tests.process.launch import launch, write


def test_warnings_are_caught_by_the_rank_that_has_made_them_also_where_it_waits(tmp_path: Path):
    text = """
        import warnings
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("error" if rank == 1 else "always")
            comm.Barrier()
            try:
                warnings.warn(f"of rank {rank}")
            except UserWarning:
                print(rank, "raised")
            comm.Barrier()
        comm.Barrier()
        print(rank, [str(each.message) for each in seen], len(warnings.filters))
        """
    filters = len(warnings.filters)
    done = launch(tmp_path, text, ranks=3)
    expected = [f"0 ['of rank 0'] {filters}", f"1 [] {filters}", "1 raised", f"2 ['of rank 2'] {filters}"]
    assert sorted(done.lines) == expected


def test_what_is_shown_once_is_shown_once_in_each_rank_whatever_others_do_to_their_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path / "site-packages", {"warning_package.py": "import warnings\ndef careful(): warnings.warn('mind')\n"})
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    text = """
        import warnings, warning_package
        for _ in range(2):
            warnings.warn("own")
            warning_package.careful()
            if rank == 1:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    comm.Barrier()
                    warning_package.careful()
            else:
                comm.Barrier()
        """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        launch(tmp_path / "program", text, ranks=3)
    shown = [str(each.message) for each in caught]
    assert (shown.count("own"), shown.count("mind")) == (4, 4)  # rank 1 twice: its filters have changed meanwhile


def test_showwarning_and_filters_that_are_assigned_are_those_of_the_rank(tmp_path: Path):
    text = """
        import numpy, warnings
        if rank == 1:
            warnings.showwarning = lambda message, *_: print(rank, "shows", message)
            warnings.filters = [("default", None, Warning, None, 0)]
        comm.Barrier()
        numpy.float64(1) / 0
        warnings.warn("seen")
        """
    before = warnings.showwarning, warnings.filters
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        done = launch(tmp_path, text, ranks=2)
    assert done.lines == ["1 shows divide by zero encountered in scalar divide", "1 shows seen"]
    assert not caught
    assert (warnings.showwarning, warnings.filters) == before


def test_a_shared_module_remembers_again_what_it_has_shown_when_the_run_has_ended(tmp_path: Path):
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("default")
        launch(tmp_path, "import numpy; numpy.polyfit([1, 1, 1], [1, 2, 3], 2)", ranks=2)
    assert "__warningregistry__" not in vars(numpy) or numpy.__warningregistry__ is not None
