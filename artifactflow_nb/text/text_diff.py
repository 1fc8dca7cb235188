"""What differs between two texts, as a value that shows itself in a cell, alone or as the face of another one."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from artifactflow_nb.text.cards import quiet_style, visible
from artifactflow_nb.text.diff_html import Layout, diff_html, diff_markdown, diff_plain, diff_style

NAMES = ("a", "b")


@dataclass(frozen=True, slots=True, repr=False)
class TextDiff:
    """What differs between two texts, down to the words.

    Attributes:
        a: The one text.
        b: The other.
        names: What they are called.
        layout: How a page shows it: `side_by_side` or `inline`.
    """

    a: str
    b: str
    names: tuple[str, str] = NAMES
    layout: Layout = "side_by_side"

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return self.a == self.b

    @property
    def inline(self) -> "TextDiff":
        """The same, removed lines above added ones."""
        return replace(self, layout="inline")

    @property
    def _texts(self) -> tuple[str, str]:
        """The texts, with a line feed at their ends if neither has one: that is not worth a word."""
        end = "" if self.a.endswith("\n") or self.b.endswith("\n") else "\n"
        return self.a and self.a + end, self.b and self.b + end

    def plain(self) -> str:
        """The unified difference, or that there is none."""
        return visible(diff_plain(*self._texts, names=self.names).rstrip("\n"))

    def table(self) -> str:
        """The difference as an element for a page that has the style of differences."""
        return diff_html(*self._texts, layout=self.layout, names=self.names)

    def __repr__(self) -> str:
        return self.plain()

    def _repr_markdown_(self) -> str:
        return visible(diff_markdown(*self._texts, names=self.names))

    def _repr_html_(self) -> str:
        return with_style(self.table())


def with_style(body: str) -> str:
    """HTML with differences in it, in the frame that gives them their style."""
    return f'{quiet_style(diff_style())}<div class="af-run af-frozen mathjax_ignore tex2jax_ignore">{body}</div>'


class ShownAsDiff(ABC):
    """What shows itself as a difference of texts."""

    __slots__ = ()

    @property
    @abstractmethod
    def diff(self) -> TextDiff:
        """What differs in the text; one that is not there counts as empty."""

    def __repr__(self) -> str:
        return repr(self.diff)

    def _repr_markdown_(self) -> str:
        return self.diff._repr_markdown_()

    def _repr_html_(self) -> str:
        return self.diff._repr_html_()
