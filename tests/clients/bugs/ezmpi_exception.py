"""A task of ezmpi's MPIPool raises an exception; its documentation promises None for the result."""

from ezmpi import MPIPool


def reciprocal(x: float) -> float:
    """The task."""
    return 1 / x


if __name__ == "__main__":
    with MPIPool(use_dill=False) as pool:
        print(pool.map(reciprocal, [1, 0, 2, 4]))
