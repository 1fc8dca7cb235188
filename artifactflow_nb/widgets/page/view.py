"""`View`: the content of a panel and the handlers of its actions.

::

    nodes()         ──> the page         after Screen.refresh()
    page            ──> act(...)         a click or a sent form calls `act_<name>` of the view
    saved_output()  ──> the saved cell   after Screen.save_soon()

All methods of a view run on the engine's loop. They need no locks and must not block.
"""

import asyncio
import base64
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from artifactflow_nb.core.language import EnglishText, translate
from artifactflow_nb.export.document import ExportDocument
from artifactflow_nb.export.files import EXPORT_FORMATS, document_bytes, document_name
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import SavedOutput, saved_output


@dataclass(frozen=True, slots=True)
class PageAction:
    """A click on a button or a sent form.

    Attributes:
        name: Name of the action; `act_<name>` of the view handles it.
        args: Arguments of the button or form; a form adds `values`, the contents of its fields by name.
        page: Id of the page where it happened; effects are sent to this page.
    """

    name: str
    args: Mapping[str, Any]
    page: str = ""


class PanelState(NamedTuple):
    """The state of a view; `Panel` describes the fields."""

    run_id: str = ""
    status: str = ""
    pending: int = 0
    cost_usd: float | None = None


ActionHandler = Callable[[PageAction], Awaitable[str | None]]


class Screen(Protocol):
    """Interface from a view to the pages that show it."""

    def refresh(self) -> None:
        """Send changes to the pages soon; calls in quick succession are combined."""

    def save_soon(self) -> None:
        """Save the current output in the notebook soon."""

    def finish(self) -> None:
        """Replace the live view by the saved output permanently."""

    def effect(self, page: str, name: str, **arguments: Any) -> None:
        """Run a browser effect on one page, after it has received the current tree.

        Args:
            page: Id of the page, from `PageAction.page`.
            name: `copy` (text) to the clipboard, `download` (filename, media_type, base64), `picture` (base64, and text
                as its name) over the page until it is closed, `cell` (source, cell_type) for a new cell below, `focus`
                on the first focusable element of a node (key) or on the control with these arguments as JSON (text),
                `fill` (key, text) into a node's text field, `complete` (key, word, options) with its completions,
                `show` (key) to scroll to a node, `end` (key) to scroll to the end of a node.
            arguments: The arguments of the effect.
        """


class View(ABC):
    """Base class of the panels.

    Attributes:
        label: Accessible name of the panel, in English; pages show the translation.
        css: Class names of the root element, in addition to `af-run`.
        screen: The pages that show the view; set by `open`.
    """

    label: EnglishText = ""
    css = ""
    screen: Screen

    async def open(self, screen: Screen) -> None:
        """Load the content and start to follow changes; called once."""
        self.screen = screen

    @abstractmethod
    def nodes(self) -> tuple[Node, ...]:
        """Return the current content."""

    def saved_nodes(self) -> tuple[Node, ...]:
        """Return the content of the saved output; by default the content of the page."""
        return self.nodes()

    def saved_output(self) -> SavedOutput:
        """Return the current content as static output for the saved notebook."""
        return saved_output(self.saved_nodes(), css=self.css)

    def announcement(self) -> str:
        """Return the text that a screen reader announces when the text changes, or an empty string."""
        return ""

    def state(self) -> PanelState:
        """Return the state of the displayed run, or an empty state."""
        return PanelState()

    async def act(self, act: PageAction) -> str:
        """Call the handler `act_<name>`; unknown actions are ignored.

        Returns:
            Message to show at the control, or an empty string.

        Errors: an `ArtifactFlowError` is shown at the control.
        """
        handler: ActionHandler | None = getattr(self, f"act_{act.name}", None)
        return (await handler(act)) or "" if handler else ""

    async def download(self, act: PageAction, document: ExportDocument) -> str:
        """Let the page save a document as a file in the `form` of an action, and return the message to show."""
        form = str(act.args.get("form"))
        content = await asyncio.to_thread(document_bytes, document, form)  # a large document would block the loop
        name, data = document_name(document, form), base64.b64encode(content).decode()
        self.screen.effect(act.page, "download", filename=name, media_type=EXPORT_FORMATS[form].media_type, base64=data)
        return translate("Downloaded as {name}.", name=name)

    def close(self) -> None:  # noqa: B027 - optional: a view without subscriptions has nothing to stop
        """Stop following changes; idempotent."""
