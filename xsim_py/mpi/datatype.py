"""Datatypes of the virtual MPI: their elements, sizes and construction.

A `Type` never changes after its construction, except `committed` and `freed`. State that a *process* can change of a
type shared by all processes (the name and the attributes of a predefined one) is kept by the layer above.

Extents follow MPICH: a struct is padded to the alignment of its members, as a C compiler would, unless a resized type
overrides it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xsim_py.mpi import constants as c
from xsim_py.mpi.attributes import Attributes
from xsim_py.mpi.errors import fail
from xsim_py.mpi.memory import Memory
from xsim_py.mpi.padding import mask_of
from xsim_py.mpi.typemap import Layout, block


class Recipe:
    """The construction of a type, as returned by MPI_Type_get_envelope and MPI_Type_get_contents."""

    __slots__ = ("addresses", "combiner", "counts", "integers", "params", "types")

    def __init__(
        self,
        combiner: int,  # one of the ``COMBINER_`` constants
        params: dict[str, Any],  # the arguments by the names mpi4py gives them
        *,
        # `integers` and `counts` are the same arguments in the standard's order (section 5.1.13, large-count form).
        # These sequences and `types` are never modified, so they are not copied.
        integers: Sequence[int] = (),
        counts: Sequence[int] = (),
        types: Sequence[Type] = (),  # from which it was built
        addresses: Sequence[int] = (),  # of a type that a compiled program has made without large counts
    ) -> None:
        self.addresses = addresses
        self.combiner = combiner
        self.params = params
        self.integers = integers
        self.counts = counts
        self.types = types


_blank = object.__new__
_NAMED = Recipe(c.COMBINER_NAMED, {})


_PREDEFINED_COMBINERS = frozenset(
    {
        c.COMBINER_NAMED,
        c.COMBINER_VALUE_INDEX,
        c.COMBINER_F90_INTEGER,
        c.COMBINER_F90_REAL,
        c.COMBINER_F90_COMPLEX,
    }
)


class Type:
    """A datatype; `layout` is a function that makes its layout."""

    layout: Layout
    """The locations of the bytes of one element."""
    is_contiguous: bool
    """Whether any number of elements is one run of bytes that begins at the first one's origin."""
    is_verbatim: bool
    """Whether these bytes are the packed elements, too: long doubles have padding, which is cleared."""

    __slots__ = (
        "alignment",
        "attributes",
        "code",
        "committed",
        "dtype",
        "elements",
        "extent",
        "is_contiguous",
        "is_predefined",
        "is_verbatim",
        "kind",
        "layout",
        "lb",
        "make_layout",
        "name",
        "recipe",
        "size",
        "typechar",
    )

    def __init__(
        self,
        *,
        layout: Callable[[], Layout],
        size: int,
        lb: int,
        extent: int,
        alignment: int,
        elements: int,
        recipe: Recipe = _NAMED,
    ) -> None:
        self.make_layout = layout
        self.size = size  # bytes of data in one element, which is also its packed size
        self.lb = lb  # the lower bound in bytes
        self.extent = extent  # the distance from one element to the next in bytes
        self.alignment = alignment  # of a C compiler, in bytes
        self.elements = elements  # basic elements in one element; a pair has two
        self.recipe = recipe
        self.is_predefined = recipe.combiner in _PREDEFINED_COMBINERS  # then it needs no constructor, commit or free
        self.attributes: Attributes | None = None  # that its process has attached to a derived type
        self.committed = False
        self.name = ""
        # The kind of reductions it supports: ``"integer"``, ``"fortran integer"``, ``"real"``, ``"complex"``,
        # ``"logical"``, ``"byte"``, ``"pair"``, or empty for all others.
        self.kind = ""
        self.dtype: np.dtype[Any] | None = None  # the NumPy type of one packed element; None for a derived type
        self.code = ""  # as `tocode`
        self.typechar = ""

    def like(self, recipe: Recipe, lb: int, extent: int) -> Type:
        """Return a type of the same elements, with another construction and other bounds."""
        new = _blank(Type)  # what the constructor does, in half the time
        new.make_layout = self._layout
        new.size = self.size
        new.lb = lb
        new.extent = extent
        new.alignment = self.alignment
        new.elements = self.elements
        new.recipe = recipe
        new.is_predefined = recipe.combiner in _PREDEFINED_COMBINERS
        new.attributes = None
        new.committed = False
        new.name = new.kind = new.code = new.typechar = ""
        new.dtype = None
        return new

    def _layout(self) -> Layout:
        return self.layout

    def __getattr__(self, name: str) -> Any:
        """Make the layout on first use: most types are only used to build others, and freed."""
        if name not in ("layout", "is_contiguous", "is_verbatim"):
            raise AttributeError(name)
        layout = self.layout = self.make_layout()
        assert layout.size == self.size
        if _may_have_padding(self):
            layout.mask = mask_of(self.runs())
        self.is_contiguous = layout.is_block and layout.low == 0 and layout.size == self.extent
        self.is_verbatim = self.is_contiguous and layout.mask is None
        return getattr(self, name)

    @property
    def ub(self) -> int:
        """Upper bound in bytes."""
        return self.lb + self.extent

    @property
    def true_lb(self) -> int:
        """The offset of the first byte of data."""
        return self.layout.low

    @property
    def true_extent(self) -> int:
        """Bytes from the first to the last byte of data."""
        return self.layout.high - self.layout.low

    def pack(self, memory: Memory, offset: int, count: int) -> bytes:
        """Copy `count` elements, the first at ``memory[offset]``, into ``count * size`` bytes.

        `memory` is the user's, and `offset` the first element's origin; negative if `memory` begins after it.
        """
        if self.is_verbatim:
            end = offset + count * self.size
            if offset < 0 or end > len(memory):
                self._outside(memory, offset, count)
            return bytes(memory[offset:end])
        if not count or not self.size:
            return b""
        self._check(memory, offset, count)
        return self.layout.pack(memory, origin=offset, count=count, extent=self.extent)

    def unpack(self, data: bytes, memory: Memory, offset: int, count: int) -> int:
        """Copy packed bytes into at most `count` elements; return the number of bytes.

        A message may be shorter than the buffer, even end within an element; a longer one is `ERR_TRUNCATE`.
        """
        nbytes = len(data)
        if nbytes > count * self.size:
            self.unpack(data[: count * self.size], memory, offset, count)  # as in a real MPI, a part arrives
            fail(c.ERR_TRUNCATE, f"{nbytes} bytes arrived, the receive buffer takes {count * self.size}")
        if self.is_contiguous:
            end = offset + nbytes
            if offset < 0 or end > len(memory):
                self._outside(memory, offset, -(-nbytes // (self.size or 1)))
            memory[offset:end] = data
            return nbytes
        if not nbytes:
            return 0
        whole, rest = divmod(nbytes, self.size)
        self._check(memory, offset, whole + (rest > 0))
        if whole:
            self.layout.unpack(data[: nbytes - rest], memory, origin=offset, count=whole, extent=self.extent)
        if rest:  # the last element is incomplete: the missing bytes are unchanged
            last = offset + whole * self.extent
            old = self.layout.pack(memory, origin=last, count=1, extent=self.extent)
            self.layout.unpack(data[-rest:] + old[rest:], memory, origin=last, count=1, extent=self.extent)
        return nbytes

    def span(self, count: int) -> tuple[int, int]:
        """Return the range of bytes of `count` elements, relative to the first one's origin: (low, high)."""
        if not count or not self.size:
            return 0, 0
        return self.layout.span(count, self.extent)

    def _check(self, memory: Memory, offset: int, count: int) -> None:
        low, high = self.span(count)
        if offset + low < 0 or offset + high > len(memory):
            self._outside(memory, offset, count)

    def _outside(self, memory: Memory, offset: int, count: int) -> None:
        low, high = self.span(count)
        if low == high:  # no access, so any offset is valid
            return
        what = f"{count} x {self.name or 'a derived datatype'}"
        fail(
            c.ERR_BUFFER,
            f"{what} touches bytes {offset + low} to {offset + high} of a buffer of {len(memory)} bytes; "
            "a real MPI would access memory beyond it",
        )

    def unknown(self, nbytes: int) -> bytes:
        """Return packed elements for lost values: NaN for floating point, zeros for all others."""
        element = b"".join(
            (np.full(n, np.nan, dtype) if dtype.kind in "fc" else np.zeros(n, dtype)).tobytes()
            for dtype, n in self.runs()
        )
        return element * (nbytes // self.size) if self.size else b""

    def basic_elements(self, nbytes: int) -> int:
        """Return the number of basic elements in `nbytes` packed bytes (MPI_Get_elements).

        `UNDEFINED` if they end within one.
        """
        if not self.size:
            return 0
        whole, rest = divmod(nbytes, self.size)
        if not rest:
            return whole * self.elements
        done = 0
        for dtype, n in self.runs():
            if rest <= n * dtype.itemsize:
                within, part = divmod(rest, dtype.itemsize)
                return c.UNDEFINED if part else whole * self.elements + done + within
            rest -= n * dtype.itemsize
            done += n
        return c.UNDEFINED

    def runs(self) -> list[tuple[np.dtype[Any], int]]:
        """Return the basic elements in packing order, equal neighbours merged: (NumPy's type, count)."""
        if self.dtype is not None:
            return [(self.dtype[i], 1) for i in range(2)] if self.kind == "pair" else [(self.dtype, 1)]
        types, params = self.recipe.types, self.recipe.params
        if self.recipe.combiner == c.COMBINER_STRUCT:
            members = zip(types, params["blocklengths"], strict=True)
            return _merged([run for old, n in members for run in _times(old, n)])
        return _times(types[0], self.elements // types[0].elements if self.elements else 0)


def _may_have_padding(datatype: Type) -> bool:
    """Return True if a basic element of it is a long double, or consists of them."""
    if datatype.dtype is None:
        return any(map(_may_have_padding, datatype.recipe.types))
    basic = datatype.dtype if datatype.dtype.names is None else datatype.dtype[0]
    return basic.char in "gG"


def _times(old: Type, count: int) -> list[tuple[np.dtype[Any], int]]:
    runs = old.runs()
    return [(dtype, n * count) for dtype, n in runs] if len(runs) == 1 and count else _merged(runs * count)


def _merged(runs: list[tuple[np.dtype[Any], int]]) -> list[tuple[np.dtype[Any], int]]:
    merged: list[tuple[np.dtype[Any], int]] = []
    for dtype, n in runs:
        if merged and merged[-1][0] == dtype:
            merged[-1] = (dtype, merged[-1][1] + n)
        else:
            merged.append((dtype, n))
    return merged


NULL = Type(layout=lambda: block(0), size=0, lb=0, extent=0, alignment=0, elements=0)
NULL.name = "MPI_DATATYPE_NULL"
