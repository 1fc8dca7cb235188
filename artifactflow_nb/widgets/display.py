"""How a run appears in a cell: a live view that the end of the run replaces by its frozen form.

The replacement is one message, made for the display that the cell already has. It is sent from the engine's thread,
with the header of the cell's own request, so that it cannot land in another cell.
"""

from collections.abc import Mapping
from typing import Any

from IPython.core.getipython import get_ipython

from artifactflow_nb.ambient import RandomIds
from artifactflow_nb.errors import UsageError
from artifactflow_nb.widgets.base import ViewedRun
from artifactflow_nb.widgets.frozen import bundle, frozen_bundle, running_bundle
from artifactflow_nb.widgets.run_view import RunStream, RunView
from artifactflow_nb.widgets.transcript import Transcript

_WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"


class Display:
    """The output of one cell, which a later message can replace.

    Args:
        content: The output by media type.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._publisher = _publisher()
        self._transient = {"display_id": RandomIds().new("artifactflow")}
        self._parent = dict(self._publisher.parent_header)
        self._publisher.publish(dict(content), transient=self._transient)

    def replace(self, content: Mapping[str, str]) -> None:
        """Show this instead; may be called from any thread.

        The publisher's own method would take the header of whatever cell runs now.
        """
        message = {"data": dict(content), "metadata": {}, "transient": self._transient}
        session = self._publisher.session
        session.send(
            self._publisher.pub_socket,
            session.msg("update_display_data", message, parent=self._parent),
            ident=self._publisher.topic,
        )


def _publisher() -> Any:
    """Where the output of the current cell goes, or the terminal's of a plain IPython."""
    shell = get_ipython()
    if shell is None:
        raise UsageError("There is no cell to display in: this is plain Python. Print run.response instead.")
    return shell.display_pub


def has_kernel() -> bool:
    """Whether this code runs in a notebook's kernel, so that a page may be there."""
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def show_still(run: ViewedRun, *, waited_for: bool) -> None:
    """Display a run in the current cell of a notebook that nobody watches: the same output each time.

    Args:
        run: The run.
        waited_for: Show the run as it stands, without times and tokens. Otherwise only a line with the question is
            displayed: how far the run has come by now is chance.
    """
    content = frozen_bundle(run, measured=False) if waited_for else running_bundle(run.question)
    _publisher().publish(content)


def show_live(run: ViewedRun) -> RunView | None:
    """Display a run in the current cell: in a live view that becomes the frozen form when the run ends.

    Returns:
        The live view; None if the run has ended, and is displayed in its frozen form at once.
    """
    if _has_ended(run):
        _publisher().publish(frozen_bundle(run))
        return None
    ending = _Ending(run)
    view = RunView(run, ending.on_end)
    widget = {"version_major": 2, "version_minor": 0, "model_id": view.model_id}
    run.call_soon(ending.display_is, Display({**running_bundle(run.question), _WIDGET_TYPE: widget}))
    return view


def _has_ended(run: ViewedRun) -> bool:
    events = run.stored_events()
    return bool(events) and events[-1].is_terminal


class _Ending:
    """Replaces the live display when both are there, the display and the end of the run, in whichever order."""

    def __init__(self, run: ViewedRun) -> None:
        self._run = run
        self._display: Display | None = None
        self._stream: RunStream | None = None

    def display_is(self, display: Display) -> None:
        self._display = display
        self._freeze()

    def on_end(self, stream: RunStream) -> None:
        self._stream = stream
        self._freeze()

    def _freeze(self) -> None:
        if self._display and self._stream:
            transcript: Transcript = self._stream.transcript
            self._display.replace(bundle(transcript, self._run, self._stream.renderer))
