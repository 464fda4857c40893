"""Runs one of mpi4py's OSU benchmarks with few repetitions: ``osu.py FOLDER NAME``."""

import importlib
import sys

FEW = {"window_size": 4, "skip": 1, "loop": 4, "skip_small": 1, "loop_small": 4, "skip_large": 1, "loop_large": 2}

if __name__ == "__main__":
    folder, name = sys.argv[1:]
    sys.path.insert(0, folder)
    benchmark = getattr(importlib.import_module(name), name)
    known = benchmark.__code__.co_varnames[: benchmark.__code__.co_argcount]
    benchmark(**{option: value for option, value in FEW.items() if option in known})
