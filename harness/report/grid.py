"""The table that every output shares: one grid, drawn as HTML, Markdown, LaTeX or text."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

NO_DRAWING = Markup()


@dataclass(frozen=True)
class Cell:
    """One cell: its text, a quieter second line, and what only HTML can show."""

    text: str
    note: str = ""
    drawing: Markup = NO_DRAWING
    tone: str = ""
    """`held`, `failed`, `inconclusive`, `void` or `code`: the look, never the size."""

    join: str = " "
    """What stands between text and note where both share a line."""

    @property
    def line(self) -> str:
        """Text and note in one line."""
        return f"{self.text}{self.join}{self.note}" if self.note else self.text


@dataclass(frozen=True)
class Column:
    """A column: its key names cells, its title is printed; numbers stand to the right."""

    key: str
    title: str
    right: bool = False
    drawn: bool = False
    """Holds drawings, so only HTML has it."""
    wide: bool = False
    """Holds sentences, so it may wrap and takes the room that is left."""


@dataclass(frozen=True)
class Row:
    """A row: its key names cells."""

    key: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Grid:
    """A table with a name that is unique on its page."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @property
    def sentence_cm(self) -> float:
        """How wide a column of sentences is on paper."""
        return 6.0 if sum(column.wide for column in self.columns) < 2 else 3.2

    @property
    def written(self) -> Grid:
        """The grid without the columns that hold drawings."""
        keep = [index for index, column in enumerate(self.columns) if not column.drawn]
        return Grid(
            self.name,
            self.caption,
            tuple(self.columns[index] for index in keep),
            tuple(Row(row.key, tuple(row.cells[index] for index in keep)) for row in self.rows),
        )


def cells(*texts: str) -> tuple[Cell, ...]:
    """Return plain cells."""
    return tuple(Cell(text) for text in texts)
