"""The workbench: the notebook's face of the engine.

::

    wb = af.Workbench()
    run = wb.ask("...")      # returns at once
    await run
    run.response
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from artifactflow_nb.approvals import Policy
from artifactflow_nb.artifact import is_watched
from artifactflow_nb.budget import Budget
from artifactflow_nb.engine import STORE_FILE, Engine
from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.adapted import AdaptedGraph
from artifactflow_nb.frames.face import WithFrames
from artifactflow_nb.middleware import Middleware
from artifactflow_nb.models.base import Model
from artifactflow_nb.overview import WithOverview
from artifactflow_nb.own_parts import WithOwnParts
from artifactflow_nb.project import Project
from artifactflow_nb.recordings.row_import import import_rows
from artifactflow_nb.recordings.sealed import read_sealed
from artifactflow_nb.run import Run
from artifactflow_nb.settings import Settings
from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.store.conversations import Parent, ParentId, StoredMessage
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.store.source_values import Added
from artifactflow_nb.views import WithViews

OfMessage = Run | StoredMessage | str
InConversation = Run | Conversation | StoredMessage | str


class Workbench(WithFrames, WithOverview, WithOwnParts, WithViews):
    """Asks questions, shows and keeps what comes of them.

    Args:
        model: A model's name at the endpoint, or a model object; None for `AF_MODEL`, and for the offline model when no
            endpoint is configured.
        base_url: The address of an OpenAI-compatible endpoint; None for `OPENAI_BASE_URL`.
        api_key: Its key; None for `OPENAI_API_KEY`.
        approvals: Who answers before a person is asked: `ask`, `approve`, `deny`, a verdict per tool, or a function of
            the request that gives the verdict.
        interactive: Whether a person is there to decide: True, False, or None to ask the page.
        data_dir: The folder of the store; None for `AF_DATA_DIR`, else `.artifactflow` in the working directory. What
            is played from a cassette goes into a temporary store of its own, unless this is passed.
        prompts: A folder with prompt files of one's own.
        agent_models: Models for single agents, by the agent's name: a name at the endpoint, or a model object such as
            `af.OpenAIModel` for an endpoint of its own.
        record: A cassette to record every run into; see `mode`.
        replay: A cassette to play every run from, without a network and without a key; see `mode`.
        mode: `auto` to play what the cassette has and record what is new, or what else `AF_MODE` may say: `record`,
            `replay`, `live`.
        middleware: What is told of every model call and every tool call, as `af.DebugMiddleware()` is; see
            `af.Middleware`.
        settings: Further settings, by the names of `af.Settings`: `temperature`, `budget`, `prices`, `graph_config`,
            `mcp` for the tools of MCP servers, and so on.

    Attributes:
        settings: What is configured.
        made_at: When it was made, in UTC.

    Errors: `UsageError` for a setting that cannot be used; `StoreError` for a store that cannot be opened;
        `CassetteError` for a cassette that cannot be used.
    """

    def __init__(
        self,
        *,
        model: str | Model | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        approvals: Policy = "ask",
        interactive: bool | None = None,
        data_dir: str | Path | None = None,
        prompts: str | Path | None = None,
        agent_models: Mapping[str, str | Model] | None = None,
        record: str | Path | None = None,
        replay: str | Path | None = None,
        mode: str | None = None,
        middleware: Sequence[Middleware] = (),
        **settings: Any,
    ) -> None:
        if not (model is None or isinstance(model, str) or hasattr(model, "stream")):
            raise UsageError(f"model is {model!r}; it must be a model's name at the endpoint, or a model object.")
        name = model if isinstance(model, str) else None
        settings |= {"record": record, "replay": replay, "mode": mode}
        self.settings = Settings.load(model=name, base_url=base_url, api_key=api_key, data_dir=data_dir, **settings)
        self._forget: Callable[[], object] = lambda: None
        if data_dir is None and self.settings.cassette_mode in {"replay", "auto"}:
            own = Path(tempfile.mkdtemp(prefix="artifactflow-"))
            self._forget = weakref.finalize(self, shutil.rmtree, own, ignore_errors=True)
            self.settings = self.settings.model_copy(update={"data_dir": own})
        own_model = None if isinstance(model, str) else model
        folder = Path(prompts) if prompts is not None else None
        self._interactive = interactive
        self._thread = EngineThread(
            lambda: Engine(
                self.settings,
                model=own_model,
                approvals=approvals,
                prompts=folder,
                agent_models=agent_models,
                middleware=middleware,
            )
        )
        self.made_at = datetime.now(UTC)

    @property
    def is_open(self) -> bool:
        """Whether it was not closed yet."""
        return self._thread.is_open

    @property
    def _store(self) -> Path:
        return self.data_dir / STORE_FILE

    def ask(
        self,
        question: str,
        *,
        conversation_id: InConversation | None = None,
        parent_message_id: ParentId = Parent.ACTIVE,
        flow: str | AdaptedGraph | None = None,
        project: str | Project | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
    ) -> Run:
        """Ask a question; the run goes on while other cells compute.

        Args:
            question: What you want to know.
            conversation_id: A conversation to go on with: itself, one of its runs, or its id; None starts a new one.
            parent_message_id: The message to continue from; None for a new root, left out for the active branch.
            flow: Which flow: its name, or a graph of your own, `af.adapt(graph)`, which is registered by its name, see
                `register_flow`; None for `compose` where a project is named, else `research`.
            project: The project that is written, or its name; its conversation is gone on with.
            budget: What the run may spend, `af.Budget(tokens=50_000)` for example; None for what is configured.
            model: A model's name at the endpoint, for this run; agents that have a model of their own keep it.

        Errors: `UsageError` for an empty question or an unknown flow, `NotFound` for an unknown conversation or
            message, `Conflict` while the branch still waits for an earlier answer.
        """
        text = _text(question)
        conversation = None if conversation_id is None else _conversation_id(conversation_id)
        if project is not None:
            conversation = self._conversation_of(project, conversation)
        engine, named = self._thread.engine, self._flow_named(flow, project)
        return self._started(
            lambda: engine.controller.begin(
                text,
                conversation_id=conversation,
                parent_message_id=parent_message_id,
                flow=named,
                budget=budget,
                model=model,
            ),
            named,
        )

    def regenerate(
        self,
        message: OfMessage,
        *,
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
    ) -> Run:
        """Ask a question once more, on a branch of its own: the new answer does not know the old one.

        Args:
            message: Itself, its run, or the id of its run or message.
            budget: What the run may spend; None for what the earlier run had.
            model: The model's name; None for what the earlier run had.

        Errors: `NotFound` for an unknown run or message.
        """
        flow = self._thread.call(self._flow_of(message))
        return self._started(lambda: self._beside(message, None, budget, model), flow)

    def edit(
        self,
        message: OfMessage,
        question: str,
        *,
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
    ) -> Run:
        """Ask another question in the place of an earlier one, on a branch of its own; what was there stays.

        Arguments and errors as for `regenerate`; `UsageError` for an empty question.
        """
        text, flow = _text(question), self._thread.call(self._flow_of(message))
        return self._started(lambda: self._beside(message, text, budget, model), flow)

    async def _beside(
        self,
        message: OfMessage,
        question: str | None,
        budget: Budget | Mapping[str, Any] | None,
        model: str | None,
    ) -> StoredRun:
        begin_sibling = self._thread.engine.controller.begin_sibling
        return await begin_sibling(await self._message_id(message), question, budget=budget, model=model)

    async def _flow_of(self, message: OfMessage) -> str:
        return await self._thread.engine.controller.flow_of(await self._message_id(message))

    def _started(self, begin: Callable[[], Awaitable[StoredRun]], flow: str) -> Run:
        async def start() -> StoredRun:
            stored = await begin()
            await self._thread.engine.controller.start(stored)
            return stored

        if self.settings.mcp:  # servers may be slow to start: that can be interrupted
            self._thread.follow(self._thread.engine.mcp.open(flow), lambda: None)
        return self._handle(self._thread.call(start()))

    def rename_conversation(self, conversation: InConversation, title: str) -> None:
        """Give a conversation, named by itself, one of its runs or its id, another title."""
        self._thread.call(self._thread.engine.conversations.rename(_conversation_id(conversation), title))

    def delete_conversation(self, conversation: InConversation) -> None:
        """Delete a conversation with all that it holds; `Conflict` while one of its runs runs."""
        self._thread.call(self._thread.engine.conversations.delete_conversation(_conversation_id(conversation)))

    def activate_branch(self, message: OfMessage) -> StoredMessage:
        """Let `ask` continue the branch through a message; its newest message, which is continued."""
        conversations = self._thread.engine.conversations

        async def activate() -> StoredMessage:
            return await conversations.message(await conversations.activate(await self._message_id(message)))

        return self._thread.call(activate())

    def delete_branch(self, message: OfMessage) -> None:
        """Delete a message and all that follow it, with what their runs wrote; `Conflict` while one of these runs."""

        async def delete() -> None:
            await self._thread.engine.conversations.delete_branch(await self._message_id(message))

        self._thread.call(delete())

    async def _message_id(self, message: OfMessage) -> str:
        if isinstance(message, Run | StoredMessage):
            return message.message_id
        if not isinstance(message, str):
            raise UsageError(f"{message!r} names no message. Pass its run, or the id of its run or message.")
        return (await self._thread.engine.runs.get(message)).message_id if message.startswith("run-") else message

    def run(self, run_id: str) -> Run:
        """The handle of a stored run, also one of an earlier kernel."""
        return self._handle(self._thread.call(self._thread.engine.runs.get(run_id)))

    def import_run(self, path: str | os.PathLike[str]) -> Run:
        """Bring a run that was sealed into this workbench, with those before it on its branch; its handle.

        Errors: `CassetteError` for a file that cannot be used; `Conflict`, and nothing is brought in, if this store has
            another run of the same id.
        """
        sealed = read_sealed(Path(path))
        self._thread.call(self._thread.engine.database.write(lambda db: import_rows(db, sealed.rows)))
        return self.run(sealed.rows.run_id)

    def approve(self, request_id: str) -> Run:
        """Let a waiting call run, whichever kernel asked; its run goes on here."""
        return self._run_of(request_id).approve(request_id)

    def deny(self, request_id: str, reason: str = "") -> Run:
        """Do not let a waiting call run, whichever kernel asked; its run goes on here."""
        return self._run_of(request_id).deny(reason, request_id)

    def _run_of(self, request_id: str) -> Run:
        for request in self.pending():
            if request.id == request_id:
                return self.run(request.run_id)
        listed = "; ".join(f"{request.id}: {request.title}" for request in self.pending()) or "none"
        raise UsageError(f"No request {request_id!r} waits for a decision. Open are: {listed}.")

    def _handle(self, stored: StoredRun) -> Run:
        return Run(self._thread, stored, interactive=self._interactive, display=self._display, panel=self._view_of)

    def _display(self, run: Run) -> None:
        from artifactflow_nb.widgets import frozen
        from artifactflow_nb.widgets.display import show_live, show_still
        from artifactflow_nb.widgets.run_view import RunView

        if self._is_shown_live():
            events = run.events
            if events and events[-1].is_terminal:
                show_still(frozen.frozen_bundle(run.port))
            else:
                run.pings.append(show_live(RunView(run.port), self._thread).answers_ping)
        elif run.waited_for:
            show_still(frozen.frozen_bundle(run.port, measured=False))
        else:  # how far the run has come by now is chance
            show_still(frozen.running_bundle(run.question))

    def _is_shown_live(self) -> bool:
        from artifactflow_nb.widgets.display import has_kernel

        return self._is_watched() and has_kernel()

    def _is_watched(self) -> bool:
        return is_watched(self.settings, self._interactive)

    def add_sources(self, path: str | Path) -> Added:
        """Index a folder or a file (md, txt, html, pdf, py, ipynb); runs then search it, no longer the reference.

        Of a folder that was added before, only new and changed files are read, and sources of lost files go. While a
        person watches, a line tells how far it has come. Interrupting the cell keeps what was indexed until then; the
        next call goes on from there.

        Errors: `UsageError` with the path if it is missing or gives no source.
        """
        from artifactflow_nb.widgets.progress import IndexingLine

        line = IndexingLine(str(path), watched=self._is_watched())
        try:
            added = self._thread.follow(self._thread.engine.add_sources(path, line.note), line.draw)
        except BaseException:
            line.end("Not finished")
            raise
        line.end("Indexed")
        return added

    def close(self) -> None:
        """Close the store and end the engine's thread; runs that were going on can be resumed by another workbench."""
        self._thread.close()
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _conversation_id(conversation: InConversation) -> str:
    if isinstance(conversation, Run | Conversation | StoredMessage):
        return conversation.conversation_id
    if not isinstance(conversation, str):
        raise UsageError(f"{conversation!r} names no conversation. Pass one, one of its runs or messages, or its id.")
    return conversation


def _text(question: object) -> str:
    if not isinstance(question, str):
        raise UsageError(f"The question is {type(question).__name__}, not text.")
    return question
