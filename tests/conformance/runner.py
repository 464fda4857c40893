"""Runs the suite and says the outcome of each test in a line of its own; goes into the folder of the suite.

Each rank runs this, under a simulation or a real MPI. The lines are short, so that those of different processes do not
mix.
"""

# ruff: noqa: N802  the names are unittest's

import importlib
import sys
import unittest

import main

SAID = {"addSuccess": "passed", "addSkip": "skipped", "addExpectedFailure": "passed", "addUnexpectedSuccess": "failed"}


class Result(unittest.TextTestResult):
    """The usual result, which also tells."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.failed_ids = set()

    def stopTest(self, test):
        super().stopTest(test)
        if test.id() in self.failed_ids:
            self.tell(test, "failed")

    def tell(self, test, outcome):
        sys.stdout.write(f"outcome {outcome} {test.id()}\n")
        sys.stdout.flush()

    def addError(self, test, err):
        super().addError(test, err)
        self.failed_ids.add(test.id())
        if not isinstance(test, unittest.TestCase):  # what prepares a module or a class
            self.tell(test, "failed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.failed_ids.add(test.id())

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.failed_ids.add(test.id())


def telling(method, outcome):
    def add(self, test, *details):
        getattr(super(Result, self), method)(test, *details)
        if test.id() not in self.failed_ids:
            self.tell(test, outcome)

    return add


for method, outcome in SAID.items():
    setattr(Result, method, telling(method, outcome))


def with_fewer_arrays(options, setup=main.setup_modules):
    """No test less, but fewer arrays in each: those of numpy alone, or each element type in one kind of each family."""
    setup(options)
    arrays = importlib.import_module("arrayimpl")
    kinds = arrays.ArrayBackends
    families = [[kind for kind in kinds if issubclass(kind, of)] for of in (arrays.ArrayArray, arrays.ArrayNumPy)]
    if NUMPY_ALONE in asked:
        del families[0]
        kinds[:] = families[0]
    if TYPES_DEALT_OUT in asked:
        for family in families:
            types = [*family[0].TypeMap.items()]
            for place, kind in enumerate(family):
                kind.TypeMap = dict(types[place :: len(family)])
        main.TestLoader = FewerTypes


class FewerTypes(main.TestLoader):
    """A loader that deals element types out among the classes of a module, and leaves a quarter of its datatypes."""

    def loadTestsFromModule(self, module, **options):
        for base in [each for each in vars(module).values() if "TYPECODES" in getattr(each, "__dict__", ())]:
            kinds = base.__subclasses__()
            for place, kind in enumerate(kinds):
                kind.TYPECODES = base.TYPECODES[place :: len(kinds)]
        if hasattr(module, "datatypes"):
            module.datatypes[:] = module.datatypes[::4]
        return super().loadTestsFromModule(module, **options)


NUMPY_ALONE, TYPES_DEALT_OUT = OURS = "--numpy-arrays", "--types-dealt-out"

if __name__ == "__main__":
    sys.dont_write_bytecode = True
    asked = [option for option in OURS if option in sys.argv]
    sys.argv[:] = [word for word in sys.argv if word not in OURS]
    if asked:
        main.setup_modules = with_fewer_arrays
    main.main(module=None, testRunner=unittest.TextTestRunner(resultclass=Result))
