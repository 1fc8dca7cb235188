"""A view: what a panel in a page shows, and what it does when the reader presses something.

::

    nodes() ──> the page         refresh() whenever they may have changed
    page    ──> act(...)         a button, a form: `act_<name>` of the view
    face()  ──> the saved cell   keep() whenever it is worth saving

Everything of a view runs on the engine's loop, so it needs no locks; nothing of it may block.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from artifactflow_nb.widgets.tree import Node

Face = dict[str, str]
"""What stays in a saved notebook: `text/plain`, `text/markdown` and `text/html`, none of which needs a kernel."""


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a reader did.

    Attributes:
        name: What: the act of a button or a form.
        args: With what; a form adds `values`, what stands in its fields by name.
        page: Which of the pages that show the view; effects go back to it.
    """

    name: str
    args: Mapping[str, Any]
    page: str = ""


class Screen(Protocol):
    """The pages that show a view, as the view sees them."""

    def refresh(self) -> None:
        """Have the pages follow soon; many calls cost no more than one."""

    def keep(self) -> None:
        """Have the present face saved with the notebook, soon."""

    def finish(self) -> None:
        """Nothing will change any more: the face takes the place of the live view for good."""

    def effect(self, page: str, name: str, **parts: Any) -> None:
        """Have a page do something beside the tree.

        `copy` (text) to the clipboard, `download` (filename, media_type, base64), `cell` (source, cell_type) for a new
        cell below, `focus` (key) on what can be focused in a node, `show` (key) to scroll to a node, `end` (key) to
        scroll a node to its end.
        """


class View(ABC):
    """What a panel shows.

    Attributes:
        label: What a screen reader calls the panel.
        css: Class names of its root, beside `af-run`.
        screen: The pages that show it; there once it is opened.
    """

    label = ""
    css = ""
    screen: Screen

    async def open(self, screen: Screen) -> None:
        """Load what is to be shown, and begin to follow it; called once."""
        self.screen = screen

    @abstractmethod
    def nodes(self) -> tuple[Node, ...]:
        """What the panel shows now."""

    @abstractmethod
    def face(self) -> Face:
        """What it leaves in the saved notebook."""

    def announcement(self) -> str:
        """What a screen reader says when it changes; empty for nothing."""
        return ""

    async def act(self, act: Act) -> str:
        """Do what the reader asked for: `act_<name>`; what the view does not know is left alone.

        Returns:
            What the pressed control says afterwards; empty for nothing.

        Errors: an `ArtifactFlowError` is told beside the control that was pressed.
        """
        handler: Callable[[Act], Awaitable[str | None]] | None = getattr(self, f"act_{act.name}", None)
        return (await handler(act)) or "" if handler else ""

    def close(self) -> None:  # noqa: B027 - a view that follows nothing has nothing to stop
        """Stop following; a second time it changes nothing."""
