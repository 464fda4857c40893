"""`python -m xsim_py` and `xsim` begin here: an early Ctrl-C prints no traceback."""

import signal
from typing import NoReturn


def command() -> NoReturn:
    """Run the command line and end this process."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from xsim_py.cli import command as begin

    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, handler)
    begin()


if __name__ == "__main__":
    command()
