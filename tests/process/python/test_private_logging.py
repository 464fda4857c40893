"""Each rank has its logging for itself, also of loggers that shared packages keep."""

import logging
from pathlib import Path

import pytest

from tests.process.launch import launch, write


def test_handlers_of_a_logger_do_not_leak_from_the_rank_that_is_the_first_to_name_it(tmp_path: Path):
    text = """
        import logging, sys
        if rank == 0:
            logging.getLogger("mine").addHandler(logging.StreamHandler(sys.stdout))
        comm.Barrier()
        print(rank, len(logging.getLogger("mine").handlers))
        """
    assert launch(tmp_path, text, ranks=2).lines == ["0 1", "1 0"]


_EVERYTHING = """
    import io, logging, logging.config, sys
    class Mine(logging.Logger):
        pass
    if rank == 0:
        logging.disable(logging.INFO)
        logging.raiseExceptions = False
        logging.lastResort = None
        logging.addLevelName(25, "ZERO")
        logging.getLogger("a.b").extra = "x"
        logging.getLogger("a.b").debug = lambda *_: print("replaced")
    elif rank == 1:
        logging.setLoggerClass(Mine)
    comm.Barrier()
    log, out = logging.getLogger("a.b"), io.StringIO()
    handler = logging.StreamHandler(out)
    handler.name = "first"
    handler.setFormatter(logging.Formatter("%(levelname)s-%(name)s-%(message)s"))
    logging.basicConfig(handlers=[handler], level=[logging.DEBUG, logging.INFO, logging.WARNING][rank])
    comm.Barrier()
    log.debug("d")
    log.info("i")
    log.log(25, "m")
    logging.getLogger("a").error("e")
    comm.Barrier()
    told = {"version": 1, "disable_existing_loggers": rank == 1, "loggers": {f"n{rank}": {"level": "ERROR"}}}
    logging.config.dictConfig(told)
    comm.Barrier()
    log.error("late")
    names = sorted(name for name in logging.root.manager.loggerDict if name in ("a", "a.b", "n0", "n1", "n2"))
    print(rank, type(log).__name__, log.parent, hasattr(log, "extra"), log.disabled, *names, *out.getvalue().split())
    last, disabled = bool(logging.lastResort), logging.root.manager.disable
    print(rank, logging.raiseExceptions, last, logging.getLevelName(25), disabled)
    print(rank, logging.getLogger(f"n{rank}").level, list(logging._handlers), len(logging._handlerList))
    """


def test_loggers_levels_and_handlers_are_as_in_processes_of_their_own(tmp_path: Path):
    """The lines are those of the same program under a real MPI."""
    done = launch(tmp_path, _EVERYTHING, ranks=3)
    assert sorted(done.lines) == [
        "0 40 [] 0",
        "0 False False ZERO 20",
        "0 Logger <Logger a (DEBUG)> True False a a.b n0 ZERO-a.b-m ERROR-a-e ERROR-a.b-late",
        "1 40 [] 0",
        "1 Mine <Mine a (INFO)> False True a a.b n1 INFO-a.b-i Level 25-a.b-m ERROR-a-e",
        "1 True True Level 25 0",
        "2 40 [] 0",
        "2 Logger <Logger a (WARNING)> False False a a.b n2 ERROR-a-e ERROR-a.b-late",
        "2 True True Level 25 0",
        "replaced",
    ]


def test_a_logger_of_a_shared_package_is_as_it_has_left_it_and_then_each_rank_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    package = """
        import logging
        logger = logging.getLogger(__name__)
        logger.addHandler(logging.NullHandler())
        logger.setLevel(logging.ERROR)
        """
    write(tmp_path / "site-packages", {"shared_logger_package.py": package})
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    text = """
        import logging, shared_logger_package as package
        if rank == 0:
            package.logger.addHandler(logging.NullHandler())
            package.logger.setLevel(logging.DEBUG)
        comm.Barrier()
        same = logging.getLogger("shared_logger_package") is package.logger
        print(rank, len(package.logger.handlers), package.logger.level, package.logger.isEnabledFor(10), same)
        """
    done = launch(tmp_path / "program", text, ranks=2)
    assert sorted(done.lines) == ["0 2 10 True True", "1 1 40 False True"]
    left = logging.getLogger("shared_logger_package")
    assert (len(left.handlers), left.level) == (1, logging.ERROR)


def test_a_rank_that_ends_flushes_its_handlers(tmp_path: Path):
    text = """
        import logging, logging.handlers, sys
        shown = logging.StreamHandler(sys.stdout)
        logging.root.addHandler(logging.handlers.MemoryHandler(100, target=shown))
        logging.error("kept by %d", rank)
        """
    assert launch(tmp_path, text, ranks=2).lines == ["kept by 0", "kept by 1"]
