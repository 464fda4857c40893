"""`python -m xsim_py` is the `xsim` command."""

import sys

from xsim_py.cli import main

if __name__ == "__main__":
    sys.exit(main())
