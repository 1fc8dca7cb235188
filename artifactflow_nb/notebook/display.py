"""How a workbench displays its values in cells: as live views where a page can show them, as saved output elsewhere."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from artifactflow_nb.core.text.cards import Card
from artifactflow_nb.recording.engine import RecordingThread

if TYPE_CHECKING:
    from artifactflow_nb.widgets.ended_runs import EndedRuns
    from artifactflow_nb.widgets.page.display import LiveDisplay
    from artifactflow_nb.widgets.page.panel import Panel
    from artifactflow_nb.widgets.page.view import View


_SESSION_VARIABLE = "JPY_SESSION_NAME"
"""Set by Jupyter Server in the kernels of its sessions."""


class CellDisplay:
    """The display settings that a workbench shares with the handles that it creates.

    Args:
        thread: The engine's thread.
        interactive: Whether a person can decide: True, False, or None to ask the page.
    """

    def __init__(self, thread: RecordingThread, interactive: bool | None) -> None:
        self.interactive = interactive
        self._thread = thread
        self._ended_runs: EndedRuns | None = None

    @property
    def is_attended(self) -> bool:
        """True if a person may be looking: no policy decides in their place, or a Jupyter page owns the kernel."""
        if self.interactive is not None:
            return self.interactive
        return self._thread.engine.settings.approvals == "ask" or _SESSION_VARIABLE in os.environ

    @property
    def is_live(self) -> bool:
        """True if a page may be connected that can show live views."""
        from artifactflow_nb.widgets.page.display import has_kernel

        return self.is_attended and has_kernel()

    def show(self, create_view: "Callable[[], View]", card: Card) -> None:
        """Display a view, or a card where no page can show the view live."""
        from artifactflow_nb.widgets.page.display import LiveDisplay, show_saved

        if self._thread.is_open and self.is_live:
            LiveDisplay(create_view(), self._thread)
        else:
            show_saved({"text/plain": card.plain(), "text/markdown": card.markdown(), "text/html": card.html()})

    def panel(self, create_view: "Callable[[bool], View]", can_change: Callable[[], bool] = lambda: True) -> "Panel":
        """Create a panel; it is live if a page may be connected and its content can still change.

        Args:
            create_view: Creates a view; the argument says whether a page may show it live.
            can_change: Returns False if the content is final, such as that of an ended run.
        """
        from artifactflow_nb.widgets.page.panel import Panel

        notify = self._thread.engine.settings.notify
        return Panel(
            lambda: create_view(self.is_live), self._thread, lambda: self.is_live and can_change(), notify=notify
        )

    def live(self, view: "View") -> "LiveDisplay":
        """Show a view live in the current cell."""
        from artifactflow_nb.widgets.page.display import LiveDisplay

        return LiveDisplay(view, self._thread, notify=self._thread.engine.settings.notify)

    def offer_actions(self) -> None:
        """Offer buttons below the outputs of ended runs, in the pages of a Jupyter server."""
        from artifactflow_nb.widgets.ended_runs import EndedRuns

        if self._ended_runs is None and _SESSION_VARIABLE in os.environ:
            self._ended_runs = EndedRuns(self._thread, notify=self._thread.engine.settings.notify)
