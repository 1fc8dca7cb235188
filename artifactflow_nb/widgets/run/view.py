"""`RunView`: live view of one run with its question, work, permission requests, answer and artifacts."""

from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.core.language import EnglishText, status_label, translate
from artifactflow_nb.core.text.markdown import escape
from artifactflow_nb.engine.run_client import RunReader
from artifactflow_nb.store.runs import ABANDONED
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import SavedOutput
from artifactflow_nb.widgets.page.view import PageAction, PanelState, Screen, View
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.cited_page import show_cited_page
from artifactflow_nb.widgets.run.follower import RunFollower
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.saved import saved_transcript
from artifactflow_nb.widgets.run.transcript import RunTranscript


class RunView(View):
    """Follows a run until it ends.

    Args:
        note: A sentence below the run, e.g. about the run that it replaces.
        transcript: An empty transcript that a subclass shows.

    Attributes:
        transcript: State of the run.
    """

    label: EnglishText = "Run"

    def __init__(self, run: RunReader, note: str = "", transcript: RunTranscript | None = None) -> None:
        self._note = (Node("note", f"<p>{escape(note)}</p>", css="af-quiet", text=note),) if note else ()
        self.transcript = transcript or RunTranscript(run.question)
        self._renderer = RunRenderer(run)
        self._run = run
        self._follower = RunFollower(run, self.transcript, self._on_change, self._save)

    async def open(self, screen: Screen) -> None:
        """Load the stored events and follow the run."""
        await super().open(screen)
        await self._follower.start()
        if self.transcript.is_ended:
            screen.finish()

    def apply(self, event: StreamEvent) -> None:
        """Apply an event of the run."""
        self._follower.apply(event)

    def _on_change(self) -> None:
        self.screen.refresh()  # `open` sets the screen, after `__init__`

    def _save(self) -> None:
        if self.transcript.is_ended:
            self.screen.finish()
        else:
            self.screen.save_soon()

    def nodes(self) -> tuple[Node, ...]:
        """Return the current state of the run."""
        return (*self._renderer.nodes(self.transcript), *self._note)

    def saved_output(self) -> SavedOutput:
        """Return the current state of the run, with hints."""
        return saved_transcript(self.transcript, self._renderer, self._run.run_id, self._note)

    def state(self) -> PanelState:
        """Return the state of the run."""
        return panel_state(self._run.run_id, self.transcript)

    def announcement(self) -> str:
        """Return the announcement of the run; see the function `announcement`."""
        return announcement(self.transcript)

    async def act_decide(self, act: PageAction) -> None:
        """Decide a permission request."""
        await self._follower.decide(act.args)

    async def act_cited_page(self, act: PageAction) -> None:
        """Show the page of a PDF that a citation names."""
        await show_cited_page(self.screen, act, self._run.store)

    async def act_stop(self, _act: PageAction) -> None:
        """Cancel the run."""
        await self._run.cancel()

    async def act_resume(self, _act: PageAction) -> None:
        """Resume the abandoned run."""
        await self._follower.resume()

    def close(self) -> None:
        """Stop following the run."""
        self._follower.close()


def panel_state(run_id: str, transcript: RunTranscript) -> PanelState:
    """Return the state of a run, with the requests and the cost of its subruns."""
    cost_usd = transcript.totals_with_subruns.cost_usd
    return PanelState(run_id, transcript.status, len(transcript.pending_requests), cost_usd)


def announcement(transcript: RunTranscript) -> str:
    """Announce, for screen readers, the end of a run, a pending request, or the running step of a plan."""
    if transcript.is_ended or transcript.status == ABANDONED:
        return translate("Run {status}.", status=status_label(transcript.status))
    if requests := transcript.pending_requests:
        latest = requests[-1]
        title = labels.request_sentence(latest)
        if latest.is_for_call:
            return translate("Your approval is needed: {title}.", title=title)
        return translate("{source} asks: {title}", source=labels.request_source(latest), title=title)
    running = [(plan, *plan.running) for plan in transcript.plans if plan.running]
    return "".join(
        translate("Step {n} of {total}: {title}.", n=number, total=len(plan.steps), title=step.title)
        for plan, number, step in running[-1:]
    )
