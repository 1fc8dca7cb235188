"""Runs from a list of events, as views use them, without engine or kernel."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from markdown_it import MarkdownIt

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamedText, StreamEvent, StreamEventType
from artifactflow_nb.engine.settings import Language
from artifactflow_nb.errors import NotFound
from artifactflow_nb.sources.values import Evidence
from artifactflow_nb.tools.base import Tool

START = datetime(2026, 1, 1, tzinfo=UTC)
CHUNK_CHARS = 7


@dataclass
class Script:
    """Creates events, numbered and 100 ms apart."""

    events: list[StreamEvent] = field(default_factory=list)

    def add(self, event: str, agent: str | None = "lead_agent", tool: str | None = None, **data: Any) -> None:
        n = len(self.events) + 1
        moment = START + timedelta(milliseconds=100 * n)
        self.events.append(StreamEvent(StreamEventType(event), moment, n, "run-0001", agent, tool, data))

    def say(
        self, raw: str, text: str, *, call: str, job: str = "main", agent: str = "lead_agent", **kinds: str
    ) -> None:
        """Add a model call: its chunks, and its end with the whole prose."""
        for kind, whole in (("reasoning", kinds.get("reasoning", "")), ("answer", raw)):
            for delta in pieces(whole):
                self.add("llm_chunk", agent, job_id=job, call_id=call, kind=kind, delta=delta)
        usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
        reasoning = kinds.get("reasoning", "")
        self.add(
            "llm_complete", agent, job_id=job, call_id=call, text=text, reasoning=reasoning, token_usage=usage
        )  # fmt: skip

    def call(self, tool: str, use: str, params: dict[str, Any], *, job: str = "main", **done: Any) -> None:
        """Add a completed tool call."""
        agent = "lead_agent" if job == "main" else "search_agent"
        self.add("tool_start", agent, tool, job_id=job, tool_call_id=use, params=params)
        outcome = {"success": True, "duration_ms": 12.0, "error": None, "metadata": {}} | done
        self.add("tool_complete", agent, tool, job_id=job, tool_call_id=use, **outcome)

    @property
    def stored(self) -> list[StreamEvent]:
        return [event for event in self.events if event.type is not StreamEventType.LLM_CHUNK]


def pieces(text: str) -> Iterator[str]:
    return (text[i : i + CHUNK_CHARS] for i in range(0, len(text), CHUNK_CHARS))


class PlayedRun:
    """A `ViewedRun` over a list of events; it publishes them on subscription."""

    language: Language = "en"

    run_id = "run-0001"

    def __init__(self, events: Sequence[StreamEvent], question: str = "How do context managers end?") -> None:
        self.events = list(events)
        self.question = question
        self.artifacts: dict[tuple[str, int], str] = {}
        self.results: dict[str, str] = {}
        self.decisions: list[tuple[str, Decision]] = []
        self.tools: dict[str, Tool] = {}
        self.subruns: dict[str, PlayedRun] = {}
        self.usual: float | None = None
        self.cancelled = False
        self.resumed = False

    def stored_events(self) -> Sequence[StreamEvent]:
        return [event for event in self.events if event.type is not StreamEventType.LLM_CHUNK]

    def subrun(self, run_id: str) -> "PlayedRun":
        if run_id not in self.subruns:
            raise NotFound(f"There is no run {run_id!r} in this store.")
        return self.subruns[run_id]

    def subscribe(self, listener: Callable[[StreamEvent], None]) -> Callable[[], None]:
        for event in self.events:
            listener(event)
        return lambda: None

    async def decide(self, request_id: str, decision: Decision) -> None:
        self.decisions.append((request_id, decision))

    def status(self) -> str:
        return "running"

    async def go_on(self) -> None:
        self.resumed = True

    async def cancel(self) -> None:
        self.cancelled = True

    def tool(self, name: str) -> Tool | None:
        return self.tools.get(name)

    def artifact_text(self, artifact_id: str, version: int) -> str:
        return self.artifacts[artifact_id, version]

    def tool_result(self, tool_call_id: str) -> str:
        return self.results.get(tool_call_id, "")

    def evidence(self, cited: Collection[str]) -> Evidence:
        del cited
        return Evidence()

    def usual_ms(self) -> float | None:
        return self.usual

    def source_link(self, address: str, _passage: str) -> str:
        return address if address.startswith("http") else ""


REPORT = "# Report\n\nThe `__exit__` method decides [1].\n\n| case | result |\n|---|---|\n| raises | replaced |\n"
CALL = "<tool_call><name>{name}</name><params><x><![CDATA[{x}]]></x></params></tool_call>"


def research(script: Script, *, decided: bool = True) -> Script:
    """A run with a plan, a delegated search, a question to the person and a report."""
    script.add("metadata", None, question="How do context managers end?")
    script.add("agent_start", job_id="main", step=1, instruction="", model="m")
    delegate = CALL.format(name="call_subagent", x="find it")
    script.say(f"I will search.\n\n{delegate}", "I will search.", call="llm-1", reasoning="The user wants to know.")
    params = {"agent_name": "search_agent", "instruction": "Find what <exit> does."}
    script.add("tool_start", tool="call_subagent", job_id="main", tool_call_id="tc-1", params=params)
    script.add("agent_start", "search_agent", job_id="tc-1", step=1, instruction="Find what <exit> does.", model="m")
    script.say(CALL.format(name="web_search", x="exit"), "", call="llm-2", job="tc-1", agent="search_agent")
    script.call("web_search", "tc-2", {"query": "exit"}, job="tc-1", metadata={"n_results": 5})
    script.say("It **replaces** it.", "It **replaces** it.", call="llm-3", job="tc-1", agent="search_agent")
    script.add(
        "tool_complete", tool="call_subagent", job_id="main", tool_call_id="tc-1", success=True, duration_ms=900.0
    )  # fmt: skip
    script.say(CALL.format(name="create_artifact", x=REPORT), "", call="llm-4")
    params = {"artifact_id": "research_report", "title": "Report", "content": REPORT}
    request = {"id": "req-1", "tool_call_id": "tc-3", "job_id": "main", "kind": "tool", "permission_level": "confirm"}
    script.add(
        "permission_request", tool="create_artifact", **request, params=params, title="Write Report", preview=REPORT,
        message="",
    )  # fmt: skip
    script.add("complete", None, interrupted=True, pending=["req-1"], success=True, response="")
    return _decided(script, params) if decided else script


def _decided(script: Script, params: dict[str, Any]) -> Script:
    script.add(
        "permission_result", tool="create_artifact", job_id="main", tool_call_id="tc-3", id="req-1", approved=True,
        decided_by="user", instruction="",
    )  # fmt: skip
    script.add("tool_start", tool="create_artifact", job_id="main", tool_call_id="tc-3", params=params)
    changed = {"artifact_id": "research_report", "version": 1, "title": "Report", "content_type": "text/markdown"}
    script.add("artifact_changed", tool_call_id="tc-3", update_type="create", **changed)
    script.add(
        "tool_complete", tool="create_artifact", job_id="main", tool_call_id="tc-3", success=True, duration_ms=3.0,
        metadata={"artifact_id": "research_report", "version": 1},
    )  # fmt: skip
    answer = "The new exception **replaces** the old one [1].\n\nSee the report."
    script.say(answer, answer, call="llm-5")
    script.add("complete", None, success=True, response=answer, execution_metrics={"wait_ms": 0.0}, interrupted=False)
    return script


def with_shared_text(events: Sequence[StreamEvent]) -> list[StreamEvent]:
    """Add to each chunk the text so far, as an engine does."""
    texts: dict[tuple[str, str], StreamedText] = {}
    extended: list[StreamEvent] = []
    for event in events:
        if event.type is StreamEventType.LLM_CHUNK:
            shared = texts.setdefault((event.data["call_id"], event.data["kind"]), StreamedText())
            n = shared.append(event.data["delta"])
            extended.append(StreamEvent(event.type, event.timestamp, event.seq, event.run_id, event.agent, event.tool,
                                        event.data, shared, n))  # fmt: skip
        else:
            extended.append(event)
    return extended


def acting_tokens(text: str) -> list[str]:
    """The active elements of a Markdown text in a renderer that allows HTML and images."""
    pending, found = MarkdownIt("commonmark").enable("table").parse(text), []
    while pending:
        token = pending.pop()
        pending += token.children or []
        address = str(token.attrGet("href") or "https://")
        if token.type in {"html_block", "html_inline", "image"} or not address.startswith(("http", "mailto:", "#")):
            found.append(f"{token.type} {token.content} {address}")
    return found
