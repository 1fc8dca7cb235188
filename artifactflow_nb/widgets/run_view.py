"""The view of one run: its question, its steps, what it asks the person, its answer and what it wrote."""

from artifactflow_nb.errors import NotFound
from artifactflow_nb.events import StreamEvent
from artifactflow_nb.store.runs import INTERRUPTED
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.ask_card import read_decision
from artifactflow_nb.widgets.base import ViewedRun
from artifactflow_nb.widgets.following import Follower
from artifactflow_nb.widgets.frozen import bundle
from artifactflow_nb.widgets.render import RunRenderer
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.widgets.tree import Node
from artifactflow_nb.widgets.view import Act, Face, Screen, View


class RunView(View):
    """Follows a run to its end.

    Attributes:
        transcript: The state of the view.
    """

    label = "Run"

    def __init__(self, run: ViewedRun) -> None:
        self.transcript = Transcript(run.question)
        self._renderer = RunRenderer(run)
        self._run = run
        self._follower = Follower(run, self.transcript, self._on_change, self._keep)

    async def open(self, screen: Screen) -> None:
        """Take in what happened so far, and follow."""
        await super().open(screen)
        await self._follower.start()
        if self.transcript.ended:
            screen.finish()

    def take(self, event: StreamEvent) -> None:
        """Take in an event of the run."""
        self._follower.take(event)

    def _on_change(self) -> None:
        self.screen.refresh()

    def _keep(self) -> None:
        if self.transcript.ended:
            self.screen.finish()
        else:
            self.screen.keep()

    def nodes(self) -> tuple[Node, ...]:
        """The run as it stands."""
        return self._renderer.nodes(self.transcript)

    def face(self) -> Face:
        """The run as it stands, to be read without a kernel."""
        return bundle(self.transcript, self._run, self._renderer)

    def announcement(self) -> str:
        """That a decision is needed, and how the run ended."""
        return announcement(self.transcript)

    async def act_decide(self, act: Act) -> None:
        """Answer a request of the run."""
        request_id = act.args.get("request")
        question = self.transcript.asked(str(request_id))
        if question is None:
            raise NotFound(f"The run {self._run.run_id} has no request {request_id!r}.")
        decision = read_decision(act.args, question, self._run.tool(question.tool))
        await self._run.decide(question.id, decision)

    async def act_stop(self, _act: Act) -> None:
        """End the run."""
        await self._run.cancel()

    async def act_resume(self, _act: Act) -> None:
        """Go on with the run, whose process is gone."""
        await self._follower.go_on()

    def close(self) -> None:
        """Stop following."""
        self._follower.close()


def announcement(transcript: Transcript) -> str:
    """What a screen reader says of a run: that a decision is needed, which step it is at, how it ended."""
    if transcript.ended or transcript.status == INTERRUPTED:
        return f"Run {transcript.status}."
    if asking := transcript.waits_for:
        latest = asking[-1]
        who = labels.asker(latest)
        return f"{who} asks for your approval." if latest.is_of_call else f"{who} asks: {latest.title}"
    at_work = [(plan, *plan.running) for plan in transcript.plans if plan.running]
    return "".join(f"Step {number} of {len(plan.steps)}: {step.title}." for plan, number, step in at_work[-1:])
