"""Arrays that a program exposes to soft errors: silent changes of single bits."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from . import current
from .meter import metered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .rank import Rank

_EXPOSED = "exposed arrays"


def expose(name: str, array: object) -> None:
    """Expose an array to soft errors (``failures.flips``); under a real MPI, do nothing.

    The array stays exposed until another array is exposed by that name, or the rank ends. Soft errors hit its memory,
    so a program that swaps two arrays in each step exposes both.

    Parameters
    ----------
    name : str
        Name of the array in a flip: ``{rank: 3, at: 1.2ms, target: array, array: NAME}``.
    array : numpy.ndarray
        An array of numbers, of any shape and strides.

    Raises
    ------
    TypeError
        `array` is not an array of numbers.
    ValueError
        `array` is read-only.
    """
    if current.here() is not None:
        _expose(name, array)


@metered
def _expose(name: str, array: object) -> None:
    import numpy as np

    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        raise TypeError(f"xsim_py.expose: expected an array of numbers, got {name}")
    if not array.flags.writeable:
        raise ValueError(f"xsim_py.expose: {name} is read-only")
    current.running().rank.private(_EXPOSED, dict)[name] = array


def flip_exposed(rank: Rank, name: str | None, bit: int | None, chance: Random) -> tuple[str, int, int] | None:
    """Flip a bit of an exposed array of a rank; return the array, the bit and the size; None if no array has the bit.

    A `bit` is bit ``bit % 8`` of byte ``bit // 8``, elements in C order. If `name` is None, one of the arrays that have
    the bit is drawn; if `bit` is None, it is drawn, too.
    """
    exposed = (rank.extra or {}).get(_EXPOSED, {})
    least = 1 if bit is None else bit // 8 + 1
    there = [each for each, array in exposed.items() if name in (None, each) and array.nbytes >= least]
    if not there:
        return None
    if name is None:
        name = chance.choice(there)
    array = exposed[name]
    if bit is None:
        bit = chance.randrange(8 * array.nbytes)
    _change(array, bit)
    return str(name), bit, array.nbytes


def _change(array: NDArray[Any], bit: int) -> None:
    """Change one bit of an array, in place."""
    import numpy as np

    element, byte = divmod(bit // 8, array.itemsize)
    place = np.unravel_index(element, array.shape)
    array[(*place, None)].view(np.uint8)[byte] ^= np.uint8(1 << bit % 8)
