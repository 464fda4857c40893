"""Helper of private_globals.py: a module with state that each process must have for itself."""

value = 0
counter = value
history: list[int] = []


def count() -> None:
    """Count one call."""
    global value
    value += 1


class Ledger:
    """Numbers its instances."""

    issued = 0

    def __init__(self, name: str) -> None:
        """Take the next number."""
        Ledger.issued += 1
        self.name, self.number = name, Ledger.issued
