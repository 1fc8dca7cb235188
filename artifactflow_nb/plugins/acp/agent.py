"""`ResearchAgent`: runs as the turns of an agent of the Agent Client Protocol.

::

    session/new, session/load   a conversation; the id of a new session is the thread of the first run
    session/prompt              a run, or the answer to a question that the last run asks
      session/update            text, reasoning, tool calls, plan and usage, from the events of the run
      session/request_permission   an approval request
    session/cancel              cancels the run

The run of an editor that is closed goes on when the command starts again; requests wait for the next prompt.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import acp
from acp import schema

from artifactflow_nb import __version__
from artifactflow_nb.core.approvals import QUESTION_KIND, Decision
from artifactflow_nb.core.events import MAIN_JOB, StreamEvent, StreamEventType
from artifactflow_nb.core.language import agent_label, tool_label
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.engine.controller import RunOptions
from artifactflow_nb.errors import ArtifactFlowError, Conflict, NotFound
from artifactflow_nb.server.lifecycle import RunLifecycle

_KINDS: Mapping[str, schema.ToolKind] = {
    "web_search": "search", "web_fetch": "fetch", "call_subagent": "think", "create_plan": "think",
    "create_artifact": "edit", "update_artifact": "edit", "rewrite_artifact": "edit", "query_data": "execute",
}  # fmt: skip
_STEP_STATES: Mapping[str, schema.PlanEntryStatus] = {
    "running": "in_progress", "completed": "completed", "failed": "completed", "skipped": "completed",
}  # fmt: skip
_ONCE, _RUN, _REJECT = "once", "run", "reject"
_MOST_CONTEXT_CHARS = 100_000
_MOST_SESSIONS = 50


@dataclass(slots=True)
class _EditorSession:
    """A session: the thread or the id of the last run, and the number of the last event that the editor got."""

    run: str
    last_event: int = 0
    is_running: bool = False


class ResearchAgent:
    """The agent of one editor: the sessions are the conversations of a store."""

    def __init__(self, lifecycle: RunLifecycle) -> None:
        self._lifecycle = lifecycle
        self._client: Any = None
        self._name = "editor"
        self._sessions: dict[str, _EditorSession] = {}

    def on_connect(self, conn: Any) -> None:
        """Keep the connection to the editor."""
        self._client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **_: Any
    ) -> schema.InitializeResponse:
        """Say which version of the protocol and which abilities the agent has."""
        del client_capabilities
        self._name = getattr(client_info, "name", None) or self._name
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_info=schema.Implementation(name="artifactflow-nb", title="ArtifactFlow NB", version=__version__),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(embedded_context=True),
                session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
            ),
        )

    # --- sessions ----------------------------------------------------------------------------------------------------

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        """Begin a session, whose conversation the first prompt creates."""
        del cwd
        return schema.NewSessionResponse(session_id=self._lifecycle.thread.engine.ids.new("thd"))

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        """Show the messages of a conversation on its active branch; the session continues the conversation."""
        del cwd
        conversation_id = await self._conversation(session_id)
        if conversation_id is None:
            raise acp.RequestError(-32602, f"There is no session {session_id[:100]!r}.")
        conversation = await self._lifecycle.conversation(conversation_id)
        by_id = {message["message_id"]: message for message in conversation["messages"]}
        branch: list[dict[str, Any]] = []
        message = by_id.get(conversation["active_message_id"])
        while message is not None:
            branch.insert(0, message)
            message = by_id.get(message["parent_id"])
        for message in branch:
            await self._update(session_id, acp.update_user_message_text(message["content"]))
            if message["response"]:
                await self._update(session_id, acp.update_agent_message_text(message["response"]))
            if message["run_id"]:
                self._sessions[session_id] = _EditorSession(message["run_id"])
        return schema.LoadSessionResponse()

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> Any:
        """List the conversations, the newest question first; `cursor` is the number of conversations before."""
        start = int(cursor) if cursor and cursor.isdecimal() else 0
        rows = await self._lifecycle.conversations("", _MOST_SESSIONS, start)
        sessions = [
            schema.SessionInfo(
                session_id=row["conversation_id"],
                cwd=cwd or "/",
                title=row["title"],
                updated_at=row["updated_at"].isoformat(),
            )
            for row in rows
        ]
        following = str(start + len(rows)) if len(rows) == _MOST_SESSIONS else None
        return schema.ListSessionsResponse(sessions=sessions, next_cursor=following)

    async def _conversation(self, session_id: str) -> str | None:
        """Return the conversation of a session; None for a session without a question."""
        if session_id.startswith("conv-"):
            with suppress(NotFound):
                return str((await self._lifecycle.conversation(session_id))["conversation_id"])
            return None
        with suppress(NotFound):
            return str((await self._lifecycle.result(session_id))["conversation_id"])
        return None

    # --- turns -------------------------------------------------------------------------------------------------------

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> schema.PromptResponse:
        """Ask a question, or answer the question that the session's last run asks; return when the run ends.

        While the last run waits for a decision, the editor is asked about the decision first.
        """
        text = _prompt_text(prompt)
        session = self._sessions.get(session_id)
        try:
            for block in prompt:
                if block.type == "resource_link" and block.uri.startswith("file:"):
                    path = Path(url2pathname(urlsplit(block.uri).path))
                    await self._lifecycle.call(self._lifecycle.thread.engine.attach_source(path))
            pending = (await self._lifecycle.result(session.run))["pending"] if session else []
            if session is None or not pending:
                session = await self._begin_run(session_id, text)
            elif question := next((each for each in pending if each["kind"] == QUESTION_KIND), None):
                await self._skip_seen(session)
                await self._decide(question["id"], Decision(approved=False, instruction=text, replaces_call=True))
            else:
                await self._skip_seen(session)
                is_decided = await self._ask_permissions(session_id, session.run, pending)
                if not is_decided or (reply := await self._followed(session_id, session)).stop_reason == "cancelled":
                    return reply if is_decided else schema.PromptResponse(stop_reason="end_turn")
                session = await self._begin_run(session_id, text)
        except ArtifactFlowError as error:
            await self._update(session_id, acp.update_agent_message_text(str(error)))
            return schema.PromptResponse(stop_reason="refusal")
        return await self._followed(session_id, session)

    async def _skip_seen(self, session: _EditorSession) -> None:
        """Skip the events of a run whose messages the editor has loaded."""
        if session.last_event == 0:
            async for event in self._events(session):
                session.last_event = event.seq

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Cancel the run that a prompt of the session waits for."""
        session = self._sessions.get(session_id)
        if session is not None and session.is_running:
            await self._cancel(session.run)

    async def _cancel(self, run: str) -> None:
        with suppress(Conflict):  # the run has just ended
            await self._lifecycle.cancel(run)

    async def _begin_run(self, session_id: str, text: str) -> _EditorSession:
        """Begin and start a run."""
        conversation_id = await self._conversation(session_id)
        options = RunOptions(conversation_id=conversation_id)
        if conversation_id is None:
            options["thread_id"] = session_id
        controller = self._lifecycle.thread.engine.controller
        run = await self._lifecycle.call(controller.begin(text, **options))
        await self._lifecycle.call(controller.start(run))
        return _EditorSession(run.thread_id)

    async def _followed(self, session_id: str, session: _EditorSession) -> schema.PromptResponse:
        """Send the events of the session's new last run, which the editor can cancel meanwhile."""
        self._sessions[session_id] = session
        session.is_running = True
        try:
            return await self._follow(session_id, session)
        finally:
            session.is_running = False

    async def _follow(self, session_id: str, session: _EditorSession) -> schema.PromptResponse:
        """Send the events of a run until the run ends, or asks a question that the next prompt answers."""
        turn = _TurnUpdates()
        while True:
            async for event in self._events(session):
                session.last_event = event.seq
                for update in turn.updates(event):
                    await self._update(session_id, update)
            result = await self._lifecycle.result(session.run)
            if result["status"] != "waiting":
                return await self._ended(session_id, result)
            if not await self._ask_permissions(session_id, session.run, result["pending"]):
                return schema.PromptResponse(stop_reason="end_turn")

    async def _events(self, session: _EditorSession) -> AsyncIterator[StreamEvent]:
        batches = await self._lifecycle.stream(session.run, session.last_event)
        if batches is not None:
            async for batch in batches:
                for sent in batch:
                    yield sent.event

    async def _ended(self, session_id: str, result: Mapping[str, Any]) -> schema.PromptResponse:
        """Tell the editor the end of a run, and its tokens and cost."""
        if result["status"] == "cancelled":
            return schema.PromptResponse(stop_reason="cancelled")
        if result["status"] != "completed":
            reason = result["error_message"] or f"The run is {result['status']}."
            await self._update(session_id, acp.update_agent_message_text(f"\n\n{reason}"))
        turns = result["metrics"]["agent_executions"]
        counts = [sum(turn["token_usage"][name] for turn in turns) for name in ("input_tokens", "output_tokens")]
        usage = schema.Usage(total_tokens=sum(counts), input_tokens=counts[0], output_tokens=counts[1])
        return schema.PromptResponse(stop_reason="end_turn", usage=usage)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _ask_permissions(self, session_id: str, run: str, requests: Sequence[Mapping[str, Any]]) -> bool:
        """Ask the editor about each request and store the decisions; False if the agent asks a question.

        The next prompt answers a question. An editor that cancels the turn closes its questions without a choice: the
        run is cancelled.
        """
        for request in requests:
            if request["kind"] == QUESTION_KIND:
                choices = "".join(f"\n- {choice}" for choice in request["params"].get("choices", ()))
                await self._update(session_id, acp.update_agent_message_text(f"\n\n{request['title']}{choices}"))
                return False
            reply = await self._client.request_permission(session_id=session_id, **_permission(request))
            if reply.outcome.outcome != "selected":
                await self._cancel(run)
                return True
            chosen = reply.outcome.option_id
            await self._decide(request["id"], Decision(chosen != _REJECT, scope="run" if chosen == _RUN else "once"))
        return True

    async def _decide(self, request_id: str, decision: Decision) -> None:
        decision = replace(decision, decided_by=f"acp:{self._name}")
        with suppress(Conflict):  # another person was faster; the run goes on with that decision
            await self._lifecycle.call(self._lifecycle.decide(request_id, decision))

    async def _update(self, session_id: str, update: Any) -> None:
        await self._client.session_update(session_id=session_id, update=update)


class _TurnUpdates:
    """The updates of one turn, from the events of a run: text of the lead, and the calls and plan of all agents."""

    def __init__(self) -> None:
        self._steps: dict[str, dict[str, Any]] = {}

    def updates(self, event: StreamEvent) -> Iterator[Any]:
        """Yield the updates for an event."""
        data = event.data
        match event.type:
            case StreamEventType.LLM_CHUNK if data["job_id"] == MAIN_JOB and data["kind"] == "answer":
                yield acp.update_agent_message_text(data["delta"])
            case StreamEventType.LLM_CHUNK if data["job_id"] == MAIN_JOB and data["kind"] == "reasoning":
                yield acp.update_agent_thought_text(data["delta"])
            case StreamEventType.TOOL_START:
                name, params = event.tool or "", data["params"]
                first = next((value for value in params.values() if isinstance(value, str | list) and value), "")
                about = ", ".join(map(str, first)) if isinstance(first, list) else first
                words = [f"{agent_label(event.agent or '')}: {tool_label(name)}", *filter(None, [clip(about, 80)])]
                kind = _KINDS.get(name, "other")
                yield acp.start_tool_call(
                    data["tool_call_id"], ": ".join(words), kind=kind, status="in_progress", raw_input=params
                )
            case StreamEventType.TOOL_COMPLETE:
                error = [acp.tool_content(acp.text_block(data["error"]))] if data["error"] else None
                status: schema.ToolCallStatus = "completed" if data["success"] else "failed"
                yield acp.update_tool_call(data["tool_call_id"], status=status, content=error)
            case StreamEventType.PLAN_CREATED | StreamEventType.PLAN_UPDATED | StreamEventType.PLAN_REVISED:
                self._steps |= {step["id"]: {**self._steps.get(step["id"], {}), **step} for step in data["steps"]}
                yield self._plan()
            case StreamEventType.STEP_START | StreamEventType.STEP_COMPLETE:
                step = self._steps.setdefault(data["step_id"], {"title": data["title"]})
                step["status"] = data.get("status", "running")
                yield self._plan()

    def _plan(self) -> Any:
        return acp.update_plan(
            acp.plan_entry(step.get("title", ""), status=_STEP_STATES.get(step.get("status", ""), "pending"))
            for step in self._steps.values()
        )


def _prompt_text(blocks: Sequence[Any]) -> str:
    """Return the question of a prompt. Attached texts follow below with their addresses; attached files are sources."""
    texts, attached = [], []
    for block in blocks:
        if block.type == "text":
            texts.append(block.text)
        elif block.type == "resource_link" and not block.uri.startswith("file:"):
            texts.append(f" {block.uri}")
        elif block.type == "resource" and (text := getattr(block.resource, "text", None)):
            attached.append(f"{block.resource.uri}:\n\n{clip(text, _MOST_CONTEXT_CHARS)}")
    return "\n\n".join(["".join(texts), *attached])


def _permission(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the call that waits, with the preview of what the call writes, and the choices."""
    text = "\n\n".join(filter(None, [request["message"], request["preview"]]))
    call = schema.ToolCallUpdate(
        tool_call_id=request["tool_call_id"] or request["id"],
        title=request["title"],
        kind=_KINDS.get(request["tool"], "other"),
        status="pending",
        content=[acp.tool_content(acp.text_block(text))] if text else None,
        raw_input=dict(request["params"]),
    )
    choices: list[tuple[str, str, schema.PermissionOptionKind]] = [(_ONCE, "Approve", "allow_once")]
    if request["kind"] == "tool":
        choices.append((_RUN, f"Approve {tool_label(request['tool'])} for this run", "allow_always"))
    choices.append((_REJECT, "Deny", "reject_once"))
    options = [schema.PermissionOption(option_id=each, name=name, kind=kind) for each, name, kind in choices]
    return {"tool_call": call, "options": options}
