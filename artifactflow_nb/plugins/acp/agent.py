"""`ResearchAgent`: runs as the turns of an agent of the Agent Client Protocol.

::

    session/new, session/load   a conversation; the id of a new session is the thread of the first run
    session/prompt              a run, or the answer to a question that the last run asks
      session/update            text, reasoning, tool calls, plan and usage, from the events of the run
      session/request_permission   an approval request
    session/cancel              cancels the run

The run of an editor that is closed goes on when the command starts again; requests wait for the next prompt.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import acp
from acp import schema

from artifactflow_nb import __version__
from artifactflow_nb.core.approvals import QUESTION_KIND, Decision, Scope
from artifactflow_nb.core.events import MAIN_JOB, StreamEventType
from artifactflow_nb.core.language import agent_label, tool_label
from artifactflow_nb.core.text.format import clip, with_context
from artifactflow_nb.engine.controller import RunOptions
from artifactflow_nb.errors import ArtifactFlowError, Conflict, NotFound
from artifactflow_nb.server.lifecycle import RunLifecycle
from artifactflow_nb.server.stream import SentEvent

_KINDS: Mapping[str, schema.ToolKind] = {
    "web_search": "search", "web_fetch": "fetch", "read_artifact": "read", "call_subagent": "think",
    "plan_create": "think", "plan_decide": "think", "create_artifact": "edit", "update_artifact": "edit",
    "rewrite_artifact": "edit", "query_data": "execute",
}  # fmt: skip
_STEP_STATES: Mapping[str, schema.PlanEntryStatus] = {
    "running": "in_progress", "completed": "completed", "failed": "completed", "skipped": "completed",
}  # fmt: skip
_TEXTS: Mapping[str, Any] = {"answer": acp.update_agent_message_text, "reasoning": acp.update_agent_thought_text}
_ONCE, _RUN, _REJECT = "once", "run", "reject"
_MOST_CONTEXT_CHARS = 100_000
_MOST_SESSIONS = 50


class _RunUpdates:
    """The updates about one run, in any number of turns: text of the lead, and the calls and plan of all agents."""

    def __init__(self) -> None:
        self._steps: dict[str, dict[str, Any]] = {}
        self._n_sent: dict[tuple[str, str], int] = {}
        self._open_calls: set[str] = set()

    def updates(self, sent: SentEvent) -> Iterator[Any]:
        """Yield the updates for an event."""
        event, data = sent.event, sent.event.data
        match event.type:
            case StreamEventType.LLM_CHUNK if data["job_id"] == MAIN_JOB and data["kind"] in _TEXTS:
                if text := self._unsent_text(sent):
                    yield _TEXTS[data["kind"]](text)
            case StreamEventType.RETRY:
                n_lost = [self._n_sent.pop((data["call_id"], kind), 0) for kind in _TEXTS]
                if any(n_lost):
                    yield acp.update_agent_message_text("\n\n(The reply broke off and begins again.)\n\n")
            case StreamEventType.TOOL_START:
                self._open_calls.add(data["tool_call_id"])
                name, params = event.tool or "", data["params"]
                values = (", ".join(map(str, each)) if isinstance(each, list) else each for each in params.values())
                about = next((value for value in values if isinstance(value, str) and value), "")
                title = ": ".join(filter(None, [agent_label(event.agent or ""), tool_label(name), clip(about, 80)]))
                yield acp.start_tool_call(
                    data["tool_call_id"], title, kind=_KINDS.get(name, "other"), status="in_progress", raw_input=params
                )
            case StreamEventType.TOOL_COMPLETE:
                self._open_calls.discard(data["tool_call_id"])
                error = [acp.tool_content(acp.text_block(data["error"]))] if data["error"] else None
                status: schema.ToolCallStatus = "completed" if data["success"] else "failed"
                yield acp.update_tool_call(data["tool_call_id"], status=status, content=error)
            case StreamEventType.PLAN_CREATED | StreamEventType.PLAN_UPDATED | StreamEventType.PLAN_REVISED:
                steps = {step["id"]: {**self._steps.get(step["id"], {}), **step} for step in data["steps"]}
                self._steps = self._steps | steps if event.type is StreamEventType.PLAN_UPDATED else steps
                yield self._plan()
            case StreamEventType.STEP_START | StreamEventType.STEP_COMPLETE:
                step = self._steps.setdefault(data["step_id"], {"title": data["title"]})
                step["status"] = data.get("status", "running")
                yield self._plan()
            case _ if event.is_terminal:
                for call in self._open_calls:
                    yield acp.update_tool_call(call, status="failed")

    def _unsent_text(self, sent: SentEvent) -> str:
        """Return the part of a text that the editor does not have."""
        data = sent.event.data
        key = data["call_id"], data["kind"]
        n_sent = self._n_sent.get(key, 0)
        text: str = sent.event.content[n_sent:] if sent.with_text else data["delta"]
        self._n_sent[key] = n_sent + len(text)
        return text

    def _plan(self) -> Any:
        return acp.update_plan(
            acp.plan_entry(step.get("title", ""), status=_STEP_STATES.get(step.get("status", ""), "pending"))
            for step in self._steps.values()
        )


@dataclass(slots=True)
class _EditorSession:
    """A session: the thread or the id of the last run, and what the editor got from the run."""

    id: str
    run: str = ""
    last_event: int = 0
    updates: _RunUpdates = field(default_factory=_RunUpdates)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_cancelled: bool = False

    def follow(self, run: str) -> None:
        """Make another run the last run."""
        self.run, self.last_event, self.updates = run, 0, _RunUpdates()


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

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        """Begin a session, whose conversation the first prompt creates."""
        del cwd
        return schema.NewSessionResponse(session_id=self._lifecycle.thread.engine.ids.new("thd"))

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        """Show the messages of a conversation on its active branch, and what a waiting run has done so far."""
        del cwd
        if (conversation_id := await self._conversation(session_id)) is None:
            if re.fullmatch("thd-[0-9a-f]{16}", session_id):  # a session in which nothing was asked
                return schema.LoadSessionResponse()
            raise acp.RequestError(-32602, f"There is no session {session_id[:100]!r}.")
        conversation = await self._lifecycle.conversation(conversation_id)
        by_id = {message["message_id"]: message for message in conversation["messages"]}
        branch: list[dict[str, Any]] = []
        message = by_id.get(conversation["active_message_id"])
        while message is not None:
            branch.insert(0, message)
            message = by_id.get(message["parent_id"])
        for message in branch:
            update: Any = acp.update_user_message_text(message["content"])
            await self._client.session_update(session_id=session_id, update=update)
            if message["response"]:
                await self._say(self._session(session_id), message["response"])
            if message["run_id"]:
                self._session(session_id).follow(message["run_id"])
        session = self._session(session_id)
        if session.run and (pending := (await self._lifecycle.result(session.run))["pending"]):
            await self._send_events(session)
            await self._say_question(session, pending)
        return schema.LoadSessionResponse()

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> Any:
        """List the conversations, the newest question first; `cursor` is the number of conversations before."""
        start = int(cursor) if cursor and cursor.isdecimal() else 0
        rows = await self._lifecycle.conversations("", _MOST_SESSIONS, start)
        sessions = [
            schema.SessionInfo(session_id=row["conversation_id"], cwd=cwd or "/", title=row["title"], updated_at=at)
            for row, at in ((row, row["updated_at"].isoformat()) for row in rows)
        ]
        following = str(start + len(rows)) if len(rows) == _MOST_SESSIONS else None
        return schema.ListSessionsResponse(sessions=sessions, next_cursor=following)

    async def _conversation(self, session_id: str) -> str | None:
        """Return the conversation of a session; None for a session without a question."""
        find = self._lifecycle.conversation if session_id.startswith("conv-") else self._lifecycle.result
        with suppress(NotFound):
            return str((await find(session_id))["conversation_id"])
        return None

    def _session(self, session_id: str) -> _EditorSession:
        return self._sessions.setdefault(session_id, _EditorSession(session_id))

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> schema.PromptResponse:
        """Ask a question, or answer the question that the session's last run asks; return when the run ends.

        A last run that waits or runs goes on first. Prompts of a session are carried out one after the other.
        """
        session = self._session(session_id)
        async with session.turn:
            session.is_cancelled = False
            try:
                return await self._turn(session, await self._read_prompt(session, prompt))
            except ArtifactFlowError as error:  # `refusal` would remove the prompt and this message from the editor
                await self._say(session, str(error))
                return schema.PromptResponse(stop_reason="end_turn")

    async def _turn(self, session: _EditorSession, text: str) -> schema.PromptResponse:
        """Let the session's last run go on if it waits, and begin a run with the question unless it was an answer."""
        if session.run and (result := await self._lifecycle.result(session.run))["status"] in {"waiting", "running"}:
            if question := next((each for each in result["pending"] if each["kind"] == QUESTION_KIND), None):
                await self._decide(question["id"], Decision(approved=False, instruction=text, replaces_call=True))
                return await self._follow(session)
            reply = await self._follow(session, result["pending"])
            if reply.stop_reason == "cancelled" or (await self._lifecycle.result(session.run))["status"] == "waiting":
                return reply
        conversation_id = await self._conversation(session.id)
        options = RunOptions(conversation_id=conversation_id)
        if conversation_id is None:
            options["thread_id"] = session.id
        controller = self._lifecycle.thread.engine.controller
        run = await self._lifecycle.call(controller.begin(text, **options))
        await self._lifecycle.call(controller.start(run))
        session.follow(run.thread_id)
        if session.is_cancelled:
            await self._cancel(session.run)
        return await self._follow(session)

    async def _read_prompt(self, session: _EditorSession, blocks: Sequence[Any]) -> str:
        """Return the question of a prompt: its text with the names of attachments, and attached texts as context.

        Attached files become sources. The editor is told what cannot be read; the rest of the prompt is asked.
        """
        words, texts = "", []
        for block in blocks:
            if block.type == "text":
                words += block.text
                continue
            uri = getattr(getattr(block, "resource", block), "uri", None) or f"({block.type})"
            path = Path(url2pathname(urlsplit(uri).path)) if uri.startswith("file:") else None
            name, problem = uri if path is None else path.name, ""
            words += name if not words or words[-1].isspace() else f" {name}"
            if (text := getattr(getattr(block, "resource", None), "text", None)) is not None:
                texts.append(f"{uri}:\n\n{text[:_MOST_CONTEXT_CHARS]}")
                if len(text) > _MOST_CONTEXT_CHARS:
                    problem = f"Of {name} only the first {_MOST_CONTEXT_CHARS:,} characters are read."
            elif block.type != "resource_link":
                problem = f"The attachment {name} is not read, because it is no text."
            elif path is not None:
                try:
                    await self._lifecycle.call(self._lifecycle.thread.engine.attach_source(path))
                except (ArtifactFlowError, OSError) as error:
                    problem = f"The file {name} is not searched: {error}"
            if problem:
                await self._say(session, f"{problem}\n\n")
        return with_context(words, texts)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Cancel the run that a prompt of the session waits for, also a run that is about to begin."""
        session = self._session(session_id)
        if session.turn.locked():
            session.is_cancelled = True
            await self._cancel(session.run)

    async def _cancel(self, run: str) -> None:
        with suppress(Conflict, NotFound):  # the run has just ended, or has not begun
            await self._lifecycle.cancel(run)

    async def _follow(self, session: _EditorSession, pending: Sequence[Any] = ()) -> schema.PromptResponse:
        """Send the events of a run until the run ends, or asks a question that the next prompt answers."""
        while await self._ask_permissions(session, pending):
            await self._send_events(session)
            result = await self._lifecycle.result(session.run)
            if result["status"] != "waiting":
                return await self._ended(session, result)
            pending = result["pending"]
        return schema.PromptResponse(stop_reason="end_turn")

    async def _send_events(self, session: _EditorSession) -> None:
        """Send the events of the session's run that the editor does not have, until the run ends or waits."""
        if (batches := await self._lifecycle.stream(session.run, session.last_event)) is not None:
            async for sent in (sent async for batch in batches for sent in batch):
                session.last_event = sent.event.seq
                for update in session.updates.updates(sent):
                    await self._client.session_update(session_id=session.id, update=update)

    async def _ended(self, session: _EditorSession, result: Mapping[str, Any]) -> schema.PromptResponse:
        """Tell the editor the end of a run, and its tokens and cost."""
        if result["status"] == "cancelled":
            return schema.PromptResponse(stop_reason="cancelled")
        if result["status"] != "completed":
            await self._say(session, "\n\n" + (result["error_message"] or f"The run is {result['status']}."))
        turns = result["metrics"]["agent_executions"]
        counts = [sum(turn["token_usage"][name] for turn in turns) for name in ("input_tokens", "output_tokens")]
        usage = schema.Usage(total_tokens=sum(counts), input_tokens=counts[0], output_tokens=counts[1])
        return schema.PromptResponse(stop_reason="end_turn", usage=usage)

    async def _ask_permissions(self, session: _EditorSession, requests: Sequence[Mapping[str, Any]]) -> bool:
        """Ask the editor about each request and store the decisions; False if the agent asks a question.

        The next prompt answers a question. An editor that cancels the turn closes its questions without a choice: the
        run is cancelled.
        """
        for request in requests:
            if await self._say_question(session, [request]):
                return False
            reply = asyncio.ensure_future(self._client.request_permission(**_permission(session.id, request)))
            elsewhere = asyncio.ensure_future(self._until_decided(session, request["id"]))
            try:
                await asyncio.wait((reply, elsewhere), return_when=asyncio.FIRST_COMPLETED)
                outcome = reply.result().outcome if reply.done() else elsewhere.result()
            finally:
                reply.cancel()
                elsewhere.cancel()
            if outcome is None:
                continue
            if outcome.outcome != "selected":
                await self._cancel(session.run)
                return True
            scope: Scope = "run" if outcome.option_id == _RUN else "once"
            await self._decide(request["id"], Decision(outcome.option_id != _REJECT, scope=scope))
        return True

    async def _say_question(self, session: _EditorSession, requests: Sequence[Mapping[str, Any]]) -> bool:
        """Write the question that the agent asks into the chat; False if the requests contain no question."""
        for request in (each for each in requests if each["kind"] == QUESTION_KIND):
            choices = "".join(f"\n- {choice}" for choice in request["params"].get("choices", ()))
            await self._say(session, f"\n\n{request['title']}{choices}")
            return True
        return False

    async def _until_decided(self, session: _EditorSession, request_id: str) -> None:
        """Return when a request is decided elsewhere, for example in a notebook, or its run is cancelled."""
        number, is_open = session.last_event, True
        while is_open and (batches := await self._lifecycle.stream(session.run, number)) is not None:
            async for batch in batches:
                number = batch[-1].event.seq if batch else number
                pending = (await self._lifecycle.result(session.run))["pending"]
                if not (is_open := any(each["id"] == request_id for each in pending)):
                    break

    async def _decide(self, request_id: str, decision: Decision) -> None:
        decision = replace(decision, decided_by=f"acp:{self._name}")
        with suppress(Conflict):  # another person was faster; the run goes on with that decision
            await self._lifecycle.call(self._lifecycle.decide(request_id, decision))

    async def _say(self, session: _EditorSession, text: str) -> None:
        await self._client.session_update(session_id=session.id, update=acp.update_agent_message_text(text))


def _permission(session_id: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the call that waits, with the preview of what the call writes, and the choices."""
    text = "\n\n".join(filter(None, [request["message"], request["preview"]]))
    call = schema.ToolCallUpdate(
        tool_call_id=request["tool_call_id"] or request["id"],
        title=request["title"].replace(request["agent"], agent_label(request["agent"]), 1),
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
    return {"session_id": session_id, "tool_call": call, "options": options}
