"""Tables: columns with units, for a terminal, a notebook, and other programs."""

from __future__ import annotations

import csv
from typing import IO, TYPE_CHECKING, Any, NoReturn, Self

from xsim_py.atomic_files import atomic_file
from xsim_py.errors import InternalError, visible
from xsim_py.units import PS_PER_S, exact_seconds, parse_exact_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
    from pathlib import Path

_SHOWN_ROWS = 20
_FORMULA = ("=", "+", "@", "\t", "\r")
_KIND_OF_CELL = {int: "number", float: "number", bool: "number", type(None): ""}


def _columns(**tables: str) -> dict[str, dict[str, str]]:
    pairs = {name: [word.partition(":")[::2] for word in words.split()] for name, words in tables.items()}
    return {name: dict(columns) for name, columns in pairs.items()}


COLUMNS = _columns(
    ranks="rank node end_s:ps exit_status messages bytes:B waited_s:ps peak_bytes:B",
    pairs="source dest size_from:B size_to:B messages bytes:B",
    collectives="communicator operation algorithm calls bytes:B mean_s:s longest_s:ps",
    failures="start rank time_s:ps cause known_by first_known_s:ps last_known_s:ps",
    learned="start failed rank time_s:ps how",
    starts="start start_s:ps end_s:ps ended report",
    worlds="start world first_rank size born_s:ps parent command",
    storage="rank operations read:B written:B time_s:ps",
    profile="shard part wall_s:s",
    waits="rank computing_s:ps transfer_s:ps late_sender_s:ps late_receiver_s:ps imbalance_s:ps overhead_s:ps"
    " other_s:ps total_s:ps",
    links="link layer from to bytes messages busy_s utilisation",  # without units, as in the files that are drawn
)
"""The columns of each table of a run, with their units; ``ps``: filled in picoseconds, and shown in seconds.

Those of the kinds of faults are in their classes (see `every_table`).
The values of ranks are filled by `mpi.shard_result.ShardResult`, the other tables by `outcome`, `report.waits` and
`link_loads`.
"""


class Table(dict[str, list[Any]]):
    """A named table of columns of equal length, accessed by name: ``pandas.DataFrame(table)`` works.

    It is a ``dict`` of its columns because pandas requires one, except that its length is the number of rows. It cannot
    be changed.

    Parameters
    ----------
    name : str
        The subject of the table, and the name of its CSV file.
    columns : mapping of str to sequence, or callable
        The cells by column, each of the same length. Numpy arrays become lists of Python numbers. A callable creates
        many columns on first access: most runs do not use their pairs of ranks.
    units : mapping of str to str, optional
        The unit of each column that has one, such as ``{"size": "B", "finish_s": "s"}``.
    exact : collection of str, optional
        Columns of seconds that are given in integer picoseconds. Their cells are floats, which are off by some
        picoseconds from 8,192 s on; CSV and JSON have every digit.

    Attributes
    ----------
    picoseconds : dict of str to list of int or None
        Those columns in picoseconds.
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[str, Sequence[Any]] | Callable[[], Mapping[str, Sequence[Any]]],
        units: Mapping[str, str] | None = None,
        *,
        exact: Collection[str] = (),
    ) -> None:
        assert not (exact and callable(columns)), "added columns cannot be exact"
        super().__init__()  # it stays empty: the methods below use `columns`, which may be created later
        self.name = name
        self.units = {**(units or {}), **dict.fromkeys(exact, "s")}
        self.picoseconds: dict[str, list[Any]] = {}
        if exact and not callable(columns):
            self.picoseconds = {column: list(columns[column]) for column in exact}
            columns = {**columns, **{column: _in_seconds(cells) for column, cells in self.picoseconds.items()}}
        self._make = columns if callable(columns) else None
        self._made = {} if callable(columns) else self._checked(columns)

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The cells by column."""
        if (make := self._make) is not None:
            self._made = self._checked(make())
            self._make = None  # only now: creating them may be interrupted, or requested by two threads
        return self._made

    def _checked(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        listed = {key: _as_list(cells) for key, cells in columns.items()}
        if problem := _problem(listed, self.units):
            raise InternalError(f"table {self.name!r}: {problem}")
        return listed

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, column: str) -> list[Any]:
        """Return the cells of one column."""
        return self.columns[column]

    def __setitem__(self, column: str, cells: object) -> NoReturn:
        raise TypeError(f"table {self.name!r} cannot be changed; dict(table) can")

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the columns."""
        return iter(self.columns)

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def get(self, column: str, default: object = None) -> Any:
        """Return the cells of one column, or a default if there is no such column."""
        return self.columns.get(column, default)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """Return the names of the columns."""
        return self.columns.keys()

    def values(self) -> ValuesView[list[Any]]:  # type: ignore[override]
        """Return the columns."""
        return self.columns.values()

    def items(self) -> ItemsView[str, list[Any]]:  # type: ignore[override]
        """Return the columns with their names."""
        return self.columns.items()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.name, self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and (self.name, self.to_dict()) == (other.name, other.to_dict())

    __hash__ = None  # it is mutable, as its lists are

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self)} rows, columns {', '.join(self.columns)})"

    def __str__(self) -> str:
        return self.to_text()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the cells row by row."""
        return list(zip(*self.columns.values(), strict=True))

    def headings(self) -> list[str]:
        """Return the column names, each with its unit unless the name ends with it: ``size [B]``, ``finish_s``."""
        bare = {key for key in self.columns if key not in self.units or key.endswith(f"_{self.units[key]}")}
        return [key if key in bare else f"{key} [{self.units[key]}]" for key in self.columns]

    def to_text(self, *, max_rows: int | None = _SHOWN_ROWS) -> str:
        """Return the table with aligned columns; `max_rows` omits rows in the middle (None: all are shown)."""
        body = [[_text(cell) for cell in row] for row in self._shown(max_rows)]
        lines = [self.headings(), *body]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        right = self._numeric()
        text = ["  ".join(_justify(*cell) for cell in zip(line, widths, right, strict=True)).rstrip() for line in lines]
        text.insert(1, "  ".join("-" * width for width in widths))
        if len(body) < len(self):
            text.insert(2 + (len(body) + 1) // 2, f"... {len(self) - len(body):,} more rows ...")
        return "\n".join(text)

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        from html import escape

        align = [' style="text-align:right"' if right else ' style="text-align:left"' for right in self._numeric()]
        body = [[_text(cell) for cell in row] for row in self._shown(_SHOWN_ROWS)]
        rows = [html_row("td", row, align) for row in body]
        if len(body) < len(self):
            note = (
                f'<tr><td colspan="{len(self.columns)}">&hellip; {len(self) - len(body):,} more rows &hellip;</td></tr>'
            )
            rows.insert((len(body) + 1) // 2, note)
        head = html_row("th", self.headings(), align)
        return (
            f"<table><caption>{escape(self.name)}</caption><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
        )

    def to_csv(self, target: str | Path | IO[str]) -> None:
        """Write the table as CSV, with one header line, to a path or an open text file.

        A text that a spreadsheet would take for a formula gets a leading apostrophe, which spreadsheets hide.
        """
        with atomic_file(target) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.headings())
            writer.writerows(map(_harmless, row) for row in self._written())

    def to_dict(self) -> dict[str, Any]:
        """Return units, columns and, for exact columns, every digit, as plain data for JSON."""
        plain: dict[str, Any] = {"units": self.units, "columns": self.columns}
        return {**plain, "exact": self._exact()} if self.picoseconds else plain

    @classmethod
    def from_dict(cls, name: str, plain: Mapping[str, Any]) -> Self:
        """Return the table for a result of `to_dict`.

        Raises
        ------
        ValueError
            When the data are not a table: columns of different lengths, mixed numbers and texts, or anything else.
        """
        exact = {
            column: [None if cell is None else parse_exact_seconds(cell) for cell in cells]
            for column, cells in plain.get("exact", {}).items()
        }
        columns = {**plain["columns"], **exact}
        for column, cells in columns.items():
            kinds = {_KIND_OF_CELL.get(type(cell), type(cell).__name__) for cell in cells} - {""}
            if len(kinds) > 1 or not kinds <= {"number", "str"}:
                raise ValueError(f"column {column!r} of table {name!r} contains {' and '.join(sorted(kinds))}")
        if problem := _problem(columns, plain["units"]):
            raise ValueError(f"table {name!r}: {problem}")
        return cls(name, columns, plain["units"], exact=exact)

    def _written(self) -> Iterator[tuple[Any, ...]]:
        """Return the cells row by row with every digit."""
        return zip(*{**self.columns, **self._exact()}.values(), strict=True)

    def _exact(self) -> dict[str, list[str | None]]:
        """Return the exact columns, as decimal numbers of seconds."""
        return {
            column: [None if cell is None else exact_seconds(cell) for cell in cells]
            for column, cells in self.picoseconds.items()
        }

    def _numeric(self) -> list[bool]:
        """Return for each column whether it holds numbers, which are right-aligned."""
        return [all(isinstance(cell, int | float) or cell is None for cell in cells) for cells in self.columns.values()]

    def _shown(self, max_rows: int | None) -> list[tuple[Any, ...]]:
        """Return all rows, or the first and last ones of a long table, `max_rows` in total."""
        if max_rows is None or len(self) <= max_rows:
            return self.rows()
        first, last = (max_rows + 1) // 2, max_rows // 2
        keep = [*range(first), *range(len(self) - last, len(self))]
        return [tuple(cells[row] for cells in self.columns.values()) for row in keep]


def _in_seconds(times_ps: Sequence[int | None]) -> list[float | None]:
    return [None if time_ps is None else time_ps / PS_PER_S for time_ps in times_ps]


def _text(value: object) -> str:
    """Return a cell as text: integers exactly, floats to six digits, None as an empty string."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else visible(str(value))


def _as_list(cells: Sequence[Any]) -> list[Any]:
    """Return plain Python values, also for numpy arrays, whose numbers JSON does not support."""
    return cells.tolist() if hasattr(cells, "tolist") else list(cells)


def _justify(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def html_row(tag: str, cells: Sequence[str], align: Sequence[str]) -> str:
    """Return a row of an HTML table, of cells called `tag` with these attributes."""
    from html import escape  # not above: its import takes long, and only notebooks need it

    return "<tr>" + "".join(f"<{tag}{a}>{escape(c)}</{tag}>" for c, a in zip(cells, align, strict=True)) + "</tr>"


def html_facts(facts: Mapping[str, str]) -> str:
    """Return rows of an HTML table with names and values."""
    from html import escape

    return "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _problem(columns: Mapping[str, Sequence[Any]], units: Mapping[str, str]) -> str:
    """Return why columns and units do not form a table; empty if they do."""
    if len({len(cells) for cells in columns.values()}) > 1:
        return "its columns differ in length"
    stray = units.keys() - columns.keys()
    return f"it has units for columns that it does not have: {sorted(stray)}" if stray else ""


def every_table() -> dict[str, dict[str, str]]:
    """Return the columns of all possible tables of a run: `COLUMNS`, and those of each kind of faults."""
    from xsim_py.failure import fault_kinds  # most runs have no faults

    return COLUMNS | _columns(**{name: f"start rank time_s:ps {kind.columns}" for name, kind in fault_kinds().items()})


def _columns_of(name: str) -> dict[str, str]:
    return COLUMNS[name] if name in COLUMNS else every_table()[name]


def run_table(name: str, columns: Mapping[str, Sequence[Any]] | Callable[[], Mapping[str, Sequence[Any]]]) -> Table:
    """Return a table of a run with those of its `COLUMNS` that are given."""
    known = _columns_of(name)
    if not callable(columns):
        known = {column: unit for column, unit in known.items() if column in columns}
        columns = {column: columns[column] for column in known}
    units = {column: unit for column, unit in known.items() if unit not in ("", "ps")}
    return Table(name, columns, units, exact=[column for column, unit in known.items() if unit == "ps"])


def table_of_rows(name: str, rows: Sequence[Sequence[Any]]) -> Table:
    """Return a table of a run with rows of all its `COLUMNS`."""
    return run_table(name, {column: [row[place] for row in rows] for place, column in enumerate(_columns_of(name))})
