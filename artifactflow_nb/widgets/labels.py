"""What a view says in a few words: states, counts, durations and what a tool call is about. Plain text, unescaped."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from artifactflow_nb.plans import progress
from artifactflow_nb.text.figures import count, duration, usd
from artifactflow_nb.text.width import clip
from artifactflow_nb.widgets.parts import Job, Question, ToolUse, Turn
from artifactflow_nb.widgets.plan_work import StepWork
from artifactflow_nb.widgets.transcript import Transcript

STATUS_LABELS = {
    "running": "Running",
    "waiting": "Waiting for you",
    "completed": "Completed",
    "failed": "Failed",
    "cancelled": "Cancelled",
    "interrupted": "Interrupted",
}
MARKS = {
    "running": "●",
    "waiting": "?",
    "ok": "✓",
    "completed": "✓",
    "failed": "✕",
    "cancelled": "–",
    "interrupted": "!",
    "pending": "○",
    "skipped": "–",
}
MARK_NAMES = {
    "running": "running",
    "waiting": "waiting for you",
    "ok": "done",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "pending": "pending",
    "skipped": "skipped",
}
WAITS = "waits for your decision"
INTERRUPTED = "Interrupted: its process is gone. run.resume() goes on with it."
_TELLING_PARAMS = ("query", "url", "urls", "artifact_id", "id", "instruction", "title", "name", "path")
_ARGUMENT_COLUMNS = 90
_SECOND_MS = 1000


def state(status: str) -> str:
    """A run's status, and what to do about it where that cannot be seen."""
    return INTERRUPTED if status == "interrupted" else STATUS_LABELS[status]


def asker(question: Question) -> str:
    """`web_search within run_research`: the tool that asks, and where the run that asks works for a call, which."""
    return f"{question.tool} within {question.within}" if question.within else question.tool


def waits_below(transcript: Transcript) -> str:
    """What the runs ask that a run began: `web_search within run_research asks`; empty if nothing."""
    below = [question for question in transcript.waits_for if question.id not in transcript.questions]
    names = list(dict.fromkeys(map(asker, below)))
    return f"{', '.join(names)} {'ask' if len(names) > 1 else 'asks'}" if names else ""


def value_text(value: Any) -> str:
    """A parameter as a person reads it: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def argument(params: Mapping[str, Any]) -> str:
    """The parameter that tells most about a call, cut short; empty if there is none."""
    names = [name for name in _TELLING_PARAMS if params.get(name)] or [name for name in params if params[name]]
    if not names:
        return ""
    value = params[names[0]]
    text = ", ".join(map(str, value)) if isinstance(value, list) else value_text(value)
    return clip(text, _ARGUMENT_COLUMNS)


def about(use: ToolUse) -> str:
    """What a call is about, in a few words; of a question that is about no call, what is asked."""
    question = use.question
    asked = question.title if question and not question.is_of_call else ""
    return clip(asked, _ARGUMENT_COLUMNS) if asked else argument(use.params)


def outcome(use: ToolUse) -> str:
    """What came of a call: `5 results`, `v1`, `denied`, the error; empty while it runs."""
    question = use.question
    if question and question.approved is False:
        answered = "answered instead" if question.is_of_call else "answered"
        word = answered if question.decision == "instructed" else "denied"
        return clip(f"{word}: {question.instruction}", 80) if question.instruction else word
    if use.status == "waiting":
        return WAITS
    if use.error:
        return clip(use.error, 80)
    if "version" in use.metadata:
        return f"v{use.metadata['version']}"
    if isinstance(results := use.metadata.get("results"), list):
        return count(len(results), "result")
    counts = [(name[2:], n) for name, n in use.metadata.items() if name.startswith("n_") and isinstance(n, int)]
    telling = [(noun, n) for noun, n in counts if noun not in {"chars", "lines"}] or counts
    return f"{telling[0][1]:,} {telling[0][0]}" if telling else ""


def use_status(use: ToolUse) -> str:
    """The status of a call; one that a run of its own carries out waits when that does."""
    return use.subrun.transcript.status if use.status == "running" and use.subrun else use.status


def activity(job: Job) -> str:
    """What an agent is doing now, in a few words."""
    turn = job.turns[-1] if job.turns else None
    if turn is None:
        return "starting"
    running = [use for use in turn.tools if use.status == "running"]
    if running:
        return clip(f"{running[-1].tool} {argument(running[-1].params)}", _ARGUMENT_COLUMNS)
    if any(use.status == "waiting" for use in turn.tools):
        return WAITS
    if turn.done:
        return "thinking" if turn.tools else ""
    return preparing(turn) or clip(turn.reply.prose.text[-200:], _ARGUMENT_COLUMNS) or "thinking"


def preparing(turn: Turn) -> str:
    """`preparing create_artifact … 1,234 characters`; empty if no call is being written."""
    if not turn.reply.call_chars:
        return ""
    return f"preparing {turn.reply.call_name or 'a tool call'} … {turn.reply.call_chars:,} characters"


def steps(transcript: Transcript) -> str:
    """`3 agents · 7 tool calls`, and how far plans are; agents are counted where not one worked alone."""
    n_agents = sum(len(job.agents) for job in transcript.jobs)
    agents = [count(n_agents, "agent")] if n_agents > 1 else []
    planned = [step.status for plan in transcript.plans for step in plan.steps]
    plans = [f"plan: {progress(planned)}"] if planned else []
    return " · ".join([*agents, count(transcript.totals.n_tool_calls, "tool call"), *plans])


def step_state(step: StepWork) -> str:
    """`failed · 2 attempts`: the status of a step, and how often it was tried if that was more than once."""
    said = MARK_NAMES[step.status]
    if step.n_attempts <= 1:
        return said
    return f"{said} · attempt {step.n_attempts}" if step.status == "running" else f"{said} · {step.n_attempts} attempts"


def elapsed_ms(transcript: Transcript, now: datetime | None = None) -> float:
    """Milliseconds from the first event to the last, or to `now` while the run goes on."""
    if transcript.started_at is None:
        return 0.0
    end = transcript.ended_at or now or transcript.started_at
    return max((end - transcript.started_at).total_seconds() * 1000, 0.0)


def summary_line(transcript: Transcript, *, measured: bool = True) -> str:
    """Elapsed time, tokens and calls of a run that has ended; without `measured` only what is the same each time."""
    totals = transcript.totals
    calls = [count(totals.n_llm_calls, "model call"), count(totals.n_tool_calls, "tool call")]
    if not measured:
        return " · ".join(calls)
    waited = float(transcript.metrics.get("wait_ms") or 0)
    total = elapsed_ms(transcript)
    time = duration(total) if waited < _SECOND_MS else f"{duration(total)}, {duration(waited)} of it waiting for you"
    return " · ".join([time, count(totals.tokens, "token"), *cost(totals.cost_usd), *calls])


def brief(transcript: Transcript) -> str:
    """Elapsed time and tokens of a run."""
    return f"{duration(elapsed_ms(transcript))} · {count(transcript.totals.tokens, 'token')}"


def cost(amount_usd: float | None) -> list[str]:
    """`0.0123 USD`, in a list that is empty where it is not known, or nothing."""
    return [usd(amount_usd)] if amount_usd else []
