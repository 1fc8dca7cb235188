"""A panel as a widget: when its view is opened and closed."""

import time
from collections.abc import Callable

import pytest
from conftest import OpenWorkbench

from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.panel import Panel
from artifactflow_nb.widgets.page.view import Screen, View


class Recorder(View):
    """A view that records its life."""

    def __init__(self, life: list[str]) -> None:
        self._life = life

    async def open(self, screen: Screen) -> None:
        self._life.append("opened")
        await super().open(screen)

    def nodes(self) -> tuple[Node, ...]:
        return (Node("text", "<p>A text.</p>"),)

    def close(self) -> None:
        self._life.append("closed")


@pytest.mark.parametrize("end", [lambda panel: panel.close(), lambda panel: panel.comm.close()], ids=["panel", "comm"])
def test_view_is_closed_with_the_panel_and_with_its_comm(
    end: Callable[[Panel], None], workbench: OpenWorkbench
) -> None:
    """A container opens the view; the end of the widget, or of its comm, closes the view."""
    life: list[str] = []
    panel = workbench([]).panel(lambda _engine: Recorder(life))
    assert life == []
    assert panel.model_id == panel.model_id
    assert life == ["opened"]
    end(panel)
    while len(life) < 2:
        time.sleep(0.01)
    assert life == ["opened", "closed"]
    assert panel.comm is None
