"""Short texts of the views: statuses, counts, durations, subjects of tool calls. Plain text, unescaped."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from artifactflow_nb.core.plan import PLAN_CREATE_TOOL, progress_text
from artifactflow_nb.core.text.format import clip, count, duration, usd
from artifactflow_nb.tools.artifacts import create_artifact, rewrite_artifact, update_artifact
from artifactflow_nb.tools.web.tools import web_fetch, web_search
from artifactflow_nb.widgets.page.elements import STATUS_MARK_NAMES, value_text
from artifactflow_nb.widgets.run.parts import (
    TranscriptCall,
    TranscriptJob,
    TranscriptRequest,
    TranscriptStep,
    TranscriptTokens,
    TranscriptTurn,
)
from artifactflow_nb.widgets.run.transcript import RunTranscript

STATUS_LABELS = {
    "running": "Running",
    "waiting": "Waiting for you",
    "completed": "Completed",
    "failed": "Failed",
    "cancelled": "Cancelled",
    "interrupted": "Interrupted",
    "deleted": "Deleted",
}
WAITING_LABEL = "waits for your decision"
INTERRUPTED_LABEL = "Interrupted: its process is gone. run.resume() goes on with it."
# Parameters that identify a call best, most telling first.
_SUBJECT_PARAMS = ("query", "url", "urls", "artifact_id", "id", "instruction", "title", "name", "path")
_ARGUMENT_COLUMNS = 90
_SENTENCE_COLUMNS = 120
_ARTIFACT_VERBS = {
    create_artifact.name: "Write",
    update_artifact.name: "Change a passage of",
    rewrite_artifact.name: "Rewrite",
}
_ARTIFACT_ACTIVITIES = {
    create_artifact.name: "Writing",
    update_artifact.name: "Changing",
    rewrite_artifact.name: "Rewriting",
}
_TITLE_COLUMNS = 60
_REFUSAL_COLUMNS = 240
_ACTIONS = {
    "web_search": "Searching",
    "web_fetch": "Reading",
    "read_artifact": "Reading",
    "read_field": "Reading",
    "query_field": "Reading",
    "create_artifact": "Writing",
    "rewrite_artifact": "Rewriting",
    "update_artifact": "Editing",
    "update_field": "Editing",
    "call_subagent": "Waiting for a sub-agent",
    "run_research": "Researching",
    "generate_field": "Having a block written",
}
"""The activity of an agent whose tool is running; other tools are named."""
_SECOND_MS = 1000


def status_label(status: str) -> str:
    """Status of a run, with a hint if it is interrupted."""
    return INTERRUPTED_LABEL if status == "interrupted" else STATUS_LABELS[status]


def request_source(request: TranscriptRequest) -> str:
    """Requesting tool, with the parent tool of a subrun: `web_search within run_research`."""
    return f"{request.tool} within {request.parent_tool}" if request.parent_tool else request.tool


def request_sentence(request: TranscriptRequest) -> str:
    """What will happen after an approval: `Read 2 web pages from python.org`; for a mere question, the question."""
    params = request.params
    if not request.is_for_call:
        return clip(request.title or f"{request.tool} asks for your approval", _SENTENCE_COLUMNS)
    if request.tool == web_fetch.name and isinstance(urls := params.get("urls"), list) and urls:
        hosts = list(dict.fromkeys(urlsplit(str(url)).hostname or "your sources" for url in urls))
        n_more = len(hosts) - 1
        sites = hosts[0] if not n_more else f"{hosts[0]} and {count(n_more, 'other site')}"
        return clip(f"Read {count(len(urls), 'web page')} from {sites}", _SENTENCE_COLUMNS)
    if request.tool == web_search.name and params.get("query"):
        return clip(f"Search the web for “{params['query']}”", _SENTENCE_COLUMNS)
    if request.tool in _ARTIFACT_VERBS and (name := params.get("title") or params.get("id")):
        return clip(f"{_ARTIFACT_VERBS[request.tool]} “{name}”", _SENTENCE_COLUMNS)
    sentence = request.title.removeprefix(f"{request.agent} wants to ") or f"run {request.tool}"
    return clip(f"{sentence[0].upper()}{sentence[1:]}", _SENTENCE_COLUMNS)


def subrun_wait_label(transcript: RunTranscript) -> str:
    """Pending requests of subruns: `web_search within run_research asks`; empty if there are none."""
    requests = [request for request in transcript.pending_requests if request.id not in transcript.requests]
    names = list(dict.fromkeys(map(request_source, requests)))
    return f"{', '.join(names)} {'ask' if len(names) > 1 else 'asks'}" if names else ""


def main_argument(params: Mapping[str, Any]) -> str:
    """Most telling parameter of a call, clipped; empty if there is none."""
    names = [name for name in _SUBJECT_PARAMS if params.get(name)] or [name for name in params if params[name]]
    if not names:
        return ""
    value = params[names[0]]
    text = ", ".join(map(str, value)) if isinstance(value, list) else value_text(value)
    return clip(text, _ARGUMENT_COLUMNS)


def call_subject(call: TranscriptCall) -> str:
    """Subject of a call in a few words; for a mere question, its title."""
    title = call.request.title if call.request and not call.request.is_for_call else ""
    return clip(title, _ARGUMENT_COLUMNS) if title else main_argument(call.params)


def call_outcome(call: TranscriptCall) -> str:
    """Outcome of a call: `5 results`, `v1`, `denied`, an error message; empty while it runs."""
    request = call.request
    if request and request.approved is False:
        answered = "answered instead" if request.is_for_call else "answered"
        verdict = answered if request.decision == "instructed" else "denied"
        return clip(f"{verdict}: {request.instruction}", 80) if request.instruction else verdict
    if call.status == "waiting":
        return WAITING_LABEL if request is None or request.is_for_call else "waits for your answer"
    if call.error:
        return clip(call.error, 80)
    if "version" in call.metadata:
        return f"v{call.metadata['version']}"
    if isinstance(results := call.metadata.get("results"), list):
        return count(len(results), "result")
    counts = [(name[2:], n) for name, n in call.metadata.items() if name.startswith("n_") and isinstance(n, int)]
    # The size of a text says less than the number of its sources or edits.
    counts = [(noun, n) for noun, n in counts if noun not in {"chars", "lines"}] or counts
    return f"{counts[0][1]:,} {counts[0][0]}" if counts else ""


def activity(job: TranscriptJob) -> str:
    """Current activity of an agent in a few words: `Searching: tide gauges`."""
    turn = job.turns[-1] if job.turns else None
    if job.awaiting_since is not None:
        return "Waiting for the model"
    if turn is None:
        return "Starting"
    if any(call.status == "waiting" for call in turn.tools):
        return WAITING_LABEL.capitalize()
    if running := [call for call in turn.tools if call.status == "running"]:
        action = _ACTIONS.get(running[-1].tool, f"Running {running[-1].tool}")
        subject = main_argument(running[-1].params)
        return clip(f"{action}: {subject}" if subject else action, _ARGUMENT_COLUMNS)
    if turn.is_done:
        return "Thinking" if turn.tools else ""
    n_chars = turn.reply.prose.n_chars
    return preparing_label(turn) or (f"Writing, {count(n_chars, 'character')}" if n_chars else "Thinking")


def preparing_label(turn: TranscriptTurn) -> str:
    """`Writing “Sea level”, 1,234 characters` while the model writes a tool call; otherwise empty."""
    reply = turn.reply
    if not reply.call_chars:
        return ""
    if reply.call_name in _ARTIFACT_ACTIVITIES:
        subject = f"“{clip(reply.title, _TITLE_COLUMNS)}”" if reply.title else "a text"
        return f"{_ARTIFACT_ACTIVITIES[reply.call_name]} {subject}, {count(reply.call_chars, 'character')}"
    return f"Preparing {reply.call_name or 'a tool call'}, {count(reply.call_chars, 'character')}"


def refusals(transcript: RunTranscript) -> Iterator[str]:
    """Yield a sentence for each call of the lead that was denied, or whose plan was rejected, and never made good."""
    calls = transcript.lead_job.calls
    for i, call in enumerate(calls):
        is_repeated = any(later.tool == call.tool and later.status == "ok" for later in calls[i + 1 :])
        if call.status != "failed" or is_repeated:
            continue
        request = call.request if call.request and call.request.approved is False else None
        note = request.instruction if request else call.error
        if request and request.decision == "instructed":
            continue
        if call.tool == PLAN_CREATE_TOOL:
            yield clip(f"The plan was rejected: {note}" if note else "The plan was rejected.", _REFUSAL_COLUMNS)
        elif request:
            sentence = request_sentence(request)
            yield clip(f"Denied: {sentence} ({note})" if note else f"Denied: {sentence}", _REFUSAL_COLUMNS)


def reasoning_label(turn: TranscriptTurn, *, is_over: bool) -> str:
    """`Thinking` while the model reasons, then `Thought for 3 s`, or `Thought` if the time is unknown."""
    if not (is_over or turn.reply.prose.n_chars or turn.reply.call_chars):
        return "Thinking"
    ms = turn.reasoning_ms
    return "Thought" if ms is None else f"Thought for {duration(ms) if ms < _SECOND_MS else f'{ms / _SECOND_MS:.0f} s'}"


def tokens_label(tokens: TranscriptTokens) -> str:
    """`1,234 tokens`, or `≈ 1,234 tokens by text size` if any of them were estimated."""
    text = count(tokens.n, "token")
    return f"≈ {text} by text size" if tokens.is_estimated else text


def step_number(transcript: RunTranscript) -> str:
    """`step 2 of 5` while a step of a plan is running; otherwise empty."""
    running = [(plan.running[0], len(plan.steps)) for plan in transcript.plans if plan.running]
    return f"step {running[-1][0]} of {running[-1][1]}" if running else ""


def steps(transcript: RunTranscript) -> str:
    """`3 agents · 7 tool calls` and the progress of plans; a single agent is not counted, nor are no calls."""
    n_agents = sum(len(job.agents) for job in transcript.jobs)
    agents = [count(n_agents, "agent")] if n_agents > 1 else []
    statuses = [step.status for plan in transcript.plans for step in plan.steps]
    plans = [f"plan: {progress_text(statuses)}"] if statuses else []
    n_calls = transcript.totals.n_tool_calls
    return " · ".join([*agents, *([count(n_calls, "tool call")] if n_calls else []), *plans])


def step_state(step: TranscriptStep) -> str:
    """Status of a step, and the number of attempts if more than one: `failed · 2 attempts`."""
    name = STATUS_MARK_NAMES[step.status]
    if step.n_attempts <= 1:
        return name
    return f"{name} · attempt {step.n_attempts}" if step.status == "running" else f"{name} · {step.n_attempts} attempts"


def elapsed_ms(transcript: RunTranscript, now: datetime | None = None) -> float:
    """Milliseconds from the first event to the end of the run, or to `now` until it has ended."""
    if transcript.started_at is None:
        return 0.0
    end = transcript.ended_at or now or transcript.started_at
    return max((end - transcript.started_at).total_seconds() * 1000, 0.0)


def summary_line(transcript: RunTranscript, *, with_metrics: bool = True) -> str:
    """Time, tokens, cost and calls of an ended run and its subruns; without metrics only the calls."""
    totals = transcript.totals_with_subruns
    n_unanswered = totals.n_unanswered
    unanswered = [f"{count(n_unanswered, 'attempt')} without a reply"] if n_unanswered else []
    calls = [count(totals.n_llm_calls, "model call"), *unanswered, count(totals.n_tool_calls, "tool call")]
    if not with_metrics:
        return " · ".join(calls)
    wait_ms = float(transcript.metrics.get("wait_ms") or 0)
    total = duration(elapsed_ms(transcript))
    time = total if wait_ms < _SECOND_MS else f"{total}, {duration(wait_ms)} of it waiting for you"
    return " · ".join([time, tokens_label(totals.tokens), *cost_label(totals.cost_usd), *calls])


def short_summary(transcript: RunTranscript) -> str:
    """Elapsed time and tokens of a run."""
    return f"{duration(elapsed_ms(transcript))} · {tokens_label(transcript.totals_with_subruns.tokens)}"


def cost_label(amount_usd: float | None) -> list[str]:
    """`0.0123 USD` as a list, which is empty if the cost is unknown or zero."""
    return [usd(amount_usd)] if amount_usd else []
