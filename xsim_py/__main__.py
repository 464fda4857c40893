"""`python -m xsim_py` is the `xsim` command."""

from xsim_py.cli import command

if __name__ == "__main__":
    command()
