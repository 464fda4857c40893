"""Judges the checks; see `judge`."""

import sys

from tests.checks.suite.judge import main

if __name__ == "__main__":  # the processes that share the work import this file, too
    sys.exit(main())
