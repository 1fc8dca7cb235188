"""`Panel`: the result of `wb.chat()` and similar methods, a live view in a page, and saved output elsewhere."""

from collections.abc import Callable
from typing import Any

from artifactflow_nb.widgets.page.display import LiveDisplay, LoopCaller, show_saved
from artifactflow_nb.widgets.page.saved import SavedOutput
from artifactflow_nb.widgets.page.view import Screen, View


class Panel:
    """Displayable handle of a view; every display creates a new view of the same subject.

    Args:
        make: Creates the view.
        is_live: Returns True if a page may be connected.
        notify: See `PageWidget`.
    """

    def __init__(
        self, make: Callable[[], View], loop: LoopCaller, is_live: Callable[[], bool], *, notify: bool = True
    ) -> None:
        self._make = make
        self._loop = loop
        self._is_live = is_live
        self._notify = notify

    @property
    def is_live(self) -> bool:
        """True if a page may be connected."""
        return self._is_live()

    def saved_output(self) -> SavedOutput:
        """Current content as static output: `text/plain`, `text/markdown` and `text/html`."""

        async def render_once() -> SavedOutput:
            view = self._make()
            try:
                await view.open(_NoScreen())
                return view.saved_output()
            finally:
                view.close()

        return self._loop.call(render_once())

    def _ipython_display_(self) -> None:
        if self._is_live():
            LiveDisplay(self._make(), self._loop, notify=self._notify)
        else:
            show_saved(self.saved_output())

    def _repr_html_(self) -> str:
        return self.saved_output()["text/html"]

    def _repr_markdown_(self) -> str:
        return self.saved_output()["text/markdown"]

    def __repr__(self) -> str:
        return self.saved_output()["text/plain"]


class _NoScreen(Screen):
    """Screen without any page."""

    def refresh(self) -> None:
        pass

    def save_soon(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def effect(self, page: str, name: str, **parts: Any) -> None:
        pass
