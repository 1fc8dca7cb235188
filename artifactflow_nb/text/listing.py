"""Lists as a cell shows them: a line for each value as text, and a table."""

from collections.abc import Iterable, Sequence
from typing import Self, TypeVar, overload

from artifactflow_nb.text.cards import Cell, Printer, Table, framed, html_text, markdown_text, visible

T = TypeVar("T")


class Listing(Sequence[T]):
    """Values in order; indexing gives one of them, a slice gives a list of the same kind.

    A subclass says what its table shows. It is equal to any list or tuple of the same values.

    Args:
        values: What the list holds.
    """

    def __init__(self, values: Iterable[T]) -> None:
        self._values = tuple(values)

    def _columns(self) -> Sequence[str]:
        """The names of the columns."""
        raise NotImplementedError

    def _cells(self, value: T, /) -> Sequence[Cell]:
        """The row of a value."""
        raise NotImplementedError

    def _nothing(self) -> str:
        """What an empty list says."""
        return "Nothing."

    def _note(self) -> str:
        """What to do with the values; empty if that is plain."""
        return ""

    def _slice(self, values: Sequence[T]) -> Self:
        return type(self)(values)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> "T | Self":
        return self._slice(self._values[index]) if isinstance(index, slice) else self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str | bytes):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of a list: it is equal to lists

    def _lines(self) -> Sequence[str]:
        """What the list says as text, but for its remarks."""
        return [self._table().plain()]

    def _table(self) -> Table:
        return Table.of(self._columns(), map(self._cells, self))

    def _remarks(self) -> list[str]:
        return list(filter(None, [self._note() if self else self._nothing()]))

    def __repr__(self) -> str:
        return visible("\n".join([*(self._lines() if self else []), *self._remarks()]))

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        del cycle
        printer.text(repr(self))

    def _repr_markdown_(self) -> str:
        table = [self._table().markdown()] if self else []
        return "\n\n".join([*table, *map(markdown_text, self._remarks())])

    def _repr_html_(self) -> str:
        notes = (f'<p class="af-card-quiet">{html_text(remark)}</p>' for remark in self._remarks())
        return framed((self._table().html() if self else "") + "".join(notes))
