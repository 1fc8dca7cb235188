"""Short texts of the views: statuses, counts, durations, subjects of tool calls. Plain text, unescaped."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from artifactflow_nb.core.approvals import BUDGET_KIND, QUESTION_KIND
from artifactflow_nb.core.language import (
    NAMES,
    EnglishText,
    agent_label,
    current_language,
    status_label,
    tool_label,
    translate,
    translate_list,
)
from artifactflow_nb.core.plan import PLAN_CREATE_TOOL, PLAN_DECIDE_TOOL
from artifactflow_nb.core.text.format import (
    about,
    capitalized,
    clip,
    rounded,
    translate_count,
    translate_duration,
    usd,
    value_text,
)
from artifactflow_nb.core.text.markdown import plain_line
from artifactflow_nb.sources.manager import SCHEME
from artifactflow_nb.store.runs import ABANDONED, WAITING
from artifactflow_nb.tools.artifacts import create_artifact, previewed_name, rewrite_artifact, update_artifact
from artifactflow_nb.tools.lead import ask_person, call_subagent
from artifactflow_nb.tools.web.tools import web_fetch, web_search
from artifactflow_nb.widgets.run.parts import (
    TranscriptCall,
    TranscriptJob,
    TranscriptRequest,
    TranscriptStep,
    TranscriptTokens,
    TranscriptTotals,
    TranscriptTurn,
)
from artifactflow_nb.widgets.run.transcript import RunTranscript

# Parameters that identify a call, the most informative first.
_SUBJECT_PARAMS = ("query", "url", "urls", "artifact_id", "id", "instruction", "title", "name", "path")
_ARGUMENT_COLUMNS = 90
_SENTENCE_COLUMNS = 120
_ARTIFACT_SENTENCES: Mapping[str, EnglishText] = {
    create_artifact.name: "Write “{name}”",
    update_artifact.name: "Change a passage of “{name}”",
    rewrite_artifact.name: "Rewrite “{name}”",
}
_ARTIFACT_ACTIVITIES: Mapping[str, EnglishText] = {
    create_artifact.name: "Writing {subject}, {characters}",
    update_artifact.name: "Changing {subject}, {characters}",
    rewrite_artifact.name: "Rewriting {subject}, {characters}",
}
_TITLE_COLUMNS = 60
_REFUSAL_COLUMNS = 240
_SEARCHES: Mapping[str, EnglishText] = {
    "search your sources": "Search your sources for “{query}”",
    "search the web": "Search the web for “{query}”",
    "search your sources and the web": "Search your sources and the web for “{query}”",
}
"""The sentence of a search by the action that its request names."""
_PREPARED: Mapping[str, EnglishText] = {
    web_search.name: "Writing a search, {characters}",
    web_fetch.name: "Choosing what to read, {characters}",
    PLAN_CREATE_TOOL: "Writing the plan, {characters}",
    ask_person.name: "Writing a question to you, {characters}",
}
_OUTCOMES: Mapping[str, EnglishText] = {
    "answered": "Answered",
    "partly": "Partly answered",
    "not_in_sources": "Not in the sources",
}
_SECOND_MS = 1000
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")


def again_label(status: str) -> str:
    """Return the label of the button that asks the question of a run again."""
    return translate("Regenerate" if status == "completed" else "Retry")


def run_status_label(transcript: RunTranscript) -> str:
    """Return the status of a run, with a hint if it is abandoned, and the tools of waiting subruns."""
    status = transcript.status
    label = capitalized(status_label(status))
    if status == ABANDONED:
        label = translate("Abandoned: its process has ended. run.resume() continues it.")
    wait = subrun_wait_label(transcript)
    return capitalized(wait) if wait and status == WAITING else " · ".join(filter(None, [label, wait]))


def outcome_label(outcome: str) -> str:
    """Describe the outcome of an answer; empty without an outcome."""
    return translate(_OUTCOMES[outcome], context="outcome") if outcome in _OUTCOMES else ""


def request_source(request: TranscriptRequest, form: EnglishText = "{tool} within {parent}") -> str:
    """Name the tool or asking agent of a request and, in a subrun, the parent tool: `web search within research`."""
    is_question = request.kind == QUESTION_KIND and request.agent
    tool = agent_label(request.agent) if is_question else tool_label(request.tool)
    return translate(form, tool=tool, parent=tool_label(request.parent_tool)) if request.parent_tool else tool


def request_sentence(request: TranscriptRequest) -> str:
    """Describe the action after an approval, e.g. `Read 2 pages of python.org`; return a question as it is."""
    params, prefix = request.params, f"{request.agent} wants to "
    urls, name = params.get("urls"), params.get("title") or previewed_name(request.preview) or params.get("id")
    sentence = request.title.removeprefix(prefix)  # `<action>: <detail>` if the engine wrote it
    action, _, detail = sentence.partition(": ")
    if request.kind == BUDGET_KIND and current_language() != "en":
        sentence = translate("The run has spent its budget. Go on?")
    elif not request.is_for_call:
        asks = translate("{name} asks for your approval", name=tool_label(request.tool))
        sentence = plain_line(request.title) or asks
    elif request.tool == web_fetch.name and isinstance(urls, list) and urls:
        hosts = [urlsplit(str(url)).hostname for url in urls if not str(url).startswith(SCHEME)]
        first, *others = dict.fromkeys(hosts) or [None]
        texts = [translate("{pages} of {site}", pages=translate_count(len(hosts), "page"), site=first)] if first else []
        texts += [translate_count(len(others), "other site")] if others else []
        if n_own := len(urls) - len(hosts):
            texts.append(translate("{n} of your sources", n=n_own))
        sentence = translate("Read {sources}", sources=translate(" and ", context="two").join(texts))
    elif request.tool == web_search.name and params.get("query"):
        sentence = translate(_SEARCHES.get(action, "Search for “{query}”"), query=params["query"])
    elif request.tool in _ARTIFACT_SENTENCES and name:
        sentence = translate(_ARTIFACT_SENTENCES[request.tool], name=name)
    elif request.tool == PLAN_DECIDE_TOOL and request.title.startswith(prefix):
        sentence = translate("Change the plan")
    elif (is_known := request.tool in NAMES["sentence"] and request.title.startswith(prefix)) or action in {
        "",
        f"run {request.tool}",
    }:
        form: EnglishText = "Run “{tool}”"
        action = translate(NAMES["sentence"][request.tool] if is_known else form, tool=tool_label(request.tool))
        sentence = translate("{action}: {detail}", action=action, detail=detail) if detail else action
    # The question of a graph or a tool is displayed as it was written.
    return clip(capitalized(sentence) if request.is_for_call else sentence, _SENTENCE_COLUMNS)


def subrun_wait_label(transcript: RunTranscript) -> str:
    """Name the waiting tools of subruns: `waiting for you: web search, in research`; empty if no subrun waits."""
    requests = [request for request in transcript.pending_requests if request.id not in transcript.requests]
    names = list(dict.fromkeys(request_source(request, "{tool}, in {parent}") for request in requests))
    return translate("{title}: {text}", title=status_label("waiting"), text=translate_list(names)) if names else ""


def main_argument(params: Mapping[str, Any]) -> str:
    """Return the most informative parameter of a call, clipped, or an empty string."""
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


def call_outcome(call: TranscriptCall) -> str:
    """Describe the outcome of a call: `5 results`, `v1`, `denied`, an error message; empty while it is running."""
    request = call.request
    if request and request.approved is False:
        outcome = status_label("denied")
        if request.decision == "instructed":
            outcome = translate("answered instead" if request.is_for_call else "answered")
        note = translate("{outcome}: {note}", outcome=outcome, note=request.instruction)
        return clip(note, 80) if request.instruction else outcome
    if call.status == "waiting":
        is_decision = request is None or request.is_for_call
        return translate("Waits for your decision" if is_decision else "waits for your answer")
    if call.error or call.status == "cancelled":
        return clip(call.error, 80) or status_label("cancelled")
    if "version" in call.metadata:
        return f"v{call.metadata['version']}"
    if call.tool == web_fetch.name:
        return read_label([call])
    results = call.metadata.get("results")
    return translate_count(len(results), "result") if isinstance(results, list) else ""


def read_label(calls: Iterable[TranscriptCall]) -> str:
    """Count the read addresses: `3 read`, or `1 of 3 read` if addresses failed; empty if nothing was read."""
    n_read, n_failed = map(sum, zip(*(call.n_read for call in calls), strict=True))
    if not n_read:
        return ""
    return translate("{n} of {total} read" if n_failed else "{n} read", n=n_read, total=n_read + n_failed)


def activity(job: TranscriptJob) -> str:
    """Describe the current activity of an agent in a few words: `Searching: tide gauges`."""
    turn = job.turns[-1] if job.turns else None
    if job.awaiting_since is not None:
        is_retry = turn and turn.retries and not turn.is_done
        return translate("The model call failed, trying again" if is_retry else "Waiting for the model")
    if turn is None:
        return translate("Starting")
    if any(call.status == "waiting" for call in turn.tools):
        return translate("Waits for your decision")
    if running := [call for call in turn.tools if call.status == "running"]:
        tool = running[-1].tool
        action = translate(NAMES["activity"].get(tool, "Running “{tool}”"), tool=tool_label(tool))
        subject = main_argument(running[-1].params)
        action = translate("{action}: {subject}", action=action, subject=subject) if subject else action
        return clip(action, _ARGUMENT_COLUMNS)
    if turn.is_done:
        return translate("Thinking") if turn.tools else ""
    if preparing := preparing_label(turn):
        return preparing
    n_chars = turn.reply.prose.n_chars
    if n_chars:
        return translate("Writing, {characters}", characters=translate_count(n_chars, "character"))
    return translate("Thinking")


def preparing_label(turn: TranscriptTurn) -> str:
    """Describe a tool call that a model is writing: `Writing “Sea level”, 1,234 characters`, or an empty string."""
    reply = turn.reply
    if not reply.call_chars:
        return ""
    characters = translate_count(reply.call_chars, "character")
    if reply.call_name in _ARTIFACT_ACTIVITIES:
        subject = f"“{clip(reply.title, _TITLE_COLUMNS)}”" if reply.title else translate("a text")
        return translate(_ARTIFACT_ACTIVITIES[reply.call_name], subject=subject, characters=characters)
    if reply.call_name == call_subagent.name:
        names = set(reply.agents[:-1] or reply.agents)  # the last name may be incomplete
        n = max(len(reply.agents), 1)
        kinds = {"search_agent": translate_count(n, "search"), "crawl_agent": translate_count(n, "reading")}
        tasks = kinds.get(names.pop()) if len(names) == 1 else None
        return translate("Handing out {tasks}", tasks=tasks or translate_count(n, "task"))
    form: EnglishText = "Preparing “{tool}”, {characters}" if reply.call_name else "Preparing a step, {characters}"
    return translate(_PREPARED.get(reply.call_name, form), tool=tool_label(reply.call_name), characters=characters)


def refusals(transcript: RunTranscript) -> Iterator[str]:
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
        if call.tool == PLAN_CREATE_TOOL and request is None:  # the error addresses the model
            sentence = translate("The agent could not make a plan: its call failed. The work above has the details.")
        elif call.tool == PLAN_CREATE_TOOL:
            sentence = translate("The plan was rejected: {note}" if note else "The plan was rejected.", note=note)
        elif request:
            form: EnglishText = "Denied: {sentence} ({note})" if note else "Denied: {sentence}"
            sentence = translate(form, sentence=request_sentence(request), note=note)
        elif call.has_failed and call.tool in _ARTIFACT_SENTENCES:
            artifact = transcript.artifacts.get(target)
            name = artifact.title if artifact else str(call.params.get("title") or target or translate("a text"))
            sentence = translate(_ARTIFACT_SENTENCES[call.tool], name=name)
            # The first sentence of an error names the problem; the other sentences advise the model.
            problem = _SENTENCE_END.split(call.error.removeprefix(f"{call.tool} was not run: "), maxsplit=1)[0]
            reason = clip(problem.rstrip(".:"), _SENTENCE_COLUMNS)
            sentence = translate("Failed: {sentence}. Reason: {reason}.", sentence=sentence, reason=reason)
        else:
            continue
        yield clip(sentence, _REFUSAL_COLUMNS)


def _changed_text(call: TranscriptCall) -> str:
    """Return the id of the artifact that a call writes or changes, or an empty string."""
    return str(call.params.get("id") or "") if call.tool in _ARTIFACT_SENTENCES else ""


def reasoning_label(turn: TranscriptTurn, *, is_over: bool) -> str:
    """Return `Thinking` while the model reasons, then `Thought for 3 s`, or `Thought` if the time is unknown."""
    if not (is_over or turn.reply.prose.n_chars or turn.reply.call_chars):
        return translate("Thinking")
    if (ms := turn.reasoning_ms) is None:
        return translate("Thought")
    time = translate_duration(ms if ms < _SECOND_MS else round(ms, -3)).replace(".0 ", " ")
    return translate("Thought for {time}", time=time)


def tokens_label(tokens: TranscriptTokens) -> str:
    """Format `1,234 tokens`, or `about 1,230 tokens` (three digits) if the number has an estimate; empty for 0."""
    n_tokens = rounded(tokens.n, is_estimated=tokens.is_estimated)
    return about(translate_count(n_tokens, "token"), is_estimated=tokens.is_estimated) if n_tokens else ""


def step_number(transcript: RunTranscript) -> str:
    """Return `step 2 of 5` while a step of a plan is running, or an empty string."""
    running = [(plan.running[0], len(plan.steps)) for plan in transcript.plans if plan.running]
    return translate("step {n} of {total}", n=running[-1][0], total=running[-1][1]) if running else ""


def progress(steps: Sequence[TranscriptStep]) -> str:
    """Describe the progress of plans: `2 of 4 steps, 1 failed, 1 skipped`."""
    statuses = [step.status for step in steps]
    n_done, n_failed, n_skipped = map(statuses.count, ("completed", "failed", "skipped"))
    counts = [translate("{done} of {steps}", done=n_done, steps=translate_count(len(statuses), "step"))]
    counts += [translate("{n} failed", n=n_failed)] if n_failed else []
    counts += [translate("{n} skipped", n=n_skipped)] if n_skipped else []
    return translate(", ", context="parts").join(counts)


def steps(transcript: RunTranscript) -> str:
    """Count agents and calls: `3 agents · 7 tool calls`, and the progress of plans; omit `1 agent` and zero calls."""
    n_agents = sum(len(job.agents) for job in transcript.jobs)
    agents = [translate_count(n_agents, "agent")] if n_agents > 1 else []
    all_steps = [step for plan in transcript.plans for step in plan.steps]
    plans = [translate("plan: {progress}", progress=progress(all_steps))] if all_steps else []
    n_calls = sum(len(job.calls) for job in transcript.jobs)
    calls = [translate_count(n_calls, "tool call")] if n_calls else []
    return " · ".join([*agents, *calls, *plans])


def step_state(step: TranscriptStep) -> str:
    """Return the status of a step, with the number of repeated attempts: `failed · 2 attempts`."""
    status = status_label(step.status)
    if step.n_attempts <= 1:
        return status
    form: EnglishText = "{status} · attempt {n}" if step.status == "running" else "{status} · {n} attempts"
    return translate(form, status=status, n=step.n_attempts)


def summary_line(transcript: RunTranscript, *, with_metrics: bool = True) -> str:
    """Summarize time, tokens, cost and calls of an ended run and its subruns; without metrics only the calls."""
    totals = transcript.totals_with_subruns
    calls = [translate_count(totals.n_llm_calls, "model call")] if totals.n_llm_calls else []
    calls += [translate_count(totals.n_tool_calls, "tool call")] if totals.n_tool_calls else []
    if totals.n_unanswered:
        attempts = translate_count(totals.n_unanswered, "attempt")
        calls.append(translate("{attempts} without a reply", attempts=attempts))
    if totals.n_stopped:
        calls.append(translate("{calls} stopped", calls=translate_count(totals.n_stopped, "model call")))
    calls += failed_label(totals.n_failed_calls)
    if not with_metrics:
        return " · ".join(calls)
    facts = [run_time(transcript), tokens_label(totals.tokens), *cost_label(totals), *calls]
    return " · ".join(filter(None, facts))


def run_time(transcript: RunTranscript) -> str:
    """Format the time of an ended run, and the time for which the run waited for the person."""
    started, ended = transcript.started_at, transcript.ended_at
    total_ms = (ended - started).total_seconds() * 1000 if started and ended else 0.0
    return time_label(total_ms, transcript.waited_ms)


def time_label(total_ms: float, wait_ms: float) -> str:
    """Format `12.3 s + 40.0 s waiting for you`; a wait below a second is omitted."""
    time = translate_duration(max(total_ms - wait_ms, 0.0))
    wait = translate_duration(wait_ms)
    return time if wait_ms < _SECOND_MS else translate("{time} + {wait} waiting for you", time=time, wait=wait)


def failed_label(n: int) -> list[str]:
    """Return `3 failed calls` as a list, or an empty list."""
    return [translate_count(n, "failed call")] if n else []


def failed_work(job: TranscriptJob) -> str:
    """Return `reading failed` if all calls failed or were denied, `1 of 3 read` if addresses failed, else no text."""
    calls = job.calls
    is_reading = bool(calls) and all(call.tool == web_fetch.name for call in calls)
    if not calls or not all(call.has_failed or call.is_denied for call in calls):
        return read_label(calls) if is_reading and any(call.n_read[1] for call in calls) else ""
    if all(call.is_denied for call in calls):
        return status_label("denied")
    return translate("reading failed" if is_reading else "all calls failed")


def cost_label(totals: TranscriptTotals) -> list[str]:
    """Return `0.0123 USD` or `about 0.0123 USD` as a list, which is empty if the cost is unknown or zero."""
    return [about(usd(totals.cost_usd), is_estimated=totals.tokens.is_estimated)] if totals.cost_usd else []
