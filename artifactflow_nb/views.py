"""The panels of a workbench: each method gives something that a cell shows."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from artifactflow_nb.artifact import Artifacts, Branch
from artifactflow_nb.budget import Budget
from artifactflow_nb.conversation import ConversationHandle
from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.flows.adapted import AdaptedGraph
from artifactflow_nb.flows.state import COMPOSE, RESEARCH
from artifactflow_nb.project import Project
from artifactflow_nb.run import Run
from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.store.runs import INTERRUPTED, RUNNING, WAITING
from artifactflow_nb.with_projects import WithProjects

if TYPE_CHECKING:
    from artifactflow_nb.widgets.panel import Panel
    from artifactflow_nb.widgets.view import View


Place = Run | Conversation | str
"""What names a place in the tree: a run, a conversation, or the id of a run, a message or a conversation."""


class WithViews(WithProjects):
    """The part of a workbench that shows things."""

    _thread: EngineThread

    def _is_shown_live(self) -> bool:
        """Whether a page may be there to show live views; the workbench knows."""
        raise NotImplementedError

    def _is_watched(self) -> bool:
        """Whether a person may be looking; the workbench knows."""
        raise NotImplementedError

    def run(self, run_id: str) -> Run:
        """The handle of a run; the workbench makes it."""
        raise NotImplementedError

    def _flow_named(self, flow: str | AdaptedGraph | None, project: str | Project | None) -> str:
        """The name of a flow, registered if it is a graph; None is `compose` for a project, else `research`."""
        if flow is None:
            return RESEARCH if project is None else COMPOSE
        return flow if isinstance(flow, str) else self._thread.engine.flows.add(flow)

    def chat(
        self,
        conversation: Place | None = None,
        *,
        flow: str | AdaptedGraph | None = None,
        project: str | Project | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
    ) -> "Panel":
        """A conversation to read and to go on with: questions, steps, approvals, answers, branches.

        Args:
            conversation: Which: itself, its id, or one of its runs or messages; None to begin a new one.
            flow: Which flow answers what is asked here, as for `ask`.
            project: The project that is written, or its name; its conversation is shown.
            budget: What each run may spend; None for what is configured.
            model: The name of the model that is asked here; None for what is configured.

        Errors: `NotFound` for an unknown conversation or project; `UsageError` for an unknown flow, or a budget that
            cannot be.
        """
        from artifactflow_nb.widgets.chat import ChatView

        conversation_id = None if conversation is None else self._branch(conversation)[0]
        if project is not None:
            conversation_id = self._conversation_of(project, conversation_id)
        named = self._flow_named(flow, project)
        self._thread.engine.controller.check_flow(named)
        limits = None if budget is None else Budget.of(budget)
        return self._panel(
            lambda is_live: ChatView(
                self._thread, conversation_id, flow=named, budget=limits, model=model, measured=is_live
            )
        )

    def tree(self, conversation: Place | None = None) -> "Panel":
        """The conversations, and one of them as a tree: to read, to compare branches, to go on from any question.

        Args:
            conversation: Which to show first, as for `chat`; None for that in which was asked last.

        Errors: `NotFound` for an unknown conversation.
        """
        from artifactflow_nb.widgets.tree_view import TreeView

        conversation_id = None if conversation is None else self._branch(conversation)[0]
        return self._panel(lambda is_live: TreeView(self._thread, conversation_id, measured=is_live))

    def artifacts(self, of: Place | None = None) -> Artifacts:
        """The artifacts of a branch, by id: to read, change, compare and export.

        Args:
            of: A run, a conversation, or the id of a run, a message or a conversation; a conversation means its active
                branch, and None that in which was asked last.

        Errors: `NotFound` for an unknown id, or if nothing was asked yet.
        """
        conversation_id, message_id = self._branch(of)
        if conversation_id is None:
            raise NotFound("There is no conversation yet. Ask something first: wb.ask(...).")
        if message_id is None:
            message_id = self._thread.call(self._thread.engine.conversations.get(conversation_id)).active_message_id
        return Artifacts(Branch(self._thread, conversation_id, message_id, self._is_watched()))

    def conversation(self, of: Place | None = None) -> ConversationHandle:
        """A conversation, with the ways to take a branch of it along: `wb.conversation(run).to_html("talk.html")`.

        Args:
            of: As for `artifacts`: a run or a message names the branch that ends with it.

        Errors: `NotFound` for an unknown id, or if nothing was asked yet.
        """
        conversation_id, message_id = self._branch(of)
        if conversation_id is None:
            raise NotFound("There is no conversation yet. Ask something first: wb.ask(...).")
        found = self._thread.call(self._thread.engine.conversations.get(conversation_id))
        return ConversationHandle.of(self._thread, found, message_id)

    def artifact_panel(self, of: Place | None = None) -> "Panel":
        """The artifacts of a branch with their versions: to read, change, compare and download; it follows the branch.

        Args:
            of: As for `artifacts`; the active branch of a conversation is followed when another becomes active.

        Errors: `NotFound` for an unknown id.
        """
        from artifactflow_nb.widgets.artifact_panel import ArtifactPanel

        place = self._branch(of)
        return self._panel(lambda is_live: ArtifactPanel(self._thread, *place, dated=is_live))

    def _panel(self, make: "Callable[[bool], View]", is_worth_it: Callable[[], bool] = lambda: True) -> "Panel":
        """A panel of views, each told whether it is shown live: where a page may be, if that is worth it."""
        from artifactflow_nb.widgets.panel import Panel

        return Panel(lambda: make(self._is_shown_live()), self._thread, lambda: self._is_shown_live() and is_worth_it())

    def _branch(self, of: Place | None) -> tuple[str | None, str | None]:
        """The conversation and the last message of a branch; without a message the active branch is meant.

        Errors: `NotFound` for an unknown id; `UsageError` for what names no place.
        """
        engine = self._thread.engine
        if of is None:
            newest = self._thread.call(engine.conversations.list_conversations(limit=1))
            return (newest[0].conversation_id if newest else None), None
        if isinstance(of, Run):
            of = of.message_id
        elif isinstance(of, Conversation):
            of = of.conversation_id
        elif not isinstance(of, str):
            raise UsageError(f"A {type(of).__name__} names no conversation. Pass a run, a conversation, or an id.")
        if of.startswith("run-"):
            of = self._thread.call(engine.runs.get(of)).message_id
        if of.startswith("msg-"):
            return self._thread.call(engine.conversations.message(of)).conversation_id, of
        return self._thread.call(engine.conversations.get(of)).conversation_id, None

    def timeline(self, run: Run | str | None = None) -> "Panel":
        """What took how long in a run, a lane for each agent; it grows while the run goes on.

        Args:
            run: Which, by its handle or id; None for the newest.

        Errors: `NotFound` for an unknown run, or if there is none yet.
        """
        from artifactflow_nb.widgets.timeline import TimelineView

        shown = run if isinstance(run, Run) else self.run(run or self._newest_run_id())
        return self._panel(
            lambda is_live: TimelineView(shown.port, measured=is_live),
            lambda: shown.status in {RUNNING, WAITING, INTERRUPTED},
        )

    def _newest_run_id(self) -> str:
        if (run_id := self._thread.call(self._thread.engine.runs.newest())) is None:
            raise NotFound("There is no run yet. Ask something first: wb.ask(...).")
        return run_id

    def _view_of(self, run: Run) -> "Panel":
        """A run by itself, as `run.view()` shows it."""
        from artifactflow_nb.widgets.chat import ChatView

        return self._panel(
            lambda is_live: ChatView(self._thread, run.conversation_id, only=run.message_id, measured=is_live)
        )

    def _board_of(self, conversation_id: str) -> "Panel":
        """A project's board, as `project.board()` shows it."""
        from artifactflow_nb.widgets.board import BoardView

        return self._panel(lambda is_live: BoardView(self._thread, conversation_id, dated=is_live))
