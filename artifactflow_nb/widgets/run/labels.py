"""Short texts of the views: statuses, counts, durations, subjects of tool calls. Plain text, unescaped.

`texts` has the texts in the language of the view.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from artifactflow_nb.core.approvals import BUDGET_KIND, QUESTION_KIND
from artifactflow_nb.core.document.project import GENERATE_TOOL, MODIFY_TOOL, RESEARCH_TOOL
from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.plan import PLAN_CREATE_TOOL, PLAN_DECIDE_TOOL
from artifactflow_nb.core.runs import OUTCOME_LABELS
from artifactflow_nb.core.text.format import capitalized, clip, usd, value_text
from artifactflow_nb.core.text.markdown import plain_line
from artifactflow_nb.store.runs import INTERRUPTED, WAITING
from artifactflow_nb.tools.artifacts import create_artifact, previewed_name, rewrite_artifact, update_artifact
from artifactflow_nb.tools.web.tools import web_fetch, web_search
from artifactflow_nb.widgets.run.parts import (
    TranscriptCall,
    TranscriptJob,
    TranscriptRequest,
    TranscriptStep,
    TranscriptTokens,
    TranscriptTurn,
)
from artifactflow_nb.widgets.run.transcript import RunTranscript

# Parameters that identify a call best, most telling first.
_SUBJECT_PARAMS = ("query", "url", "urls", "artifact_id", "id", "instruction", "title", "name", "path")
_ARGUMENT_COLUMNS = 90
_SENTENCE_COLUMNS = 120
_ARTIFACT_SENTENCES = {
    create_artifact.name: "write_artifact",
    update_artifact.name: "change_artifact",
    rewrite_artifact.name: "rewrite_artifact",
}
_ARTIFACT_ACTIVITIES = {
    create_artifact.name: "writing_text",
    update_artifact.name: "changing_text",
    rewrite_artifact.name: "rewriting_text",
}
_TITLE_COLUMNS = 60
_REFUSAL_COLUMNS = 240
_SENTENCES = {
    "plan_create": "carry_out_plan",
    "propose_outline": "add_outline",
    "propose_edits": "change_text",
    "review_field": "review_text",
}
"""What will happen after an approval, by tool, as keys of texts; other tools are named."""
_ACTIVITIES = {
    "web_search": "doing_search",
    "web_fetch": "doing_read",
    "read_artifact": "doing_read",
    "read_field": "doing_read",
    "query_field": "doing_read",
    "create_artifact": "doing_write",
    "rewrite_artifact": "doing_rewrite",
    "update_artifact": "doing_edit",
    "update_field": "doing_edit",
    "call_subagent": "doing_delegate",
    RESEARCH_TOOL: "doing_research",
    GENERATE_TOOL: "doing_block",
    MODIFY_TOOL: "doing_block",
}
"""The activity of an agent whose tool is running, as keys of texts; other tools are named."""
_SECOND_MS = 1000


def again_label(status: str, texts: Texts) -> str:
    """Return the label of the button that asks the question of a run again."""
    return texts("page_again" if status == "completed" else "page_retry")


def status_label(transcript: RunTranscript, texts: Texts) -> str:
    """Return the status of a run, with a hint if it is interrupted, and the tools of waiting subruns."""
    status = transcript.status
    label = texts("interrupted_hint") if status == INTERRUPTED else texts.status(status)
    wait = subrun_wait_label(transcript, texts)
    return capitalized(wait) if wait and status == WAITING else " · ".join(filter(None, [label, wait]))


def outcome_label(outcome: str, texts: Texts) -> str:
    """Describe the outcome of an answer; empty if there is none."""
    return texts(f"outcome_{outcome}") if outcome in OUTCOME_LABELS else ""


def request_source(request: TranscriptRequest, texts: Texts, form: str = "tool_within") -> str:
    """Name the source of a request: tool (or asking agent), and a subrun's parent: `web search within research`."""
    is_question = request.kind == QUESTION_KIND and request.agent
    tool = texts.agent(request.agent) if is_question else texts.tool(request.tool)
    return texts(form, tool=tool, parent=texts.tool(request.parent_tool)) if request.parent_tool else tool


def request_sentence(request: TranscriptRequest, texts: Texts) -> str:
    """Describe the action after an approval, e.g. `Read 2 web pages from python.org`; return a question itself."""
    params, prefix = request.params, f"{request.agent} wants to "
    urls, name = params.get("urls"), params.get("title") or previewed_name(request.preview) or params.get("id")
    sentence = request.title.removeprefix(prefix)  # `<action>: <detail>` if the engine wrote it
    action, _, detail = sentence.partition(": ")
    if request.kind == BUDGET_KIND and texts.language != "en":
        sentence = texts("budget_title")
    elif not request.is_for_call:
        sentence = plain_line(request.title) or texts("asks_approval", name=texts.tool(request.tool))
    elif request.tool == web_fetch.name and isinstance(urls, list) and urls:
        hosts = list(dict.fromkeys(urlsplit(str(url)).hostname or texts("your_sources") for url in urls))
        sites = hosts[0]
        if n_more := len(hosts) - 1:
            sites = texts("other_sites", host=sites, sites=texts.count(n_more, "n_other_sites"))
        sentence = texts("read_pages", pages=texts.count(len(urls), "n_pages"), sites=sites)
    elif request.tool == web_search.name and params.get("query"):
        sentence = texts("search_for", query=params["query"])
    elif request.tool in _ARTIFACT_SENTENCES and name:
        sentence = texts(_ARTIFACT_SENTENCES[request.tool], name=name)
    elif request.tool == PLAN_DECIDE_TOOL and request.title.startswith(prefix):
        sentence = texts("change_plan")
    elif (is_known := request.tool in _SENTENCES and request.title.startswith(prefix)) or action in {
        "",
        f"run {request.tool}",
    }:
        action = texts(_SENTENCES[request.tool]) if is_known else texts("run_tool", tool=texts.tool(request.tool))
        sentence = texts("with_detail", action=action, detail=detail) if detail else action
    # The question of a graph or a tool is displayed as it was written.
    return clip(capitalized(sentence) if request.is_for_call else sentence, _SENTENCE_COLUMNS)


def subrun_wait_label(transcript: RunTranscript, texts: Texts) -> str:
    """Tools of subruns that wait: `waiting for you: web search, in research`; empty if there are none."""
    requests = [request for request in transcript.pending_requests if request.id not in transcript.requests]
    names = list(dict.fromkeys(request_source(request, texts, "tool_in") for request in requests))
    return texts("titled", title=texts("state_waiting"), text=texts.listed(names)) if names else ""


def main_argument(params: Mapping[str, Any]) -> str:
    """Return the most informative parameter of a call, clipped; empty if there is none."""
    names = [name for name in _SUBJECT_PARAMS if params.get(name)] or [name for name in params if params[name]]
    if not names:
        return ""
    value = params[names[0]]
    text = ", ".join(map(str, value)) if isinstance(value, list) else value_text(value)
    return clip(text, _ARGUMENT_COLUMNS)


def call_subject(call: TranscriptCall) -> str:
    """Describe the subject of a call in a few words; for a question, return its title."""
    title = call.request.title if call.request and not call.request.is_for_call else ""
    return clip(plain_line(title), _ARGUMENT_COLUMNS) if title else main_argument(call.params)


def call_outcome(call: TranscriptCall, texts: Texts) -> str:
    """Describe the outcome of a call: `5 results`, `v1`, `denied`, an error message; empty while it is running."""
    request = call.request
    if request and request.approved is False:
        answered = "outcome_instructed" if request.is_for_call else "outcome_reply"
        verdict = texts(answered if request.decision == "instructed" else "outcome_denied")
        return (
            clip(texts("outcome_note", outcome=verdict, note=request.instruction), 80)
            if request.instruction
            else verdict
        )
    if call.status == "waiting":
        return texts("waits_for_decision" if request is None or request.is_for_call else "waits_for_answer")
    if call.error or call.status == "cancelled":
        return clip(call.error, 80) or texts("state_cancelled")
    if "version" in call.metadata:
        return f"v{call.metadata['version']}"
    results = call.metadata.get("results")
    return texts.count(len(results), "n_results") if isinstance(results, list) else ""


def activity(job: TranscriptJob, texts: Texts) -> str:
    """Current activity of an agent in a few words: `Searching: tide gauges`."""
    turn = job.turns[-1] if job.turns else None
    if job.awaiting_since is not None:
        return texts("trying_again" if turn and turn.retries and not turn.is_done else "waiting_for_model")
    if turn is None:
        return texts("starting")
    if any(call.status == "waiting" for call in turn.tools):
        return texts("waits_for_decision")
    if running := [call for call in turn.tools if call.status == "running"]:
        tool = running[-1].tool
        action = texts(_ACTIVITIES[tool]) if tool in _ACTIVITIES else texts("doing_tool", tool=texts.tool(tool))
        subject = main_argument(running[-1].params)
        return clip(texts("doing", action=action, subject=subject) if subject else action, _ARGUMENT_COLUMNS)
    if turn.is_done:
        return texts("thinking") if turn.tools else ""
    if preparing := preparing_label(turn, texts):
        return preparing
    n_chars = turn.reply.prose.n_chars
    return texts("writing", characters=texts.count(n_chars, "n_characters")) if n_chars else texts("thinking")


def preparing_label(turn: TranscriptTurn, texts: Texts) -> str:
    """`Writing “Sea level”, 1,234 characters` while the model writes a tool call; otherwise empty."""
    reply = turn.reply
    if not reply.call_chars:
        return ""
    characters = texts.count(reply.call_chars, "n_characters")
    if reply.call_name in _ARTIFACT_ACTIVITIES:
        subject = f"“{clip(reply.title, _TITLE_COLUMNS)}”" if reply.title else texts("a_text")
        return texts(_ARTIFACT_ACTIVITIES[reply.call_name], subject=subject, characters=characters)
    if not reply.call_name:
        return texts("preparing_call", characters=characters)
    return texts("preparing", tool=texts.tool(reply.call_name), characters=characters)


def refusals(transcript: RunTranscript, texts: Texts) -> Iterator[str]:
    """Yield a sentence for each denied call, rejected plan and failed change of a text by the lead.

    Failures are omitted if a later call of the tool, or change of the same text, succeeded.
    """
    calls = transcript.lead_job.calls
    for i, call in enumerate(calls):
        later = [other for other in calls[i + 1 :] if other.status == "ok"]
        target = _changed_text(call)
        is_changed = target and any(_changed_text(other) == target for other in later)
        if call.status != "failed" or is_changed or any(not target and other.tool == call.tool for other in later):
            continue
        request = call.request if call.request and call.request.approved is False else None
        note = request.instruction if request else call.error
        if request and request.decision == "instructed":
            continue
        if call.tool == PLAN_CREATE_TOOL and request is None:  # the error is for the model
            sentence = texts("plan_invalid")
        elif call.tool == PLAN_CREATE_TOOL:
            sentence = texts("plan_rejected_note", note=note) if note else texts("plan_rejected")
        elif request:
            sentence = request_sentence(request, texts)
            sentence = texts("call_denied_note" if note else "call_denied", sentence=sentence, note=note)
        elif call.has_failed and call.tool in _ARTIFACT_SENTENCES:
            artifact = transcript.artifacts.get(target)
            name = artifact.title if artifact else str(call.params.get("title") or target or texts("a_text"))
            sentence = texts("change_failed", sentence=texts(_ARTIFACT_SENTENCES[call.tool], name=name))
        else:
            continue
        yield clip(sentence, _REFUSAL_COLUMNS)


def _changed_text(call: TranscriptCall) -> str:
    """Id of the artifact that a call writes or changes; empty for other calls."""
    return str(call.params.get("id") or "") if call.tool in _ARTIFACT_SENTENCES else ""


def reasoning_label(turn: TranscriptTurn, texts: Texts, *, is_over: bool) -> str:
    """`Thinking` while the model reasons, then `Thought for 3 s`, or `Thought` if the time is unknown."""
    if not (is_over or turn.reply.prose.n_chars or turn.reply.call_chars):
        return texts("thinking")
    if (ms := turn.reasoning_ms) is None:
        return texts("thought")
    return texts("thought_for", time=texts.duration(ms if ms < _SECOND_MS else round(ms, -3)).replace(".0 ", " "))


def tokens_label(tokens: TranscriptTokens, texts: Texts) -> str:
    """`1,234 tokens`, or `about 1,230 tokens`, with three digits, if any of them were estimated from the texts."""
    if not tokens.is_estimated:
        return texts.count(tokens.n, "n_tokens")
    return texts("about_tokens", tokens=texts.count(round(tokens.n, 3 - len(str(tokens.n))), "n_tokens"))


def step_number(transcript: RunTranscript, texts: Texts) -> str:
    """`step 2 of 5` while a step of a plan is running; otherwise empty."""
    running = [(plan.running[0], len(plan.steps)) for plan in transcript.plans if plan.running]
    return texts("step_of", n=running[-1][0], total=running[-1][1]) if running else ""


def progress(steps: Sequence[TranscriptStep], texts: Texts) -> str:
    """Progress of the steps of plans: `2 of 4 steps, 1 failed, 1 skipped`."""
    statuses = [step.status for step in steps]
    done = texts("steps_done", done=statuses.count("completed"), steps=texts.count(len(statuses), "n_steps"))
    others = [texts(f"steps_{status}", n=n) for status in ("failed", "skipped") if (n := statuses.count(status))]
    return texts("between_parts").join([done, *others])


def steps(transcript: RunTranscript, texts: Texts) -> str:
    """Describe `3 agents · 7 tool calls` and the progress of plans; a single agent and zero calls are omitted."""
    n_agents = sum(len(job.agents) for job in transcript.jobs)
    agents = [texts.count(n_agents, "n_agents")] if n_agents > 1 else []
    all_steps = [step for plan in transcript.plans for step in plan.steps]
    plans = [texts("plan_progress", progress=progress(all_steps, texts))] if all_steps else []
    n_calls = sum(len(job.calls) for job in transcript.jobs)
    calls = [texts.count(n_calls, "n_tool_calls")] if n_calls else []
    return " · ".join([*agents, *calls, *plans])


def step_state(step: TranscriptStep, texts: Texts) -> str:
    """Status of a step, and the number of attempts if more than one: `failed · 2 attempts`."""
    status = texts(f"state_{step.status}")
    if step.n_attempts <= 1:
        return status
    return texts("step_attempt" if step.status == "running" else "step_attempts", status=status, n=step.n_attempts)


def elapsed_ms(transcript: RunTranscript) -> float:
    """Milliseconds from the first event to the end of the run; 0 until it has ended."""
    if transcript.started_at is None or transcript.ended_at is None:
        return 0.0
    return max((transcript.ended_at - transcript.started_at).total_seconds() * 1000, 0.0)


def summary_line(transcript: RunTranscript, texts: Texts, *, with_metrics: bool = True) -> str:
    """Time, tokens, cost and calls of an ended run and its subruns; without metrics only the calls."""
    totals = transcript.totals_with_subruns
    n_unanswered = totals.n_unanswered
    unanswered = [texts("without_reply", attempts=texts.count(n_unanswered, "n_attempts"))] if n_unanswered else []
    n_calls = {"n_model_calls": totals.n_llm_calls, "n_tool_calls": totals.n_tool_calls}
    calls = [*(texts.count(n, key) for key, n in n_calls.items() if n), *unanswered]
    calls += failed_label(totals.n_failed_calls, texts)
    if not with_metrics:
        return " · ".join(calls)
    wait_ms = float(transcript.metrics.get("wait_ms") or 0)
    time = texts.duration(elapsed_ms(transcript))
    if wait_ms >= _SECOND_MS:
        time = texts("time_with_wait", time=time, wait=texts.duration(wait_ms))
    tokens = [tokens_label(totals.tokens, texts)] if totals.tokens.n else []
    return " · ".join([time, *tokens, *cost_label(totals.cost_usd), *calls])


def short_summary(transcript: RunTranscript, texts: Texts) -> str:
    """Elapsed time and tokens of a run."""
    tokens = tokens_label(transcript.totals_with_subruns.tokens, texts)
    return f"{texts.duration(elapsed_ms(transcript))} · {tokens}"


def failed_label(n: int, texts: Texts) -> list[str]:
    """`3 failed calls` as a list, which is empty for none."""
    return [texts.count(n, "n_failed_calls")] if n else []


def failed_work(job: TranscriptJob, texts: Texts) -> str:
    """Return `reading failed` if all calls of a job failed or were denied; otherwise empty."""
    calls = job.calls
    if not calls or not all(call.has_failed or call.is_denied for call in calls):
        return ""
    if all(call.is_denied for call in calls):
        return texts("outcome_denied")
    return texts("reading_failed" if all(call.tool == web_fetch.name for call in calls) else "all_calls_failed")


def cost_label(amount_usd: float | None) -> list[str]:
    """`0.0123 USD` as a list, which is empty if the cost is unknown or zero."""
    return [usd(amount_usd)] if amount_usd else []
