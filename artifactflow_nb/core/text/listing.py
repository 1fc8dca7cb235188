"""Lists with a notebook display: a table as text, Markdown or HTML."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Self, TypeVar, overload

from artifactflow_nb.core.text.cards import (
    CardCell,
    CardTable,
    Printer,
    card_frame,
    cell_html,
    cell_markdown,
    escape_invisible,
)

T = TypeVar("T")


class DisplayList(Sequence[T]):
    """Immutable sequence that displays as a table, whose columns subclasses define.

    A slice is a list of the same class. A list is equal to any other sequence of the same values.
    """

    def __init__(self, values: Iterable[T]) -> None:
        self._values = tuple(values)

    @abstractmethod
    def _columns(self) -> Sequence[str]:
        """Return the column names."""

    @abstractmethod
    def _cells(self, value: T, /) -> Sequence[CardCell]:
        """Return the table row of a value."""

    def _nothing(self) -> str:
        """Return the text of an empty list."""
        return "Nothing."

    def _note(self) -> str:
        """Return a hint on how to use the values; may be empty."""
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

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash

    def _lines(self) -> Sequence[str]:
        """Return the text display without remarks."""
        return [self._table().plain()]

    def _table(self) -> CardTable:
        return CardTable.from_rows(self._columns(), map(self._cells, self))

    def _remarks(self) -> list[str]:
        return list(filter(None, [self._note() if self else self._nothing()]))

    def __repr__(self) -> str:
        return escape_invisible("\n".join([*(self._lines() if self else []), *self._remarks()]))

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        del cycle
        printer.text(repr(self))

    def _repr_markdown_(self) -> str:
        table = [self._table().markdown()] if self else []
        return "\n\n".join([*table, *map(cell_markdown, self._remarks())])

    def _repr_html_(self) -> str:
        notes = (f'<p class="af-card-quiet">{cell_html(remark)}</p>' for remark in self._remarks())
        return card_frame((self._table().html() if self else "") + "".join(notes))
