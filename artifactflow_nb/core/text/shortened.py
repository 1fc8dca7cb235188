"""Truncation of very long texts in views and saved outputs, with a line that names the location of the rest.

Rendering 200,000 paragraphs takes half a minute and blocks its thread. Exports are never truncated.
"""

from collections.abc import Callable, Iterator

from artifactflow_nb.core.text.markdown import NO_NOTES, MarkdownRenderer, escape, footnotes
from artifactflow_nb.core.text.markdown_stream import MarkdownBlock, MarkdownStream

SHOWN_CHARS = 100_000
SHOWN_LINES = 2_000
EXPORT_LOCATION = "The whole text is in the store, and exports write it."
ANSWER_LOCATION = "run.response has the whole answer, and wb.conversation(run).to_html() writes it to a file."


class GrowingText:
    """A streaming text whose beginning is split into Markdown blocks for display.

    Attributes:
        n_chars: Length of the whole text.
        n_left: Number of characters at the end that are not displayed.
        is_blank: Whether the text is empty or white space.
    """

    def __init__(self, text: str = "") -> None:
        self.n_chars = 0
        self.n_left = 0
        self.is_blank = True
        self._pieces: list[str] = []
        self._stream = MarkdownStream()
        self._n_lines = 0
        self.append(text)

    @property
    def text(self) -> str:
        """The whole text; linear in its length."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    @property
    def blocks(self) -> list[MarkdownBlock]:
        """The displayed blocks; the last one may still grow unless text is omitted."""
        return self._stream.blocks

    def end(self, n_chars: int) -> str:
        """Return the end of the text, with at least `n_chars` characters, or the whole text."""
        endings: list[str] = []
        for piece in reversed(self._pieces):
            endings.append(piece[-n_chars:])
            n_chars -= len(piece)
            if n_chars <= 0:
                break
        return "".join(reversed(endings))

    def append(self, text: str) -> None:
        """Add text at the end; linear in its length."""
        if not self.n_left:
            visible = _truncate(text, SHOWN_CHARS - self.n_chars, SHOWN_LINES - self._n_lines)
            self._stream.append(visible)
            self._n_lines += visible.count("\n")
            self.n_left = len(text) - len(visible)
        else:
            self.n_left += len(text)
        self._pieces.append(text)
        self.n_chars += len(text)
        self.is_blank = self.is_blank and not text.strip()


def _truncate(text: str, n_chars: int, n_lines: int) -> str:
    """Truncate a text to a number of characters and complete lines."""
    text = text[:n_chars]
    if text.count("\n") < n_lines:
        return text
    return "".join(f"{line}\n" for line in text.split("\n", n_lines)[:n_lines])


def remainder(n_chars: int, location: str) -> str:
    """Return the line that gives the length of the omitted text and names the location of the whole text."""
    return f"… {n_chars:,} more {'character' if n_chars == 1 else 'characters'}. {location}"


def beginning(text: str) -> tuple[str, int]:
    """Return the displayed beginning of a text and the number of omitted characters."""
    visible = _truncate(text, SHOWN_CHARS, SHOWN_LINES)
    return visible, len(text) - len(visible)


def html_blocks(
    text: GrowingText,
    renderer: MarkdownRenderer,
    location: str = EXPORT_LOCATION,
    cite: Callable[[str], str] = str,
    *,
    is_arriving: bool = False,
) -> Iterator[str]:
    """Render the displayed blocks, and a line about the omitted text, as HTML.

    Args:
        text: The text.
        renderer: The renderer.
        location: The location of the whole text, named in the line about the omitted text.
        cite: Converts citation marks in the HTML of a block; see `sources.citation_marks.Citations.apply`.
        is_arriving: Whether more text follows; if so, unfinished marks at the end are omitted.
    """
    blocks = text.blocks
    is_arriving = is_arriving and not text.n_left
    notes = footnotes([block.markdown for block in blocks], is_arriving=is_arriving)
    for block in blocks:
        is_last = block is blocks[-1]
        last_line = block.source.rstrip().rpartition("\n")[2].strip() if is_last else ""  # maybe without a line feed
        is_growing = is_last and bool(block.closing) and not last_line.startswith(block.closing)
        markdown = block.settled_markdown if is_arriving and is_last else block.markdown
        yield cite(renderer.render_block(markdown, notes if "[^" in markdown else NO_NOTES, is_growing=is_growing))
    if text.n_left:
        yield f'<p class="af-quiet">{escape(remainder(text.n_left, location))}</p>'


def shown_html(
    text: str, renderer: MarkdownRenderer, location: str = EXPORT_LOCATION, cite: Callable[[str], str] = str
) -> str:
    """Render Markdown as truncated HTML; see `MarkdownRenderer.html` and `html_blocks`."""
    return "".join(html_blocks(GrowingText(text), renderer, location, cite))


def shown_plain(text: str, location: str = EXPORT_LOCATION) -> str:
    """Truncate a plain text, or a literal text that the caller escapes."""
    visible, n_left = beginning(text)
    return f"{visible.rstrip()}\n\n{remainder(n_left, location)}" if n_left else text
