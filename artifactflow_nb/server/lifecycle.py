"""The lifecycle of runs for other programs: requests in, values or events out, without a web framework.

::

    ask, retry ──> started run     the run continues without a client
    stream     ──> its events      earlier events come first; a pause or the end of the run ends the stream
    decide     ──> started run     the run continues after a pause
    cancel

The methods are called on the loop of a server. The engine has a thread of its own, so a slow server delays no run, and
a busy run delays no server.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

import artifactflow_nb.plugins.built_in  # noqa: F401 - makes the built-in plugins known to engines
from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.analysis.frames.catalog import all_frames
from artifactflow_nb.analysis.frames.reading import load_frame
from artifactflow_nb.core.approvals import BUDGET_KIND, ApprovalRequest, Decision
from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.clock_ids import RandomIds
from artifactflow_nb.core.language import translate
from artifactflow_nb.core.local_files import read_bytes, reason
from artifactflow_nb.core.text.format import translate_count
from artifactflow_nb.engine.cited_sources import linked_file
from artifactflow_nb.engine.controller import RunOptions, RunResult
from artifactflow_nb.engine.plugin import RouteCall, ServedRoute
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import ArtifactFlowError, Conflict, NotFound, UsageError
from artifactflow_nb.models.base import Model
from artifactflow_nb.recording.engine import RecordingThread, make_engine
from artifactflow_nb.server.bodies import ChatBody, ResumeBody, RetryBody, SourcesBody
from artifactflow_nb.server.stream import EventQueue, Mailbox, SentEvent
from artifactflow_nb.store.artifact_versions import Artifact, read_version
from artifactflow_nb.store.locks import check_not_forked
from artifactflow_nb.store.runs import RUNNING, WAITING, StoredRun
from artifactflow_nb.store.schema import from_microseconds
from artifactflow_nb.widgets.chat.composer import attach_files

T = TypeVar("T")

logger = logging.getLogger(__name__)


_ENGINE_PREFIX = "eng-server"
_ROOT = "root"
"""The parent of a first question, over HTTP; an id of a message has a prefix."""


class ServerIds:
    """Random ids; the ids of engines and of owners of runs have the mark of a server."""

    def new(self, prefix: str) -> str:
        """Return a new random id; the prefix `eng` gets the mark of a server."""
        return RandomIds().new(_ENGINE_PREFIX if prefix == "eng" else prefix)


class DecidedAlready(Conflict):
    """The request has been decided already.

    Attributes:
        decided: The stored decisions by request id: `decision`, `decided_by`, `decided_at`.
    """

    def __init__(self, message: str, decided: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(message)
        self.decided = decided


class ReadOnly(ArtifactFlowError):
    """The server is read-only and rejects all requests that change the store."""


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that was started or continued."""

    thread_id: str
    conversation_id: str
    message_id: str
    run_id: str


class RunLifecycle:
    """The runs of a data folder for the users of a server.

    Args:
        thread: The thread of the engine.
        read_only: Reject all requests that change the store.

    Attributes:
        thread: The thread of the engine.
        read_only: Whether changes are rejected.
        root: The folder whose files users may add to the sources; None if users may not add files.
        frames: The frames of the store.
        mailboxes: The mailboxes of the connected readers.
    """

    def __init__(self, thread: EngineThread, *, read_only: bool = False) -> None:
        self.thread = thread
        self.read_only = read_only
        self.root: Path | None = None
        self.frames = Frames(thread.engine.database.path)
        self._engine = thread.engine
        self._controller = thread.engine.controller
        self.mailboxes: WeakSet[Mailbox[Any]] = WeakSet()

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the engine's loop to the end, even if the client disconnects."""
        return await asyncio.shield(asyncio.wrap_future(self.thread.submit(work)))

    async def call_plugin(self, route: ServedRoute, call: RouteCall) -> Any:
        """Call the handler of a plugin's route; `ReadOnly` if the route changes the store and changes are rejected."""

        async def handle() -> Any:
            return await route.handler(self._engine, call)

        if route.method != "GET":
            self.check_writable()
        return await self.call(handle())

    def check_writable(self) -> None:
        """Raise `ReadOnly` if changes are rejected."""
        if self.read_only:
            raise ReadOnly(
                "This server is read-only: it cannot start runs, decide requests or delete conversations. Start it "
                "without --read-only to allow that."
            )

    async def continue_abandoned(self) -> list[str]:
        """Resume the runs of stopped servers, and return the ids of the runs; runs of kernels remain abandoned."""

        async def work() -> list[str]:
            continued = []
            for run in await self._engine.runs.unfinished():
                if run.status != RUNNING or not (run.owner or "").startswith(_ENGINE_PREFIX):
                    continue
                try:
                    if await self._controller.resume_if_ready(run):
                        continued.append(run.run_id)
                except (ArtifactFlowError, OSError) as error:
                    logger.warning("The run %s was not continued: %s", run.run_id, error)
            return continued

        return [] if self.read_only else await self.call(work())

    # --- questions ---------------------------------------------------------------------------------------------------

    async def ask(self, body: ChatBody) -> StartedRun:
        """Store a question and start its run."""
        options = RunOptions(depth=body.depth, clarify=body.clarify, budget=self._lowered(body.budget))
        if body.flow is not None:
            options["flow"] = body.flow
        if body.conversation_id is not None:
            options["conversation_id"] = body.conversation_id
        if body.parent_message_id is not None:
            options["parent_message_id"] = None if body.parent_message_id == _ROOT else body.parent_message_id
        self.check_writable()
        return await self.call(self._start(self._controller.begin(body.content, **options)))

    async def retry(self, conversation_id: str, body: RetryBody) -> StartedRun:
        """Ask a question of a conversation again, or another question instead, and start the run."""

        async def begin() -> StoredRun:
            conversation = await self._engine.conversations.get(conversation_id)
            message_id = body.message_id or conversation.active_message_id
            if message_id is None:
                raise NotFound(f"The conversation {conversation_id!r} has no message to ask again. Ask a question.")
            message = await self._engine.conversations.message(message_id)
            if message.conversation_id != conversation_id:
                raise NotFound(f"The conversation {conversation_id!r} has no message {message_id!r}.")
            budget = self._lowered(body.budget) or self._engine.settings.budget  # not the budget of the earlier run
            return await self._controller.begin_sibling(message_id, body.content, budget=budget)

        self.check_writable()
        return await self.call(self._start(begin()))

    async def _start(self, begin: Coroutine[Any, Any, StoredRun]) -> StartedRun:
        run = await begin
        await self._controller.start(run)
        return _started(run)

    def _lowered(self, limits: Mapping[str, Any] | None) -> Budget | None:
        """Return the server's budget with the lower limits of a client; `UsageError` if a limit is higher."""
        server = self._engine.settings.budget
        if limits is None or server is None:
            return None if limits is None else Budget.from_limits(limits)
        own = Budget.from_limits({**server.model_dump(exclude_none=True), **limits})
        higher = [name for name, limit in server.limits.items() if own.limits.get(name, limit + 1) > limit]
        if server.when_spent == "stop" and own.when_spent == "ask":
            higher.append("when_spent")
        if higher:
            allowed = server.model_dump(exclude_none=True)
            raise UsageError(f"The budget exceeds the server's budget in {', '.join(higher)}; set at most {allowed}.")
        return own

    # --- events ------------------------------------------------------------------------------------------------------

    async def stream(self, thread_id: str, after: int = 0) -> AsyncIterator[Sequence[SentEvent]] | None:
        """Yield the events of a run after a number, in batches; return None if an ended run has no more events.

        An empty batch keeps an idle connection open. The stream ends when the run ends or waits.

        Args:
            thread_id: The run's thread, or the id of the run, e.g. of a subrun.
            after: The number of the last event that the reader has received; 0 for none.

        Errors: `NotFound` for an unknown thread.
        """
        run = await self.call(self._run(thread_id))
        queue = EventQueue(after)
        self.mailboxes.add(queue.mailbox)
        stop = await self.call(self._controller.subscribe(run.run_id, queue.put))
        if queue.has_ended and queue.last_seq <= after:
            self.thread.call_soon(stop)
            return None

        async def batches() -> AsyncIterator[Sequence[SentEvent]]:
            try:
                async for batch in queue.batches():
                    yield batch
                    if batch and batch[-1].is_pause and queue.mailbox.is_empty and await self._has_status(run, WAITING):
                        return
                    if not batch and not await self._has_status(run, WAITING, RUNNING):
                        return  # the run was deleted
            finally:
                self.thread.call_soon(stop)

        return batches()

    async def _run(self, thread_id: str) -> StoredRun:
        if thread_id.startswith("run-"):
            return await self._engine.runs.get(thread_id)
        return await self._engine.runs.get_by_thread(thread_id)

    async def _has_status(self, run: StoredRun, *statuses: str) -> bool:
        with suppress(NotFound):
            return (await self.call(self._engine.runs.get(run.run_id))).status in statuses
        return False

    # --- decisions ---------------------------------------------------------------------------------------------------

    async def resume(self, conversation_id: str | None, body: ResumeBody, user: str) -> StartedRun:
        """Decide the requests of a waiting run, all or none, and continue the run.

        Args:
            conversation_id: The conversation that the run must have; None for any conversation.
            body: The decisions.
            user: The name of the user who decides.

        Errors: `DecidedAlready` if a request is decided; `NotFound`; `UsageError` for a decision that does not fit.
        """
        if (body.approved is None) == (body.decisions is None):
            raise UsageError("Pass either approved, for a single request, or decisions by request id.")
        decided_by = f"http:{user}"
        decisions = {name: each.decision(decided_by) for name, each in (body.decisions or {}).items()}

        async def work() -> StartedRun:
            run = await self._run(body.thread_id)
            if conversation_id not in {None, run.conversation_id}:
                raise NotFound(f"The conversation {conversation_id!r} has no thread {body.thread_id!r}.")
            if body.message_id not in {None, run.message_id}:
                raise NotFound(f"The thread {body.thread_id!r} answers {run.message_id!r}, not {body.message_id!r}.")
            if body.approved is not None:
                try:
                    request = (await self._controller.single_request(run.run_id)).id
                except NotFound as error:
                    if decided := await self._decided("run_id = ? AND decision_number IS NOT NULL", run.run_id):
                        raise DecidedAlready(f"{error} Its requests were decided already.", decided) from error
                    raise
                decisions[request] = Decision(body.approved, decided_by=decided_by)
            if len(decisions) == 1:
                [(request_id, decision)] = decisions.items()
                asking = await self._engine.runs.get((await self._engine.approvals.get(request_id)).run_id)
                if run.run_id not in {asking.run_id, asking.parent_call and asking.parent_call.run_id}:
                    raise NotFound(f"The run {run.run_id!r} has no request {request_id!r}; nothing was decided.")
                await self.decide(request_id, decision)
            else:
                for request_id, decision in decisions.items():
                    await self._check_budget(request_id, decision)
                await self._with_deciders(decisions, self._controller.decide_all(run.thread_id, None, decisions))
                await self._controller.start(await self._engine.runs.get(run.run_id))
            return _started(run)

        self.check_writable()
        return await self.call(work())

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Store a decision and continue the run as soon as possible; called on the engine's loop.

        Errors: `DecidedAlready`, and the errors of `ExecutionController.decide`.
        """
        self.check_writable()
        await self._check_budget(request_id, decision)
        await self._with_deciders([request_id], self._controller.decide(request_id, decision))

    async def _check_budget(self, request_id: str, decision: Decision) -> None:
        """Raise `UsageError` for a budget above the requested budget."""
        request = await self._engine.approvals.get(request_id)
        if request.kind == BUDGET_KIND and decision.params:
            limits = {name: limit for name, limit in request.params.items() if name in Budget.model_fields}
            budget = Budget.from_limits({**limits, **decision.params})
            higher = [name for name, limit in budget.limits.items() if limit > limits.get(name, limit)]
            if higher:
                raise UsageError(f"The budget may be lowered, not raised: {', '.join(higher)}. Requested: {limits}.")

    async def _with_deciders(self, request_ids: Collection[str], work: Coroutine[Any, Any, T]) -> T:
        """Await a decision; a conflict names who has decided, and when."""
        try:
            return await work
        except Conflict as error:
            marks = ", ".join("?" * len(request_ids))
            decided = await self._decided(f"request_id IN ({marks})", *request_ids)
            raise DecidedAlready(str(error), decided) from error

    async def _decided(self, condition: str, *values: str) -> dict[str, dict[str, Any]]:
        sql = f"SELECT * FROM approvals WHERE decision IS NOT NULL AND {condition}"  # noqa: S608 - constants
        rows = await self._engine.database.fetch_all(sql, values)
        decided = {row["request_id"]: {name: row[name] for name in ("decision", "decided_by")} for row in rows}
        for row in rows:
            decided[row["request_id"]]["decided_at"] = from_microseconds(row["decided_at"])
        return decided

    async def pending(self) -> list[dict[str, Any]]:
        """List the open requests, the oldest first, with the ids of their runs."""

        async def work() -> list[dict[str, Any]]:
            requests = []
            for request in await self._engine.approvals.open_requests():
                with suppress(NotFound):
                    requests.append(_request(request) | asdict(_started(await self._engine.runs.get(request.run_id))))
            return requests

        return await self.call(work())

    # --- runs and conversations --------------------------------------------------------------------------------------

    async def result(self, thread_id: str) -> dict[str, Any]:
        """Return the status of a run, its answer or error, its open requests and its metrics."""

        async def work() -> RunResult:
            return await self._controller.result((await self._run(thread_id)).run_id)

        result = await self.call(work())
        names = ("run_id", "conversation_id", "message_id", "thread_id", "status", "response", "outcome")
        value = {name: getattr(result, name) for name in (*names, "error_type", "error_message")}
        pending = [_request(request) for request in result.pending]
        return {**value, "pending": pending, "metrics": result.metrics.as_json()}

    async def cancel(self, thread_id: str) -> dict[str, Any]:
        """Cancel a run; `Conflict` if it has ended."""
        self.check_writable()

        async def work() -> None:
            await self._controller.cancel((await self._run(thread_id)).run_id)

        await self.call(work())
        return await self.result(thread_id)

    async def conversations(self, words: str, limit: int, offset: int) -> list[dict[str, Any]]:
        """List the conversations, the newest question first; `words`, if any, must occur in a listed conversation."""
        manager = self._engine.conversations
        matches = manager.search(words, limit, offset) if words else manager.list_conversations(limit, offset)
        return [_without(asdict(conversation), "hit") for conversation in await self.call(matches)]

    async def conversation(self, conversation_id: str) -> dict[str, Any]:
        """Return a conversation with the messages of all its branches, the oldest first."""

        async def work() -> dict[str, Any]:
            conversation = _without(asdict(await self._engine.conversations.get(conversation_id)), "hit")
            messages = await self._engine.conversations.messages(conversation_id)
            return {**conversation, "messages": [asdict(message) for message in messages]}

        return await self.call(work())

    async def delete_conversation(self, conversation_id: str) -> None:
        """Delete a conversation with its runs and artifacts; `Conflict` while one of its runs is running."""
        self.check_writable()
        await self.call(self._engine.conversations.delete_conversation(conversation_id))

    # --- artifacts and frames ----------------------------------------------------------------------------------------

    async def artifacts(self, conversation_id: str, message_id: str | None) -> list[dict[str, Any]]:
        """List the artifacts of a branch, by default the active branch, without their texts."""

        async def work() -> list[Artifact]:
            message = message_id or (await self._engine.conversations.get(conversation_id)).active_message_id
            return await self._engine.artifacts.list_artifacts(conversation_id, message_id=message)

        return [_without(asdict(artifact), "content", "metadata_json") for artifact in await self.call(work())]

    async def artifact(self, conversation_id: str, artifact_id: str, message_id: str | None) -> dict[str, Any]:
        """Return the current version of an artifact on a branch, with its text."""

        async def work() -> Artifact:
            message = message_id or (await self._engine.conversations.get(conversation_id)).active_message_id
            return await self._engine.artifacts.read(conversation_id, artifact_id, message_id=message)

        return _without(asdict(await self.call(work())), "metadata_json")

    async def versions(self, conversation_id: str, artifact_id: str) -> list[dict[str, Any]]:
        """List all versions of an artifact on all branches, without their texts, the oldest first."""

        async def work() -> list[Artifact]:
            await self._engine.conversations.get(conversation_id)
            return await self._engine.artifacts.versions(conversation_id, artifact_id)

        if versions := await self.call(work()):
            return [_without(asdict(version), "content", "metadata_json") for version in versions]
        raise NotFound(f"The conversation {conversation_id!r} has no artifact {artifact_id!r}.")

    async def version(self, conversation_id: str, artifact_id: str, number: int) -> dict[str, Any]:
        """Return one version of an artifact on any branch, with its text; `NotFound` with the existing numbers."""
        key = conversation_id, artifact_id, number
        artifact = await self.call(self._engine.database.read(lambda db: read_version(db, *key)))
        return _without(asdict(artifact), "metadata_json")

    async def frame(self, name: str, filters: Mapping[str, Any]) -> Any:
        """Load a frame of the store as a DataFrame, in a thread."""
        declared = {frame.name: frame for frame in all_frames()}
        if name not in declared:
            raise NotFound(f"There is no frame {name!r}. Known: {', '.join(declared)}.")
        load = getattr(self.frames, f"{name}_df", partial(load_frame, self._engine.database.path, declared[name]))
        return await asyncio.to_thread(load, **filters)

    async def add_sources(self, body: SourcesBody) -> str:
        """Add files to the sources, and return a message for the user.

        Errors: `UsageError` if users may add no files, or for a path outside the root folder; errors of the engine.
        """
        self.check_writable()
        if self.root is None:
            raise UsageError("Files cannot be added here. The person who runs the server adds sources.")
        if body.path is None:
            return await self.call(attach_files(self._engine, body.files))
        path = (self.root / body.path).resolve()
        if not path.is_relative_to(self.root.resolve()):
            raise UsageError(f"{body.path[:100]!r} is outside the root folder of the server.")
        added = await self.call(self._engine.add_sources(path))
        n_files = translate_count(len(added.sources), "new file")
        return translate("Added {names}; the next question searches {files}.", names=path.name, files=n_files)

    async def source_file(self, path: str) -> tuple[bytes, bool]:
        """Read a file of the index, and return whether it is a PDF.

        Args:
            path: The path in a `source_link`.

        Errors: `NotFound` if the path is no source, or its file is missing.
        """
        file = await self._engine.database.read(lambda db: linked_file(db, path))
        if file is None:
            raise NotFound(f"{path[:100]!r} is not the file of a source.")
        try:
            return await asyncio.to_thread(read_bytes, file), file.suffix.lower() == ".pdf"
        except OSError as error:
            raise NotFound(f"The file {path[:100]!r} cannot be read: {reason(error)}.") from None

    # --- the end -----------------------------------------------------------------------------------------------------

    def end_streams(self) -> None:
        """End the streams of all readers before the server waits for them; called on the server's loop."""
        for mailbox in self.mailboxes:
            mailbox.close()

    def close(self) -> None:
        """Close the engine; unfinished runs can be continued by another server."""
        self.thread.close()


def _started(run: StoredRun) -> StartedRun:
    return StartedRun(run.thread_id, run.conversation_id, run.message_id, run.run_id)


def _request(request: ApprovalRequest) -> dict[str, Any]:
    return _without(asdict(request), "about")


def _without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: field for name, field in value.items() if name not in names}


def open_lifecycle(
    *,
    read_only: bool = False,
    model: str | Model | None = None,
    data_dir: str | Path | None = None,
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> RunLifecycle:
    """Open the runs of a data folder.

    Args:
        read_only: Reject all requests that change the store.
        model: The name of a model at the endpoint, or a model object; None for the configured model.
        data_dir: The folder of the store; None for the configured folder.
        options: Further arguments of `Engine`, such as `approvals` and `clock`.
        settings: Settings, by the names of `Settings`.

    Errors: `UsageError` for an invalid setting; `StoreError` for a store or a cassette that cannot be used.
    """
    name, model_object = (model, None) if isinstance(model, str) else (None, model)
    configured = Settings.load(data_dir=data_dir, model=name, **settings)
    check_not_forked(configured.data_dir)
    arguments = {"ids": ServerIds(), **(options or {})}
    thread = RecordingThread(lambda: make_engine(configured, model=model_object, **arguments))
    return RunLifecycle(thread, read_only=read_only)
