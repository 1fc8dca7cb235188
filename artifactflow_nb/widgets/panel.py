"""What `wb.chat()` and its like give: a view that any cell can show, live where a page is, as its face elsewhere."""

from collections.abc import Callable
from typing import Any

from artifactflow_nb.widgets.display import Loop, show_live, show_still
from artifactflow_nb.widgets.view import Face, Screen, View


class Panel:
    """A view on its way to a cell; each time it is displayed, it is a new view of the same thing.

    Args:
        make: Makes the view.
        loop: The engine's loop.
        is_live: Whether a page may be there to show it live.
    """

    def __init__(self, make: Callable[[], View], loop: Loop, is_live: Callable[[], bool]) -> None:
        self._make = make
        self._loop = loop
        self._is_live = is_live

    def face(self) -> Face:
        """What it shows now, for good: `text/plain`, `text/markdown` and `text/html`."""
        return self._loop.call(self._seen_once())

    async def _seen_once(self) -> Face:
        view = self._make()
        try:
            await view.open(_NoScreen())
            return view.face()
        finally:
            view.close()

    def _ipython_display_(self) -> None:
        if self._is_live():
            show_live(self._make(), self._loop)
        else:
            show_still(self.face())

    def _repr_html_(self) -> str:
        return self.face()["text/html"]

    def _repr_markdown_(self) -> str:
        return self.face()["text/markdown"]

    def __repr__(self) -> str:
        return self.face()["text/plain"]


class _NoScreen(Screen):
    """Nobody looks."""

    def refresh(self) -> None:
        pass

    def keep(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def effect(self, page: str, name: str, **parts: Any) -> None:
        pass
